//! `fleet`: reads recordings of many brokers, local or in an object store, one broker after the other, and shows which
//! brokers differ and how. Keeps only sums: counts the tables of a recording in parallel, each in its own thread and
//! from few columns.

mod folders;

use std::path::{Path, PathBuf};

use analysis::background::join_thread;
use analysis::bucket::{self, Bucket, Columns, Copy};
use analysis::recorder::{partial, plan};
use analysis::source::check_parts;
use analysis::{Error, input};
use anyhow::Context as _;
use clap::Args;
use fleet::{
    Broker, BrokerName, BrokerStats, FileStats, Fleet as Brokers, HostStats, RequestStats, VerdictStats,
};
use model::{Cause, Nanos};
use recording::{Manifest, Recording, Summaries};
use report::fleet::{write_differences, write_figures};
use report::quantity::format_count_of;

use super::Run;
use crate::args::{Flags, Presentation, Top};
use crate::file_access::FileAccess;
use crate::output::{self, Pace};

/// `fleet`.
#[derive(Debug, Args)]
#[command(after_help = "Recordings are in folders cluster=NAME/broker=NAME/date=DAY. Recordings of one
broker are taken together; where no folder names the broker, each recording is
one broker. deploy/sql reads the same folders in DuckDB and Spark.

Examples:
  brokerscope fleet /recordings
  brokerscope fleet /recordings --cluster prod --date 2026-11-22 --wide
  brokerscope fleet /recordings --figures --format csv
  brokerscope fleet s3://bucket/recordings --date 2026-11-22")]
pub(crate) struct Fleet {
    /// The directory with recordings of many brokers, or `s3://BUCKET/PREFIX`, with region and credentials from the AWS_
    /// environment variables.
    directory: PathBuf,
    /// Read only this cluster (repeatable).
    #[arg(long = "cluster", help_heading = "Filter", value_name = "NAME")]
    clusters: Vec<String>,
    /// Read only recordings of this date, as the date= folders name it (repeatable).
    #[arg(long = "date", help_heading = "Filter", value_name = "DAY")]
    dates: Vec<String>,
    /// Show the figures of every broker instead of the differences.
    #[arg(long, help_heading = "Output", conflicts_with = "top")]
    figures: bool,
    #[command(flatten)]
    top: Top,
    #[command(flatten)]
    presentation: Presentation,
}

impl Run for Fleet {
    // A comparison of brokers has no times.
    const FLAGS: Flags = Flags {
        hidden: &["utc"],
        help: &[
            ("wide", "Show more of the files or partitions that make a difference"),
            ("top", "Show only the first N differences; without it, 20 in a table and all elsewhere"),
        ],
        ..Flags::NONE
    };

    fn run(&self) -> anyhow::Result<()> {
        FileAccess::of([&self.directory])?.enter()?;
        let bucket = Bucket::open(&self.directory)?;
        let folders = folders::find(&self.directory, bucket.as_ref(), &self.clusters, &self.dates)?;
        let recordings = folders.values().map(Vec::len).sum::<usize>() as u64;
        let (mut brokers, mut unread) = (Vec::new(), 0);
        for (name, recordings) in folders {
            let (stats, damaged) = count(&name, &recordings, bucket.as_ref())?;
            unread += damaged;
            brokers.push(Broker::of(name, &stats));
        }
        self.show(&Brokers::of(brokers))?;
        tracing::info!("{} read", format_count_of(recordings, "recording"));
        if let Some(bucket) = &bucket {
            tracing::info!("{}", bucket.describe_fetched());
        }
        Ok(check_parts(&self.directory, unread)?)
    }
}

impl Fleet {
    fn show(&self, fleet: &Brokers) -> anyhow::Result<()> {
        let out = output::stdout(Pace::Buffered);
        let form = self.presentation.form(Pace::Buffered);
        let written = if self.figures {
            write_figures(out, &form, &fleet.brokers)
        } else {
            write_differences(out, &form, fleet, self.presentation.max_rows(self.top))
        };
        written.context(output::CANNOT_WRITE)
    }
}

/// Counts a broker's recordings.
/// Reports recordings, or parts, that cannot be read, and returns their number.
///
/// # Errors
/// A thread cannot be started, or the object store does not answer.
fn count(
    name: &BrokerName,
    recordings: &[PathBuf],
    bucket: Option<&Bucket>,
) -> anyhow::Result<(BrokerStats, u64)> {
    let (mut stats, mut damaged) = (BrokerStats::default(), 0);
    for path in recordings {
        match open(path, bucket) {
            Ok((recording, _copy)) => {
                damaged += add(&recording, &mut stats)?;
                log_notes(path, &recording);
            }
            Err(error) if bucket.is_some() && bucket::is_fatal(&error) => return Err(error.into()),
            Err(error) => {
                damaged += 1;
                let error = anyhow::Error::from(error);
                tracing::warn!("broker {} of {}: {error:#}", name.broker, name.cluster);
            }
        }
    }
    Ok((stats, damaged))
}

