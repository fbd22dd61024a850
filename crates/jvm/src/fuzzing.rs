//! The entry points of the fuzz target `attach`: a JVM's answers. Nothing else uses them.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use crate::Error;
use crate::attach::{Bounds, exchange};

/// The status and the text that come over a connection; `None` if they are not a valid answer.
pub fn answer(stream: UnixStream, bounds: Bounds) -> io::Result<Option<(i32, String)>> {
    let answer = exchange(stream, b"", bounds, Instant::now())?;
    Ok(answer.map(|answer| (answer.status, answer.text)))
}

/// The error message about a JVM that refused a request.
pub fn refusal(answer: &str) -> String {
    Error::refused(1, "Thread.print", answer).to_string()
}
