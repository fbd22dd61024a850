//! When to stop: the user's Ctrl-C, a SIGTERM, or the time that was asked for. A second Ctrl-C, once the first was heeded,
//! ends the process at once. So does the first, if nobody asks for it in time: who waits for a file or a pipe cannot.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use model::Nanos;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::Error;

/// The shell's exit status for a process that SIGINT ended.
pub const INTERRUPTED: i32 = 130;
const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];
/// How long a signal waits to be seen.
const SEEN_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Whether the command itself looks after signals.
static CAUGHT: AtomicBool = AtomicBool::new(false);

/// Whether a signal lets the command end in order.
#[cfg(feature = "object-stores")]
pub fn is_caught() -> bool {
    CAUGHT.load(Ordering::Relaxed)
}

/// Says whether to stop; for loops to ask.
#[derive(Clone, Debug)]
pub struct Stop {
    /// Set by a signal.
    flag: Arc<AtomicBool>,
    /// Set once somebody has seen that it is time.
    seen: Arc<AtomicBool>,
    /// Set once it was seen: from then on a signal ends the process. `timeout` sends its signal twice at once, to the
    /// process and to its group, and what was found is to be shown all the same.
    heeded: Arc<AtomicBool>,
    /// Set once the deadline was seen to be over.
    ended: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Stop {
    /// Catches the signals from now on, and counts the time from now.
    ///
    /// # Errors
    /// The signals cannot be caught.
    pub fn after(duration: Option<Nanos>) -> Result<Self, Error> {
        let (flag, heeded) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        CAUGHT.store(true, Ordering::Relaxed);
        for signal in SIGNALS {
            signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&heeded))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
                .map_err(cannot_catch)?;
        }
        let stop = Self { flag, seen: Arc::default(), heeded, ended: Arc::default(), deadline: None };
        let seen = Arc::clone(&stop.seen);
        stop.wake_by_signals(move || {
            std::thread::sleep(SEEN_TIMEOUT);
            if !seen.load(Ordering::Relaxed) {
                signal_hook::low_level::exit(INTERRUPTED);
            }
        })?;
        Ok(stop.within(duration))
    }

    /// The same, with the time counted from now: what has to be done first may take long.
    #[must_use]
    pub fn within(self, duration: Option<Nanos>) -> Self {
        let deadline = duration
            .and_then(|length| Instant::now().checked_add(Duration::from_nanos(length.as_length_ns())));
        Self { deadline, ..self }
    }

    /// The same, also where another signal asks for it.
    ///
    /// # Errors
    /// The signals cannot be caught.
    pub fn also_by(self, signals: &[i32]) -> Result<Self, Error> {
        for &signal in signals {
            signal_hook::flag::register(signal, Arc::clone(&self.flag)).map_err(cannot_catch)?;
        }
        Ok(self)
    }

    /// From now on each signal also calls `wake`, in a thread for that: who waits long asks seldom.
    ///
    /// # Errors
    /// The signals cannot be caught, or there is no thread.
    pub fn wake_by_signals(&self, wake: impl Fn() + Send + 'static) -> Result<(), Error> {
        let (mut signals, written) = UnixStream::pair().map_err(cannot_catch)?;
        for signal in SIGNALS {
            let written = written.try_clone().map_err(cannot_catch)?;
            signal_hook::low_level::pipe::register(signal, written).map_err(cannot_catch)?;
        }
        let heed = move || {
            #[cfg(feature = "live")]
            let _ = watch::drop_all_capabilities();
            while signals.read_exact(&mut [0]).is_ok() {
                wake();
            }
        };
        Builder::new().name("signals".to_owned()).spawn(heed).map_err(cannot_catch)?;
        Ok(())
    }

    /// How long may be waited at most.
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Whether to stop now, for who has to put things in order first: only once it was [`Self::asked`] does another signal
    /// end the process.
    pub fn is_due(&self) -> bool {
        let due = self.flag.load(Ordering::Relaxed) || self.deadline.is_some_and(|at| Instant::now() >= at);
        self.seen.fetch_or(due, Ordering::Relaxed);
        due
    }

    /// Whether to stop now.
    pub fn asked(&self) -> bool {
        let signalled = self.flag.load(Ordering::Relaxed);
        let late = self.deadline.is_some_and(|at| Instant::now() >= at);
        if signalled {
            self.heeded.store(true, Ordering::Relaxed);
        } else if late && !self.ended.swap(true, Ordering::Relaxed) {
            // As if it had been heeded already: the first signal from now on counts as such, the next ends it.
            for signal in SIGNALS {
                // Where that fails, a signal does nothing more than it did.
                let _ = signal_hook::flag::register(signal, Arc::clone(&self.heeded));
            }
        }
        self.seen.fetch_or(signalled || late, Ordering::Relaxed);
        signalled || late
    }
}

fn cannot_catch(error: std::io::Error) -> Error {
    Error::System("cannot catch signals", error)
}

#[cfg(test)]
mod tests {
    use super::{SIGINT, Stop};
    use model::Nanos;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_signal_that_comes_twice_at_once_is_one_and_wakes_who_waits() {
        let stop = Stop::after(None).unwrap();
        let (woken, waiting) = std::sync::mpsc::channel();
        stop.wake_by_signals(move || woken.send(()).unwrap()).unwrap();
        assert!(!stop.asked());
        for _ in 0..2 {
            signal_hook::low_level::raise(SIGINT).unwrap();
        }
        assert_eq!(waiting.recv_timeout(std::time::Duration::from_secs(60)), Ok(()));
        assert!(stop.asked() && stop.heeded.load(Ordering::Relaxed));
        let late = Stop::after(Some(Nanos::ZERO)).unwrap();
        assert!(late.asked() && !late.heeded.load(Ordering::Relaxed), "nobody has sent it a signal");
    }
}
