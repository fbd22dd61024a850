//! Verdicts on the requests of a recording, reached by a thread that is some way ahead of what is shown. Does not show them.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;

use anyhow::Context as _;
use diagnose::{Config, Engine};
use model::{Nanos, Verdict};

use crate::cli::Top;
use crate::grounds::Grounds;
use crate::options::{Filter, Target};

/// Verdicts, and marks of how far it is, between the thread and the screen.
const AHEAD: usize = 100;
/// Between two marks.
const MARK: Nanos = Nanos::from_millis(100);

/// What the thread tells.
enum Told {
    Verdict(Box<Verdict>),
    /// No verdict on a request that was answered before this is to come.
    Until(Nanos),
    Failed(anyhow::Error),
}

/// Verdicts in the order in which their requests were answered.
pub(super) struct Verdicts {
    told: Receiver<Told>,
    waiting: VecDeque<Verdict>,
    known_until: Nanos,
}

impl Verdicts {
    /// Begins to reach them.
    pub(super) fn of(args: &Top, dir: &Path) -> anyhow::Result<Self> {
        let (sender, told) = sync_channel(AHEAD);
        let (dir, slower_than) = (dir.to_owned(), args.slower_than);
        let judge = move || {
            if let Err(error) = judge(&dir, slower_than, &sender) {
                // Whoever left does not want to know.
                let _ = sender.send(Told::Failed(error));
            }
        };
        thread::Builder::new().name("judge".to_owned()).spawn(judge).context("cannot start a thread")?;
        Ok(Self { told, waiting: VecDeque::new(), known_until: Nanos::MIN })
    }

    /// Up to which moment verdicts are known, at least until the one that is wanted where that is so.
    pub(super) fn reach(&mut self, wanted: Nanos) -> anyhow::Result<Nanos> {
        while self.known_until <= wanted && self.waiting.len() < AHEAD {
            match self.told.try_recv() {
                Ok(Told::Verdict(verdict)) => {
                    self.known_until = self.known_until.max(verdict.request.last_seen());
                    self.waiting.push_back(*verdict);
                }
                Ok(Told::Until(until)) => self.known_until = self.known_until.max(until - Nanos(1)),
                Ok(Told::Failed(error)) => return Err(error),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => self.known_until = Nanos::MAX,
            }
        }
        Ok(self.known_until)
    }

    /// Those on requests that were answered until then.
    pub(super) fn until(&mut self, until: Nanos) -> Vec<Verdict> {
        let due = self.waiting.partition_point(|verdict| verdict.request.last_seen() <= until);
        self.waiting.drain(..due).collect()
    }
}

/// The screen is gone.
#[derive(Debug)]
struct Gone;

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the screen is gone")
    }
}

impl std::error::Error for Gone {}

/// As `explain` judges a recording.
fn judge(dir: &Path, slower_than: Nanos, told: &SyncSender<Told>) -> anyhow::Result<()> {
    let mut grounds = Grounds::open(&[dir.to_owned()], &[], &Filter::default(), &Target::default())?;
    let config = grounds.config(slower_than);
    let mut judging =
        Judging { engine: Engine::new(config.clone()), told, marked: Nanos::MIN, config: &config };
    grounds.read_for_verdicts(&config, &mut |event| {
        let time = event.time();
        judging.engine.push(event);
        judging.tell(time)
    })?;
    judging.engine.finish();
    judging.tell(Nanos::MIN)
}

struct Judging<'a> {
    engine: Engine,
    told: &'a SyncSender<Told>,
    marked: Nanos,
    config: &'a Config,
}

impl Judging<'_> {
    /// Tells what was decided, and how far it is.
    fn tell(&mut self, time: Nanos) -> anyhow::Result<()> {
        for verdict in self.engine.take_verdicts() {
            self.told.send(Told::Verdict(Box::new(verdict))).map_err(|_| Gone)?;
        }
        if time < self.marked + MARK {
            return Ok(());
        }
        self.marked = time;
        let decided = time - self.config.disorder - self.config.lateness - MARK;
        self.told.send(Told::Until(decided)).map_err(|_| Gone)?;
        Ok(())
    }
}
