//! A recording's events while it is written, until its recorder ends or it is time to stop. Does not look ahead of what is
//! certain: the events come as they would from the finished recording.

use std::thread::sleep;
use std::time::{Duration, Instant};

use recording::{Recording, Tail};

use super::{Recorded, Sink};
use crate::options::Presentation;
use crate::output;
use crate::stop::Stop;

/// How often to look for more.
const LOOK: Duration = Duration::from_millis(100);
/// A recorder writes the host's figures every second: one that is silent for so long may be gone.
const SILENT: Duration = Duration::from_secs(10);

/// What to know where the recording goes on.
const STOPPED: &str = "stopped while the recording goes on: what was told last may lack what is written after it; explain it again then";

impl Recorded {
    /// Hands on events as they are written. What is known of the recording afterwards is what it says at the end.
    ///
    /// # Errors
    /// The sink's, and where the recording is there no more.
    pub(super) fn follow(
        &mut self,
        stop: &Stop,
        presentation: &Presentation,
        sink: &mut Sink<'_>,
    ) -> anyhow::Result<()> {
        let mut follow = Tail::start(&self.recording);
        let mut heard = Instant::now();
        let mut silent = false;
        while !stop.asked() && !follow.is_finished() {
            match follow.next_event() {
                Ok(Some(event)) => {
                    (heard, silent) = (Instant::now(), false);
                    self.hand_on(event, sink)?;
                }
                Ok(None) => {
                    if !silent && heard.elapsed() >= SILENT {
                        silent = true;
                        presentation.say(&self.is_silent());
                    }
                    sleep(LOOK);
                }
                Err(error) => output::warn(&error.to_string()),
            }
        }
        let mut notes = follow.notes();
        if follow.is_finished() {
            self.hand_on_rest(sink)?;
        } else {
            notes.push(STOPPED.to_owned());
        }
        let ended = Recording::open(self.recording.dir())?;
        *self = Self { notes, ..Self::new(ended, std::mem::take(&mut self.beside)) };
        Ok(())
    }

    fn is_silent(&self) -> String {
        format!(
            "{}: nothing was written for {} s: its recorder may be gone; Ctrl-C ends this",
            self.recording.dir().display(),
            SILENT.as_secs()
        )
    }
}
