//! Reports: tables and text for people, JSON lines and CSV for programs.
//!
//! A report declares its columns once ([`rows::Report`]): heading, name for programs, and how a cell is made from a row.
//! [`Writer`] turns them into a table, JSON lines or CSV; rows that `model` declares bring their columns along. A report
//! that is not a list of rows (an explanation, an examination of a host) writes its own text. All text from outside goes
//! through [`escape`].
//!
//! Knows: formats, headings, units, escaping, percentiles in bounded memory. Must not know: how a request was captured,
//! how a verdict was reached, files and the terminal: output goes to an `io::Write` of the caller, and [`Style`] says
//! what the caller knows about the terminal.

pub mod advice;
pub mod blocked;
pub mod bounded_map;
mod cell;
pub mod comparison;
pub mod csv;
pub mod distribution;
pub mod doctor;
pub mod errno;
pub mod error_code;
pub mod escape;
pub mod explanation;
pub mod file_ops;
pub mod files;
pub mod fleet;
pub mod json;
pub mod kernel;
pub mod locks;
pub mod logs;
pub mod markdown;
pub mod paint;
pub mod pauses;
pub mod quantity;
pub mod requests;
pub mod rows;
pub mod segments;
pub mod slowest;
pub mod table;
mod text_writer;
pub mod thread_state;
pub mod time_of_day;
pub mod tls;
pub mod wrap;

pub use rows::{Format, Sink, Writer};
pub use time_of_day::Zone;

/// Style of the outputs for people.
#[derive(Clone, Debug, Default)]
pub struct Style {
    /// The zone in which times are shown.
    pub zone: Zone,
    /// Whether tables have more columns and explanations omit nothing.
    pub wide: bool,
    /// Whether to list all that could not be observed. If not, only what concerns the requests shown is listed.
    pub verbose: bool,
    /// Whether colours may be used.
    pub colour: bool,
    /// Rows held back to find the widths of columns; 0 writes every row as it arrives.
    pub lookahead: usize,
}

impl Style {
    /// A heading in its colour.
    pub(crate) fn heading(&self, text: &str) -> String {
        paint::paint(self.colour, paint::Role::Heading, text)
    }

    /// Holds back all rows, so that the columns of a table fit every row.
    #[must_use]
    pub(crate) fn aligned(&self) -> Self {
        Self { lookahead: usize::MAX, ..self.clone() }
    }

    /// The flag that shows what was left out.
    pub(crate) fn flag_for_all(&self) -> &'static str {
        if self.wide { "" } else { " (--wide shows all)" }
    }
}
