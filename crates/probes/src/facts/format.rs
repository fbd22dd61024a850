//! A tracepoint's `format` file: its number and where its fields lie. Does not say which are needed.

use std::collections::BTreeMap;

/// One tracepoint of the running kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// The number that `perf_event_open` wants.
    pub id: u64,
    /// Its fields by name.
    pub fields: BTreeMap<String, Field>,
}

/// Where a field lies in a tracepoint's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Bytes from the record's start.
    pub offset: u16,
    /// Bytes.
    pub size: u16,
}

impl Format {
    /// Reads a format file; none where it has no number.
    pub fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        let fields = text.lines().filter_map(parse_field).collect();
        Some(Self { id, fields })
    }
}

/// `field:char rwbs[10]; offset:34; size:10; signed:0;`, with tabs between the parts
fn parse_field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let declaration = parts.next()?;
    let mut offset = None;
    let mut size = None;
    for part in parts {
        if let Some(value) = part.strip_prefix("offset:") {
            offset = value.parse().ok();
        } else if let Some(value) = part.strip_prefix("size:") {
            size = value.parse().ok();
        }
    }
    let name = declaration.rsplit([' ', '*']).next()?.split('[').next()?;
    Some((name.to_owned(), Field { offset: offset?, size: size? }))
}

#[cfg(test)]
mod tests {
    use super::{Field, Format};

    const ISSUE: &str = "name: block_rq_issue
ID: 2104
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:const char * buf;\toffset:24;\tsize:8;\tsigned:0;
\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;
\tfield:__data_loc char[] cmd;\toffset:60;\tsize:4;\tsigned:0;

print fmt: \"%d,%d field:\", REC->dev
";

    #[test]
    fn fields_have_names_places_and_sizes() {
        let format = Format::parse(ISSUE).unwrap();
        assert_eq!(format.id, 2104);
        assert_eq!(format.fields["dev"], Field { offset: 8, size: 4 });
        assert_eq!(format.fields["buf"], Field { offset: 24, size: 8 });
        assert_eq!(format.fields["rwbs"], Field { offset: 34, size: 10 });
        assert_eq!(format.fields["cmd"], Field { offset: 60, size: 4 });
        assert_eq!(format.fields.len(), 5);
    }

    #[test]
    fn what_is_no_format_is_none() {
        assert_eq!(Format::parse(""), None);
        assert_eq!(Format::parse("ID: many\n"), None);
        assert_eq!(
            Format::parse("ID: 1\n\tfield:int;\n\tfield:int x;\toffset:99999999;\n").unwrap().fields.len(),
            0
        );
    }
}
