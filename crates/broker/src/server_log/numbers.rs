//! Numbers and lengths of time as messages have them. Does not look for them.

use model::Nanos;

/// No broker is at anything for longer than a year: what is longer is no length of time.
const LONGEST_NS: f64 = 365.0 * 86_400e9;

/// The number that a text begins with, and what follows it.
pub(super) fn number(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, rest))
}

/// The number that a text ends with.
pub(super) fn last_number(text: &str) -> Option<u64> {
    let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
    text.get(text.len() - digits..)?.parse().ok()
}

/// The length of time that a text begins with: `12 ms`, `12ms`, `1.5 seconds`, `3 milliseconds`.
pub(super) fn length(text: &str) -> Option<Nanos> {
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, rest) = text.split_at_checked(digits)?;
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
    let unit_ns = unit_ns(rest.get(..letters)?)?;
    in_unit(number, unit_ns)
}

/// A number of such units.
pub(super) fn in_unit(number: &str, unit_ns: f64) -> Option<Nanos> {
    let is_decimal = number.starts_with(|c: char| c.is_ascii_digit());
    let ns = number.parse::<f64>().ok().filter(|_| is_decimal)? * unit_ns;
    (0.0..LONGEST_NS).contains(&ns).then(|| Nanos(ns.round() as i64))
}

/// Nanoseconds of a unit of time.
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

/// The length of time after the first mark that one follows.
pub(super) fn length_after(text: &str, mark: &str) -> Option<Nanos> {
    text.match_indices(mark).find_map(|(at, _)| length(text.get(at + mark.len()..)?))
}

/// The number after the last mark that one follows.
pub(super) fn number_after(text: &str, mark: &str) -> Option<u64> {
    text.rmatch_indices(mark).find_map(|(at, _)| Some(number(text.get(at + mark.len()..)?)?.0))
}

#[cfg(test)]
mod tests {
    use super::{last_number, length, length_after, number, number_after};
    use model::Nanos;

    #[test]
    fn lengths_of_time_are_as_kafka_writes_them() {
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
    fn numbers_are_found_beside_their_marks() {
        assert_eq!(number("601218 (kafka)"), Some((601_218, " (kafka)")));
        assert_eq!((number("x"), number("99999999999999999999")), (None, None));
        assert_eq!((last_number("INFO 12"), last_number("x")), (Some(12), None));
        assert_eq!(length_after("loaded in /data in 12ms", " in "), Some(Nanos(12_000_000)));
        assert_eq!(number_after("dir=/a with b) with 7 segments", " with "), Some(7));
    }
}
