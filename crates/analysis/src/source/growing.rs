//! Reads a recording that is still being written.
//! Ends when its recorder ends, or when it is time to stop. The events come in the same order as from the finished
//! recording.

use std::thread::sleep;
use std::time::{Duration, Instant};

use model::Event;
use recording::{Recording, Tail};

use crate::Stop;

/// How often to poll for new events.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// A recorder writes host figures every second: without events for this long, it may be gone.
const SILENT_AFTER: Duration = Duration::from_secs(10);
/// Note if the recording is not finished.
const STOPPED: &str = "stopped while the recording goes on: the last verdicts may lack evidence that is written later; explain it again when it is finished";

/// The events of a growing recording.
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

    /// Whether the recorder has ended and all events were returned.
    pub(super) fn is_finished(&self) -> bool {
        self.tail.is_finished()
    }

    /// Notes on the events, at the end.
    pub(super) fn notes(&self) -> Vec<String> {
        let stopped = (!self.is_finished()).then(|| STOPPED.to_owned());
        self.tail.notes().into_iter().chain(stopped).collect()
    }

    /// Returns the next event; `None` once the recorder has ended or it is time to stop.
    pub(super) fn next(&mut self, recording: &Recording) -> Option<Event> {
        while !self.stop.should_stop() && !self.is_finished() {
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
