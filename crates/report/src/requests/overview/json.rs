//! An overview as JSON lines: one object a group and one a producer, the last line the usual summary.

use std::io::{self, Write};

use super::{Groups, view};
use crate::json;
use crate::requests::RequestSummary;

/// An overview as JSON lines.
pub struct OverviewJson<W>(pub W);

impl<W: Write> OverviewJson<W> {
    /// Writes all of it.
    pub fn write(&mut self, groups: &Groups, summary: &RequestSummary) -> io::Result<()> {
        for group in &groups.groups {
            json::write_line(&mut self.0, &view::group(groups, group))?;
        }
        for producer in &groups.producers {
            json::write_line(&mut self.0, &view::producer(producer))?;
        }
        json::write_line(&mut self.0, summary)?;
        self.0.flush()
    }
}
