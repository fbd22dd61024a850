//! An overview as CSV: one line a group and one a producer, told apart by the first column. A field that a
//! line does not have is empty.

use std::io::{self, Write};

use super::view;
use super::{BatchFill, Group, GroupKey, Groups, Kind, Producer};
use crate::csv;
use crate::fields::{Fields, plain};

/// An overview as CSV.
pub struct OverviewCsv<W>(pub W);

impl<W: Write> OverviewCsv<W> {
    /// Writes all of it.
    pub fn write(&mut self, groups: &Groups) -> io::Result<()> {
        let names = names();
        csv::write_line(&mut self.0, names.iter().copied())?;
        for group in &groups.groups {
            self.line(&names, &view::group(groups, group))?;
        }
        for producer in &groups.producers {
            self.line(&names, &view::producer(producer))?;
        }
        self.0.flush()
    }

    fn line(&mut self, names: &[&str], fields: &Fields) -> io::Result<()> {
        let value = |wanted: &&str| {
            let found = fields.0.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| plain(value)).unwrap_or_default()
        };
        let values = names.iter().map(value).collect::<Vec<_>>();
        csv::write_line(&mut self.0, values.iter().map(String::as_str))
    }
}

/// The fields of a group, then those that only a producer has.
fn names() -> Vec<&'static str> {
    let group = (Kind { api: "", hold: None }, GroupKey::All, Group::default());
    let producer = (Producer { client: None, producer_id: None }, BatchFill::default());
    let mut names = Vec::new();
    for fields in [view::group(&Groups::default(), &group), view::producer(&producer)] {
        for (name, _) in fields.0.into_iter().filter(|(name, _)| *name != "type") {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}
