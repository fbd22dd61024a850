//! Decides when to stop: on Ctrl-C, on SIGTERM, or after a duration.
//! A second Ctrl-C, once the first was acknowledged, ends the process at once. So does the first if nothing checks for
//! it in time, because the process is blocked on a file or a pipe.

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
/// How long a signal may stay unnoticed.
const SEEN_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Whether the command handles signals itself.
static CAUGHT: AtomicBool = AtomicBool::new(false);

/// Whether a signal lets the command end properly.
#[cfg(feature = "object-stores")]
pub fn is_caught() -> bool {
    CAUGHT.load(Ordering::Relaxed)
}

/// A stop request that loops poll.
#[derive(Clone, Debug)]
pub struct Stop {
    /// Set by a signal.
    flag: Arc<AtomicBool>,
    /// Set once a check has found that it is time to stop.
    noticed: Arc<AtomicBool>,
    /// Set by [`Self::should_stop`] after a signal: another signal then ends the process.
    /// Not set by the signal itself, because `timeout` sends its signal twice at once, to the process and to its group,
    /// and the results must still be printed.
    acknowledged: Arc<AtomicBool>,
    /// Set once a check has found the deadline passed.
    ended: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Stop {
    /// Starts to catch the signals, and counts the duration from now.
    ///
    /// # Errors
    /// The signals cannot be caught.
    pub fn after(duration: Option<Nanos>) -> Result<Self, Error> {
        let (flag, acknowledged) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        CAUGHT.store(true, Ordering::Relaxed);
        for signal in SIGNALS {
            signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&acknowledged))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
                .map_err(cannot_catch)?;
        }
        let stop =
            Self { flag, noticed: Arc::default(), acknowledged, ended: Arc::default(), deadline: None };
        let noticed = Arc::clone(&stop.noticed);
        stop.wake_by_signals(move || {
            std::thread::sleep(SEEN_TIMEOUT);
            if !noticed.load(Ordering::Relaxed) {
                signal_hook::low_level::exit(INTERRUPTED);
            }
        })?;
        Ok(stop.within(duration))
    }

    /// Counts the duration from now instead: the preparations may have taken long.
    #[must_use]
    pub fn within(self, duration: Option<Nanos>) -> Self {
        let deadline = duration
            .and_then(|length| Instant::now().checked_add(Duration::from_nanos(length.as_length_ns())));
        Self { deadline, ..self }
    }

    /// Also stops on these signals.
    ///
    /// # Errors
    /// The signals cannot be caught.
    pub fn also_by(self, signals: &[i32]) -> Result<Self, Error> {
        for &signal in signals {
            signal_hook::flag::register(signal, Arc::clone(&self.flag)).map_err(cannot_catch)?;
        }
        Ok(self)
    }

    /// Starts a thread that calls `wake` on each signal: a loop that waits long checks rarely.
    ///
    /// # Errors
    /// The signals cannot be caught, or the thread cannot be started.
    pub fn wake_by_signals(&self, wake: impl Fn() + Send + 'static) -> Result<(), Error> {
        let (mut signals, written) = UnixStream::pair().map_err(cannot_catch)?;
        for signal in SIGNALS {
            let written = written.try_clone().map_err(cannot_catch)?;
            signal_hook::low_level::pipe::register(signal, written).map_err(cannot_catch)?;
        }
        let forward = move || {
            #[cfg(feature = "live")]
            let _ = watch::drop_all_capabilities();
            while signals.read_exact(&mut [0]).is_ok() {
                wake();
            }
        };
        Builder::new().name("signals".to_owned()).spawn(forward).map_err(cannot_catch)?;
        Ok(())
    }

    /// Time left until the deadline.
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Whether to stop now, for callers that have to clean up first: another signal ends the process only after
    /// [`Self::should_stop`].
    pub fn is_due(&self) -> bool {
        let due = self.flag.load(Ordering::Relaxed) || self.deadline.is_some_and(|at| Instant::now() >= at);
        self.noticed.fetch_or(due, Ordering::Relaxed);
        due
    }

    /// Whether to stop now. If a signal asked for it, another one ends the process from then on.
    pub fn should_stop(&self) -> bool {
        let signalled = self.flag.load(Ordering::Relaxed);
        let late = self.deadline.is_some_and(|at| Instant::now() >= at);
        if signalled {
            self.acknowledged.store(true, Ordering::Relaxed);
        } else if late && !self.ended.swap(true, Ordering::Relaxed) {
            // The first signal after the deadline acknowledges the stop; the next one ends the process.
            for signal in SIGNALS {
                // If this fails, signals have the same effect as before.
                let _ = signal_hook::flag::register(signal, Arc::clone(&self.acknowledged));
            }
        }
        self.noticed.fetch_or(signalled || late, Ordering::Relaxed);
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
    fn two_simultaneous_signals_count_once_and_wake_the_waiter() {
        let stop = Stop::after(None).unwrap();
        let (woken, waiting) = std::sync::mpsc::channel();
        stop.wake_by_signals(move || woken.send(()).unwrap()).unwrap();
        assert!(!stop.should_stop());
        for _ in 0..2 {
            signal_hook::low_level::raise(SIGINT).unwrap();
        }
        assert_eq!(waiting.recv_timeout(std::time::Duration::from_secs(60)), Ok(()));
        assert!(stop.should_stop() && stop.acknowledged.load(Ordering::Relaxed));
        let late = Stop::after(Some(Nanos::ZERO)).unwrap();
        assert!(
            late.should_stop() && !late.acknowledged.load(Ordering::Relaxed),
            "nobody has sent it a signal"
        );
    }
}
