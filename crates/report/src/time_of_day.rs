//! An instant as the time of day, `HH:MM:SS.mmm`, in the user's zone; with its date if the input spans days.

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

    /// This machine's zone (`TZ`, else `/etc/localtime`); UTC if it has none.
    pub fn local() -> Self {
        Self(TimeZone::system())
    }

    /// A fixed number of seconds east of UTC; `None` if no zone is that far.
    pub fn east(seconds: i32) -> Option<Self> {
        jiff::tz::Offset::from_seconds(seconds).ok().map(|offset| Self(offset.to_time_zone()))
    }

    /// `HH:MM:SS.mmm`; the milliseconds are truncated, not rounded, as in packet and kernel tools.
    pub fn time_of_day(&self, at: Nanos) -> String {
        let local_ns = at.0.saturating_add(self.offset_seconds(at).saturating_mul(SECOND_NS));
        let ms = local_ns.div_euclid(1_000_000).rem_euclid(DAY_MS);
        format!("{:02}:{:02}:{:02}.{:03}", ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms % 1_000)
    }

    /// `YYYY-MM-DD HH:MM:SS.mmm`.
    pub fn date_and_time(&self, at: Nanos) -> String {
        let date = Timestamp::from_second(at.0.div_euclid(SECOND_NS))
            .map_or_else(|_| String::new(), |timestamp| self.0.to_datetime(timestamp).date().to_string());
        format!("{date} {}", self.time_of_day(at))
    }

    fn offset_seconds(&self, at: Nanos) -> i64 {
        Timestamp::from_second(at.0.div_euclid(SECOND_NS))
            .map_or(0, |timestamp| i64::from(self.0.to_offset(timestamp).seconds()))
    }
}

/// Formats successive times of day. Neighbours mostly share a second, which is formatted once.
#[derive(Clone, Debug)]
pub struct TimesOfDay {
    zone: Zone,
    second: Option<i64>,
    text: String,
}

impl TimesOfDay {
    /// Creates a formatter for this zone.
    pub fn new(zone: Zone) -> Self {
        Self { zone, second: None, text: String::new() }
    }

    /// The zone of the times.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Like [`Zone::time_of_day`].
    pub fn text(&mut self, at: Nanos) -> &str {
        let second = at.0.div_euclid(SECOND_NS);
        if self.second != Some(second) {
            self.second = Some(second);
            self.text = self.zone.time_of_day(at);
        }
        // Zones are whole seconds from UTC, so milliseconds are the same in all of them.
        let ms = at.0.rem_euclid(SECOND_NS) / 1_000_000;
        self.text.truncate(self.text.len() - 3);
        self.text.extend([ms / 100, ms / 10 % 10, ms % 10].map(|digit| char::from(b'0' + digit as u8)));
        &self.text
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self::local()
    }
}

#[cfg(test)]
mod tests {
    use super::{TimesOfDay, Zone};
    use model::Nanos;

    #[test]
    fn time_of_day_uses_the_zone_and_truncates_to_milliseconds() {
        let at = Nanos(1_718_971_896_521_999_999);
        assert_eq!(Zone::utc().time_of_day(at), "12:11:36.521");
        assert_eq!(Zone::east(7_200).unwrap().time_of_day(at), "14:11:36.521");
        assert_eq!(Zone::east(-13 * 3_600).unwrap().time_of_day(at), "23:11:36.521");
    }

    #[test]
    fn date_uses_the_zone() {
        let at = Nanos(1_718_971_896_521_999_999);
        assert_eq!(Zone::utc().date_and_time(at), "2024-06-21 12:11:36.521");
        assert_eq!(Zone::east(-13 * 3_600).unwrap().date_and_time(at), "2024-06-20 23:11:36.521");
    }

    #[test]
    fn extreme_instants_do_not_overflow() {
        for at in [Nanos::MIN, Nanos(-1), Nanos::ZERO, Nanos::MAX] {
            assert_eq!(Zone::east(3_600).unwrap().time_of_day(at).len(), 12);
        }
    }

    #[test]
    fn cached_times_match_uncached_ones() {
        let zone = Zone::east(-12_600).unwrap();
        let mut times = TimesOfDay::new(zone.clone());
        let first = 1_718_971_896_521_999_999;
        for step in [0, 1, 470_000_000, 478_000_000, 479_000_000, 3_600_000_000_000, 5, -first, -first - 1, 0]
        {
            let at = Nanos(first + step);
            assert_eq!(times.text(at), zone.time_of_day(at), "{step}");
        }
    }
}
