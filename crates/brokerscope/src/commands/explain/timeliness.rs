//! How far behind the verdicts of a live run are, and what it had to drop: said as it goes on, seldom, and at the end.
//! Reads no clock.

use diagnose::Config;
use model::{Loss, LossKind, Nanos};
use report::explanation::{Lag, Lags};
use report::quantity::format_count_of;

/// Verdicts that come so much later than they have to are behind.
const MAX_LAG: Nanos = Nanos::from_millis(2_000);
/// Between two warnings.
const WARNING_INTERVAL: Nanos = Nanos::from_millis(10_000);

/// What is known of it.
pub(super) struct Timeliness {
    lags: Lags,
    /// From which lag on it is said.
    late: Nanos,
    /// The longest lag, and the events dropped, since it was said last, if that was worth it.
    longest: Nanos,
    dropped: u64,
    warned: Option<Nanos>,
}

impl Timeliness {
    /// Of verdicts that are decided like this.
    pub(super) fn new(config: &Config) -> Self {
        let late = config.disorder + config.lateness + MAX_LAG;
        Self { lags: Lags::default(), late, longest: Nanos::ZERO, dropped: 0, warned: None }
    }

    /// A verdict could be read so long after its request's end.
    pub(super) fn told(&mut self, lag: Nanos) {
        self.lags.add(lag);
        self.longest = self.longest.max(lag);
    }

    /// Something was lost.
    pub(super) fn lost(&mut self, loss: &Loss) {
        if loss.kind == LossKind::EventsDropped {
            self.dropped += loss.count;
        }
    }

    /// What is to be said now, if anything is.
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
        let said =
            behind.into_iter().chain(dropped).reduce(|behind, dropped| format!("{behind}; {dropped}"))?;
        (self.longest, self.dropped, self.warned) = (Nanos::ZERO, 0, Some(now));
        Some(said)
    }

    /// All in all.
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
    fn what_is_late_or_dropped_is_said_seldom_and_once() {
        let mut timeliness = Timeliness::new(&Config::live(ms(100)));
        timeliness.told(ms(1_600));
        assert_eq!(timeliness.warning(ms(0)), None, "as it should be");
        timeliness.told(ms(4_000));
        let said = timeliness.warning(ms(10)).unwrap();
        assert!(said.contains("4 s") || said.contains("4.0 s") || said.contains("4.000 s"), "{said}");
        let loss = |kind| Loss { start: ms(0), end: ms(1), kind, count: 3, detail: "".into() };
        timeliness.lost(&loss(LossKind::ProbeMapFull));
        timeliness.lost(&loss(LossKind::EventsDropped));
        assert_eq!(timeliness.warning(ms(5_000)), None, "it was said a moment ago");
        let said = timeliness.warning(ms(10_010)).unwrap();
        assert!(said.starts_with("3 events dropped"), "{said}");
        assert_eq!(timeliness.warning(ms(30_000)), None, "it was said");
        assert_eq!(timeliness.conclude().unwrap().longest, ms(4_000));
    }
}
