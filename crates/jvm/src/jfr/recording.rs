//! A whole recording: a file of several chunks. Does not follow a file that grows: [`super::Tail`] does.

use model::Pid;

use super::chunk::{Chunk, Interpreter, JfrEvent, Summary};
use super::clock::Clock;
use super::constants::Thread;
use super::header;
use super::window::Source;
use super::{Error, ErrorKind, Header};

/// Reads recordings of one process.
pub struct Recording {
    reading: Interpreter,
    threads: Vec<Thread>,
}

impl Recording {
    /// For recordings of this process; 0 where it is not known.
    pub fn of(pid: Pid) -> Self {
        Self { reading: Interpreter::new(pid), threads: Vec::new() }
    }

    /// Reads all of a file, in memory that does not grow with it, and tells what it holds, chunk by chunk, roughly but
    /// not exactly in the order of time: the JVM writes one thread's events after another's.
    ///
    /// # Errors
    /// Where the file does not follow the format from some byte on, or ends too early: what was before has been told.
    pub fn read<S: Source + ?Sized>(
        &mut self,
        source: &S,
        tell: &mut dyn FnMut(JfrEvent),
    ) -> Result<(), Error> {
        let read = self.chunks(source, tell);
        self.reading.pauses.finish(&mut |pause| tell(JfrEvent::Pause(pause)));
        read
    }

    /// What has been read so far.
    pub fn summary(&self) -> Summary {
        self.reading.summary
    }

    /// The threads that the last chunk read names.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    fn chunks<S: Source + ?Sized>(
        &mut self,
        source: &S,
        tell: &mut dyn FnMut(JfrEvent),
    ) -> Result<(), Error> {
        let end = source.size_bytes().map_err(|error| Error::io(&error, 0))?;
        let mut at = 0;
        while at < end || at == 0 {
            let header = read_header(source, at)?;
            if header.size_bytes < header::SIZE_BYTES {
                return Err(Error::new(ErrorKind::NoMetadata, at));
            }
            let mut chunk = Chunk::new(at, &mut self.reading);
            let mut clock = Clock::of_file(header);
            let read = chunk.advance(source, &header, &mut clock, &mut self.reading, tell);
            self.threads = chunk.threads();
            read?;
            // What follows a chunk that was still being recorded was not whole when it was copied.
            if !header.is_finished() {
                break;
            }
            at = at.saturating_add(header.size_bytes);
        }
        Ok(())
    }
}

/// The header at a byte of a file.
pub(super) fn read_header<S: Source + ?Sized>(source: &S, at: u64) -> Result<Header, Error> {
    let mut bytes = [0; header::SIZE_BYTES as usize];
    let mut have = 0;
    while let Some(rest) = bytes.get_mut(have..).filter(|rest| !rest.is_empty()) {
        match source.read_at(rest, at + have as u64) {
            Ok(0) => break,
            Ok(read) => have += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io(&error, at)),
        }
    }
    Header::parse(bytes.get(..have).unwrap_or_default(), at)
}
