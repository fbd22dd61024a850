//! A recording that is being written, read until its recorder ends or it is time to stop. Its events come as they would
//! from the finished recording.

use std::thread::sleep;
use std::time::{Duration, Instant};

use diagnose::Config;
use model::Nanos;
use recording::Tail;

use super::{EventSource, Recording, Step};
use crate::gaps::Gaps;
use crate::recorder::plan::Plan;
use crate::{Error, Stop};

/// How often to look for more.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// A recorder writes the host's figures every second: after this silence it may be gone.
const SILENT_AFTER: Duration = Duration::from_secs(10);
/// What to know where the recording goes on.
const STOPPED: &str = "stopped while the recording goes on: the last verdicts may lack what is written after it; explain it again then";

/// A recording that grows.
pub struct GrowingRecording {
    recording: Recording,
    follow: Tail,
    stop: Stop,
    last_event: Instant,
    silent: bool,
    ended: bool,
}

impl GrowingRecording {
    pub(super) fn new(recording: Recording, stop: Stop) -> Self {
        let follow = Tail::start(&recording.reader);
        Self { recording, follow, stop, last_event: Instant::now(), silent: false, ended: false }
    }

    fn end(&mut self) {
        self.ended = true;
        self.recording.follow_notes = self.follow.notes();
        if !self.follow.is_finished() {
            self.recording.follow_notes.push(STOPPED.to_owned());
        }
        self.recording.reopen();
    }

    fn wait(&mut self) {
        if !self.silent && self.last_event.elapsed() >= SILENT_AFTER {
            self.silent = true;
            let recording = self.recording.reader.dir().display();
            let seconds = SILENT_AFTER.as_secs();
            tracing::info!(
                "{recording}: nothing was written for {seconds} s: its recorder may be gone; Ctrl-C ends this"
            );
        }
        sleep(LOOK_INTERVAL);
    }
}

impl EventSource for GrowingRecording {
    fn next(&mut self) -> Step {
        if let Some(event) = self.recording.take_pending() {
            return Step::Event(event);
        }
        while !self.ended && !self.stop.asked() && !self.follow.is_finished() {
            match self.follow.next_event() {
                Ok(Some(event)) => {
                    (self.last_event, self.silent) = (Instant::now(), false);
                    return Step::Event(self.recording.in_order(event));
                }
                Ok(None) => self.wait(),
                Err(error) => tracing::warn!("{error}"),
            }
        }
        if !self.ended {
            self.end();
        }
        if self.follow.is_finished() { self.recording.take_rest() } else { Step::End }
    }

    fn config(&self, slower_than: Nanos) -> Config {
        self.recording.config(slower_than)
    }

    fn plan(&self) -> &Plan {
        self.recording.plan()
    }

    fn gaps(&mut self, slower_than: Nanos) -> Gaps {
        self.recording.gaps(slower_than)
    }

    fn recording(&self) -> Option<&::recording::Recording> {
        self.recording.recording()
    }

    fn check(&self) -> Result<(), Error> {
        self.recording.check()
    }
}
