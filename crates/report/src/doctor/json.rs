//! An examination as one JSON object on one line.

use std::io::{self, Write};

use super::{DoctorReport, Examination};
use crate::json;

/// An examination as JSON.
pub struct DoctorJson<W>(pub W);

impl<W: Write> DoctorReport for DoctorJson<W> {
    fn examination(&mut self, examination: &Examination) -> io::Result<()> {
        json::write_line(&mut self.0, examination)?;
        self.0.flush()
    }
}
