//! Requests as JSON lines, the last one a summary.

use std::io::{self, Write};

use model::Request;

use super::{RequestReport, RequestSummary, RequestView};
use crate::json;

/// Requests as JSON lines.
pub struct RequestJson<W>(pub W);

impl<W: Write> RequestReport for RequestJson<W> {
    fn request(&mut self, request: &Request) -> io::Result<()> {
        json::write_line(&mut self.0, &RequestView::from(request))
    }

    fn finish(&mut self, summary: &RequestSummary) -> io::Result<()> {
        json::write_line(&mut self.0, summary)?;
        self.0.flush()
    }
}
