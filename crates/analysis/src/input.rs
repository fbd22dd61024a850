//! Opens input files: captures, pipes and recordings, recognized by their content.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use capture::{Captures, PacketFile};
use recording::{MANIFEST, Recording};

use crate::{Error, Stop, Usage, file_error};

/// Sources of packets.
#[derive(Debug, PartialEq, Eq)]
pub enum Packets {
    /// Capture files.
    Files(Vec<PathBuf>),
    /// A named pipe.
    Pipe(PathBuf),
    /// Standard input, for example from `tcpdump -U -w -`.
    Stdin,
    /// A network interface, or `any`.
    Live(String),
}

impl Packets {
    /// The inputs that the user named.
    ///
    /// # Errors
    /// [`Usage`] if an input that must be the only one is not.
    pub fn of(inputs: &[String]) -> Result<Self, Usage> {
        let stands_alone = |input: &&String| *input == "-" || input.starts_with("live:");
        match (inputs, inputs.iter().find(stands_alone)) {
            ([_], Some(input)) => Ok(input
                .strip_prefix("live:")
                .map_or(Self::Stdin, |interface| Self::Live(interface.to_owned()))),
            (_, Some(input)) => Err(Usage::new(format!(
                "{input} must be the only input; several inputs must be capture files"
            ))),
            ([input], None) if is_pipe(Path::new(input)) => Ok(Self::Pipe(PathBuf::from(input))),
            (_, None) => Ok(Self::Files(inputs.iter().map(PathBuf::from).collect())),
        }
    }
}

fn is_pipe(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Opens the recording that the user named, if it is one.
pub(crate) fn find_recording(paths: &[PathBuf]) -> Result<Option<Recording>, Error> {
    let [path] = paths else { return Ok(None) };
    let found = std::fs::metadata(path).map_err(|error| file_error(path, &error))?;
    found.is_dir().then(|| Recording::open(path).map_err(not_a_recording)).transpose()
}

/// Opens the captures that the user named; the error also suggests a recording.
pub(crate) fn open_captures(paths: &[PathBuf]) -> Result<Captures, Error> {
    open_files(paths).map_err(|error| match error {
        Error::Capture(error @ capture::Error::NotACapture { .. }) => {
            Error::input(format!("{error}; or name the directory that `brokerscope record -o` wrote"))
        }
        error => error,
    })
}

/// Returns the path if it is a URL.
pub fn url(path: &Path) -> Option<&str> {
    let is_scheme =
        |scheme: &str| !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    path.to_str().filter(|text| text.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme)))
}

/// Opens a recording.
pub fn open_recording(dir: &Path) -> Result<Recording, Error> {
    check_directory(dir)?;
    Recording::open(dir).map_err(recording_error)
}

/// Opens a recording for the columns that figures of many brokers need.
pub fn open_for_figures(dir: &Path) -> Result<Recording, Error> {
    check_directory(dir)?;
    Recording::open_for_summaries(dir).map_err(recording_error)
}

fn check_directory(dir: &Path) -> Result<(), Error> {
    let found = std::fs::metadata(dir).map_err(|error| file_error(dir, &error))?;
    if !found.is_dir() {
        let dir = dir.display();
        return Err(Error::input(format!(
            "{dir}: it is not a directory: name the one that `brokerscope record -o` wrote"
        )));
    }
    Ok(())
}

fn recording_error(error: recording::Error) -> Error {
    match &error {
        recording::Error::Io { path, .. } => file_error(path, &error),
        _ => error.into(),
    }
}

fn not_a_recording(error: recording::Error) -> Error {
    match error {
        recording::Error::NotARecording { .. } => Error::input(format!("{error}, or name capture files")),
        _ => recording_error(error),
    }
}

/// Opens files as one capture. Checks every file first, so that errors come before any output.
pub fn open_files(paths: &[PathBuf]) -> Result<Captures, Error> {
    if let Some(dir) = paths.iter().find(|path| path.is_dir()) {
        let name = dir.display();
        if dir.join(MANIFEST).exists() {
            return Err(Error::input(format!(
                "{name}: it is a recording; read it alone, with `brokerscope explain {name}`"
            )));
        }
        return Err(Error::input(format!(
            "{name}: it is a directory; name the captures in it, {name}/*, in any order"
        )));
    }
    Captures::open(paths).map_err(capture_error)
}

