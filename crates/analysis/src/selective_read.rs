//! Selective read: reads only the events of a recording that verdicts can depend on, if they are much fewer than all, and
//! counts the rest. [`diagnose::ReadPlan`] decides what verdicts depend on.

use std::thread::JoinHandle;

use diagnose::{Config, JoinCounter, ReadPlan};
use model::Nanos;
use model::row_summary::RowSummary;
use recording::{Error, Events, ProduceKeys, Recording, Table, WriteKeys};

use crate::background::join_thread;
use crate::gaps::RestCounts;

/// The large tables, which need not be read if nothing was slow.
const OF_REQUESTS: [Table; 5] =
    [Table::Requests, Table::FileOps, Table::OffCpu, Table::SocketOps, Table::BlockIos];

/// The events near slow requests, and a thread that counts the others.
pub(crate) struct SelectiveRead {
    /// Events that verdicts can depend on.
    pub(crate) events: Events,
    counts: JoinHandle<Option<RestCounts>>,
}

impl SelectiveRead {
    /// Starts a selective read.
    /// `None` if everything has to be read: most events are near slow requests, or the recording is unfinished or
    /// incomplete.
    pub(crate) fn of(recording: &Recording, config: &Config) -> Option<Self> {
        let manifest = recording.manifest();
        let length = Nanos(manifest.ended_ns?.saturating_sub(manifest.started_ns));
        let focus = read_plan(recording, config).ok()?;
        let longest = focus.longest_request();
        let filter = if focus.is_empty() { None } else { Some(focus.settle(length)?) };
        let (sent, written) = recording.join_keys().ok()?;
        let config = config.clone();
        let builder = std::thread::Builder::new().name("tally".to_owned());
        let counts = builder.spawn(move || count_rest(sent, written, &config, longest)).ok()?;
        let events = if let Some(filter) = filter {
            recording.events_selected(&filter)
        } else {
            let others = Table::ALL.into_iter().filter(|table| !OF_REQUESTS.contains(table));
            recording.prefetch_events(&others.collect::<Vec<_>>())
        };
        Some(Self { events, counts })
    }

    /// Returns the counts of all events, once the selection was read.
    /// `None` if they could not be read.
    pub(crate) fn rest(self) -> Option<RestCounts> {
        self.counts.join().ok().flatten()
    }
}

/// Collects slow requests and other long rows into a read plan; reads requests and file operations in parallel.
fn read_plan(recording: &Recording, config: &Config) -> Result<ReadPlan, Error> {
    let mut focus = ReadPlan::new(config);
    let mut of_files = ReadPlan::new(config);
    std::thread::scope(|threads| {
        let files = threads.spawn(|| {
            let mut take = |row: &RowSummary| of_files.take(row);
            recording.row_summaries(Table::FileOps, ReadPlan::min_file_op_latency(), &mut take)?;
            for table in [Table::LockWaits, Table::JvmPauses, Table::ProcessStops, Table::CpuGaps] {
                recording.row_summaries(table, ReadPlan::min_span_length(), &mut take)?;
            }
            Ok::<_, Error>(())
        });
        let least = focus.min_request_latency();
        recording.row_summaries(Table::Requests, least, &mut |row| focus.take(row))?;
        join_thread(files)
    })?;
    focus.add(of_files);
    Ok(focus)
}

/// Counts requests, and joins if file operations were observed; `None` if a part cannot be read.
fn count_rest(sent: ProduceKeys, written: WriteKeys, config: &Config, longest: Nanos) -> Option<RestCounts> {
    let counts = config.file_ops_observed && config.only_request.is_none();
    let mut joins = counts.then(|| (JoinCounter::new(config, longest), written));
    let mut requests = 0;
    for batch in sent {
        let (count, partitions) = batch.ok()?;
        requests += count;
        let Some((counter, written)) = &mut joins else { continue };
        for partition in partitions {
            counter.sent(partition);
        }
        while counter.needs_writes() {
            let Some(writes) = written.next() else { break };
            for write in writes.ok()? {
                counter.write(write);
            }
        }
    }
    Some(RestCounts { requests, joins: joins.map(|(counter, _)| counter.finish()) })
}

#[cfg(test)]
mod tests;
