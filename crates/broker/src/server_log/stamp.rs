//! The date and time at the start of a line, as text. Does not convert it to an instant.

use model::Nanos;

/// The time of a line, from its wrapping or from the line itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OuterTime {
    /// In UTC.
    Instant(Nanos),
    /// As text, perhaps with a zone.
    Stamp(Stamp),
}

/// A date and time of day, with the offset of its clock east of UTC if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) date: (i16, i8, i8),
    pub(super) time: TimeOfDay,
    pub(super) east_seconds: Option<i32>,
}

/// A time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeOfDay {
    pub(super) hour: i8,
    pub(super) minute: i8,
    pub(super) second: i8,
    pub(super) nanos: i32,
}

/// The unread part of a text.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn digits(&mut self, count: usize) -> Option<i32> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        let number = digits.iter().try_fold(0, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + i32::from(digit - b'0'))
        });
        self.0 = rest;
        number
    }

    fn two(&mut self) -> Option<i8> {
        i8::try_from(self.digits(2)?).ok()
    }

    fn any(&mut self, of: &[u8]) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        of.contains(&first).then(|| {
            self.0 = rest;
            first
        })
    }

    /// Parses `15:04:47,458`, with up to nine digits after the second.
    fn time(&mut self) -> Option<TimeOfDay> {
        let hour = self.two()?;
        self.any(b":")?;
        let minute = self.two()?;
        self.any(b":")?;
        let second = self.two()?;
        let nanos = self.fraction();
        let is_time = hour < 24 && minute < 60 && second < 60;
        is_time.then_some(TimeOfDay { hour, minute, second, nanos })
    }

    fn fraction(&mut self) -> i32 {
        if !self.0.get(1).is_some_and(u8::is_ascii_digit) || self.any(b".,").is_none() {
            return 0;
        }
        let digits = self.0.iter().take(9).take_while(|byte| byte.is_ascii_digit()).count();
        let more = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = self.digits(digits).unwrap_or(0);
        self.0 = self.0.get(more - digits..).unwrap_or_default();
        (digits..9).fold(number, |number, _| number * 10)
    }

    /// Parses `Z`, `+02:00`, `-0700`, `+02`, ` UTC` or ` GMT`; a blank may come before any of them.
    fn zone(&mut self) -> Option<i32> {
        let text = self.0.strip_prefix(b" ").unwrap_or(self.0);
        if [&b"Z"[..], b"UTC", b"GMT"].iter().any(|name| text.starts_with(name)) {
            return Some(0);
        }
        let mut rest = Cursor(text);
        let sign = if rest.any(b"+-")? == b'-' { -1 } else { 1 };
        let hours = rest.digits(2)?;
        let _ = rest.any(b":");
        let minutes = rest.digits(2).unwrap_or(0);
        (hours <= 18 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
    }
}

impl Stamp {
    /// Parses the stamp at the start of a text: `2024-05-19 15:04:47,458`, `2024-05-19T15:04:47.458123Z`.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let mut at = Cursor(text);
        let year = i16::try_from(at.digits(4)?).ok()?;
        at.any(b"-")?;
        let month = at.two()?;
        at.any(b"-")?;
        let day = at.two()?;
        at.any(b" T")?;
        let time = at.time()?;
        Some(Self { date: (year, month, day), time, east_seconds: at.zone() })
    }
}

/// The first and the last stamp in a text.
pub(super) fn stamps(text: &[u8]) -> Option<(Stamp, Stamp)> {
    let starts =
        || (0..text.len()).filter(|&at| at == 0 || !text.get(at - 1).is_some_and(u8::is_ascii_digit));
    let at = |at: usize| text.get(at..).and_then(Stamp::read);
    let first = starts().find_map(at)?;
    Some((first, starts().rev().find_map(at).unwrap_or(first)))
}

/// The first time of day in a text.
pub(super) fn time_of_day(text: &[u8]) -> Option<TimeOfDay> {
    (0..text.len()).find_map(|at| Cursor(text.get(at..)?).time())
}

#[cfg(test)]
mod tests {
    use super::{Stamp, stamps};

    #[test]
    fn parses_dates_in_kafkas_format_and_iso_8601() {
        let read = |text: &str| {
            let Stamp { date, time, east_seconds } = Stamp::read(text.as_bytes())?;
            Some((date, (time.hour, time.minute, time.second, time.nanos), east_seconds))
        };
        let (date, noon) = ((2024, 5, 19), |nanos| (15, 4, 47, nanos));
        for (text, expected) in [
            ("2024-05-19 15:04:47,458] INFO", Some((date, noon(458_000_000), None))),
            ("2024-05-19T15:04:47.458Z", Some((date, noon(458_000_000), Some(0)))),
            ("2024-05-19T15:04:47.458123456+02:00 stdout", Some((date, noon(458_123_456), Some(7_200)))),
            ("2024-05-19T15:04:47.4581234567Z", Some((date, noon(458_123_456), Some(0)))),
            ("2024-05-19 15:04:47,458-0700", Some((date, noon(458_000_000), Some(-25_200)))),
            ("2024-05-19 15:04:47,458 +0530]", Some((date, noon(458_000_000), Some(19_800)))),
            ("2024-05-19 15:04:47 UTC", Some((date, noon(0), Some(0)))),
            ("2024-05-19T15:04:47", Some((date, noon(0), None))),
            ("2024-05-19 15:04:47, and", Some((date, noon(0), None))),
            ("2024-05-19 25:04:47", None),
            ("2024-05-19 15:04", None),
            ("24-05-19 15:04:47", None),
            ("", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn distinguishes_the_prefix_date_from_the_lines_own() {
        let (first, last) =
            stamps(b"2024-05-19T13:04:47.459000000Z stdout F [2024-05-19 15:04:47,458] INFO").unwrap();
        assert_eq!((first.east_seconds, last.east_seconds), (Some(0), None));
        assert_eq!((first.time.hour, last.time.hour), (13, 15));
        assert_eq!(stamps(b"no date"), None);
    }
}
