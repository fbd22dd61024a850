//! Formats quantities for advice. Does not know what they measure.

/// A size in the largest unit that fits: `812 B`, `1.5 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{value:.0} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// A share in per cent.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{:.0} %", ratio * 100.0)
}

/// A value, or `not known`.
pub(crate) fn or_not_known<E>(value: Result<impl ToString, E>) -> String {
    value.map_or_else(|_| "not known".to_owned(), |value| value.to_string())
}

/// A count with its noun.
pub(crate) fn format_count(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::{format_count, percent, size};

    #[test]
    fn formats_sizes_percentages_and_counts() {
        assert_eq!([size(812), size(1_610_612_736)], ["812 B", "1.5 GiB"]);
        assert_eq!(size(5 << 40), "5.0 TiB");
        assert_eq!(percent(0.956), "96 %");
        assert_eq!([format_count(1, "event"), format_count(37, "event")], ["1 event", "37 events"]);
    }
}
