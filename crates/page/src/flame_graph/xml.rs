//! Text in XML. Names of threads and functions come from processes and may be any text.

use std::borrow::Cow;

use report::escape;

/// Escapes text for content and attributes.
/// Characters that XML 1.0 cannot represent, and those that would change the order in which others are shown, are
/// replaced by visible escapes.
pub(super) fn text(raw: &str) -> Cow<'_, str> {
    let plain = escape::escape(raw);
    if !plain.contains(['&', '<', '>', '"', '\'', '\u{fffe}', '\u{ffff}']) {
        return plain;
    }
    let mut safe = String::with_capacity(plain.len() + 16);
    for c in plain.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe.into()
}

/// Lines of text, each escaped.
pub(super) fn text_lines(lines: &[&str]) -> String {
    lines.iter().map(|line| text(line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn escapes_markup_and_control_characters() {
        assert_eq!(text("operator<<(a&, \"b\")"), "operator&lt;&lt;(a&amp;, &quot;b&quot;)");
        assert_eq!(text("'/><script>alert(1)</script>"), "&#39;/&gt;&lt;script&gt;alert(1)&lt;/script&gt;");
        assert_eq!(text("]]>\0\x1b\u{ffff}\u{202e}"), "]]&gt;\\x00\\x1b\u{fffd}\\u{202e}");
        assert_eq!(text("vfs_write"), "vfs_write");
    }
}
