//! Sources of events: what was seen of a broker, in the order of time. Reaches no verdicts.

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
    Live, LiveOptions, announce, announce_tls, broker, drop_privileges, give_way, start_watch,
};
pub use self::recording::{Recording, check_parts};
use crate::gaps::Gaps;
use crate::recorder::plan::{self, Plan};
use crate::{Error, Stop, Usage, input};

/// What a source has next.
#[derive(Debug)]
pub enum Step {
    /// An event, nearly in the order of [`Event::time`].
    Event(Event),
    /// A pause of a live watch, between two bursts of events.
    Pause(Pause),
    /// Nothing more.
    End,
}

/// A pause between two bursts of events.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    /// The time, on the clock of the events.
    pub now: Nanos,
    /// Whether everything that was seen before has been handed out.
    pub drained: bool,
}

/// Where events come from.
pub trait EventSource {
    /// The next event. A part that cannot be read is logged and counted; the rest is still handed out.
    fn next(&mut self) -> Step;

    /// How the engine works on this source.
    fn config(&self, slower_than: Nanos) -> Config;

    /// What was to be seen, and what of it was.
    fn plan(&self) -> &Plan {
        &[]
    }

    /// What was watched: the basis of doubts about a verdict.
    fn watched(&self) -> Coverage {
        let missing = plan::missing(self.plan());
        Coverage::new(missing.iter().map(|missing| (&*missing.what, &*missing.why)))
    }

    /// What the source could not see or read of what took so long. Complete after [`Step::End`].
    fn gaps(&mut self, slower_than: Nanos) -> Gaps;

    /// Narrows the source to the events that verdicts depend on, if those are much fewer. Says whether it did.
    fn select(&mut self, _config: &Config) -> bool {
        false
    }

    /// The recording behind it, if it is one.
    fn recording(&self) -> Option<&::recording::Recording> {
        None
    }

    /// Counts a part that somebody else could not read.
    fn note_damage(&mut self, _error: &::recording::Error) {}

    /// Fails if not everything could be read; to be asked after everything else was shown.
    ///
    /// # Errors
    /// The first fault of a capture, or the number of damaged parts of a recording.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// How to read files.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Flight Recorder's files of the same broker, read beside a recording.
    pub jfr: Vec<PathBuf>,
    /// The broker's process: topic names of a capture come from its log dirs, and Flight Recorder's events are its.
    pub pid: Option<Pid>,
    /// Log dirs to take the topic names of a capture from.
    pub log_dirs: Vec<PathBuf>,
    /// Topic names of a capture, where they were read before it is opened.
    pub topics: Option<HashMap<TopicId, Arc<str>>>,
    /// The broker's ports in a capture; none for any that speaks Kafka.
    pub ports: Vec<u16>,
    /// The record header that is a message's id.
    pub message_id: Option<String>,
    /// The time zone of notes.
    pub zone: Zone,
}

impl ReadOptions {
    /// Reads the topic names of captures, which may take a broker's log dirs and what root alone may read of its process:
    /// for who gives that away before it opens a capture.
    ///
    /// # Errors
    /// The process is no broker.
    pub fn with_topic_names(self) -> Result<Self, Error> {
        let topics = Some(capture::topic_names(&self)?);
        Ok(Self { topics, ..self })
    }
}

/// Opens one recording, here or in a bucket, or the files of one capture.
///
/// # Errors
/// What cannot be opened, and [`Usage`] where Flight Recorder's files stand beside packets.
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

/// Opens a recording that is being written, to read it as it grows.
///
/// # Errors
/// As [`open`], and [`Usage`] where only packets are named.
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

/// What is wrong with writing to a bucket, or waiting for more in it.
pub const ONLY_READ: &str = "--follow and --save need a local directory; an object store is only read";

/// Opens a recording, here or in a bucket.
///
/// # Errors
/// What cannot be opened.
pub fn open_recording(directory: &Path, options: &ReadOptions) -> Result<Recording, Error> {
    match crate::bucket::copy(directory)? {
        Some(copy) => Recording::of_copy(copy, options),
        None => Recording::new(input::open_recording(directory)?, options),
    }
}

/// Opens some tables of a recording; losses come first, because they leave the others in doubt.
///
/// # Errors
/// What cannot be opened.
pub fn open_tables(
    directory: &Path,
    tables: &[::recording::Table],
    options: &ReadOptions,
) -> Result<Recording, Error> {
    let mut recording = open_recording(directory, options)?;
    recording.tables = Some(tables.to_vec());
    Ok(recording)
}
