//! An instant as the time of day, `HH:MM:SS.mmm`, in the zone the user chose. Does not show dates.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::Nanos;

const SECOND_NS: i64 = 1_000_000_000;
const DAY_MS: i64 = 86_400_000;

/// The zone in which times are shown.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    /// Coordinated universal time.
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// This machine's zone (`TZ`, else `/etc/localtime`); UTC where it has none.
    pub fn local() -> Self {
        Self(TimeZone::system())
    }

    /// A fixed number of seconds east of UTC; none where no zone is that far.
    pub fn east(seconds: i32) -> Option<Self> {
        jiff::tz::Offset::from_seconds(seconds).ok().map(|offset| Self(offset.to_time_zone()))
    }

    /// `HH:MM:SS.mmm`; the milliseconds are cut, not rounded, as packet and kernel tools do.
    pub fn time_of_day(&self, at: Nanos) -> String {
        let local_ns = at.0.saturating_add(self.offset_seconds(at).saturating_mul(SECOND_NS));
        let ms = local_ns.div_euclid(1_000_000).rem_euclid(DAY_MS);
        format!("{:02}:{:02}:{:02}.{:03}", ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms % 1_000)
    }

    fn offset_seconds(&self, at: Nanos) -> i64 {
        Timestamp::from_second(at.0.div_euclid(SECOND_NS))
            .map_or(0, |timestamp| i64::from(self.0.to_offset(timestamp).seconds()))
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self::local()
    }
}

#[cfg(test)]
mod tests {
    use super::Zone;
    use model::Nanos;

    #[test]
    fn the_time_of_day_follows_the_zone_and_cuts_milliseconds() {
        let at = Nanos(1_718_971_896_521_999_999);
        assert_eq!(Zone::utc().time_of_day(at), "12:11:36.521");
        assert_eq!(Zone::east(7_200).unwrap().time_of_day(at), "14:11:36.521");
        assert_eq!(Zone::east(-13 * 3_600).unwrap().time_of_day(at), "23:11:36.521");
    }

    #[test]
    fn instants_at_the_ends_of_time_do_not_overflow() {
        for at in [Nanos::MIN, Nanos(-1), Nanos::ZERO, Nanos::MAX] {
            assert_eq!(Zone::east(3_600).unwrap().time_of_day(at).len(), 12);
        }
    }
}
