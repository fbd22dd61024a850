//! A recording that is being written, read until its recorder ends or it is time to stop. Its events come as they would
//! from the finished recording.

use std::thread::sleep;
use std::time::{Duration, Instant};

use model::Event;
use recording::{Recording, Tail};

use crate::Stop;

/// How often to look for more.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// A recorder writes the host's figures every second: after this silence it may be gone.
const SILENT_AFTER: Duration = Duration::from_secs(10);
/// What to know where the recording goes on.
const STOPPED: &str = "stopped while the recording goes on: the last verdicts may lack evidence that is written later; explain it again when it is finished";

/// The events of a recording that grows.
pub(super) struct Growing {
    tail: Tail,
    stop: Stop,
    last_event: Instant,
    silent: bool,
}

impl Growing {
    pub(super) fn new(recording: &Recording, stop: Stop) -> Self {
        Self { tail: Tail::start(recording), stop, last_event: Instant::now(), silent: false }
    }

    /// Whether the recorder has ended, and everything was handed out.
    pub(super) fn is_finished(&self) -> bool {
        self.tail.is_finished()
    }

    /// What to know beside the events, at the end.
    pub(super) fn notes(&self) -> Vec<String> {
        let stopped = (!self.is_finished()).then(|| STOPPED.to_owned());
        self.tail.notes().into_iter().chain(stopped).collect()
    }

    /// The next event of this recording; none where its recorder has ended, or it is time to stop.
    pub(super) fn next(&mut self, recording: &Recording) -> Option<Event> {
        while !self.stop.asked() && !self.is_finished() {
            match self.tail.next_event() {
                Ok(Some(event)) => {
                    (self.last_event, self.silent) = (Instant::now(), false);
                    return Some(event);
                }
                Ok(None) => self.wait(recording),
                Err(error) => tracing::warn!("{error}"),
            }
        }
        None
    }

    fn wait(&mut self, recording: &Recording) {
        if !self.silent && self.last_event.elapsed() >= SILENT_AFTER {
            self.silent = true;
            let (recording, seconds) = (recording.dir().display(), SILENT_AFTER.as_secs());
            tracing::info!(
                "{recording}: nothing was written for {seconds} s: its recorder may have ended; Ctrl-C stops"
            );
        }
        sleep(LOOK_INTERVAL);
    }
}
