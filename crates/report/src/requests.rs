//! Requests: what was seen of each, the slowest of them, a view of all, and a summary of what was looked at.

pub mod csv;
pub mod json;
pub mod overview;
pub mod summary;
pub mod table;
pub mod top;
pub mod view;

use std::io;

use model::Request;

pub use csv::RequestCsv;
pub use json::RequestJson;
pub use summary::RequestSummary;
pub use table::RequestTable;
pub use top::TopRequests;
pub use view::RequestView;

/// An output of requests, one after the other.
pub trait RequestReport {
    /// Writes one request.
    fn request(&mut self, request: &Request) -> io::Result<()>;

    /// Ends the output. Only JSON has a place for the summary; for the others the caller shows
    /// [`RequestSummary`]'s sentences elsewhere.
    fn finish(&mut self, summary: &RequestSummary) -> io::Result<()>;
}
