//! A page's data inside the built front end: one HTML file. Data can neither end its element nor become markup.

use std::io::{self, Write};

use super::Page;
use report::json;

/// Built from `web/` by `make web`; `make test` builds it again and compares.
const TEMPLATE: &str = include_str!("../../../web/dist/page.html");
/// Placeholder of the data in the template: the text of a script element that is not a script.
const PLACE: &str = "@PAGE-DATA@";

/// Writes the page.
///
/// # Errors
/// Those of `out`, and [`io::ErrorKind::InvalidData`] if the built front end has no place for data.
pub fn write(out: &mut dyn Write, page: &Page) -> io::Result<()> {
    let missing =
        || io::Error::new(io::ErrorKind::InvalidData, "web/dist/page.html has no place for data: make web");
    let (before, after) = TEMPLATE.split_once(PLACE).ok_or_else(missing)?;
    out.write_all(before.as_bytes())?;
    write_data(out, page)?;
    out.write_all(after.as_bytes())
}

/// Writes JSON with `<` escaped.
/// In a script element only `<` can start an end tag or a comment (HTML, section 13.2.5.4, the script data states); in
/// JSON it occurs only in strings.
fn write_data(out: &mut dyn Write, page: &Page) -> io::Result<()> {
    let mut text = Vec::new();
    json::write(&mut text, page)?;
    for (at, piece) in text.split(|&byte| byte == b'<').enumerate() {
        if at > 0 {
            out.write_all(b"\\u003c")?;
        }
        out.write_all(piece)?;
    }
    Ok(())
}

/// Writes the data alone, as one line of JSON.
///
/// # Errors
/// Those of `out`.
pub fn write_json(mut out: &mut dyn Write, page: &Page) -> io::Result<()> {
    json::write_line(&mut out, page)
}

#[cfg(test)]
mod tests {
    use super::{PLACE, Page, TEMPLATE, write};

    #[test]
    fn template_has_one_placeholder_and_data_is_escaped() {
        assert_eq!(TEMPLATE.matches(PLACE).count(), 1);
        let mut page = Page::of(Vec::new());
        page.written_by = "</script><!--<script>alert(1)".to_owned();
        let mut out = Vec::new();
        write(&mut out, &page).unwrap();
        let out = String::from_utf8(out).unwrap();
        let (before, after) = TEMPLATE.split_once(PLACE).unwrap();
        let data = &out[before.len()..out.len() - after.len()];
        assert!(!data.contains('<') && data.contains("\\u003c/script>"), "{data}");
        let read: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(read["written_by"], page.written_by);
    }
}
