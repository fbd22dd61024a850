//! Sources of a broker's events, in order of time. Does not reach verdicts.

mod capture;
mod growing;
#[cfg(feature = "live")]
mod live;
mod recording;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diagnose::{Config, Coverage};
use model::{Event, Nanos, Pid, TopicId};
use report::Zone;

pub use self::capture::Capture;
#[cfg(feature = "live")]
pub use self::capture::open_interface;
#[cfg(feature = "live")]
pub use self::live::{
    Live, LiveOptions, announce, announce_tls, broker, drop_privileges, lower_priority, start_watch,
};
pub use self::recording::{Recording, check_parts};
use crate::gaps::Gaps;
use crate::recorder::plan::{self, Plan};
use crate::{Error, Stop, Usage, input};

/// The next step of a source.
#[derive(Debug)]
pub enum Step {
    /// An event, nearly in the order of [`Event::time`].
    Event(Event),
    /// A pause of a live watch, between two bursts of events.
    Pause(Pause),
    /// The end of the source.
    End,
}

/// A pause between two bursts of events.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    /// The current time on the clock of the events.
    pub now: Nanos,
    /// Whether all earlier events have been returned.
    pub drained: bool,
}

/// A source of events.
pub trait EventSource {
    /// Returns the next step.
    /// Parts that cannot be read are logged and counted; the rest is still returned.
    fn next(&mut self) -> Step;

    /// Configures the engine for this source.
    fn config(&self, slower_than: Nanos) -> Config;

    /// The plan: each purpose, with how it was served or why not.
    fn plan(&self) -> &Plan {
        &[]
    }

    /// Coverage of the source, on which doubts about verdicts are based.
    fn coverage(&self) -> Coverage {
        let missing = plan::missing(self.plan());
        Coverage::new(missing.iter().map(|missing| (&*missing.what, &*missing.why)))
    }

    /// Gaps that concern requests slower than the threshold. Complete after [`Step::End`].
    fn gaps(&mut self, slower_than: Nanos) -> Gaps;

    /// Narrows the source to the events that verdicts depend on.
    /// Does so only if those are much fewer; returns whether it did.
    fn select(&mut self, _config: &Config) -> bool {
        false
    }

    /// The underlying recording, if there is one.
    fn recording(&self) -> Option<&::recording::Recording> {
        None
    }

    /// Counts a part that another reader could not read.
    fn note_damage(&mut self, _error: &::recording::Error) {}

    /// Fails if not everything could be read. Call it after all other output.
    ///
    /// # Errors
    /// The first fault of a capture, or the number of damaged parts of a recording.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// Options for reading files.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Flight Recorder's files of the same broker, merged into a recording.
    pub jfr: Vec<PathBuf>,
    /// The broker's process: topic names of a capture come from its log dirs, and Flight Recorder's events get its id.
    pub pid: Option<Pid>,
    /// Log dirs with the topic names of a capture.
    pub log_dirs: Vec<PathBuf>,
    /// Topic names of a capture, if they were read before it is opened.
    pub topics: Option<HashMap<TopicId, Arc<str>>>,
    /// The broker's ports in a capture; empty for all ports with Kafka traffic.
    pub ports: Vec<u16>,
    /// The record header that holds a message's id.
    pub message_id: Option<String>,
    /// The time zone for notes.
    pub zone: Zone,
}

impl ReadOptions {
    /// Reads the topic names for a capture.
    /// Callers that drop privileges before they open the capture call it first: it may need access to a broker's log
    /// dirs and root's view of its process.
    ///
    /// # Errors
    /// The process is not a broker.
    pub fn with_topic_names(self) -> Result<Self, Error> {
        let topics = Some(capture::topic_names(&self)?);
        Ok(Self { topics, ..self })
    }
}

/// Opens one recording, local or in a bucket, or the files of one capture.
///
/// # Errors
/// An input cannot be opened; [`Usage`] if Flight Recorder's files are combined with packets.
pub fn open(inputs: &[PathBuf], options: &ReadOptions) -> Result<Box<dyn EventSource>, Error> {
    if let [path] = inputs {
        if let Some(copy) = crate::bucket::copy(path)? {
            return Ok(Box::new(Recording::of_copy(copy, options)?));
        }
    }
    if let Some(reader) = input::find_recording(inputs)? {
        return Ok(Box::new(Recording::new(reader, options)?));
    }
    let captures = input::open_captures(inputs)?;
    if !options.jfr.is_empty() {
        return Err(Usage::new("--jfr needs a recording: a packet capture knows no threads").into());
    }
    Ok(Box::new(Capture::new(captures, options, Stop::after(None)?)?))
}

/// Opens a recording that is still being written, to read it as it grows.
///
/// # Errors
/// Those of [`open`], and [`Usage`] if the inputs are packets.
pub fn follow(inputs: &[PathBuf], options: &ReadOptions, stop: Stop) -> Result<Recording, Error> {
    if inputs.iter().any(|input| input::url(input).is_some()) {
        return Err(Usage::new(ONLY_READ).into());
    }
    let Some(reader) = input::find_recording(inputs)? else {
        input::open_captures(inputs)?;
        return Err(Usage::new("--follow needs a recording that is being written").into());
    };
    Ok(Recording::new(reader, options)?.growing(stop))
}

/// Error for an attempt to write to a bucket or to follow a recording in it.
pub const ONLY_READ: &str = "--follow and --save need a local directory; an object store is only read";

/// Opens a recording, local or in a bucket.
///
/// # Errors
/// The recording cannot be opened.
pub fn open_recording(directory: &Path, options: &ReadOptions) -> Result<Recording, Error> {
    match crate::bucket::copy(directory)? {
        Some(copy) => Recording::of_copy(copy, options),
        None => Recording::new(input::open_recording(directory)?, options),
    }
}

/// Opens some tables of a recording; losses come first, because they put the other events in doubt.
///
/// # Errors
/// The recording cannot be opened.
pub fn open_tables(
    directory: &Path,
    tables: &[::recording::Table],
    options: &ReadOptions,
) -> Result<Recording, Error> {
    let mut recording = open_recording(directory, options)?;
    recording.tables = Some(tables.to_vec());
    Ok(recording)
}
