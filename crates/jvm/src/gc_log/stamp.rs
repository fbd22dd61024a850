//! What stands before a log line's message: its time and tags. Does not read messages.
//!
//! Decorations of unified logging (HotSpot's logging/logDecorations.cpp), in this order where configured:
//! `[2024-05-19T15:04:47.458+0000]` time, the same for utctime, `[12.345s]` uptime, `[1716131087458ms]` timemillis,
//! `[12345ms]` uptimemillis, `[…ns]` timenanos or uptimenanos, which are not told apart, then host name, process, thread,
//! level and tags. JDK 8: `2024-05-19T15:04:47.458+0000: 12.345: `.

use std::ops::Range;

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use model::Nanos;

/// Milliseconds that cannot be an uptime: three years.
const WALL_FROM_MILLIS: i64 = 100_000_000_000;

/// A line's time, as far as it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    /// By the wall clock.
    pub(super) wall: Option<Nanos>,
    /// Since the JVM started.
    pub(super) uptime: Option<Nanos>,
}

impl Stamp {
    /// When the JVM started, if both are there.
    pub(super) fn start(&self) -> Option<Nanos> {
        Some(self.wall? - self.uptime?)
    }
}

/// Takes a line apart into its stamp and its message; `None` for one without decorations.
pub(super) fn decorated(line: &str) -> Option<(Stamp, &str)> {
    let mut stamp = Stamp::default();
    let mut rest = line;
    while let Some((decoration, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        stamp.decoration(decoration);
        rest = after;
    }
    if rest.len() < line.len() { Some((stamp, rest.trim())) } else { plain(line) }
}

impl Stamp {
    fn decoration(&mut self, text: &str) {
        if let Some(wall) = date(text) {
            self.wall = Some(wall);
        } else if let Some(millis) = text.strip_suffix("ms").and_then(|digits| decimal(digits, 0)) {
            let nanos = millis.checked_mul(1_000_000).map(Nanos);
            let time = if millis >= WALL_FROM_MILLIS { &mut self.wall } else { &mut self.uptime };
            *time = time.or(nanos);
        } else if let Some(uptime) = text.strip_suffix('s').and_then(|seconds| decimal(seconds, 9)) {
            self.uptime = Some(Nanos(uptime));
        }
    }
}

/// JDK 8's way.
fn plain(line: &str) -> Option<(Stamp, &str)> {
    let mut stamp = Stamp::default();
    let mut rest = line;
    if let Some((wall, after)) = rest.split_once(": ").and_then(|(text, after)| Some((date(text)?, after))) {
        stamp.wall = Some(wall);
        rest = after;
    }
    let uptime = rest.split_once(": ").and_then(|(text, after)| Some((decimal(text, 9)?, after)));
    if let Some((uptime, after)) = uptime {
        stamp.uptime = Some(Nanos(uptime));
        rest = after;
    }
    (stamp != Stamp::default()).then_some((stamp, rest.trim()))
}

/// `2024-05-19T15:04:47.458+0000`.
fn date(text: &str) -> Option<Nanos> {
    if text.len() != 28 || text.as_bytes().get(10) != Some(&b'T') {
        return None;
    }
    let field = |range: Range<usize>| text.get(range)?.parse::<i16>().ok();
    let small = |range| i8::try_from(field(range)?).ok();
    let time = DateTime::new(
        field(0..4)?,
        small(5..7)?,
        small(8..10)?,
        small(11..13)?,
        small(14..16)?,
        small(17..19)?,
        i32::from(field(20..23)?) * 1_000_000,
    );
    let minutes = i32::from(field(24..26)?) * 60 + i32::from(field(26..28)?);
    let sign = if text.as_bytes().get(23) == Some(&b'-') { -1 } else { 1 };
    let zone = TimeZone::fixed(Offset::from_seconds(sign * minutes * 60).ok()?);
    let nanos = time.ok()?.to_zoned(zone).ok()?.timestamp().as_nanosecond();
    i64::try_from(nanos).ok().map(Nanos)
}

/// A decimal number in units of its `digits`th digit behind the point, which may be missing; further ones are
/// left out.
pub(super) fn decimal(text: &str, digits: usize) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let fraction = fraction.get(..digits.min(fraction.len()))?;
    let padding = 10_i64.checked_pow(u32::try_from(digits - fraction.len()).ok()?)?;
    let unit = 10_i64.checked_pow(u32::try_from(digits).ok()?)?;
    let fraction =
        if fraction.is_empty() { 0 } else { fraction.parse::<i64>().ok()?.checked_mul(padding)? };
    whole.parse::<i64>().ok()?.checked_mul(unit)?.checked_add(fraction)
}
