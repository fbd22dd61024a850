//! Single samples of running threads, for a recording: few a second, each with its time and its named stack.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapCore, Object};
use model::{ClockOffset, CpuSample, Nanos};

use super::object::{self, Sampling};
use super::tables::{Frames, Half};
use super::{ProfileLosses, tables};
use crate::bpf::profile::types::sample_event;
use crate::bpf::{self, Ring, map_name, whole};
use crate::error::Error;
use crate::overhead;
use crate::slice::Slice;

/// How often the process's code is read again: Java compiles all the time.
const REFRESH: Duration = Duration::from_secs(30);
/// Distinct stacks, and pairs of named stacks, that are cached: a few MiB.
const MAX_STACKS: usize = 2_048;

/// Takes samples of one process.
pub struct Sampler {
    // Dropped in this order: samples stop, then the buffer goes, then the maps.
    _links: Vec<Link>,
    ring: Ring,
    object: Object,
    frames: Frames,
    /// Stacks by their number.
    stacks: HashMap<u64, Half>,
    /// Texts of stacks, both halves joined.
    texts: HashMap<(u64, u64), Arc<str>>,
    refreshed: Instant,
    pid: u32,
    period: Nanos,
    clock: ClockOffset,
}

impl Sampler {
    /// Starts to sample a process, `hz` times a second on each CPU; `clock` is from `CLOCK_MONOTONIC` to the clock of
    /// the samples.
    ///
    /// # Errors
    /// The kernel refuses the program or the clock.
    pub fn attach(pid: u32, hz: u32, clock: ClockOffset) -> Result<Self, Error> {
        let object = object::load(&Sampling::Each { pid, hz })?;
        let ring = Ring::new(&object, map_name!(profile.ring))?;
        let links = object::attach_clock(&bpf::program(&object, "sample_each")?, hz)?;
        Ok(Self {
            _links: links,
            ring,
            object,
            frames: Frames::of(pid)?,
            stacks: HashMap::new(),
            texts: HashMap::new(),
            refreshed: Instant::now(),
            pid,
            period: Nanos(i64::try_from(object::period_ns(hz)).unwrap_or(i64::MAX)),
            clock,
        })
    }

    /// Delivers the pending samples; threads have the kernel's names. Call about once a second.
    ///
    /// # Errors
    /// The ring buffer or the table of stacks cannot be read.
    pub fn poll(&mut self, out: &mut dyn FnMut(CpuSample)) -> Result<(), Error> {
        if self.refreshed.elapsed() >= REFRESH {
            self.refreshed = Instant::now();
            self.frames.user.refresh();
            self.texts.clear();
        }
        let fetched = self.fetch_stacks()?;
        let mut records: Vec<sample_event> = Vec::new();
        self.ring.read_all(|record| records.extend(whole::<sample_event>(record)))?;
        let mut slice = Slice::new(Slice::LONG);
        for record in records {
            out(self.sample(&record)?);
            slice.rest_if_over(|| false);
        }
        // Fetched before the samples: the stacks of a sample that came in between are in `self.stacks`.
        let stacks = bpf::map(&self.object, map_name!(profile.stacks))?;
        for id in fetched {
            let _ = stacks.delete(&id.to_ne_bytes());
        }
        Ok(())
    }

    /// What was lost so far.
    pub fn losses(&self) -> ProfileLosses {
        tables::losses(&self.object, overhead::skipped(&self.object))
    }

    /// Copies the kernel's table of stacks. It is small because it is emptied each time.
    fn fetch_stacks(&mut self) -> Result<Vec<u64>, Error> {
        if self.stacks.len() >= MAX_STACKS {
            self.stacks.clear();
        }
        let stacks = bpf::map(&self.object, map_name!(profile.stacks))?;
        let ids: Vec<u64> =
            stacks.keys().filter_map(|key| key.try_into().ok().map(u64::from_ne_bytes)).collect();
        let mut slice = Slice::new(Slice::LONG);
        for &id in &ids {
            self.stacks.entry(id).or_insert_with(|| tables::stack(&stacks, id));
            slice.rest_if_over(|| false);
        }
        Ok(ids)
    }

    fn sample(&mut self, record: &sample_event) -> Result<CpuSample, Error> {
        Ok(CpuSample {
            at: self.clock.from_monotonic(record.at_ns),
            period: self.period,
            pid: self.pid,
            tid: record.tid,
            thread: tables::name(&record.comm),
            stack: self.text(record.user_stack, record.kernel_stack)?,
        })
    }

    fn text(&mut self, user: u64, kernel: u64) -> Result<Arc<str>, Error> {
        if let Some(text) = self.texts.get(&(user, kernel)) {
            return Ok(Arc::clone(text));
        }
        let stacks = bpf::map(&self.object, map_name!(profile.stacks))?;
        for id in [user, kernel] {
            self.stacks.entry(id).or_insert_with(|| tables::stack(&stacks, id));
        }
        let half = |id| self.stacks.get(&id).unwrap_or(&Half::Lost);
        let text = self.frames.text(half(user), half(kernel));
        if self.texts.len() >= MAX_STACKS {
            self.texts.clear();
        }
        self.texts.insert((user, kernel), Arc::clone(&text));
        Ok(text)
    }
}
