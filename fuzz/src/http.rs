//! HTTP from outside: requests to the metrics port, and answers of a trace collector.
//!
//! Input: a byte whose lowest bit selects an answer; one for the cuts; then the data.

use export::{Format, fuzzing};

use crate::Target;
use crate::chunks::Cuts;

/// The target. Slots for headers are on the stack.
pub const TARGET: Target = Target { name: "http", check, spare_bytes: 64 << 10 };

fn check(data: &[u8]) {
    match data {
        [choice, cuts, request @ ..] if choice & 1 == 0 => check_request(request, Cuts::new(*cuts)),
        [_, cuts, answer @ ..] => check_answer(answer, Cuts::new(*cuts)),
        _ => {}
    }
}

/// Checks that the parsed request does not depend on the pieces. It must contain only input.
fn check_request(bytes: &[u8], cuts: Cuts) {
    let understood = |come: usize| fuzzing::request(&bytes[..come]).map_err(drop).transpose();
    let in_pieces = ends(bytes, cuts).into_iter().find_map(understood);
    assert_eq!(in_pieces, understood(bytes.len()));
    let Some(Ok([method, path, accept])) = in_pieces else { return };
    let is_there = |text: &str| text.is_empty() || bytes.windows(text.len()).any(|at| at == text.as_bytes());
    assert!(is_there(&method) && is_there(&path) && !path.contains(['?', '#', ' ', '\r', '\n']), "{path}");
    assert!(accept.len() <= 3 * bytes.len(), "{} bytes", accept.len());
    let twice = format!("{accept},{accept}");
    assert_eq!(Format::from_accept(&accept), Format::from_accept(&twice), "{accept}");
}

/// Checks that a complete answer has a meaning, and stays complete with more data.
fn check_answer(bytes: &[u8], cuts: Cuts) {
    let mut was_whole = false;
    for end in ends(bytes, cuts) {
        let (is_whole, meaning) = fuzzing::collector_answer(&bytes[..end]);
        assert!(meaning.is_some() || !is_whole, "a whole answer that means nothing");
        assert!(is_whole || !was_whole, "an answer was whole and is not any more");
        was_whole = is_whole;
    }
}

/// The length after each piece.
fn ends(bytes: &[u8], cuts: Cuts) -> Vec<usize> {
    let lengths = cuts.of(bytes).map(<[u8]>::len);
    lengths.scan(0, |come, length| Some(*come + length).inspect(|end| *come = *end)).collect()
}
