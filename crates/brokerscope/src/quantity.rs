//! Parses values of flags as people write them: times (`150ms`, `1m30s`), sizes (`64KiB`), names. Does not format them.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use model::Nanos;

/// Parses a value by its name; the error for a wrong name lists all names.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static>(
    values: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(values.iter().map(move |value| name(*value)))
        .try_map(move |text| values.iter().copied().find(|value| name(*value) == text).ok_or("no such name"))
}

const TIME_UNITS: [(&str, f64); 10] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("sec", 1e9),
    ("s", 1e9),
    ("min", 60e9),
    ("m", 60e9),
    ("h", 3_600e9),
    ("d", 86_400e9),
];

const SIZE_UNITS: [(&str, f64); 10] = [
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("K", 1024.0),
    ("M", 1_048_576.0),
    ("B", 1.0),
];

/// Parses a duration. Refuses a number without a unit, except 0: is `100` seconds or milliseconds?
pub(crate) fn time(text: &str) -> Result<Nanos, String> {
    let wrong = || format!("{text:?} is not a time; write it as 150ms, 2s or 1m30s");
    if text.trim() == "0" {
        return Ok(Nanos::ZERO);
    }
    let ns = sum(text, &TIME_UNITS).ok_or_else(wrong)?;
    // 2^53 ns are 104 days: above that a float is not exact, and nobody means it.
    if ns < 9e15 { Ok(Nanos(ns.round() as i64)) } else { Err(wrong()) }
}

/// Parses a share in per cent; 0 and `none` mean no bound.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    if ["0", "none"].contains(&text.trim()) {
        return Ok(f64::INFINITY);
    }
    let per_cent = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = per_cent.filter(|number| *number > 0.0).map(|number| number / 100.0);
    share.ok_or_else(|| format!("{text:?} is not a share; write it as 3%, or none"))
}

/// Parses a number of bytes; a number without a unit is in bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    if let Ok(bytes) = text.trim().parse() {
        return Ok(bytes);
    }
    let wrong = || format!("{text:?} is not a size; write it as 4096, 64KiB or 1.5MiB");
    let bytes = sum(text, &SIZE_UNITS).ok_or_else(wrong)?;
    if bytes < 9e15 { Ok(bytes.round() as u64) } else { Err(wrong()) }
}

/// The shortest useful capture length: IP and TCP headers take up to 120 bytes, and a request's own header must fit
/// after them.
const MIN_SNAPLEN_BYTES: u64 = 160;

/// Parses a capture length. No packet is longer than a `u32` can express.
pub(crate) fn snaplen(text: &str) -> Result<u32, String> {
    let bytes = size(text)?;
    if bytes < MIN_SNAPLEN_BYTES {
        return Err(format!(
            "it must be at least {MIN_SNAPLEN_BYTES} bytes: packet and request headers alone can take that much"
        ));
    }
    Ok(u32::try_from(bytes).unwrap_or(u32::MAX))
}

/// Minimum memory of a recorder.
const MIN_MEMORY_BYTES: u64 = 96 << 20;

/// Parses a memory limit.
pub(crate) fn memory(text: &str) -> Result<u64, String> {
    size_from(text, MIN_MEMORY_BYTES, "a recorder")
}

/// Minimum size limit of a recording. A recording's parts must be a small share of it.
const MIN_DISK_BYTES: u64 = 256 << 20;

/// Parses a size limit of a recording.
pub(crate) fn disk(text: &str) -> Result<u64, String> {
    size_from(text, MIN_DISK_BYTES, "a recording")
}

/// Parses a size with a minimum.
fn size_from(text: &str, min_bytes: u64, what: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if bytes < min_bytes {
        return Err(format!("{what} needs at least {}MiB", min_bytes >> 20));
    }
    Ok(bytes)
}

/// Parses a replay speed, a multiple of the original.
pub(crate) fn speed(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches(['x', '×']).parse().ok();
    let speed = number.filter(|speed: &f64| (0.001..=1e6).contains(speed));
    speed.ok_or_else(|| {
        format!("{text:?} is not a speed; write how many times as fast to replay, for example 60")
    })
}

/// Sums numbers with units that follow one another; `None` if the text contains anything else.
fn sum(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let mut rest = text.trim();
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let number: f64 = number.parse().ok()?;
        let after = after.trim_start();
        let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        total += number * units.iter().find(|(name, _)| *name == unit)?.1;
        rest = after.trim_start();
    }
    (!text.trim().is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::{disk, memory, share, size, snaplen, speed, time};
    use model::Nanos;

    #[test]
    fn parses_shares_in_percent_or_unbounded() {
        for (text, value) in [("3%", 0.03), (" 0.5 %", 0.005), ("0", f64::INFINITY), ("none", f64::INFINITY)]
        {
            assert_eq!(share(text), Ok(value), "{text}");
        }
        for text in ["3", "0%", "-1%", "%", "NaN%", ""] {
            assert!(share(text).unwrap_err().contains("not a share"), "{text}");
        }
    }

    #[test]
    fn parses_times_with_units() {
        for (text, ns) in [
            ("0", 0),
            ("150ms", 150_000_000),
            ("2s", 2_000_000_000),
            ("1.5 s", 1_500_000_000),
            ("1m30s", 90_000_000_000),
            ("250us", 250_000),
            ("3µs", 3_000),
            ("2h", 7_200_000_000_000),
        ] {
            assert_eq!(time(text), Ok(Nanos(ns)), "{text}");
        }
        for text in ["", "100", "-1s", "1x", "s", "1s2", "1..2s", "99999999999d"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn snap_length_must_fit_headers() {
        for (text, bytes) in [("160", Ok(160)), ("1KiB", Ok(1_024)), ("8GB", Ok(u32::MAX)), ("159", Err(()))]
        {
            assert_eq!(snaplen(text).map_err(drop), bytes, "{text}");
        }
    }

    #[test]
    fn parses_speed_as_a_multiple() {
        for (text, times) in [
            ("60", Some(60.0)),
            ("0.5", Some(0.5)),
            ("10x", Some(10.0)),
            ("1e9", None),
            ("NaN", None),
            ("0", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(speed(text).ok(), times, "{text}");
        }
    }

    #[test]
    fn memory_and_disk_limits_have_minimums() {
        for (text, bytes) in
            [("96MiB", Ok(96 << 20)), ("1GiB", Ok(1 << 30)), ("95MiB", Err(())), ("x", Err(()))]
        {
            assert_eq!(memory(text).map_err(drop), bytes, "{text}");
        }
        assert_eq!((disk("256MiB"), disk("255MiB").is_err()), (Ok(256 << 20), true));
        #[cfg(feature = "live")]
        assert_eq!(super::MIN_MEMORY_BYTES, watch::MIN_MEMORY_BYTES);
    }

    #[test]
    fn parses_sizes_with_units() {
        for (text, bytes) in
            [("0", 0), ("4096", 4_096), ("64KiB", 65_536), ("1.5MiB", 1_572_864), ("2 kB", 2_000)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "KiB", "-1", "64 kilo", "1e400"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
