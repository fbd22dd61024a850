//! JSON, one object per line, that is safe to view on a terminal. Does not know the objects.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter};

use crate::escape::is_unsafe;

/// Initial capacity of a line: most are shorter.
const LINE_BYTES: usize = 4096;

/// Writes one object and its line end in one write. Serializing makes many small pieces.
pub fn write_line<W: Write, T: Serialize>(out: &mut W, object: &T) -> io::Result<()> {
    let mut line = Vec::with_capacity(LINE_BYTES);
    write(&mut line, object)?;
    line.push(b'\n');
    out.write_all(&line)
}

/// Appends one value to a line.
pub fn write<T: Serialize>(line: &mut Vec<u8>, value: &T) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(line, TerminalSafe);
    value.serialize(&mut serializer).map_err(io::Error::from)
}

/// `serde_json` escapes what JSON demands (below U+0020); this also escapes DEL, the C1 controls (U+009B is
/// a one-character CSI) and bidirectional controls. A JSON reader gets the same text.
struct TerminalSafe;

impl Formatter for TerminalSafe {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        // Nearly every string is plain ASCII, which its bytes show without decoding characters.
        if fragment.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return out.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|&(_, c)| is_unsafe(c)) {
            let (before, from) = rest.split_at(at);
            out.write_all(before.as_bytes())?;
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                write!(out, "\\u{unit:04x}")?;
            }
            (_, rest) = from.split_at(c.len_utf8());
        }
        out.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, out: &mut W, escape: CharEscape) -> io::Result<()> {
        serde_json::ser::CompactFormatter.write_char_escape(out, escape)
    }
}

#[cfg(test)]
mod tests {
    use super::write_line;

    #[test]
    fn control_characters_are_escaped_and_round_trip() {
        let text = "a\u{9b}31m\x1b[0m\u{202e}\"\\ž\u{7f}";
        let mut out = Vec::new();
        write_line(&mut out, &text).unwrap();
        let line = String::from_utf8(out).unwrap();
        assert!(!line.trim_end().contains(crate::escape::is_unsafe), "{line}");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
    }
}
