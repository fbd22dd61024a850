//! What an INPUT is: a file, a pipe or an interface; a capture or a recording. Reads no more of it than it
//! takes to tell.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::bail;
use capture::PacketFile;
use recording::Recording;

use crate::failure;
use crate::stop::Stop;

/// Where `requests` gets its packets from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Packets {
    /// A capture file.
    File(PathBuf),
    /// A pipe, as from `tcpdump -U -w -`.
    Stdin,
    /// A network interface, or `any`.
    Live(String),
}

impl Packets {
    /// What the user named.
    pub(crate) fn of(input: &str) -> Self {
        match input.strip_prefix("live:") {
            Some(interface) => Self::Live(interface.to_owned()),
            None if input == "-" => Self::Stdin,
            None => Self::File(PathBuf::from(input)),
        }
    }
}

/// What `explain` explains.
pub(crate) enum Evidence {
    /// Everything that was seen.
    Recording(Box<Recording>),
    /// Packets only.
    Packets(PacketFile),
}

impl Evidence {
    /// Opens what the user named, by what is in it.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let found = std::fs::metadata(path).map_err(|error| failure::of_file(path, &error))?;
        if found.is_dir() {
            return Ok(Self::Recording(Box::new(Recording::open(path)?)));
        }
        match PacketFile::open(path) {
            Ok(file) => Ok(Self::Packets(file)),
            Err(capture::Error::NotACapture { why, .. }) => bail!(
                "{shown}: neither a recording nor a packet capture ({why}); name the directory that \
                 `brokerscope record -o` wrote, or a pcap or pcapng file"
            ),
            Err(error) => Err(error.into()),
        }
    }
}

/// Pieces of standard input on their way, 64 KiB each: a reader that falls behind holds up the pipe.
const PIECES: usize = 16;
/// How often a silent pipe looks whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Standard input that ends when it is told to, also while nothing comes.
pub(crate) struct StoppableStdin {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    read: usize,
    stop: Stop,
}

impl StoppableStdin {
    /// Starts reading standard input in a thread of its own, which stays behind in its last read.
    pub(crate) fn start(stop: Stop) -> Self {
        let (sender, pieces) = sync_channel(PIECES);
        thread::spawn(move || {
            loop {
                let mut piece = vec![0; 64 * 1024];
                let read = io::stdin().lock().read(&mut piece).map(|length| {
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

impl Read for StoppableStdin {
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
    use super::Packets;

    #[test]
    fn an_input_is_what_its_name_says() {
        assert_eq!(Packets::of("-"), Packets::Stdin);
        assert_eq!(Packets::of("live:lo"), Packets::Live("lo".to_owned()));
        assert_eq!(Packets::of("a.pcap"), Packets::File("a.pcap".into()));
    }
}
