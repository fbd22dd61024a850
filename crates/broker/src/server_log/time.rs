//! Converts a line's date and time to an instant. Does not read lines.
//!
//! A broker writes times in its own zone, and mostly without naming it. If the line's carrier (a container's log, the
//! journal) put a time with a zone before it, the line's own time is taken in whichever zone makes the two agree.
//! Otherwise it is taken in the zone that the user gives.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use model::Nanos;

use super::line::Header;
use super::stamp::{OuterTime, Stamp, TimeOfDay};

const SECOND_NS: i64 = 1_000_000_000;
const HALF_A_DAY_S: i32 = 43_200;
/// Offsets from UTC are multiples of a quarter of an hour.
const QUARTER_NS: i64 = 900 * SECOND_NS;
/// The maximum delay between a line and its carrier's time.
const CARRIED_WITHIN_NS: i64 = 60 * SECOND_NS;
const FURTHEST_NS: i64 = 15 * 3_600 * SECOND_NS;

/// The zone of times without one.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    /// This machine's (`TZ`, else `/etc/localtime`).
    pub fn system() -> Self {
        Self(TimeZone::system())
    }

    /// Coordinated universal time.
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// Parses `UTC`, `+02:00`, `-0700`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let stamp = Stamp::read(format!("2000-01-01 00:00:00{}", text.replace("UTC", "Z")).as_bytes())?;
        let offset = Offset::from_seconds(stamp.east_seconds?).ok()?;
        Some(Self(TimeZone::fixed(offset)))
    }
}

/// Parses a date, with or without a time, into an instant.
/// Examples: `2024-05-19`, `2024-05-19 15:04` or `2024-05-19T15:04:47.458Z`.
pub fn parse_instant(text: &str, zone: &Zone) -> Option<Nanos> {
    let text = text.trim();
    let whole = match text.len() {
        10 => format!("{text} 00:00:00"),
        16 => format!("{text}:00"),
        _ => text.to_owned(),
    };
    let stamp = Stamp::read(whole.as_bytes())?;
    exact(OuterTime::Stamp(stamp)).or_else(|| local(stamp, &zone.0))
}

/// The clock of one log.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    zone: Zone,
    /// The minute of the last line, and its start: adjacent lines mostly share it.
    minute: Option<(Minute, i64)>,
    /// In a log whose times have no date: the current day, and the second of that day.
    day: Option<(DateTime, i32)>,
}

type Minute = ((i16, i8, i8), i8, i8);

impl Clock {
    pub(super) fn new(zone: Zone, day: Option<(i16, i8, i8)>) -> Self {
        let midnight = |(year, month, day)| DateTime::new(year, month, day, 0, 0, 0, 0).ok();
        Self { zone, minute: None, day: day.and_then(midnight).map(|day| (day, 0)) }
    }

    /// When a line was written, from its own time and its carrier's.
    pub(super) fn at(&mut self, header: &Header<'_>, outer: Option<OuterTime>) -> Option<Nanos> {
        let (first, last) = header.stamps.unzip();
        let carrier_time = outer.or(first.map(OuterTime::Stamp)).and_then(exact);
        let Some(last) = last.map(OuterTime::Stamp).or(outer) else { return self.on_its_day(header.time?) };
        match (last, exact(last), carrier_time) {
            (_, Some(at), _) | (OuterTime::Instant(at), ..) => Some(at),
            (OuterTime::Stamp(stamp), None, Some(carrier_time)) => Some(resolve_instant(stamp, carrier_time)),
            (OuterTime::Stamp(stamp), None, None) => self.local(stamp),
        }
    }

    fn local(&mut self, stamp: Stamp) -> Option<Nanos> {
        let TimeOfDay { hour, minute, second, nanos } = stamp.time;
        let key = (stamp.date, hour, minute);
        let began = match self.minute {
            Some((known, began)) if known == key => began,
            _ => {
                let time = TimeOfDay { second: 0, nanos: 0, ..stamp.time };
                let began = local(Stamp { time, ..stamp }, &self.zone.0)?.0;
                self.minute = Some((key, began));
                began
            }
        };
        Some(Nanos(began + i64::from(second) * SECOND_NS + i64::from(nanos)))
    }

    /// A time much earlier than the previous line's is on the next day.
    fn on_its_day(&mut self, time: TimeOfDay) -> Option<Nanos> {
        let (day, before) = self.day?;
        let second = i32::from(time.hour) * 3_600 + i32::from(time.minute) * 60 + i32::from(time.second);
        let day = if second + HALF_A_DAY_S < before { day.tomorrow().ok()? } else { day };
        self.day = Some((day, second));
        self.local(Stamp { date: (day.year(), day.month(), day.day()), time, east_seconds: None })
    }
}

