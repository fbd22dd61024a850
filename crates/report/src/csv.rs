//! Comma-separated values (RFC 4180, lines end in LF). Does not know the columns.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::escape::escape;

/// Writes one line of fields.
pub fn write_line<'a, W: Write>(out: &mut W, fields: impl IntoIterator<Item = &'a str>) -> io::Result<()> {
    for (i, text) in fields.into_iter().enumerate() {
        if i > 0 {
            out.write_all(b",")?;
        }
        out.write_all(field(text).as_bytes())?;
    }
    out.write_all(b"\n")
}

/// A number or nothing: what is not known is an empty field.
pub fn known<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn field(text: &str) -> Cow<'_, str> {
    // Nearly every field is plain, and telling so takes no look at its characters.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'"')) {
        return Cow::Borrowed(text);
    }
    let safe = escape(text);
    if safe.contains([',', '"']) { Cow::Owned(format!("\"{}\"", safe.replace('"', "\"\""))) } else { safe }
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
