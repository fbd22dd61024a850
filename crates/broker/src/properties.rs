//! Java's `.properties` format, as `java.util.Properties.load` reads it. Does not know what keys mean.
//!
//! Bytes are ISO 8859-1, as Kafka loads them (`Utils.loadProps` hands `load` an `InputStream`). A malformed `\u`
//! escape, which Java refuses, is taken literally: the broker did start, so such an escape cannot matter.
//! Fuzzed by: settings.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::iter::Peekable;
use std::path::Path;
use std::str::Chars;

use crate::Error;

/// A configuration is a few KiB; anything beyond this is not read.
const MAX_BYTES: u64 = 4 << 20;

/// Reads a file's properties.
///
/// # Errors
/// [`Error::File`].
pub fn read(path: &Path) -> Result<BTreeMap<String, String>, Error> {
    let mut bytes = Vec::new();
    let file = foreign::open_named(path).map_err(Error::file(path))?;
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(Error::file(path))?;
    Ok(parse(&bytes))
}

/// Parses properties; the last value of a repeated key counts.
pub fn parse(bytes: &[u8]) -> BTreeMap<String, String> {
    let text: String = bytes.iter().copied().map(char::from).collect();
    logical_lines(&text).iter().map(|line| key_and_value(line)).collect()
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

/// Joins continued lines; skips blank lines and comments.
/// A line that ends in an unescaped backslash continues in the next one, whose leading blanks are dropped. A
/// continuation line is never a comment.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open: Option<String> = None;
    for natural in natural_lines(text) {
        let line = natural.trim_start_matches(is_blank);
        if open.is_none() && (line.is_empty() || line.starts_with(['#', '!'])) {
            continue;
        }
        let mut joined = open.take().unwrap_or_default();
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        if backslashes % 2 == 1 {
            joined.push_str(line.strip_suffix('\\').unwrap_or(line));
            open = Some(joined);
        } else {
            joined.push_str(line);
            lines.push(joined);
        }
    }
    lines.extend(open.filter(|line| !line.is_empty()));
    lines
}

/// Splits at LF, CR or CRLF.
fn natural_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'))
}

/// Splits a line at the first unescaped `=`, `:` or blank; skips blanks and one separator after the key.
fn key_and_value(line: &str) -> (String, String) {
    let mut chars = line.chars().peekable();
    let mut key = String::new();
    while let Some(c) = chars.next_if(|&c| !is_blank(c) && c != '=' && c != ':') {
        push_unescaped(c, &mut chars, &mut key);
    }
    skip_blanks(&mut chars);
    if chars.next_if(|&c| c == '=' || c == ':').is_some() {
        skip_blanks(&mut chars);
    }
    let mut value = String::new();
    while let Some(c) = chars.next() {
        push_unescaped(c, &mut chars, &mut value);
    }
    (key, value)
}

fn skip_blanks(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|&c| is_blank(c)).is_some() {}
}

/// Pushes a character, or the character for which an escape stands.
fn push_unescaped(c: char, chars: &mut Peekable<Chars<'_>>, to: &mut String) {
    if c != '\\' {
        to.push(c);
        return;
    }
    match chars.next() {
        Some('t') => to.push('\t'),
        Some('n') => to.push('\n'),
        Some('r') => to.push('\r'),
        Some('f') => to.push('\u{c}'),
        Some('u') => push_utf16(chars, to),
        Some(other) => to.push(other),
        None => {}
    }
}

/// `XXXX` after `\u`: a UTF-16 unit; a surrogate pair makes one character.
fn push_utf16(chars: &mut Peekable<Chars<'_>>, to: &mut String) {
    let Some(unit) = hex_unit(chars) else {
        to.push('u');
        return;
    };
    let mut units = vec![unit];
    let mut ahead = chars.clone();
    if (0xd800..0xdc00).contains(&unit) && ahead.next() == Some('\\') && ahead.next() == Some('u') {
        if let Some(low) = hex_unit(&mut ahead).filter(|low| (0xdc00..0xe000).contains(low)) {
            units.push(low);
            *chars = ahead;
        }
    }
    to.push_str(&String::from_utf16_lossy(&units));
}

/// Four hexadecimal digits; consumes nothing if there are fewer.
fn hex_unit(chars: &mut Peekable<Chars<'_>>) -> Option<u16> {
    let digits: String = chars.clone().take(4).collect();
    if digits.len() != 4 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    chars.nth(3);
    u16::from_str_radix(&digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::parse;
    use proptest::prelude::*;

    fn value(text: &str, key: &str) -> Option<String> {
        parse(text.as_bytes()).remove(key)
    }

    #[test]
    fn parses_properties_as_java_does() {
        for (text, key, expected) in [
            ("a=b", "a", "b"),
            ("a = b ", "a", "b "),
            ("a:b", "a", "b"),
            ("a b", "a", "b"),
            ("a\t:\u{c}b=c", "a", "b=c"),
            ("  a=b\r\nc=d\r", "c", "d"),
            ("# a=x\n! a=y\na=z", "a", "z"),
            ("a=1\na=2", "a", "2"),
            ("a", "a", ""),
            ("a=", "a", ""),
            ("=b", "", "b"),
            ("a=b\\\n   c", "a", "bc"),
            ("a=b,\\\r\n\t# c", "a", "b,# c"),
            ("a=b\\\\\nc=d", "a", "b\\"),
            ("a=b\\\\\nc=d", "c", "d"),
            ("a\\=b\\ c=d", "a=b c", "d"),
            ("a=\\t\\n\\r\\f\\x\\\\", "a", "\t\n\r\u{c}x\\"),
            ("a=\\u00e9\\u20AC", "a", "é€"),
            ("a=\\ud83d\\ude00!", "a", "😀!"),
            ("a=\\u12", "a", "u12"),
            ("a=b\\", "a", "b"),
            ("# comment \\\na=b", "a", "b"),
            ("a=b\\\n\nc=d", "a", "b"),
        ] {
            assert_eq!(value(text, key).as_deref(), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn bytes_are_read_as_latin_1() {
        assert_eq!(parse(b"a=\xe9")["a"], "é");
        assert_eq!(parse("a=é".as_bytes())["a"], "Ã©");
    }

    #[test]
    fn blank_lines_and_comments_yield_no_properties() {
        assert!(parse(b"\n  \n\t\n# a=b\n   ! c=d\n\r\n").is_empty());
        assert!(parse(b"").is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            parse(&bytes);
        }

        #[test]
        fn escaped_text_round_trips(key in "[a-z.]{1,9}", text in "[ -~]{0,20}") {
            let escaped: String = text.chars().flat_map(|c| ['\\', c].into_iter().skip(usize::from(c.is_alphanumeric()))).collect();
            prop_assert_eq!(value(&format!("{key}={escaped}\nZ=1"), &key), Some(text));
        }
    }
}
