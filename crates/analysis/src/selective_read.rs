//! Selective read: the events of a recording that verdicts can depend on, where those are much fewer than all, and counts
//! of the rest. [`diagnose::ReadPlan`] says what verdicts depend on.

use std::thread::JoinHandle;

use diagnose::{Config, JoinCounter, ReadPlan};
use model::Nanos;
use model::row_summary::RowSummary;
use recording::{Error, Events, ProduceKeys, Recording, Table, WriteKeys};

use crate::background::joined;
use crate::gaps::RestCounts;

/// Tables that need not be read where nothing was slow: the large ones, of which the others are evidence.
const OF_REQUESTS: [Table; 5] =
    [Table::Requests, Table::FileOps, Table::OffCpu, Table::SocketOps, Table::BlockIos];

/// The events near slow requests, and a thread that counts the others.
pub(crate) struct SelectiveRead {
    /// Those that verdicts can depend on.
    pub(crate) events: Events,
    tally: JoinHandle<Option<RestCounts>>,
}

impl SelectiveRead {
    /// Of a recording that is judged like this; none where everything has to be read: most of it is near slow requests,
    /// it is not finished, or not whole.
    pub(crate) fn of(recording: &Recording, config: &Config) -> Option<Self> {
        let manifest = recording.manifest();
        let lasts = Nanos(manifest.ended_ns?.saturating_sub(manifest.started_ns));
        let focus = looked_through(recording, config).ok()?;
        let longest = focus.longest_request();
        let choose = if focus.is_empty() { None } else { Some(focus.settle(lasts)?) };
        let (sent, written) = recording.join_keys().ok()?;
        let config = config.clone();
        let tally = std::thread::Builder::new().name("tally".to_owned());
        let tally = tally.spawn(move || tallied(sent, written, &config, longest)).ok()?;
        let events = if let Some(choose) = choose {
            recording.events_selected(&choose)
        } else {
            let others = Table::ALL.into_iter().filter(|table| !OF_REQUESTS.contains(table));
            recording.events_ahead(&others.collect::<Vec<_>>())
        };
        Some(Self { events, tally })
    }

    /// The counts of the rest, when all events have been taken; none where they could not be had.
    pub(crate) fn rest(self) -> Option<RestCounts> {
        self.tally.join().ok().flatten()
    }
}

/// What may be slow and what took long; requests and file operations are looked through side by side.
fn looked_through(recording: &Recording, config: &Config) -> Result<ReadPlan, Error> {
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
        joined(files)
    })?;
    focus.add(of_files);
    Ok(focus)
}

/// Counts requests, and joins where they are to be counted; nothing where a part could not be read.
fn tallied(sent: ProduceKeys, written: WriteKeys, config: &Config, longest: Nanos) -> Option<RestCounts> {
    let counts = config.file_ops_observed && config.only_request.is_none();
    let mut joins = counts.then(|| (JoinCounter::new(config, longest), written));
    let mut requests = 0;
    for batch in sent {
        let (count, partitions) = batch.ok()?;
        requests += count;
        let Some((tally, written)) = &mut joins else { continue };
        for partition in partitions {
            tally.sent(partition);
        }
        while tally.wants_writes() {
            let Some(writes) = written.next() else { break };
            for write in writes.ok()? {
                tally.write(write);
            }
        }
    }
    Some(RestCounts { requests, joins: joins.map(|(tally, _)| tally.finish()) })
}

#[cfg(test)]
mod tests;
