//! Comma-separated values (RFC 4180, lines end in LF). Does not know the columns.

use std::io::{self, Write};

use crate::escape::escape;

/// Writes one line of fields.
pub fn write_line<'a, W: Write>(out: &mut W, fields: impl IntoIterator<Item = &'a str>) -> io::Result<()> {
    for (i, text) in fields.into_iter().enumerate() {
        if i > 0 {
            out.write_all(b",")?;
        }
        write_field(out, text)?;
    }
    out.write_all(b"\n")
}

/// Writes one field, in quotes only where it must be.
pub fn write_field<W: Write>(out: &mut W, text: &str) -> io::Result<()> {
    // Nearly every field is plain, and telling so takes no look at its characters.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'"')) {
        return out.write_all(text.as_bytes());
    }
    let safe = escape(text);
    if safe.contains([',', '"']) {
        return write!(out, "\"{}\"", safe.replace('"', "\"\""));
    }
    out.write_all(safe.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::write_line;

    #[test]
    fn fields_are_quoted_only_where_they_must_be() {
        let mut out = Vec::new();
        write_line(&mut out, ["plain", "a,b", "say \"hi\"", "", "two\nlines"]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "plain,\"a,b\",\"say \"\"hi\"\"\",,two\\x0alines\n");
    }
}
