//! Makes text from outside safe to show on a terminal. Such text is client ids, topics, file and thread names. Does
//! not quote: CSV and JSON do that themselves.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character is unsafe to show on a terminal. It could move the cursor, start an escape sequence, break a
/// line or change the order in which its neighbours are shown (Unicode's bidirectional controls).
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Escapes every unsafe character (`\x1b`, `\u{202e}`).
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if !is_unsafe(c) {
            safe.push(c);
            continue;
        }
        let code = u32::from(c);
        // Writing to a String cannot fail.
        let _ = if code < 0x100 { write!(safe, "\\x{code:02x}") } else { write!(safe, "\\u{{{code:x}}}") };
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn escapes_terminal_control_characters() {
        for (raw, escaped) in [
            ("orders-1", "orders-1"),
            ("žluťoučký", "žluťoučký"),
            ("\x1b[2Jgone", "\\x1b[2Jgone"),
            ("a\r\nb\tc\0", "a\\x0d\\x0ab\\x09c\\x00"),
            ("\u{9b}31m\u{7f}", "\\x9b31m\\x7f"),
            ("a\u{202e}b\u{2066}c\u{feff}", "a\\u{202e}b\\u{2066}c\\u{feff}"),
        ] {
            assert_eq!(escape(raw), escaped);
        }
    }
}
