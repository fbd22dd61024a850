//! Keeps finished operations back until they are due, on one thread, so that a delayed one holds up no
//! other. The kernel bounds how many can be waiting (its queue of background requests).

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

type Finish = Box<dyn FnOnce() + Send>;
/// Due time first, then order of arrival.
type Waiting = BTreeMap<(Instant, u64), Finish>;

/// A handle on the thread that answers late.
#[derive(Clone)]
pub(crate) struct DelayLine(Arc<Shared>);

struct Shared {
    waiting: Mutex<(Waiting, u64)>,
    news: Condvar,
}

impl DelayLine {
    /// Starts the thread; it lives as long as the process.
    pub(crate) fn start() -> Self {
        let line = Self(Arc::new(Shared { waiting: Mutex::default(), news: Condvar::new() }));
        let runner = line.clone();
        thread::spawn(move || runner.run());
        line
    }

    /// Calls `finish` after `hold`, or at once when there is nothing to hold.
    pub(crate) fn after(&self, hold: Duration, finish: impl FnOnce() + Send + 'static) {
        if hold.is_zero() {
            return finish();
        }
        let mut guard = self.lock();
        guard.1 += 1;
        let key = (Instant::now() + hold, guard.1);
        guard.0.insert(key, Box::new(finish));
        self.0.news.notify_one();
    }

    fn run(&self) {
        let mut guard = self.lock();
        loop {
            let now = Instant::now();
            let due = guard.0.first_key_value().map(|((due, _), _)| *due);
            guard = match due {
                None => self.0.news.wait(guard).unwrap_or_else(PoisonError::into_inner),
                Some(due) if due > now => {
                    let timed = self.0.news.wait_timeout(guard, due - now);
                    timed.unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    let first = guard.0.pop_first();
                    drop(guard);
                    if let Some((_, finish)) = first {
                        finish();
                    }
                    self.lock()
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, (Waiting, u64)> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_is_due_first_is_finished_first() {
        let line = DelayLine::start();
        let (told, heard) = mpsc::channel();
        for (hold_ms, name) in [(60, "late"), (0, "at once"), (20, "soon")] {
            let told = told.clone();
            line.after(Duration::from_millis(hold_ms), move || told.send(name).unwrap());
        }
        let order: Vec<_> = heard.iter().take(3).collect();
        assert_eq!(order, ["at once", "soon", "late"]);
    }
}
