//! Reads the ring buffer. The programs do not wake the reader until a quarter of it is full, so the reader
//! comes by itself; the broker's threads then send no interrupts for it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libbpf_rs::{Map, MapCore as _, RingBuffer, RingBufferBuilder};

use crate::decode::{Decoded, Decoder};
use crate::error::Error;
use crate::event::Event;

/// The longest wait, and so the delay with which events arrive.
const LONGEST_WAIT: Duration = Duration::from_millis(200);
/// Records taken before they are handed on: the most that are held here at a time, few enough to stay in a
/// processor's own cache.
const BATCH: usize = 512;
/// Batches in one go, so that a reader slower than its writers still returns to its caller.
const MOST_BATCHES: usize = 128;
/// Between batches, unless the ring fills up: whoever waits for this processor, as a thread of the broker may, gets it
/// before the rest is read. A scheduler's slice is many times longer than a batch takes.
const PAUSE: Duration = Duration::from_millis(1);
/// What a record takes in the ring, about.
const RECORD_BYTES: usize = 160;

/// The ring buffer's reading end.
pub(super) struct Ring {
    buffer: RingBuffer<'static>,
    received: Arc<Mutex<Records>>,
    decoder: Decoder,
    undecodable: u64,
    /// Batches after which there are no more pauses: a quarter of the ring, where the programs wake the reader.
    leisurely: usize,
    /// The reader was woken because the ring fills up.
    filling: bool,
    /// Where a batch is decoded from while nothing is received; empty in between, kept for its room.
    batch: Records,
}

/// Records as they came, one behind the other: what is made of one is made once, where it is handed on.
#[derive(Default)]
struct Records {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Records {
    fn take(&mut self, record: &[u8]) {
        self.bytes.extend_from_slice(record);
        self.ends.push(self.bytes.len());
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends
            .iter()
            .map(move |&end| self.bytes.get(std::mem::replace(&mut start, end)..end).unwrap_or_default())
    }
}

impl Ring {
    pub(super) fn new(map: &Map<'_>, decoder: Decoder) -> Result<Self, Error> {
        let received = Arc::<Mutex<Records>>::default();
        let sink = Arc::clone(&received);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(map, move |record| {
                lock(&sink).take(record);
                0
            })
            .map_err(Error::Ring)?;
        let buffer = builder.build().map_err(Error::Ring)?;
        let leisurely = map.max_entries() as usize / 4 / RECORD_BYTES / BATCH;
        let batch = Records::default();
        Ok(Self { buffer, received, decoder, undecodable: 0, leisurely, filling: false, batch })
    }

    /// Sleeps until a program wakes the reader or the time is up.
    pub(super) fn wait(&mut self, timeout: Duration) -> Result<(), Error> {
        self.filling = wait(&self.buffer, timeout.min(LONGEST_WAIT))?;
        Ok(())
    }

    /// Delivers what is there.
    pub(super) fn drain(&mut self, out: &mut dyn FnMut(Event)) -> Result<(), Error> {
        for batch in 1..=MOST_BATCHES {
            let taken = self.buffer.consume_raw_n(BATCH);
            std::mem::swap(&mut *lock(&self.received), &mut self.batch);
            self.hand_on(out);
            let taken =
                usize::try_from(taken).map_err(|_| Error::Read(io::Error::from_raw_os_error(-taken)))?;
            if taken < BATCH {
                break;
            }
            if !self.filling && batch <= self.leisurely {
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    fn hand_on(&mut self, out: &mut dyn FnMut(Event)) {
        for record in self.batch.iter() {
            match self.decoder.decode(record) {
                Decoded::Event(event) => out(event),
                Decoded::Learnt => {}
                Decoded::Unknown => self.undecodable += 1,
            }
        }
        self.batch.clear();
    }

    /// Records that made no event.
    pub(super) fn undecodable(&self) -> u64 {
        self.undecodable
    }
}

/// Sleeps until a program wakes the buffer's reader or the time is up. Whether it was woken.
pub(crate) fn wait(buffer: &RingBuffer<'_>, timeout: Duration) -> Result<bool, Error> {
    let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let mut watched = libc::pollfd { fd: buffer.epoll_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd.
    let result = unsafe { libc::poll(&raw mut watched, 1, timeout_ms) };
    let error = io::Error::last_os_error();
    if result < 0 && error.kind() != io::ErrorKind::Interrupted {
        return Err(Error::Read(error));
    }
    Ok(result > 0)
}

/// Nothing panics while it is held, and if it did, what it guards is still whole.
fn lock(received: &Mutex<Records>) -> MutexGuard<'_, Records> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}
