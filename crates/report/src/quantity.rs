//! Numbers as tables show them. Does not shorten numbers for programs.

use model::Nanos;

/// Placeholder for an unknown value.
pub const NONE: &str = "-";

/// A value, or [`NONE`].
pub fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| value.to_string())
}

/// Whole milliseconds without a unit, for columns whose heading names it.
pub fn millis(length: Nanos) -> String {
    length.as_millis_rounded().to_string()
}

/// A count with thousands separators: `1,292,021`.
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 request`, `2,000 requests`.
pub fn format_count_of(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", format_count(count), if count == 1 { "" } else { "s" })
}

/// A size with its unit: `812 B`, `1.5 MiB`.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = "KiB";
    for next in UNITS.into_iter().skip(1) {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::{format_bytes, format_count, format_count_of};

    #[test]
    fn formats_counts_and_sizes() {
        for (count, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_292_021, "1,292,021")] {
            assert_eq!(format_count(count), text);
        }
        assert_eq!(format_count_of(1, "request"), "1 request");
        assert_eq!(format_count_of(2_000, "request"), "2,000 requests");
        for (bytes, text) in [(0, "0 B"), (1_023, "1023 B"), (65_536, "64.0 KiB"), (1_572_864, "1.5 MiB")] {
            assert_eq!(format_bytes(bytes), text);
        }
    }
}
