//! A whole recording: a file of several chunks.
//! Does not follow a file that grows: [`super::Tail`] does.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use model::clock::{ClockOffset, ClockPair};
use model::{Nanos, Pid};

use super::bytes::Source;
use super::chunk::{Chunk, Interpreter, JfrEvent, Summary};
use super::constants::Thread;
use super::error::{Error, ErrorKind};
use super::header::{self, Clock, Header};

/// Reads recordings of one process.
pub struct Recording {
    reading: Interpreter,
    threads: Vec<Thread>,
}

impl Recording {
    /// A reader for recordings of this process; 0 if it is not known.
    pub fn of(pid: Pid) -> Self {
        Self { reading: Interpreter::new(pid), threads: Vec::new() }
    }

    /// Reads all of a file and emits its events, chunk by chunk. Memory does not grow with the file. The events are
    /// roughly but not exactly in time order: the JVM writes one thread's events after another's.
    ///
    /// # Errors
    /// The file does not follow the format from some byte on, or ends too early: the events before that have been
    /// emitted.
    pub fn read<S: Source + ?Sized>(
        &mut self,
        source: &S,
        emit: &mut dyn FnMut(JfrEvent),
    ) -> Result<(), Error> {
        let read = self.chunks(source, emit);
        self.reading.pauses.finish(&mut |pause| emit(JfrEvent::Pause(pause)));
        read
    }

    /// A summary of what has been read so far.
    pub fn summary(&self) -> Summary {
        self.reading.summary
    }

    /// The threads that the last chunk names.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    fn chunks<S: Source + ?Sized>(
        &mut self,
        source: &S,
        emit: &mut dyn FnMut(JfrEvent),
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
            let read = chunk.advance(source, &header, &mut clock, &mut self.reading, emit);
            self.threads = chunk.threads();
            read?;
            // After a chunk that was still being recorded, the copy is incomplete.
            if !header.is_finished() {
                break;
            }
            at = at.saturating_add(header.size_bytes);
        }
        Ok(())
    }
}

/// Reads the header at an offset of a file.
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

// Reads a recording while it is being made: the folder into which a JVM writes its chunks, one file each. Does not
// start the recording or find the folder (`jcmd PID JFR.configure` prints it).
//
// A JVM (14 and later; in 11 a chunk can be read when it is finished) flushes about once a second: it appends its
// threads' buffers, then writes into the chunk's header how much of the file is complete. Nothing past that is read.
// When a chunk is finished, the JVM starts the next file. The header is written in place: `header.rs` says how a reader
// detects that.

/// More files than a JVM keeps; the folder is another user's.
const MAX_FILES: usize = 10_000;

/// Attempts to read a header that changes meanwhile. Then it is left for the next poll.
const MAX_TRIES: usize = 3;

/// Follows a JVM's folder of chunks.
pub struct Tail {
    folder: PathBuf,
    offset: ClockOffset,
    since: Nanos,
    reading: Interpreter,
    current: Option<Current>,
    /// The start and the file of the last chunk that was read completely or abandoned.
    last: (i64, PathBuf),
}

/// The chunk that is being written.
struct Current {
    path: PathBuf,
    file: File,
    chunk: Chunk,
    clock: Clock,
}

impl Tail {
    /// Follows the folder of a process (on this machine; a container's by `/proc/PID/root`), on the clock of a recording
    /// that has this offset. From chunks that began before `since`, emits only events that ended later.
    pub fn of(folder: &Path, pid: Pid, offset: ClockOffset, since: Nanos) -> Self {
        Self {
            folder: folder.to_owned(),
            offset,
            since,
            reading: Interpreter::new(pid),
            current: None,
            last: (i64::MIN, PathBuf::new()),
        }
    }

    /// Emits what the JVM has flushed since the last call. Takes both clocks at this moment. Calling it more often than
    /// the JVM flushes costs one read of a header.
    ///
    /// # Errors
    /// The folder or a chunk cannot be read. An invalid chunk is abandoned: the next call waits for the next chunk.
    pub fn poll(&mut self, now: ClockPair, emit: &mut dyn FnMut(JfrEvent)) -> Result<(), Error> {
        loop {
            if self.current.is_none() && !self.open_next(now)? {
                return Ok(());
            }
            match self.advance(now, emit) {
                Ok(true) => self.leave(),
                Ok(false) => return Ok(()),
                Err(error) => {
                    self.leave();
                    return Err(error);
                }
            }
        }
    }