/// Opens a named pipe as a capture.
pub fn open_pipe(path: &Path, stop: &Stop) -> Result<Captures, Error> {
    let pipe = File::open(path).map_err(|error| file_error(path, &error))?;
    let reader = Box::new(StoppablePipe::start(pipe, stop.clone()));
    PacketFile::from_named_reader(&path.display().to_string(), reader)
        .map(Captures::from)
        .map_err(capture_error)
}

/// Opens standard input as a capture.
pub fn open_stdin(stop: &Stop) -> Result<Captures, Error> {
    let reader = Box::new(StoppablePipe::start(io::stdin(), stop.clone()));
    PacketFile::from_reader(reader)
        .map(Captures::from)
        .map_err(|error| Error::input(format!("{error}; pipe `tcpdump -U -w -` into it")))
}

fn capture_error(error: capture::Error) -> Error {
    match &error {
        capture::Error::Read { name, .. } => file_error(Path::new(name), &error),
        _ => error.into(),
    }
}

/// Buffered pieces of a pipe, 64 KiB each: a reader that falls behind blocks the pipe.
const MAX_PIECES: usize = 16;
/// How often a silent pipe checks whether to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Standard input as text that ends when it is time to stop.
pub fn stdin(stop: &Stop) -> impl Read + use<> {
    StoppablePipe::start(io::stdin(), stop.clone())
}

/// A pipe that ends when it is time to stop, even if no data arrives.
struct StoppablePipe {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    read: usize,
    stop: Stop,
}

impl StoppablePipe {
    /// Starts to read in another thread, which is left blocked in its last read.
    fn start(mut pipe: impl Read + Send + 'static, stop: Stop) -> Self {
        let (sender, pieces) = sync_channel(MAX_PIECES);
        thread::spawn(move || {
            loop {
                let mut piece = vec![0; 64 * 1024];
                let read = pipe.read(&mut piece).map(|length| {
                    piece.truncate(length);
                    piece
                });
                let last = read.as_ref().map_or(true, Vec::is_empty);
                if sender.send(read).is_err() || last {
                    return;
                }
            }
        });
        Self { pieces, piece: Vec::new(), read: 0, stop }
    }

    /// Returns the next piece; empty at the end.
    fn next_piece(&self) -> io::Result<Vec<u8>> {
        while !self.stop.should_stop() {
            match self.pieces.recv_timeout(LOOK_INTERVAL) {
                Ok(piece) => return piece,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(Vec::new())
    }
}

impl Read for StoppablePipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() {
            self.piece = self.next_piece()?;
            self.read = 0;
        }
        let mut rest = self.piece.get(self.read..).unwrap_or_default();
        let length = rest.read(into)?;
        self.read += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Packets, url};

    #[test]
    fn distinguishes_urls_from_paths() {
        for text in ["s3://b/k", "gs://b"] {
            assert_eq!(url(Path::new(text)), Some(text));
        }
        for text in ["", "dir", "/a/b", "live:lo", "://x", "a/b://c", "s3:/b"] {
            assert_eq!(url(Path::new(text)), None, "{text}");
        }
    }

    fn of(inputs: &[&str]) -> Option<Packets> {
        Packets::of(&inputs.iter().map(|&input| input.to_owned()).collect::<Vec<_>>()).ok()
    }

    #[test]
    fn derives_packet_source_from_input_names() {
        for (inputs, packets) in [
            (&["-"][..], Some(Packets::Stdin)),
            (&["live:lo"], Some(Packets::Live("lo".to_owned()))),
            (&["a.pcap"], Some(Packets::Files(vec!["a.pcap".into()]))),
            (&["b", "a"], Some(Packets::Files(vec!["b".into(), "a".into()]))),
            (&["/dev/null"], Some(Packets::Pipe("/dev/null".into()))),
            (&["-", "a"], None),
            (&["a", "live:lo"], None),
            (&["-", "-"], None),
        ] {
            assert_eq!(of(inputs), packets, "{inputs:?}");
        }
    }
}
