//! What an INPUT is: files, a pipe or an interface; captures or a recording. Reads no more of it than it
//! takes to tell.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{anyhow, bail};
use capture::{Captures, PacketFile};
use recording::Recording;

use crate::failure::{self, Usage};
use crate::stop::Stop;

/// Where `requests` gets its packets from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Packets {
    /// Capture files.
    Files(Vec<PathBuf>),
    /// A pipe with a name.
    Pipe(PathBuf),
    /// A pipe, as from `tcpdump -U -w -`.
    Stdin,
    /// A network interface, or `any`.
    Live(String),
}

impl Packets {
    /// What the user named.
    ///
    /// # Errors
    /// [`Usage`] if what stands alone does not.
    pub(crate) fn of(inputs: &[String]) -> Result<Self, Usage> {
        let stands_alone = |input: &&String| *input == "-" || input.starts_with("live:");
        match (inputs, inputs.iter().find(stands_alone)) {
            ([_], Some(input)) => Ok(input
                .strip_prefix("live:")
                .map_or(Self::Stdin, |interface| Self::Live(interface.to_owned()))),
            (_, Some(input)) => {
                Err(Usage(format!("{input} stands alone; several inputs must be capture files")))
            }
            ([input], None) if is_pipe(Path::new(input)) => Ok(Self::Pipe(PathBuf::from(input))),
            (_, None) => Ok(Self::Files(inputs.iter().map(PathBuf::from).collect())),
        }
    }
}

fn is_pipe(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// What `explain` explains.
pub(crate) enum Evidence {
    /// Everything that was seen.
    Recording(Box<Recording>),
    /// Packets only.
    Packets(Captures),
}

impl Evidence {
    /// Opens what the user named, by what is in it.
    pub(crate) fn open(paths: &[PathBuf]) -> anyhow::Result<Self> {
        if let [path] = paths {
            let found = std::fs::metadata(path).map_err(|error| failure::of_file(path, &error))?;
            if found.is_dir() {
                return Recording::open(path).map(Box::new).map(Self::Recording).map_err(not_a_recording);
            }
        }
        open_files(paths).map(Self::Packets).map_err(|error| match error.downcast_ref() {
            Some(capture::Error::NotACapture { .. }) => {
                anyhow!("{error}; or name the directory that `brokerscope record -o` wrote")
            }
            _ => error,
        })
    }
}

/// What was named where that is a URL, of whatever kind.
pub(crate) fn url(path: &Path) -> Option<&str> {
    let is_scheme =
        |scheme: &str| !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    path.to_str().filter(|text| text.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme)))
}

/// Opens a recording for who can read nothing else.
pub(crate) fn open_recording(dir: &Path) -> anyhow::Result<Recording> {
    check_directory(dir)?;
    Recording::open(dir).map_err(of_recording)
}

/// Opens a recording for who reads nothing of it but what figures of many brokers are made of.
pub(crate) fn open_for_figures(dir: &Path) -> anyhow::Result<Recording> {
    check_directory(dir)?;
    Recording::open_for_summaries(dir).map_err(of_recording)
}

fn check_directory(dir: &Path) -> anyhow::Result<()> {
    let found = std::fs::metadata(dir).map_err(|error| failure::of_file(dir, &error))?;
    if !found.is_dir() {
        bail!("{}: it is no directory: name the one that `brokerscope record -o` wrote", dir.display());
    }
    Ok(())
}

fn of_recording(error: recording::Error) -> anyhow::Error {
    match &error {
        recording::Error::Io { path, .. } => failure::of_file(path, &error),
        _ => error.into(),
    }
}

fn not_a_recording(error: recording::Error) -> anyhow::Error {
    match error {
        recording::Error::NotARecording { .. } => anyhow!("{error}, or captures one by one"),
        _ => of_recording(error),
    }
}

/// Files as one capture. Each is looked at first: one that cannot be read is said before anything is shown.
pub(crate) fn open_files(paths: &[PathBuf]) -> anyhow::Result<Captures> {
    if let Some(dir) = paths.iter().find(|path| path.is_dir()) {
        let shown = dir.display();
        if dir.join("manifest.json").exists() {
            bail!("{shown}: it is a recording; read it alone, with `brokerscope explain {shown}`");
        }
        bail!("{shown}: it is a directory; name the captures in it, {shown}/*, in any order");
    }
    Captures::open(paths).map_err(said)
}

/// A named pipe as a capture.
pub(crate) fn open_pipe(path: &Path, stop: &Stop) -> anyhow::Result<Captures> {
    let pipe = File::open(path).map_err(|error| failure::of_file(path, &error))?;
    let reader = Box::new(StoppablePipe::start(pipe, stop.clone()));
    PacketFile::from_named_reader(&path.display().to_string(), reader).map(Captures::from).map_err(said)
}

/// Standard input as a capture.
pub(crate) fn open_stdin(stop: &Stop) -> anyhow::Result<Captures> {
    let reader = Box::new(StoppablePipe::start(io::stdin(), stop.clone()));
    PacketFile::from_reader(reader)
        .map(Captures::from)
        .map_err(|error| anyhow!("{error}; pipe `tcpdump -U -w -` into it"))
}

fn said(error: capture::Error) -> anyhow::Error {
    match &error {
        capture::Error::Read { name, .. } => failure::of_file(Path::new(name), &error),
        _ => error.into(),
    }
}

/// Pieces of a pipe on their way, 64 KiB each: a reader that falls behind holds up the pipe.
const PIECES: usize = 16;
/// How often a silent pipe looks whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Standard input as text, which ends when it is told to.
pub(crate) fn stdin(stop: &Stop) -> impl Read + use<> {
    StoppablePipe::start(io::stdin(), stop.clone())
}

/// A pipe that ends when it is told to, also while nothing comes.
struct StoppablePipe {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    read: usize,
    stop: Stop,
}

impl StoppablePipe {
    /// Starts reading in a thread of its own, which stays behind in its last read.
    fn start(mut pipe: impl Read + Send + 'static, stop: Stop) -> Self {
        let (sender, pieces) = sync_channel(PIECES);
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

    /// The next piece; empty at the end.
    fn next_piece(&self) -> io::Result<Vec<u8>> {
        while !self.stop.asked() {
            match self.pieces.recv_timeout(LOOK) {
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
    fn a_url_is_no_path() {
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
    fn an_input_is_what_its_name_says() {
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
