//! Comma-separated values (RFC 4180, lines end in LF). Text that a spreadsheet would mistake for a formula gets a leading
//! apostrophe, because clients choose their ids. Does not know the columns.

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

/// Writes one field of text, quoted only if it must be.
pub fn write_field<W: Write>(out: &mut W, text: &str) -> io::Result<()> {
    let apostrophe = if is_formula(text) { "'" } else { "" };
    // Nearly every field is plain ASCII, which its bytes show without decoding characters.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'"')) {
        return write!(out, "{apostrophe}{text}");
    }
    let safe = escape(text);
    if safe.contains([',', '"']) {
        return write!(out, "\"{apostrophe}{}\"", safe.replace('"', "\"\""));
    }
    write!(out, "{apostrophe}{safe}")
}

/// Tabs and line ends are escaped, so they start no formula.
fn is_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@']) && text.parse::<f64>().is_err()
}

#[cfg(test)]
mod tests {
    use super::write_line;

    #[test]
    fn quotes_fields_only_if_necessary() {
        let mut out = Vec::new();
        write_line(&mut out, ["plain", "a,b", "say \"hi\"", "", "two\nlines"]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "plain,\"a,b\",\"say \"\"hi\"\"\",,two\\x0alines\n");
    }

    #[test]
    fn neutralizes_spreadsheet_formulas() {
        let mut out = Vec::new();
        write_line(&mut out, ["=1+1", "+a", "-cmd|' /C calc'!A0", "@SUM(A1)", "=a,b", "\t=1", "\r=1"])
            .unwrap();
        let expected = "'=1+1,'+a,'-cmd|' /C calc'!A0,'@SUM(A1),\"'=a,b\",\\x09=1,\\x0d=1\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let mut out = Vec::new();
        write_line(&mut out, ["-1", "-2.5e3", "a=b", "a-b"]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "-1,-2.5e3,a=b,a-b\n");
    }
}
