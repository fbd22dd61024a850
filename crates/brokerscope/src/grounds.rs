//! What verdicts rest on, whoever reaches them: a recording or a capture, its events in order, and what was seen of the broker
//! in it and what was not. `explain`, `report` and whatever else judges files take it from here, so that all of them
//! judge alike. Reaches no verdicts.

mod following;
#[cfg(feature = "live")]
pub(crate) mod live;

use std::collections::BTreeSet;
use std::path::PathBuf;

use capture::{Analyzer, Captures};
use diagnose::request_log_check::Agreement;
use diagnose::{Config, Coverage, Summary};
use model::{Event, LossKind, Nanos, Request};
use recording::{Recording, Table};
use report::explanation::{Conclusion, Lag, Unobservable};

use crate::commands::record;
use crate::failure::{self, Usage};
use crate::flight_recordings::Beside;
use crate::input::Evidence;
use crate::near_slow::{NearSlow, Tallied};
use crate::options::{Filter, Presentation, Target};
use crate::output;
use crate::packets;
use crate::stop::Stop;

/// What takes the events.
pub(crate) type Sink<'s> = dyn FnMut(Event) -> anyhow::Result<()> + 's;

/// Files that are judged.
pub(crate) enum Grounds {
    /// Everything that was seen.
    Recorded(Box<Recorded>),
    /// Packets only.
    Wire(Box<Wire>),
}

/// A recording, and what was made of the same broker beside it.
pub(crate) struct Recorded {
    recording: Recording,
    beside: Beside,
    /// From which length on it tells all, where it does not of everything.
    partial: Option<Nanos>,
    files_seen: bool,
    jvm_seen: bool,
    missing: Vec<Unobservable>,
    /// What following it has found.
    notes: Vec<String>,
    /// What the engine was not told of, where it was told only what verdicts depend on.
    tallied: Option<Tallied>,
    /// What was said of parts that could not be read.
    damaged: BTreeSet<String>,
}

/// Captures.
pub(crate) struct Wire {
    captures: Captures,
    analyzer: Analyzer,
}

/// What is to be known beside the verdicts: complete once all events have been read.
#[derive(Default)]
pub(crate) struct Known {
    /// What could not be observed, and why.
    pub(crate) unobservable: Vec<Unobservable>,
    /// What else to say.
    pub(crate) notes: Vec<String>,
    /// What was lost beside what events tell of.
    pub(crate) losses: Vec<(LossKind, u64)>,
    /// Counts of what the engine was not told of.
    pub(crate) tallied: Option<Tallied>,
    /// How far behind verdicts were, where requests were explained as they came.
    pub(crate) lag: Option<Lag>,
}

impl Grounds {
    /// Opens what the user named: one recording, or the files of one capture. Flight Recorder's files are read beside a
    /// recording; topics and the broker are those of a capture.
    ///
    /// # Errors
    /// What cannot be opened, and [`Usage`] where Flight Recorder's files stand beside packets.
    pub(crate) fn open(
        inputs: &[PathBuf],
        jfr: &[PathBuf],
        filter: &Filter,
        target: &Target,
    ) -> anyhow::Result<Self> {
        match Evidence::open(inputs)? {
            Evidence::Recording(recording) => {
                let recorded = Recorded::new(*recording, Beside::read(jfr, target.pid)?);
                Ok(Self::Recorded(Box::new(recorded)))
            }
            Evidence::Packets(_) if !jfr.is_empty() => {
                Err(Usage("--jfr goes with a recording: packets say nothing of threads".to_owned()).into())
            }
            Evidence::Packets(captures) => {
                let analyzer = packets::analyzer(filter, target)?;
                Ok(Self::Wire(Box::new(Wire { captures, analyzer })))
            }
        }
    }

    /// The recording, if it is one.
    pub(crate) fn recording(&self) -> Option<&Recording> {
        match self {
            Self::Recorded(recorded) => Some(&recorded.recording),
            Self::Wire(_) => None,
        }
    }

    /// How the engine works on it.
    pub(crate) fn config(&self, slower_than: Nanos) -> Config {
        let file_ops_observed = match self {
            Self::Recorded(recorded) => recorded.files_seen,
            Self::Wire(_) => false,
        };
        Config { file_ops_observed, ..Config::replay(slower_than) }
    }

