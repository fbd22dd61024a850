//! The bytes of the attach protocol's version 1. Does not open sockets.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::{Answer, Bounds};
use crate::Error;

/// `AttachOperation` (attachListener.hpp): what a JVM makes room for.
const MOST_COMMAND_BYTES: usize = 16;
const MOST_ARGUMENT_BYTES: usize = 1024;
const ARGUMENTS: usize = 3;
/// A status is an `int` in decimal.
const MOST_STATUS_BYTES: usize = 12;

/// What went wrong on the way.
#[derive(Debug)]
pub(super) enum Broken {
    System(io::Error),
    Unintelligible,
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// A request: exactly three arguments, those that are not given empty.
pub(super) fn request(command: &str, arguments: &[&str]) -> Result<Vec<u8>, Error> {
    let fits = |text: &str, most: usize| text.len() <= most && !text.contains('\0');
    let all_fit = fits(command, MOST_COMMAND_BYTES)
        && arguments.len() <= ARGUMENTS
        && arguments.iter().all(|argument| fits(argument, MOST_ARGUMENT_BYTES));
    if !all_fit {
        return Err(Error::Request(command.chars().filter(|c| !c.is_control()).take(40).collect()));
    }
    let given = arguments.iter().copied().chain([""; ARGUMENTS]).take(ARGUMENTS);
    Ok(["1", command].into_iter().chain(given).flat_map(|word| word.bytes().chain([0])).collect())
}

/// Sends a request and reads the answer, within its bounds of space and of time since `begun`.
pub(super) fn exchange(
    mut stream: UnixStream,
    request: &[u8],
    bounds: Bounds,
    begun: Instant,
) -> Result<Answer, Broken> {
    stream.set_write_timeout(Some(bounds.time))?;
    stream.write_all(request)?;
    let mut bytes = Vec::new();
    let most = bounds.bytes.saturating_add(MOST_STATUS_BYTES);
    let mut piece = [0; 16 << 10];
    while bytes.len() < most {
        stream.set_read_timeout(Some(left(bounds.time, begun)?))?;
        let read = match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(late().into()),
            Err(error) => return Err(error.into()),
        };
        bytes.extend(piece.iter().take(read.min(most - bytes.len())));
    }
    parse(&bytes, bounds.bytes)
}

fn left(most: Duration, begun: Instant) -> io::Result<Duration> {
    // A timeout of nothing would be none at all.
    most.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()).ok_or_else(late)
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time")
}

fn parse(bytes: &[u8], most: usize) -> Result<Answer, Broken> {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    let status = parts.next().and_then(|status| std::str::from_utf8(status).ok()?.trim().parse().ok());
    let text = parts.next().map(|text| text.get(..most).unwrap_or(text));
    let (Some(status), Some(text)) = (status, text) else { return Err(Broken::Unintelligible) };
    Ok(Answer { status, text: String::from_utf8_lossy(text).into_owned() })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::{Broken, exchange, request};
    use crate::attach::{Answer, Bounds};

    const BOUNDS: Bounds = Bounds { bytes: 10, time: Duration::from_secs(5) };

    /// What is made of an answer that comes in pieces.
    fn answered(pieces: &'static [&'static [u8]], bounds: Bounds) -> Result<Answer, Broken> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let machine = thread::spawn(move || {
            let mut asked = [0; 7];
            theirs.read_exact(&mut asked).unwrap();
            assert_eq!(&asked, b"request");
            for piece in pieces {
                // A reader that has enough hangs up.
                let _ = theirs.write_all(piece);
            }
        });
        let answer = exchange(ours, b"request", bounds, Instant::now());
        machine.join().unwrap();
        answer
    }

    #[test]
    fn a_request_has_three_arguments_whatever_is_given() {
        assert_eq!(request("jcmd", &["VM.version"]).unwrap(), b"1\0jcmd\0VM.version\0\0\0");
        assert_eq!(request("threaddump", &[]).unwrap(), b"1\0threaddump\0\0\0\0");
        let long = "x".repeat(1025);
        for (command, arguments) in [
            ("jcmd", &["a\0b"][..]),
            ("seventeen bytes !", &[]),
            ("jcmd", &[&long]),
            ("jcmd", &["", "", "", ""]),
        ] {
            let said = request(command, arguments).unwrap_err().to_string();
            assert!(said.contains("is no request"), "{said}");
        }
    }

    #[test]
    fn an_answer_is_a_status_and_text() {
        let ok = |pieces| answered(pieces, BOUNDS).unwrap();
        assert_eq!(ok(&[b"0", b"\n", b"Full ", b"text"]), Answer { status: 0, text: "Full text".to_owned() });
        assert_eq!(ok(&[b"-1\nno"]).status, -1);
        assert_eq!(ok(&[b"100\n"]).text, "");
        assert_eq!(ok(&[b"0\n\xff!"]).text, "\u{fffd}!");
        assert_eq!(ok(&[b"0\n0123456789abcdef", b"more and more and more"]).text, "0123456789");
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        const ANSWERS: &[&[&[u8]]] =
            &[&[], &[b"0"], &[b"\n"], &[b"one\n"], &[b"99999999999999\n"], &[b"0123456789 nor is this"]];
        for pieces in ANSWERS {
            assert!(matches!(answered(pieces, BOUNDS), Err(Broken::Unintelligible)), "{pieces:?}");
        }
    }

    #[test]
    fn a_machine_that_stays_silent_is_not_waited_for() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let bounds = Bounds { time: Duration::from_millis(50), ..BOUNDS };
        let Err(Broken::System(error)) = exchange(ours, b"request", bounds, Instant::now()) else { panic!() };
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        drop(theirs);
    }
}