    /// Emits pauses that were held back because they might have been incomplete.
    /// Nothing comes after them.
    pub fn finish(&mut self, emit: &mut dyn FnMut(JfrEvent)) {
        let since = self.since;
        self.reading.pauses.finish(&mut |pause| pass(since, JfrEvent::Pause(pause), emit));
    }

    /// A summary of what has been read so far.
    pub fn summary(&self) -> Summary {
        self.reading.summary
    }

    /// The threads that the current chunk has named so far: those that have events.
    pub fn threads(&mut self) -> Vec<Thread> {
        self.current.as_mut().map(|current| current.chunk.threads()).unwrap_or_default()
    }

    /// Reads what is new in the current chunk; returns whether it is finished.
    fn advance(&mut self, now: ClockPair, emit: &mut dyn FnMut(JfrEvent)) -> Result<bool, Error> {
        let Some(current) = &mut self.current else { return Ok(false) };
        let Some(header) = settled_header(&current.file)? else { return Ok(false) };
        if header.size_bytes > header::SIZE_BYTES && header.metadata_at != 0 {
            let since = self.since;
            let emit = &mut |observed| pass(since, observed, emit);
            current.clock.set_near(now);
            current.chunk.advance(&current.file, &header, &mut current.clock, &mut self.reading, emit)?;
        }
        Ok(header.is_finished())
    }

    fn leave(&mut self) {
        if let Some(current) = self.current.take() {
            self.last = (current.clock.start_ns(), current.path);
        }
    }

    /// Opens the oldest chunk that has not been read; returns whether there was one.
    fn open_next(&mut self, now: ClockPair) -> Result<bool, Error> {
        let names = match foreign::list(&self.folder) {
            // The JVM removes the folder when it ends.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.last.0 != i64::MIN => {
                return Ok(false);
            }
            names => names.map_err(|error| Error::io(&error, 0))?,
        };
        let paths = names.take(MAX_FILES).map(|(name, _)| self.folder.join(name));
        let chunks = paths.filter(|path| path.extension() == Some(OsStr::new("jfr")));
        // A file may have been removed, or not have its header yet.
        let chunks = chunks.filter_map(|path| Some((foreign::open(&path).ok()?, path)));
        let chunks = chunks.filter_map(|(file, path)| {
            let header = settled_header(&file).ok()??;
            Some((header, path, file))
        });
        let unread = chunks.filter(|(header, path, _)| (header.start_ns, path) > (self.last.0, &self.last.1));
        let unread = unread.filter(|(header, ..)| !self.is_over(header, now));
        let next =
            unread.min_by(|(a, a_path, _), (b, b_path, _)| (a.start_ns, a_path).cmp(&(b.start_ns, b_path)));
        let Some((header, path, file)) = next else { return Ok(false) };
        let clock = Clock::live(header, self.offset, now);
        self.current = Some(Current { path, file, chunk: Chunk::new(0, &mut self.reading), clock });
        Ok(true)
    }

    /// Whether everything in a chunk ended before `since`.
    fn is_over(&self, header: &Header, now: ClockPair) -> bool {
        let end = Clock::live(*header, self.offset, now).end();
        header.is_finished() && end < self.since
    }
}

fn pass(since: Nanos, observed: JfrEvent, emit: &mut dyn FnMut(JfrEvent)) {
    let end = match &observed {
        JfrEvent::LockWait(wait) => wait.end,
        JfrEvent::Pause(pause) => pause.end,
        JfrEvent::HandlerCall(call) => call.end,
    };
    if end >= since {
        emit(observed);
    }
}

/// Reads the header, unless it is being written meanwhile.
fn settled_header(file: &File) -> Result<Option<Header>, Error> {
    for _ in 0..MAX_TRIES {
        let first = read_header(file, 0)?;
        if !first.is_updating() && read_header(file, 0)? == first {
            return Ok(Some(first));
        }
    }
    Ok(None)
}
