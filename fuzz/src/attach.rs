//! Answers of a JVM over its attach socket.
//!
//! Input: two bytes for the maximum length of a text; then the answer.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use jvm::attach::Bounds;
use jvm::{flight, fuzzing};

use crate::Target;

/// The target.
pub const TARGET: Target = Target { name: "attach", check, spare_bytes: 64 << 10 };

/// Maximum length of a refusal: one or two lines of a terminal.
const MAX_REFUSAL_BYTES: usize = 1_000;

fn check(data: &[u8]) {
    let [high, low, answer @ ..] = data else { return };
    let bytes = usize::from(u16::from_be_bytes([*high, *low]));
    let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
    theirs.write_all(answer).expect("a socket takes as much as an input has");
    drop(theirs);
    let bounds = Bounds { bytes, time: Duration::from_secs(10) };
    let Some((status, text)) = fuzzing::answer(ours, bounds).expect("all of it is there") else { return };
    check_text(answer, status, &text, bytes);
    let _ = flight::check_handler_calls(&text);
    let refusal = fuzzing::refusal(&text);
    assert!(refusal.len() <= MAX_REFUSAL_BYTES && !refusal.contains(char::is_control), "{refusal:?}");
}

/// Checks that the status is in the first line. The text must be what follows, up to its maximum length.
fn check_text(answer: &[u8], status: i32, text: &str, bytes: usize) {
    let end = answer.iter().position(|byte| *byte == b'\n').expect("a status ends with its line");
    let first = std::str::from_utf8(&answer[..end]).expect("a number is text");
    assert_eq!(first.trim().parse::<i32>(), Ok(status));
    let rest = &answer[end + 1..];
    let most = rest.get(..bytes).unwrap_or(rest);
    // A cut character is replaced.
    let prefix = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
    assert!(String::from_utf8_lossy(most).starts_with(prefix), "{text:?}");
}
