//! Computes verdicts on the requests of a recording in a thread. The thread runs ahead of the screen. Does not show
//! verdicts.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;

use analysis::source::{self, ReadOptions};
use analysis::{Analysis, EventSource as _, Output};
use anyhow::Context as _;
use model::{Nanos, Verdict};

/// Maximum number of verdicts and progress marks between the thread and the screen.
const MAX_AHEAD: usize = 100;
/// Interval between two progress marks.
const MARK_INTERVAL: Nanos = Nanos::from_millis(100);

/// A message from the thread.
enum Message {
    Verdict(Box<Verdict>),
    /// No more verdicts on requests answered before this time will follow.
    Until(Nanos),
    Failed(analysis::Error),
}

/// Verdicts in the order in which their requests were answered.
pub(super) struct Verdicts {
    messages: Receiver<Message>,
    waiting: VecDeque<Verdict>,
    known_until: Nanos,
}

impl Verdicts {
    /// Starts computing them.
    pub(super) fn of(slower_than: Nanos, dir: &Path, options: &ReadOptions) -> anyhow::Result<Self> {
        let (sender, messages) = sync_channel(MAX_AHEAD);
        let (dir, options) = (dir.to_owned(), options.clone());
        let run = move || {
            if let Err(Interruption::Failed(error)) = analyse(&dir, &options, slower_than, &sender) {
                // If the screen was closed, nobody needs the error.
                let _ = sender.send(Message::Failed(error));
            }
        };
        thread::Builder::new().name("analysis".to_owned()).spawn(run).context("cannot start a thread")?;
        Ok(Self { messages, waiting: VecDeque::new(), known_until: Nanos::MIN })
    }

    /// Returns the time up to which verdicts are known: at least `until`, if that was reached.
    pub(super) fn reach(&mut self, until: Nanos) -> anyhow::Result<Nanos> {
        while self.known_until <= until && self.waiting.len() < MAX_AHEAD {
            match self.messages.try_recv() {
                Ok(Message::Verdict(verdict)) => {
                    self.known_until = self.known_until.max(verdict.request.last_seen());
                    self.waiting.push_back(*verdict);
                }
                Ok(Message::Until(until)) => self.known_until = self.known_until.max(until - Nanos(1)),
                Ok(Message::Failed(error)) => return Err(error.into()),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => self.known_until = Nanos::MAX,
            }
        }
        Ok(self.known_until)
    }

    /// Takes the verdicts on requests answered until then.
    pub(super) fn until(&mut self, until: Nanos) -> Vec<Verdict> {
        let due = self.waiting.partition_point(|verdict| verdict.request.last_seen() <= until);
        self.waiting.drain(..due).collect()
    }
}

/// Reason for the thread to end early.
enum Interruption {
    /// The screen was closed.
    ScreenClosed,
    /// Totals cannot be read.
    Failed(analysis::Error),
}

impl From<analysis::Error> for Interruption {
    fn from(error: analysis::Error) -> Self {
        Self::Failed(error)
    }
}

/// Analyses a recording as `explain` does.
fn analyse(
    dir: &Path,
    options: &ReadOptions,
    slower_than: Nanos,
    messages: &SyncSender<Message>,
) -> Result<(), Interruption> {
    let mut source = source::open_recording(dir, options)?;
    let mut analysis = Analysis::new(source.config(slower_than));
    source.select(&analysis.config);
    let behind = analysis.config.disorder + analysis.config.lateness + MARK_INTERVAL;
    let (mut newest, mut marked) = (Nanos::MIN, Nanos::MIN);
    analysis.run(&mut source, &mut |output| {
        let message = match output {
            Output::Verdict(verdict) => Message::Verdict(Box::new(verdict)),
            Output::Event(event) => {
                // The engine does not have this event yet.
                let reached = std::mem::replace(&mut newest, event.time());
                if reached < marked + MARK_INTERVAL {
                    return Ok(());
                }
                marked = reached;
                Message::Until(reached - behind)
            }
            Output::Pause(_) => return Ok(()),
        };
        messages.send(message).map_err(|_| Interruption::ScreenClosed)
    })
}
