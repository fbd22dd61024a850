//! A whole recording: a file of several chunks.
//! Does not follow a file that grows: [`super::Tail`] does.

use std::fs::File;

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

// Reads a recording while it is being made, from the chunks in a JVM's folder, one file each. Does not open them:
// `folder.rs` does.
//
// A JVM (14 and later; in 11 a chunk can be read when it is finished) flushes about once a second: it appends its
// threads' buffers, then writes into the chunk's header how much of the file is complete. Nothing past that is read.
// When a chunk is finished, the JVM starts the next file. The header is written in place: `header.rs` says how a reader
// detects that.

/// Limit of chunks that wait to be read. One waits as long as it has no header, and while an earlier one is being
/// written.
const MAX_UNREAD: usize = 256;

/// Attempts to read a header that changes meanwhile. Then it is left for the next poll.
const MAX_TRIES: usize = 3;

/// Follows the chunks that a JVM writes.
pub struct Tail {
    offset: ClockOffset,
    since: Nanos,
    reading: Interpreter,
    /// Chunks that have not been read: their names and files.
    unread: Vec<(String, File)>,
    current: Option<Current>,
    /// The start and the name of the last chunk that was read completely or abandoned.
    last: (i64, String),
}

/// The chunk that is being written.
struct Current {
    name: String,
    file: File,
    chunk: Chunk,
    clock: Clock,
}

impl Tail {
    /// Follows the chunks of a process, on the clock of a recording that has this offset. From chunks that began before
    /// `since`, emits only events that ended later.
    pub fn of(pid: Pid, offset: ClockOffset, since: Nanos) -> Self {
        Self {
            offset,
            since,
            reading: Interpreter::new(pid),
            unread: Vec::new(),
            current: None,
            last: (i64::MIN, String::new()),
        }
    }

    /// Adds the next chunk, by the name and the file that [`super::ChunkFolder`] opened. Drops the first one that waits
    /// if too many do.
    pub fn add(&mut self, name: String, file: File) {
        if self.unread.len() >= MAX_UNREAD {
            self.unread.remove(0);
            self.reading.summary.lost += 1;
        }
        self.unread.push((name, file));
    }

    /// Emits what the JVM has flushed since the last call. Takes both clocks at this moment. Calling it more often than
    /// the JVM flushes costs one read of a header.
    ///
    /// # Errors
    /// A chunk cannot be read. It is abandoned: the next call reads the next chunk.
    pub fn poll(&mut self, now: ClockPair, emit: &mut dyn FnMut(JfrEvent)) -> Result<(), Error> {
        self.drop_over(now);
        loop {
            if self.current.is_none() && !self.begin_next(now) {
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
            self.last = (current.clock.start_ns(), current.name);
        }
    }

    /// Begins the oldest unread chunk, and drops those that need not be read. Returns whether there was one.
    fn begin_next(&mut self, now: ClockPair) -> bool {
        // A file may not have its header yet.
        let chunks = std::mem::take(&mut self.unread).into_iter();
        let chunks = chunks.map(|(name, file)| (settled_header(&file).ok().flatten(), name, file));
        let is_unread = |header: &Header, name: &String| {
            (header.start_ns, name) > (self.last.0, &self.last.1) && !self.is_over(header, now)
        };
        let mut unread: Vec<_> = chunks
            .filter(|(header, name, _)| header.as_ref().is_none_or(|header| is_unread(header, name)))
            .collect();
        let begun = unread
            .iter()
            .enumerate()
            .filter_map(|(index, (header, name, _))| Some((header.as_ref()?.start_ns, name, index)));
        let oldest = begun.min().map(|(.., index)| index);
        let oldest = oldest.map(|index| unread.remove(index));
        self.unread = unread.into_iter().map(|(_, name, file)| (name, file)).collect();
        let Some((Some(header), name, file)) = oldest else { return false };
        let clock = Clock::live(header, self.offset, now);
        self.current = Some(Current { name, file, chunk: Chunk::new(0, &mut self.reading), clock });
        true
    }

    /// Drops the chunks that need not be read. They may be many, and would otherwise wait until the current one is finished.
    fn drop_over(&mut self, now: ClockPair) {
        if self.current.is_some() {
            let mut unread = std::mem::take(&mut self.unread);
            let is_over = |header| self.is_over(&header, now);
            unread.retain(|(_, file)| !settled_header(file).ok().flatten().is_some_and(is_over));
            self.unread = unread;
        }
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