    /// What was watched.
    pub(crate) fn watched(&self) -> Coverage {
        match self {
            Self::Recorded(recorded) => watched(&recorded.missing),
            Self::Wire(_) => Coverage::only_packets(),
        }
    }

    /// Hands on all events in the order of their times. A damaged part is warned of; the others still tell.
    ///
    /// # Errors
    /// The sink's.
    pub(crate) fn read(&mut self, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        match self {
            Self::Recorded(recorded) => recorded.read(sink),
            Self::Wire(wire) => wire.read(sink),
        }
    }

    /// Hands on events as they are written, until the recorder has ended or it is time to stop: otherwise as
    /// [`Grounds::read`].
    ///
    /// # Errors
    /// The sink's, and [`Usage`] where there are only packets.
    pub(crate) fn follow(
        &mut self,
        stop: &Stop,
        presentation: &Presentation,
        sink: &mut Sink<'_>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Recorded(recorded) => recorded.follow(stop, presentation, sink),
            Self::Wire(_) => {
                Err(Usage("--follow goes with a recording that is being written".to_owned()).into())
            }
        }
    }

    /// What verdicts by this configuration depend on, where that is not most of it; for [`Self::read_near`].
    pub(crate) fn near_slow(&self, config: &Config) -> Option<NearSlow> {
        match self {
            // What is beside it may bear on any request.
            Self::Recorded(recorded) if recorded.beside.is_empty() => {
                NearSlow::of(&recorded.recording, config)
            }
            _ => None,
        }
    }

    /// Hands on no more than that, in the order of times. What the engine then has not counted is in [`Self::known`].
    ///
    /// # Errors
    /// The sink's.
    pub(crate) fn read_near(&mut self, near_slow: NearSlow, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        match self {
            Self::Recorded(recorded) => recorded.read_near(near_slow, sink),
            Self::Wire(wire) => wire.read(sink),
        }
    }

    /// Takes note of a part that somebody else could not read.
    pub(crate) fn damaged(&mut self, error: &recording::Error) {
        if let Self::Recorded(recorded) = self {
            recorded.damaged(error);
        }
    }

    /// The one or, where there is nothing to leave out, [`Self::read`].
    ///
    /// # Errors
    /// The sink's.
    pub(crate) fn read_for_verdicts(&mut self, config: &Config, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        match self.near_slow(config) {
            Some(near_slow) => self.read_near(near_slow, sink),
            None => self.read(sink),
        }
    }

    /// What to say beside the verdicts on what took so long, once all events have been read.
    pub(crate) fn known(&self, slower_than: Nanos, presentation: &Presentation) -> Known {
        match self {
            Self::Recorded(recorded) => recorded.known(slower_than, presentation),
            Self::Wire(wire) => wire.known(),
        }
    }

    /// Fails if not everything could be read, for when everything else was shown.
    ///
    /// # Errors
    /// The first fault of a capture, how many parts of a recording.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        match self {
            Self::Recorded(recorded) => {
                failure::of_parts(recorded.recording.dir(), recorded.damaged.len() as u64)
            }
            Self::Wire(wire) => packets::check(&wire.captures),
        }
    }
}

/// By what a plan says is missing.
pub(crate) fn watched(missing: &[Unobservable]) -> Coverage {
    Coverage::new(missing.iter().map(|missing| (&*missing.what, &*missing.why)))
}

impl Recorded {
    fn new(recording: Recording, beside: Beside) -> Self {
        let seen = |tables: &[Table]| recording.events_of(tables).next().is_some();
        let manifest = recording.manifest();
        let partial = record::partial::threshold(&manifest.settings);
        Self {
            partial,
            // Of a partial recording, joins of requests that were not slow would find nothing and say nothing.
            files_seen: partial.is_none() && (record::sees_files(&manifest.plan) || seen(&[Table::FileOps])),
            jvm_seen: !beside.is_empty() || seen(&[Table::LockWaits, Table::JvmPauses]),
            missing: record::missing(&manifest.plan),
            notes: Vec::new(),
            recording,
            beside,
            tallied: None,
            damaged: BTreeSet::new(),
        }
    }

