//! The date and time in a dump, which is the JVM's wall clock without its zone. Reads no clock.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use model::Nanos;

/// The time zone of the JVM's wall clock.
#[derive(Clone, Debug)]
pub struct Zone(pub(super) TimeZone);

impl Zone {
    /// This system's (`TZ`, `/etc/localtime`): the JVM's, if it ran here.
    pub fn system() -> Self {
        Self(TimeZone::system())
    }

    /// UTC.
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }
}

/// A line that is a date and nothing else, which precedes each HotSpot dump: `2026-11-21 18:07:17`.
pub(super) fn alone(line: &str) -> Option<DateTime> {
    let shape = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b' ',
        13 | 16 => byte == b':',
        _ => byte.is_ascii_digit(),
    };
    let line = line.trim_end();
    (line.len() == 19 && line.bytes().enumerate().all(shape)).then(|| parse(line)).flatten()
}

/// Year, month, day, hour, minute, second and, where they follow, milliseconds, whatever is between the numbers.
pub(super) fn parse(text: &str) -> Option<DateTime> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let mut next = || numbers.next()?.parse::<i16>().ok();
    let (year, month, day) = (next()?, next()?, next()?);
    let (hour, minute, second) = (next()?, next()?, next()?);
    let millis = i32::from(next().unwrap_or(0));
    let small = |number: i16| i8::try_from(number).ok();
    DateTime::new(
        year,
        small(month)?,
        small(day)?,
        small(hour)?,
        small(minute)?,
        small(second)?,
        millis.checked_mul(1_000_000)?,
    )
    .ok()
}

/// That time in this zone. Of an hour that a clock shows twice, the first.
pub(super) fn in_zone(time: DateTime, zone: &Zone) -> Option<Nanos> {
    let nanos = time.to_zoned(zone.0.clone()).ok()?.timestamp().as_nanosecond();
    i64::try_from(nanos).ok().map(Nanos)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use model::Nanos;

    use super::{Zone, alone, in_zone, parse};

    #[test]
    fn a_date_is_read_in_the_zone_it_was_written_in() {
        let time = alone("2026-11-21 18:07:17").unwrap();
        assert_eq!(in_zone(time, &Zone::utc()), Some(Nanos(1_795_284_437_000_000_000)));
        let east = Zone(TimeZone::fixed(jiff::tz::offset(1)));
        assert_eq!(in_zone(time, &east), Some(Nanos(1_795_280_837_000_000_000)));
        let javacore = parse("Date: 2021/04/23 at 18:02:44:017 (UTC)").unwrap();
        assert_eq!(in_zone(javacore, &Zone::utc()), Some(Nanos(1_619_200_964_017_000_000)));
    }

    #[test]
    fn other_lines_are_no_date() {
        for line in
            ["", "2026-11-21 18:07", "2026-11-21T18:07:17", "2026-13-21 18:07:17", "[2026-11-21 18:07:1]"]
        {
            assert_eq!(alone(line), None, "{line}");
        }
        assert_eq!(parse("99999/1/1 at 0:0:0"), None);
    }
}
