//! `explain`: why requests were slow, from a recording, live, or, as far as packets say, from a capture.

mod judged;
#[cfg(feature = "live")]
mod live;

use std::path::PathBuf;

use capture::Captures;
use diagnose::{Config, Watched};
use model::{Event, LossKind};
use recording::{Recording, Table};
use report::explanation::Unobservable;

use crate::cli::Explain;
use crate::commands::record;
use crate::failure::Usage;
use crate::flight_recordings::Beside;
use crate::input::Evidence;
use crate::output::{self, Pace};
use crate::packets;
use crate::stop::Stop;
use judged::Judged;

/// What a recording without the JVM's own events lacks.
pub(super) const JVM: &str = "what the broker's JVM did (collections, queues, locks)";
pub(super) const NO_JVM_SOURCE: &str = "the recording holds nothing of the JVM; waits for a log's lock are inferred from the order of writes, and time \
     spent elsewhere in the JVM is unobserved";
/// What no recording holds.
pub(super) const QUEUES: &str = "when a request handler took a request out of the queue";
pub(super) const NO_QUEUE_SOURCE: &str = "nothing watches the queue itself; it is told from the work before by what the handler's thread is known to have done last";

/// Explains the slow requests.
pub(crate) fn run(args: &Explain) -> anyhow::Result<()> {
    packets::check_apis(&args.filter)?;
    if let Some(interface) = live_interface(&args.inputs) {
        return live(args, interface);
    }
    if args.duration.is_some() {
        return Err(Usage("--for is for live input; a recording is read to its end".to_owned()).into());
    }
    match Evidence::open(&args.inputs)? {
        Evidence::Recording(recording) => from_recording(args, &recording),
        Evidence::Packets(_) if !args.jfr.is_empty() => {
            Err(Usage("--jfr goes with a recording: packets say nothing of threads".to_owned()).into())
        }
        Evidence::Packets(captures) => from_packets(args, captures),
    }
}

/// The interface to capture on, where the broker that runs here is meant.
fn live_interface(inputs: &[PathBuf]) -> Option<&str> {
    let [input] = inputs else { return None };
    match input.to_str()? {
        "live" => Some("any"),
        other => other.strip_prefix("live:"),
    }
}

#[cfg(feature = "live")]
fn live(args: &Explain, interface: &str) -> anyhow::Result<()> {
    if !args.jfr.is_empty() {
        return Err(Usage("--jfr goes with a recording; live there is --flight-recorder".to_owned()).into());
    }
    live::run(args, interface)
}

#[cfg(not(feature = "live"))]
fn live(_args: &Explain, _interface: &str) -> anyhow::Result<()> {
    Err(Usage("name a recording: this brokerscope was built without the feature `live`".to_owned()).into())
}

/// How the engine works, with what the user asked for.
fn config(args: &Explain, config: Config, file_ops_observed: bool) -> Config {
    Config { file_ops_observed, asked: args.request, ..config }
}

fn from_recording(args: &Explain, recording: &Recording) -> anyhow::Result<()> {
    let partial = record::partial::threshold(&recording.manifest().settings);
    // Of a partial recording, joins of requests that were not slow would find nothing and say nothing.
    let files_seen = partial.is_none() && recording.events_of(&[Table::FileOps]).next().is_some();
    let missing = record::missing(&recording.manifest().plan);
    let watched = Watched::new(missing.iter().map(|missing| (&*missing.what, &*missing.why)));
    let replay = config(args, Config::replay(args.slower_than), files_seen);
    let mut judged = Judged::new(args, replay, watched, Pace::AllThere)?;
    let mut beside = Beside::read(&args.jfr, args.target.pid)?;
    let jvm_seen =
        !beside.is_empty() || recording.events_of(&[Table::LockWaits, Table::GcPauses]).next().is_some();
    for event in recording.events_ahead(&Table::ALL) {
        match event {
            Ok(event) => {
                while let Some(earlier) = beside.before(&event) {
                    judged.event(earlier)?;
                }
                judged.event(event)?;
            }
            // The part is named again in the notes; the other parts still tell.
            Err(error) => output::warn(&error.to_string()),
        }
    }
    while let Some(last) = beside.next() {
        judged.event(last)?;
    }
    let mut unobservable = missing;
    let (what, why) = if jvm_seen { (QUEUES, NO_QUEUE_SOURCE) } else { (JVM, NO_JVM_SOURCE) };
    unobservable.push(Unobservable { what: what.to_owned(), why: why.to_owned() });
    let mut notes = recording.notes();
    notes.extend_from_slice(beside.notes());
    notes.extend(record::notes(recording.manifest(), &args.presentation));
    if let Some(threshold) = partial.filter(|threshold| args.slower_than < *threshold) {
        notes.push(format!(
            "of requests that took less than {threshold} most of the time is therefore unobserved"
        ));
    }
    judged.finish(unobservable, notes, &[])
}

fn from_packets(args: &Explain, mut captures: Captures) -> anyhow::Result<()> {
    let stop = Stop::after(None)?;
    let mut analyzer = packets::analyzer(&args.filter, &args.target)?;
    let replay = config(args, Config::replay(args.slower_than), false);
    let mut judged = Judged::new(args, replay, Watched::only_packets(), Pace::AllThere)?;
    packets::read_files(&mut captures, &mut analyzer, &stop, &mut |request| {
        judged.event(Event::Request(Box::new(request)))
    })?;
    let counters = analyzer.counters();
    let losses = [
        (LossKind::PacketsDropped, counters.kernel_drops),
        (LossKind::StreamGapBytes, counters.gap_bytes),
        (LossKind::FramesUndecodable, counters.undecodable_frames),
    ];
    let unobservable = vec![Unobservable {
        what: "what the broker, its kernel and its disk did".to_owned(),
        why: "a packet capture holds no kernel events; `brokerscope record -o DIR` on the broker's host, as root, \
              collects them"
            .to_owned(),
    }];
    judged.finish(unobservable, packets::notes(&captures, false), &losses)?;
    packets::check(&captures)
}
