//! What the fuzz target `attach` reaches of this crate: what a JVM answers. Nothing else uses it.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use crate::Error;
use crate::attach::{Bounds, exchange};

/// The status and the text that come over a connection; none where what comes is no answer.
pub fn answer(stream: UnixStream, bounds: Bounds) -> io::Result<Option<(i32, String)>> {
    let answer = exchange(stream, b"", bounds, Instant::now())?;
    Ok(answer.map(|answer| (answer.status, answer.text)))
}

/// The line about a JVM that refused what it was asked.
pub fn refusal(said: &str) -> String {
    Error::refused(1, "Thread.print", said).to_string()
}