    fn read(&mut self, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        for event in self.recording.events_ahead(&Table::ALL) {
            match event {
                Ok(event) => self.hand_on(event, sink)?,
                Err(error) => self.damaged(&error),
            }
        }
        self.hand_on_rest(sink)
    }

    /// A part is named again in the notes; the other parts still tell.
    fn damaged(&mut self, error: &recording::Error) {
        let text = error.to_string();
        // It may be read in several ways.
        if self.damaged.insert(text.clone()) {
            output::warn(&text);
        }
    }

    /// After what was made beside the recording and is earlier.
    fn hand_on(&mut self, event: Event, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        while let Some(earlier) = self.beside.before(&event) {
            sink(earlier)?;
        }
        sink(event)
    }

    fn hand_on_rest(&mut self, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        while let Some(last) = self.beside.next() {
            sink(last)?;
        }
        Ok(())
    }

    fn read_near(&mut self, mut near_slow: NearSlow, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        for event in &mut near_slow {
            match event {
                Ok(event) => sink(event)?,
                Err(error) => self.damaged(&error),
            }
        }
        self.tallied = near_slow.tallied();
        Ok(())
    }

    fn known(&self, slower_than: Nanos, presentation: &Presentation) -> Known {
        let mut unobservable = self.missing.clone();
        unobservable.push(if self.jvm_seen { unobservable_of(QUEUES) } else { unobservable_of(JVM) });
        let mut notes = self.recording.notes();
        notes.extend_from_slice(&self.notes);
        notes.extend_from_slice(self.beside.notes());
        notes.extend(record::notes(self.recording.manifest(), presentation));
        if let Some(threshold) = self.partial.filter(|threshold| slower_than < *threshold) {
            notes.push(format!(
                "of requests that took less than {threshold} most of the time is therefore unobserved"
            ));
        }
        Known { unobservable, notes, tallied: self.tallied, ..Known::default() }
    }
}

impl Wire {
    fn read(&mut self, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        let stop = Stop::after(None)?;
        let mut request = |request: Request| sink(Event::Request(Box::new(request)));
        packets::read_files(&mut self.captures, &mut self.analyzer, &stop, &mut request)
    }

    fn known(&self) -> Known {
        let counters = self.analyzer.counters();
        let losses = vec![
            (LossKind::PacketsDropped, counters.kernel_drops),
            (LossKind::StreamGapBytes, counters.gap_bytes),
            (LossKind::FramesUndecodable, counters.undecodable_frames),
        ];
        let notes = packets::notes(&self.captures, false);
        Known { unobservable: vec![unobservable_of(BROKER)], notes, losses, ..Known::default() }
    }
}

impl Known {
    /// Beside what the engine adds up to.
    pub(crate) fn conclude(
        self,
        mut summary: Summary,
        slower_than: Nanos,
        agreement: Option<Agreement>,
    ) -> Conclusion {
        let Self { unobservable, mut notes, losses, tallied, lag } = self;
        if let Some(tallied) = tallied {
            tallied.add_to(&mut summary);
        }
        if summary.requests == 0 {
            notes.push(NO_REQUEST.to_owned());
        }
        summary.losses.extend(losses.into_iter().filter(|(_, count)| *count > 0));
        Conclusion { summary, slower_than, unobservable, agreement, lag, notes }
    }
}

/// What a recording without the JVM's own events lacks, and why.
const JVM: (&str, &str) = (
    "what the broker's JVM did (collections, queues, locks)",
    "the recording holds nothing of the JVM; waits for a log's lock are inferred from the order of writes, and time \
     spent elsewhere in the JVM is unobserved",
);
/// What no recording holds.
const QUEUES: (&str, &str) = (
    "when a request handler took a request out of the queue",
    "nothing watches the queue itself; it is told from the work before by what the handler's thread is known to have done last",
);
/// What to know where there was nothing to explain.
const NO_REQUEST: &str =
    "no request was seen: nothing spoke Kafka then, or it was on a port that was not captured, or encrypted";
/// What no capture holds.
const BROKER: (&str, &str) = (
    "what the broker, its kernel and its disk did",
    "a packet capture holds no kernel events; `brokerscope record -o DIR` on the broker's host, as root, collects them",
);

fn unobservable_of((what, why): (&str, &str)) -> Unobservable {
    Unobservable { what: what.to_owned(), why: why.to_owned() }
}
