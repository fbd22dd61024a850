//! Measures how late the verdicts of a live run are and how many events it dropped; warns at intervals, and reports
//! both at the end. Reads no clock.

use diagnose::Config;
use model::{Loss, LossKind, Nanos};
use report::explanation::{Lag, Lags};
use report::quantity::format_count_of;

/// Verdicts that are later than necessary by this much are late.
const MAX_LAG: Nanos = Nanos::from_millis(2_000);
/// Minimum time between two warnings.
const WARNING_INTERVAL: Nanos = Nanos::from_millis(10_000);

/// Lags and losses so far.
pub(super) struct Timeliness {
    lags: Lags,
    /// Lag from which a warning is due.
    late: Nanos,
    /// Longest lag and dropped events since the last warning.
    longest: Nanos,
    dropped: u64,
    warned: Option<Nanos>,
}

impl Timeliness {
    /// Creates a measurement for an engine with this configuration.
    pub(super) fn new(config: &Config) -> Self {
        let late = config.disorder + config.lateness + MAX_LAG;
        Self { lags: Lags::default(), late, longest: Nanos::ZERO, dropped: 0, warned: None }
    }

    /// Adds a verdict that could be read this long after its request's end.
    pub(super) fn add_lag(&mut self, lag: Nanos) {
        self.lags.add(lag);
        self.longest = self.longest.max(lag);
    }

    /// Counts a loss.
    pub(super) fn add_loss(&mut self, loss: &Loss) {
        if loss.kind == LossKind::EventsDropped {
            self.dropped += loss.count;
        }
    }

    /// Returns the warning that is due now, if any.
    pub(super) fn warning(&mut self, now: Nanos) -> Option<String> {
        let behind = (self.longest >= self.late)
            .then(|| format!("verdicts were up to {} behind their requests", self.longest));
        let dropped = (self.dropped > 0).then(|| {
            let events = format_count_of(self.dropped, "event");
            format!(
                "{events} dropped: they came faster than they could be explained (verdicts near them say so)"
            )
        });
        if self.warned.is_some_and(|warned| now - warned < WARNING_INTERVAL) {
            return None;
        }
        let message =
            behind.into_iter().chain(dropped).reduce(|behind, dropped| format!("{behind}; {dropped}"))?;
        (self.longest, self.dropped, self.warned) = (Nanos::ZERO, 0, Some(now));
        Some(message)
    }

    /// Returns the lags of the whole run.
    pub(super) fn conclude(&self) -> Option<Lag> {
        self.lags.conclude()
    }
}

#[cfg(test)]
mod tests {
    use diagnose::Config;
    use model::{Loss, LossKind, Nanos};

    use super::Timeliness;

    fn ms(n: i64) -> Nanos {
        Nanos::from_millis(n)
    }

    #[test]
    fn lag_and_drop_warnings_are_rate_limited_and_not_repeated() {
        let mut timeliness = Timeliness::new(&Config::live(ms(100)));
        timeliness.add_lag(ms(1_600));
        assert_eq!(timeliness.warning(ms(0)), None, "as it should be");
        timeliness.add_lag(ms(4_000));
        let message = timeliness.warning(ms(10)).unwrap();
        assert!(
            message.contains("4 s") || message.contains("4.0 s") || message.contains("4.000 s"),
            "{message}"
        );
        let loss = |kind| Loss { start: ms(0), end: ms(1), kind, count: 3, detail: "".into() };
        timeliness.add_loss(&loss(LossKind::ProbeMapFull));
        timeliness.add_loss(&loss(LossKind::EventsDropped));
        assert_eq!(timeliness.warning(ms(5_000)), None, "it was said a moment ago");
        let message = timeliness.warning(ms(10_010)).unwrap();
        assert!(message.starts_with("3 events dropped"), "{message}");
        assert_eq!(timeliness.warning(ms(30_000)), None, "it was said");
        assert_eq!(timeliness.conclude().unwrap().longest, ms(4_000));
    }
}