fn civil(stamp: Stamp) -> Option<DateTime> {
    let ((year, month, day), TimeOfDay { hour, minute, second, nanos }) = (stamp.date, stamp.time);
    DateTime::new(year, month, day, hour, minute, second, nanos).ok()
}

fn local(stamp: Stamp, zone: &TimeZone) -> Option<Nanos> {
    // An hour that occurs twice means its first occurrence.
    let timestamp = zone.to_ambiguous_timestamp(civil(stamp)?).compatible().ok()?;
    i64::try_from(timestamp.as_nanosecond()).ok().map(Nanos)
}

/// The instant of a time that has a zone.
fn exact(time: OuterTime) -> Option<Nanos> {
    match time {
        OuterTime::Instant(at) => Some(at),
        OuterTime::Stamp(stamp) => {
            let east_ns = i64::from(stamp.east_seconds?) * SECOND_NS;
            local(stamp, &TimeZone::UTC).map(|utc| utc - Nanos(east_ns))
        }
    }
}

/// The instant of a time without a zone.
/// Follows from `carrier_time`, the instant at which its carrier has it.
fn resolve_instant(stamp: Stamp, carrier_time: Nanos) -> Nanos {
    let Some(utc) = local(stamp, &TimeZone::UTC) else { return carrier_time };
    let east_ns = (utc - carrier_time).0;
    let nearest_ns = (east_ns + QUARTER_NS / 2).div_euclid(QUARTER_NS) * QUARTER_NS;
    let fits = (east_ns - nearest_ns).abs() <= CARRIED_WITHIN_NS && nearest_ns.abs() <= FURTHEST_NS;
    if fits { utc - Nanos(nearest_ns) } else { carrier_time }
}

// Parses numbers and durations in messages. Does not search for them.

/// No operation of a broker takes longer than a year: anything longer is not a duration.
const LONGEST_NS: f64 = 365.0 * 86_400e9;

/// The number at the start of a text, and the rest of it.
pub(super) fn number(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, rest))
}

/// The number at the end of a text.
pub(super) fn last_number(text: &str) -> Option<u64> {
    let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
    text.get(text.len() - digits..)?.parse().ok()
}

/// The duration at the start of a text: `12 ms`, `12ms`, `1.5 seconds`, `3 milliseconds`.
pub(super) fn length(text: &str) -> Option<Nanos> {
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, rest) = text.split_at_checked(digits)?;
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
    let unit_ns = unit_ns(rest.get(..letters)?)?;
    in_unit(number, unit_ns)
}

/// Converts a number of units.
pub(super) fn in_unit(number: &str, unit_ns: f64) -> Option<Nanos> {
    let is_decimal = number.starts_with(|c: char| c.is_ascii_digit());
    let ns = number.parse::<f64>().ok().filter(|_| is_decimal)? * unit_ns;
    (0.0..LONGEST_NS).contains(&ns).then(|| Nanos(ns.round() as i64))
}

/// Nanoseconds per unit of time.
pub(super) fn unit_ns(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" | "nanoseconds" => 1.0,
        "us" | "microseconds" => 1e3,
        "ms" | "milliseconds" | "millis" | "msec" => 1e6,
        "s" | "sec" | "secs" | "second" | "seconds" => 1e9,
        "min" | "minutes" => 60e9,
        _ => return None,
    })
}

/// The duration after the first mark that is followed by one.
pub(super) fn length_after(text: &str, mark: &str) -> Option<Nanos> {
    text.match_indices(mark).find_map(|(at, _)| length(text.get(at + mark.len()..)?))
}

