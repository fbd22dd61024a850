//! Which instant a line's date and time is. Does not read lines.
//!
//! A broker writes its own zone's time, and mostly without saying so. Where what carries the line (a container's log, the
//! journal) has put a time with a zone before it, the line's own time is that instant in whichever zone fits; else it is
//! in the zone that the user says.

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use model::Nanos;

use super::decoded::Outer;
use super::header::Header;
use super::stamp::{Stamp, TimeOfDay};

const SECOND_NS: i64 = 1_000_000_000;
const HALF_A_DAY_S: i32 = 43_200;
/// Offsets from UTC are whole quarters of an hour.
const QUARTER_NS: i64 = 900 * SECOND_NS;
/// What carries a line has it no later than that.
const CARRIED_WITHIN_NS: i64 = 60 * SECOND_NS;
const FURTHEST_NS: i64 = 15 * 3_600 * SECOND_NS;

/// The zone of times that name none.
#[derive(Clone)]
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

    /// `UTC`, `+02:00`, `-0700`; none for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let stamp = Stamp::read(format!("2000-01-01 00:00:00{}", text.replace("UTC", "Z")).as_bytes())?;
        let offset = Offset::from_seconds(stamp.east_seconds?).ok()?;
        Some(Self(TimeZone::fixed(offset)))
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Zone").finish_non_exhaustive()
    }
}

/// The instant that a person means by `2024-05-19`, `2024-05-19 15:04` or `2024-05-19T15:04:47.458Z`.
pub fn parse_instant(text: &str, zone: &Zone) -> Option<Nanos> {
    let text = text.trim();
    let whole = match text.len() {
        10 => format!("{text} 00:00:00"),
        16 => format!("{text}:00"),
        _ => text.to_owned(),
    };
    let stamp = Stamp::read(whole.as_bytes())?;
    exact(Outer::Stamp(stamp)).or_else(|| local(stamp, &zone.0))
}

/// The clock of one log.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    zone: Zone,
    /// The minute of the last line, and when that began: neighbours are mostly of the same.
    minute: Option<(Minute, i64)>,
    /// Of a log whose times have no date: the day it is, and the second of that day.
    day: Option<(DateTime, i32)>,
}

type Minute = ((i16, i8, i8), i8, i8);

impl Clock {
    pub(super) fn new(zone: Zone, day: Option<(i16, i8, i8)>) -> Self {
        let midnight = |(year, month, day)| DateTime::new(year, month, day, 0, 0, 0, 0).ok();
        Self { zone, minute: None, day: day.and_then(midnight).map(|day| (day, 0)) }
    }

    /// When a line was written, by its own time and by that of what carries it.
    pub(super) fn at(&mut self, header: &Header<'_>, outer: Option<Outer>) -> Option<Nanos> {
        let (first, last) = header.stamps.unzip();
        let carried = outer.or(first.map(Outer::Stamp)).and_then(exact);
        let Some(last) = last.map(Outer::Stamp).or(outer) else { return self.on_its_day(header.time?) };
        match (last, exact(last), carried) {
            (_, Some(at), _) | (Outer::Instant(at), ..) => Some(at),
            (Outer::Stamp(stamp), None, Some(carried)) => Some(beside(stamp, carried)),
            (Outer::Stamp(stamp), None, None) => self.local(stamp),
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

    /// A time much earlier than that of the line before is the next day's.
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
    // Of an hour that is there twice, the first is meant.
    let timestamp = zone.to_ambiguous_timestamp(civil(stamp)?).compatible().ok()?;
    i64::try_from(timestamp.as_nanosecond()).ok().map(Nanos)
}

/// The instant of a time that has a zone.
fn exact(time: Outer) -> Option<Nanos> {
    match time {
        Outer::Instant(at) => Some(at),
        Outer::Stamp(stamp) => {
            let east_ns = i64::from(stamp.east_seconds?) * SECOND_NS;
            local(stamp, &TimeZone::UTC).map(|utc| utc - Nanos(east_ns))
        }
    }
}

/// A time without a zone, beside the instant at which it was carried on.
fn beside(stamp: Stamp, carried: Nanos) -> Nanos {
    let Some(utc) = local(stamp, &TimeZone::UTC) else { return carried };
    let east_ns = (utc - carried).0;
    let nearest_ns = (east_ns + QUARTER_NS / 2).div_euclid(QUARTER_NS) * QUARTER_NS;
    let fits = (east_ns - nearest_ns).abs() <= CARRIED_WITHIN_NS && nearest_ns.abs() <= FURTHEST_NS;
    if fits { utc - Nanos(nearest_ns) } else { carried }
}

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::{Clock, Outer, Zone, parse_instant};
    use crate::server_log::header::Header;

    const AT: i64 = 1_716_131_087_458_000_000;

    fn at(zone: &str, text: &str, outer: Option<Outer>) -> Option<i64> {
        let mut clock = Clock::new(Zone::parse(zone).unwrap(), None);
        clock.at(&Header::of(text), outer).map(|at| at.0)
    }

    #[test]
    fn a_time_is_in_its_own_zone_or_its_carrier_s_or_the_user_s() {
        let two_hours = 7_200_000_000_000;
        for (zone, text, expected) in [
            ("UTC", "[2024-05-19 15:04:47,458] INFO x", Some(AT)),
            ("+02:00", "[2024-05-19 15:04:47,458] INFO x", Some(AT - two_hours)),
            ("-0200", "[2024-05-19 15:04:47,458] INFO x", Some(AT + two_hours)),
            ("+02:00", "[2024-05-19T15:04:47.458Z] INFO x", Some(AT)),
            // What carries it says UTC, and is a little later.
            ("+05:00", "2024-05-19T15:04:47.470123Z stdout F [2024-05-19 15:04:47,458] INFO x", Some(AT)),
            ("+05:00", "2024-05-19T15:04:49.1Z stdout F [2024-05-19 17:04:47,458] INFO x", Some(AT)),
            ("+05:00", "2024-05-19T17:04:47+0200 host kafka[7]: [2024-05-19 17:04:47,458] INFO x", Some(AT)),
            // A line that was carried on an hour and a half later: its own time means nothing then.
            ("UTC", "2024-05-19T15:04:47.458Z F [2024-05-19 13:22:30,000] INFO x", Some(AT)),
            ("UTC", "15:04:47.458 [main] INFO kafka.Kafka - x", None),
            ("UTC", "[2024-02-30 15:04:47,458] INFO x", None),
        ] {
            assert_eq!(at(zone, text, None), expected, "{zone} {text}");
        }
        let outer = Some(Outer::Instant(Nanos(AT + 5_000_000)));
        assert_eq!(at("+05:00", "[2024-05-19 17:04:47,458] INFO x", outer), Some(AT));
        assert_eq!(at("UTC", "no time", outer), Some(AT + 5_000_000));
    }

    #[test]
    fn times_without_a_date_go_on_past_midnight() {
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
    fn people_write_instants_short() {
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
