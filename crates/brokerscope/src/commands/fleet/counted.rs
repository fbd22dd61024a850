//! Counts what was recorded of one broker: its tables side by side, each by a thread of its own and of few columns. Compares
//! nothing.

use std::path::{Path, PathBuf};

use fleet::{BrokerName, BrokerStats, FileStats, HostStats, RequestStats, VerdictStats};
use model::{Cause, Nanos};
use recording::{Manifest, Recording, Summaries};

use crate::commands::record;
use crate::input;
use crate::options::Presentation;
use crate::output;
use crate::remote::{self, Kept, Needed, Source};

/// Counts a broker's recordings. A recording that cannot be read, or a part of one, is said; how many there were of them.
///
/// # Errors
/// Where there can be no threads, and where the object store does not answer.
pub(super) fn count(
    name: &BrokerName,
    recordings: &[PathBuf],
    source: Option<&Source>,
    presentation: &Presentation,
) -> anyhow::Result<(BrokerStats, u64)> {
    let (mut stats, mut damaged) = (BrokerStats::default(), 0);
    for path in recordings {
        match open(path, source) {
            Ok((recording, _kept)) => {
                damaged += add(&recording, &mut stats)?;
                say(path, &recording, presentation);
            }
            Err(error) if source.is_some() && remote::ends_all(&error) => return Err(error),
            Err(error) => {
                damaged += 1;
                output::warn(&format!("broker {} of {}: {error:#}", name.broker, name.cluster));
            }
        }
    }
    Ok((stats, damaged))
}

/// A recording, and the copy of it that is read where it is not here.
fn open(path: &Path, source: Option<&Source>) -> anyhow::Result<(Recording, Option<Kept>)> {
    let Some(source) = source else { return Ok((input::open_for_figures(path)?, None)) };
    let kept = source.fetch(path, Needed::Figures)?;
    // Said while it is known whose copy it was.
    let named = |error: anyhow::Error| anyhow::anyhow!("{}", remote::with_urls(&format!("{error:#}")));
    Ok((input::open_for_figures(kept.path()).map_err(named)?, Some(kept)))
}

/// What to know of a recording.
fn say(path: &Path, recording: &Recording, presentation: &Presentation) {
    let mut notes = recording.notes();
    if record::partial::threshold(&recording.manifest().settings).is_some() {
        notes.push("operations on files were left out on purpose: no sums are made of them".to_owned());
    }
    for note in notes {
        presentation.say(&format!("{}: {note}", path.display()));
    }
}

fn add(recording: &Recording, stats: &mut BrokerStats) -> anyhow::Result<u64> {
    let manifest = recording.manifest();
    if record::partial::threshold(&manifest.settings).is_some() {
        stats.files.mark_partial();
    }
    let (requests, file_ops) = (recording.request_summaries()?, recording.file_op_summaries()?);
    let (samples, verdicts) = (recording.host_samples(HostStats::is_counted)?, recording.causes()?);
    let BrokerStats { files, requests: of_requests, host, verdicts: of_verdicts, .. } = stats;
    let damaged = std::thread::scope(|threads| {
        let others = threads.spawn(move || {
            let samples = each(samples, host, |host: &mut HostStats, sample| host.host_sample(sample));
            let Some(verdicts) = verdicts else { return samples };
            of_verdicts.mark_saved();
            let count =
                |of: &mut VerdictStats, (cause, latency): &(Cause, Nanos)| of.verdict(*cause, *latency);
            samples + each(verdicts, of_verdicts, count)
        });
        let counted = threads
            .spawn(move || each(requests, of_requests, |of: &mut RequestStats, request| of.request(request)));
        let damaged = each(file_ops, files, |of: &mut FileStats, op| of.file_op(op));
        damaged + joined(others) + joined(counted)
    });
    stats.watched += watched(manifest, stats.host.take_span());
    Ok(damaged)
}

/// How long a recording's broker was watched. A recorder's clock starts before its sources do, of which the host's comes last but for
/// the packets: so from the host's first reading, where there is one. Until the recording ended, or, of one that was not finished,
/// until the last reading.
fn watched(manifest: &Manifest, sampled: Option<(Nanos, Nanos)>) -> Nanos {
    let Some(started) = Some(Nanos(manifest.started_ns)).filter(|started| *started > Nanos::ZERO) else {
        return Nanos::ZERO;
    };
    let started = sampled.map_or(started, |(first, _)| first.max(started));
    let ended = manifest.ended_ns.map(Nanos).or(sampled.map(|(_, last)| last));
    ended.map_or(Nanos::ZERO, |ended| (ended - started).at_least_zero())
}

/// Counts each, and says what cannot be read: how much that is.
fn each<T, C>(summaries: Summaries<T>, counter: &mut C, count: impl Fn(&mut C, &T)) -> u64 {
    let mut damaged = 0;
    for batch in summaries {
        match batch {
            Ok(batch) => batch.iter().for_each(|event| count(counter, event)),
            Err(error) => {
                damaged += 1;
                output::warn(&error.to_string());
            }
        }
    }
    damaged
}

fn joined(thread: std::thread::ScopedJoinHandle<'_, u64>) -> u64 {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use model::Nanos;
    use recording::Manifest;

    use super::watched;

    #[test]
    fn a_recording_lasts_until_its_end_or_the_last_that_is_known_of_it() {
        let of = |started_ns, ended_ns, sampled: Option<(i64, i64)>| {
            let sampled = sampled.map(|(first, last)| (Nanos(first), Nanos(last)));
            watched(&Manifest { started_ns, ended_ns, ..Manifest::default() }, sampled).0
        };
        assert_eq!(of(1_000, Some(5_500), None), 4_500);
        assert_eq!(of(1_000, Some(5_500), Some((1_600, 5_000))), 3_900);
        assert_eq!(of(1_000, None, Some((1_600, 5_000))), 3_400);
        assert_eq!(of(1_000, None, None), 0);
        // What no clock says is no time.
        assert_eq!(
            [of(0, Some(5_000), None), of(-5, Some(5_000), None), of(9, Some(i64::MIN), None)],
            [0, 0, 0]
        );
    }
}