/// The number after the last mark that is followed by one.
pub(super) fn number_after(text: &str, mark: &str) -> Option<u64> {
    text.rmatch_indices(mark).find_map(|(at, _)| Some(number(text.get(at + mark.len()..)?)?.0))
}

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::{Clock, Zone, parse_instant};
    use crate::server_log::line::Header;
    use crate::server_log::stamp::OuterTime;

    const AT: i64 = 1_716_131_087_458_000_000;

    fn at(zone: &str, text: &str, outer: Option<OuterTime>) -> Option<i64> {
        let mut clock = Clock::new(Zone::parse(zone).unwrap(), None);
        clock.at(&Header::of(text), outer).map(|at| at.0)
    }

    #[test]
    fn takes_the_time_zone_of_the_line_the_carrier_or_the_user() {
        let two_hours = 7_200_000_000_000;
        for (zone, text, expected) in [
            ("UTC", "[2024-05-19 15:04:47,458] INFO x", Some(AT)),
            ("+02:00", "[2024-05-19 15:04:47,458] INFO x", Some(AT - two_hours)),
            ("-0200", "[2024-05-19 15:04:47,458] INFO x", Some(AT + two_hours)),
            ("+02:00", "[2024-05-19T15:04:47.458Z] INFO x", Some(AT)),
            // The carrier's time is in UTC, and a little later.
            ("+05:00", "2024-05-19T15:04:47.470123Z stdout F [2024-05-19 15:04:47,458] INFO x", Some(AT)),
            ("+05:00", "2024-05-19T15:04:49.1Z stdout F [2024-05-19 17:04:47,458] INFO x", Some(AT)),
            ("+05:00", "2024-05-19T17:04:47+0200 host kafka[7]: [2024-05-19 17:04:47,458] INFO x", Some(AT)),
            // The carrier's time is an hour and a half later, so the line's own time means nothing.
            ("UTC", "2024-05-19T15:04:47.458Z F [2024-05-19 13:22:30,000] INFO x", Some(AT)),
            ("UTC", "15:04:47.458 [main] INFO kafka.Kafka - x", None),
            ("UTC", "[2024-02-30 15:04:47,458] INFO x", None),
        ] {
            assert_eq!(at(zone, text, None), expected, "{zone} {text}");
        }
        let outer = Some(OuterTime::Instant(Nanos(AT + 5_000_000)));
        assert_eq!(at("+05:00", "[2024-05-19 17:04:47,458] INFO x", outer), Some(AT));
        assert_eq!(at("UTC", "no time", outer), Some(AT + 5_000_000));
    }

    #[test]
    fn times_without_a_date_continue_past_midnight() {
        let mut clock = Clock::new(Zone::utc(), Some((2024, 5, 19)));
        let mut at = |text: &str| clock.at(&Header::of(text), None).unwrap().0;
        assert_eq!(at("15:04:47.458 [main] INFO x"), AT);
        assert_eq!(
            at("15:04:46,458 INFO x"),
            AT - 1_000_000_000,
            "lines of several threads are not in order"
        );
        assert_eq!(at("00:04:47,458 INFO x"), AT + 9 * 3_600_000_000_000);
    }

    #[test]
    fn parses_abbreviated_instants() {
        let zone = Zone::parse("+02:00").unwrap();
        for (text, expected) in [
            ("2024-05-19", Some(1_716_069_600)),
            ("2024-05-19 15:04", Some(1_716_123_840)),
            ("2024-05-19T15:04:47", Some(1_716_123_887)),
            ("2024-05-19T15:04:47Z", Some(1_716_131_087)),
            ("yesterday", None),
        ] {
            assert_eq!(parse_instant(text, &zone).map(|at| at.0 / 1_000_000_000), expected, "{text}");
        }
        for text in ["Europe/Warsaw", "", "02:00", "+19:00"] {
            assert!(Zone::parse(text).is_none(), "{text}");
        }
    }
}

#[cfg(test)]
mod numbers_tests {
    use super::{last_number, length, length_after, number, number_after};
    use model::Nanos;

    #[test]
    fn parses_durations_as_kafka_writes_them() {
        for (text, ns) in [
            ("0 ms.", Some(0)),
            ("12ms (1/50 loaded in /data)", Some(12_000_000)),
            ("6 ms (kafka.log.Log)", Some(6_000_000)),
            ("1456ms which will", Some(1_456_000_000)),
            ("42 milliseconds for epoch", Some(42_000_000)),
            ("0.0123 seconds, Stopping", Some(12_300_000)),
            ("31045877 ns, At", Some(31_045_877)),
            ("3.456ms", Some(3_456_000)),
            ("12", None),
            ("12 mb", None),
            (".5 s", None),
            ("1.2.3 s", None),
            ("999999999999999999999 s", None),
            ("-1 ms", None),
            ("", None),
        ] {
            assert_eq!(length(text), ns.map(Nanos), "{text}");
        }
    }

    #[test]
    fn finds_numbers_next_to_their_markers() {
        assert_eq!(number("601218 (kafka)"), Some((601_218, " (kafka)")));
        assert_eq!((number("x"), number("99999999999999999999")), (None, None));
        assert_eq!((last_number("INFO 12"), last_number("x")), (Some(12), None));
        assert_eq!(length_after("loaded in /data in 12ms", " in "), Some(Nanos(12_000_000)));
        assert_eq!(number_after("dir=/a with b) with 7 segments", " with "), Some(7));
    }
}
