//! Single samples of what runs, for a recording: few a second, each with its time and its stack by name.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapCore, Object, RingBuffer, RingBufferBuilder};

use super::frames::{Frames, Half};
use super::object::{self, Sampling};
use super::tables::{self, Kept, name, number, small_number};
use super::{Java, ProfileLosses, cpu_clock};
use crate::error::Error;
use crate::overhead::{self, ProgramCost};
use crate::session;

/// How often the process's code is looked at again: Java is compiled all the time.
const REFRESH: Duration = Duration::from_secs(30);
/// Distinct stacks, and pairs of them by name, that are remembered: a few MiB.
const MOST_STACKS: usize = 2_048;

/// A thread was on the CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When: `CLOCK_MONOTONIC` nanoseconds.
    pub at_ns: u64,
    /// The processor time it stands for, nanoseconds.
    pub period_ns: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub thread: Arc<str>,
    /// Where, as in [`model::StackTime::stack`].
    pub stack: Arc<str>,
}

/// Takes samples of one process.
pub struct Sampler {
    // Dropped in this order: no more samples, then the buffer, then the maps.
    _links: Vec<Link>,
    ring: RingBuffer<'static>,
    records: Arc<Mutex<Vec<Record>>>,
    object: Object,
    frames: Frames,
    /// Stacks by their number.
    kept: HashMap<u64, Kept>,
    /// Their names, both halves together.
    texts: HashMap<(u64, u64), Arc<str>>,
    refreshed: Instant,
    pid: u32,
    period_ns: u64,
    _measuring: Option<OwnedFd>,
}

/// `struct sample_event`.
struct Record {
    at_ns: u64,
    user_stack: u64,
    kernel_stack: u64,
    tid: u32,
    thread: Arc<str>,
}

impl Record {
    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            at_ns: number(bytes, 0)?,
            user_stack: number(bytes, 8)?,
            kernel_stack: number(bytes, 16)?,
            tid: small_number(bytes, 24)?,
            thread: name(bytes.get(32..)?),
        })
    }
}

impl Sampler {
    /// Starts to sample a process, so many times a second on each CPU.
    ///
    /// # Errors
    /// Where the kernel refuses the program or the clock.
    pub fn attach(pid: u32, hz: u32, measure: bool) -> Result<Self, Error> {
        let measuring = if measure { overhead::count_run_time() } else { None };
        let object = object::load(&Sampling::Each { pid, hz })?;
        let records = Arc::<Mutex<Vec<Record>>>::default();
        let ring = {
            let sink = Arc::clone(&records);
            let map = session::map(&object, "ring")?;
            let mut builder = RingBufferBuilder::new();
            let take = move |bytes: &[u8]| {
                lock(&sink).extend(Record::read(bytes));
                0
            };
            builder.add(&map, take).map_err(Error::Ring)?;
            builder.build().map_err(Error::Ring)?
        };
        let links = cpu_clock::attach(&session::program(&object, "sample_each")?, hz)?;
        Ok(Self {
            _links: links,
            ring,
            records,
            object,
            frames: Frames::of(pid)?,
            kept: HashMap::new(),
            texts: HashMap::new(),
            refreshed: Instant::now(),
            pid,
            period_ns: cpu_clock::period_ns(hz),
            _measuring: measuring,
        })
    }

    /// Delivers the samples that are there. To be called about once a second.
    ///
    /// # Errors
    /// Where the ring buffer or the table of stacks cannot be read.
    pub fn poll(&mut self, out: &mut dyn FnMut(Sample)) -> Result<(), Error> {
        if self.refreshed.elapsed() >= REFRESH {
            self.refreshed = Instant::now();
            self.frames.refresh();
            self.texts.clear();
        }
        let fetched = self.fetch_stacks()?;
        self.ring.consume().map_err(Error::Ring)?;
        let records = std::mem::take(&mut *lock(&self.records));
        for record in records {
            out(self.sample(record)?);
        }
        // Fetched before the samples were: one that came in between has its stacks in `kept`.
        let stacks = session::map(&self.object, "stacks")?;
        for id in fetched {
            let _ = stacks.delete(&id.to_ne_bytes());
        }
        Ok(())
    }

    /// What was lost so far.
    pub fn losses(&self) -> ProfileLosses {
        let skipped = self.overhead().iter().map(|cost| cost.skipped).sum();
        tables::losses(&self.object, skipped)
    }

    /// What the BPF program cost so far.
    pub fn overhead(&self) -> Vec<ProgramCost> {
        overhead::costs(&self.object)
    }

    /// What is known of Java's frames.
    pub fn java(&self) -> &Java {
        self.frames.java()
    }

    /// Copies the kernel's table of stacks, which is small because it is emptied each time.
    fn fetch_stacks(&mut self) -> Result<Vec<u64>, Error> {
        if self.kept.len() >= MOST_STACKS {
            self.kept.clear();
        }
        let stacks = session::map(&self.object, "stacks")?;
        let ids: Vec<u64> = stacks.keys().filter_map(|key| number(&key, 0)).collect();
        for &id in &ids {
            self.kept.entry(id).or_insert_with(|| tables::stack(&stacks, id));
        }
        Ok(ids)
    }

    fn sample(&mut self, record: Record) -> Result<Sample, Error> {
        let stack = self.text(record.user_stack, record.kernel_stack)?;
        Ok(Sample {
            at_ns: record.at_ns,
            period_ns: self.period_ns,
            pid: self.pid,
            tid: record.tid,
            thread: record.thread,
            stack,
        })
    }

    fn text(&mut self, user: u64, kernel: u64) -> Result<Arc<str>, Error> {
        if let Some(text) = self.texts.get(&(user, kernel)) {
            return Ok(Arc::clone(text));
        }
        let stacks = session::map(&self.object, "stacks")?;
        for id in [user, kernel] {
            self.kept.entry(id).or_insert_with(|| tables::stack(&stacks, id));
        }
        let half = |id| self.kept.get(&id).map_or(Half::Lost, Kept::half);
        let text = self.frames.text(half(user), half(kernel));
        if self.texts.len() >= MOST_STACKS {
            self.texts.clear();
        }
        self.texts.insert((user, kernel), Arc::clone(&text));
        Ok(text)
    }
}

/// Nothing panics while it is held.
fn lock(records: &Mutex<Vec<Record>>) -> std::sync::MutexGuard<'_, Vec<Record>> {
    records.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::Record;

    #[test]
    fn a_record_is_read_whole_or_not_at_all() {
        let mut bytes = [1_u64, 2, 3].map(u64::to_ne_bytes).concat();
        bytes.extend([4_u32, 0].map(u32::to_ne_bytes).concat());
        bytes.extend(b"handler\0\0\0\0\0\0\0\0\0");
        let record = Record::read(&bytes).unwrap();
        assert_eq!((record.at_ns, record.user_stack, record.kernel_stack, record.tid), (1, 2, 3, 4));
        assert_eq!(&*record.thread, "handler");
        assert!((0..32).all(|length| Record::read(&bytes[..length]).is_none()));
    }
}