/// Opens a recording; if it is remote, a local copy, which must be kept while it is read.
fn open(path: &Path, bucket: Option<&Bucket>) -> Result<(Recording, Option<Copy>), Error> {
    let Some(bucket) = bucket else { return Ok((input::open_for_figures(path)?, None)) };
    let copy = bucket.fetch(path, Columns::Figures)?;
    // Replaces the copy's path in errors by the URL, which is known only while the copy exists.
    let named = |error: Error| Error::input(bucket::with_urls(&error.to_string()).into_owned());
    Ok((input::open_for_figures(copy.path()).map_err(named)?, Some(copy)))
}

/// Logs notes on a recording.
fn log_notes(path: &Path, recording: &Recording) {
    let mut notes = recording.notes();
    if partial::threshold(&recording.manifest().settings).is_some() {
        notes.push("file operations were left out on purpose: they are not added up".to_owned());
    }
    for note in notes {
        tracing::info!("{}: {note}", path.display());
    }
}

fn add(recording: &Recording, stats: &mut BrokerStats) -> Result<u64, Error> {
    let manifest = recording.manifest();
    if partial::threshold(&manifest.settings).is_some() {
        stats.files.partial = true;
    }
    // A recording without a plan does not say what was watched.
    let lacks = |purpose| !manifest.plan.is_empty() && !plan::sees(&manifest.plan, purpose);
    stats.files.lacks_reads |= lacks(plan::FILE_READS);
    stats.files.lacks_disk_reads |= lacks(plan::DISK_READS);
    let (requests, file_ops) = (recording.request_columns()?, recording.file_op_columns()?);
    let (samples, verdicts) = (recording.host_samples(HostStats::is_counted)?, recording.causes()?);
    let BrokerStats { files, requests: of_requests, host, verdicts: of_verdicts, .. } = stats;
    let damaged = std::thread::scope(|threads| {
        let others = threads.spawn(move || {
            let samples = each(samples, host, |host: &mut HostStats, sample| host.host_sample(sample));
            let Some(verdicts) = verdicts else { return samples };
            of_verdicts.saved = true;
            let count =
                |of: &mut VerdictStats, (cause, latency): &(Cause, Nanos)| of.verdict(*cause, *latency);
            samples + each(verdicts, of_verdicts, count)
        });
        let counted = threads
            .spawn(move || each(requests, of_requests, |of: &mut RequestStats, request| of.request(request)));
        let damaged = each(file_ops, files, |of: &mut FileStats, op| of.file_op(op));
        damaged + join_thread(others) + join_thread(counted)
    });
    stats.watched += watched(manifest, stats.host.span.take());
    Ok(damaged)
}

/// Duration for which a recording's broker was watched.
/// A recorder's clock starts before its sources, the last of which, apart from packets, is the host's: so from the
/// host's first sample, if any, to the end of the recording or, if it was not finished, to the last sample.
fn watched(manifest: &Manifest, sampled: Option<(Nanos, Nanos)>) -> Nanos {
    let Some(started) = Some(Nanos(manifest.started_ns)).filter(|started| *started > Nanos::ZERO) else {
        return Nanos::ZERO;
    };
    let started = sampled.map_or(started, |(first, _)| first.max(started));
    let ended = manifest.ended_ns.map(Nanos).or(sampled.map(|(_, last)| last));
    ended.map_or(Nanos::ZERO, |ended| (ended - started).at_least_zero())
}

/// Counts each summary, logs batches that cannot be read, and returns their number.
fn each<T, C>(summaries: Summaries<T>, counter: &mut C, count: impl Fn(&mut C, &T)) -> u64 {
    let mut damaged = 0;
    for batch in summaries {
        match batch {
            Ok(batch) => batch.iter().for_each(|event| count(counter, event)),
            Err(error) => {
                damaged += 1;
                tracing::warn!("{error}");
            }
        }
    }
    damaged
}

#[cfg(test)]
mod tests {
    use model::Nanos;
    use recording::Manifest;

    use super::watched;

    #[test]
    fn watched_time_ends_at_the_manifest_end_or_the_last_sample() {
        let of = |started_ns, ended_ns, sampled: Option<(i64, i64)>| {
            let sampled = sampled.map(|(first, last)| (Nanos(first), Nanos(last)));
            watched(&Manifest { started_ns, ended_ns, ..Manifest::default() }, sampled).0
        };
        assert_eq!(of(1_000, Some(5_500), None), 4_500);
        assert_eq!(of(1_000, Some(5_500), Some((1_600, 5_000))), 3_900);
        assert_eq!(of(1_000, None, Some((1_600, 5_000))), 3_400);
        assert_eq!(of(1_000, None, None), 0);
        // Without valid clock times, the duration is 0.
        assert_eq!(
            [of(0, Some(5_000), None), of(-5, Some(5_000), None), of(9, Some(i64::MIN), None)],
            [0, 0, 0]
        );
    }
}
