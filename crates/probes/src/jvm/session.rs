//! Probes on one JVM: loaded, attached, read, and gone when dropped. Decides nothing: see [`super::JvmPlan`].

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, Object, RingBuffer, RingBufferBuilder};

use super::decode::Decoder;
use super::event::JvmEvent;
use super::object;
use super::plan::{JvmHook, JvmMechanism, JvmPlan};
use crate::error::Error;
use crate::overhead::{self, ProgramCost};
use crate::plan::State;
use crate::session;

/// Shorter waits explain no slow request, and are most of all waits.
pub const DEFAULT_MIN_WAIT: Duration = Duration::from_micros(100);

/// How to watch a JVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JvmOptions {
    /// Waits for monitors that are shorter are counted ([`JvmProbes::short_waits`]) and not reported.
    pub min_wait: Duration,
    /// Bytes of the ring buffer: a power of two, at least one page. Kernel memory, fixed.
    pub ring_bytes: u32,
    /// Have the kernel measure the BPF programs' run time (see [`JvmProbes::overhead`]).
    pub measure: bool,
    /// Put a program on every probe that does nothing, and so reports nothing: what that costs is what the kernel takes to
    /// call any, the floor to measure against.
    pub idle: bool,
}

impl Default for JvmOptions {
    /// 256 KiB hold about 1,200 waits.
    fn default() -> Self {
        Self { min_wait: DEFAULT_MIN_WAIT, ring_bytes: 256 << 10, measure: false, idle: false }
    }
}

/// `enum jvm_count`.
mod count {
    pub(super) const RING_FULL: u32 = 0;
    pub(super) const MAP_FULL: u32 = 1;
    pub(super) const NO_ARGUMENT: u32 = 2;
    pub(super) const SHORT_WAITS: u32 = 3;
    pub(super) const SHORT_NS: u32 = 4;
}

/// What the probes could not report, since they were attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JvmLosses {
    /// Events for which the ring buffer had no room.
    pub ring_full: u64,
    /// Waits that could not be followed: too many threads waited at a time.
    pub map_full: u64,
    /// Runs of a BPF program that the kernel skipped. Kernels before 5.12 do not count them.
    pub skipped: u64,
    /// Arguments of probes that could not be read: a wait is lost, or its class has no name.
    pub arguments_unread: u64,
    /// Records that user space could not decode.
    pub undecodable: u64,
}

impl JvmLosses {
    /// All of them.
    pub fn sum(&self) -> u64 {
        self.ring_full + self.map_full + self.skipped + self.arguments_unread + self.undecodable
    }
}

/// Waits that were too short to be reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShortWaits {
    /// How many.
    pub count: u64,
    /// How long they were together, nanoseconds.
    pub total_ns: u64,
}

/// Attached probes.
pub struct JvmProbes {
    // Dropped in this order: no more events, then the buffer, then the maps.
    _links: Vec<Link>,
    ring: RingBuffer<'static>,
    object: Object,
    received: Arc<Mutex<Received>>,
    plan: JvmPlan,
    _measuring: Option<OwnedFd>,
}

#[derive(Default)]
struct Received {
    decoder: Decoder,
    events: Vec<JvmEvent>,
    undecodable: u64,
}

impl JvmProbes {
    /// Loads and attaches what the plan uses. A purpose whose probes cannot be attached is left out: [`JvmProbes::plan`]
    /// says why.
    ///
    /// # Errors
    /// Where nothing remains, or the kernel refuses the programs.
    pub fn attach(plan: &JvmPlan, options: &JvmOptions) -> Result<Self, Error> {
        if plan.used().next().is_none() {
            return Err(Error::NothingToAttach);
        }
        let measuring = if options.measure { overhead::count_run_time() } else { None };
        let (object, plan) = load(plan, options)?;
        let received = Arc::<Mutex<Received>>::default();
        let ring = reading(&object, &received)?;
        let (links, plan) = attach_all(&object, &plan, options)?;
        Ok(Self { _links: links, ring, object, received, plan, _measuring: measuring })
    }

    /// What was attached: the plan less what could not be.
    pub fn plan(&self) -> &JvmPlan {
        &self.plan
    }

    /// Waits until the ring buffer fills up or the time is up, then delivers what is there, in the order in which the events
    /// ended.
    ///
    /// # Errors
    /// Where the ring buffer cannot be read.
    pub fn poll(&mut self, timeout: Duration, out: &mut dyn FnMut(JvmEvent)) -> Result<(), Error> {
        session::wait(&self.ring, timeout)?;
        self.ring.consume().map_err(Error::Ring)?;
        let events = std::mem::take(&mut lock(&self.received).events);
        events.into_iter().for_each(out);
        Ok(())
    }

    /// What was lost since the probes were attached.
    pub fn losses(&self) -> JvmLosses {
        JvmLosses {
            ring_full: self.counted(count::RING_FULL),
            map_full: self.counted(count::MAP_FULL),
            skipped: self.overhead().iter().map(|cost| cost.skipped).sum(),
            arguments_unread: self.counted(count::NO_ARGUMENT),
            undecodable: lock(&self.received).undecodable,
        }
    }

    /// Waits below [`JvmOptions::min_wait`] since the probes were attached.
    pub fn short_waits(&self) -> ShortWaits {
        ShortWaits { count: self.counted(count::SHORT_WAITS), total_ns: self.counted(count::SHORT_NS) }
    }

    /// What each BPF program cost so far; times and counts only with [`JvmOptions::measure`].
    pub fn overhead(&self) -> Vec<ProgramCost> {
        overhead::costs(&self.object)
    }

    /// The sum over all CPUs. A slot of a per-CPU array always exists, so a failed look-up has no meaning.
    fn counted(&self, slot: u32) -> u64 {
        let map = session::map(&self.object, "counts").ok();
        let counts = map.and_then(|map| map.lookup_percpu(&slot.to_ne_bytes(), MapFlags::ANY).ok().flatten());
        let counts = counts.unwrap_or_default();
        counts.iter().filter_map(|count| count.as_slice().try_into().ok().map(u64::from_ne_bytes)).sum()
    }
}

/// As planned; where the kernel refuses that, with the JVM's own probe in place of wake-ups.
fn load(plan: &JvmPlan, options: &JvmOptions) -> Result<(Object, JvmPlan), Error> {
    let on_wakeups = plan.used().any(|hook| hook.mechanism == JvmMechanism::Wakeups);
    match object::load(plan, options) {
        Err(error) if on_wakeups => {
            let plan = plan.without_wakeups(&error.to_string());
            Ok((object::load(&plan, options)?, plan))
        }
        loaded => Ok((loaded?, plan.clone())),
    }
}

fn reading(object: &Object, received: &Arc<Mutex<Received>>) -> Result<RingBuffer<'static>, Error> {
    let sink = Arc::clone(received);
    let map = session::map(object, "ring")?;
    let mut builder = RingBufferBuilder::new();
    let take = move |record: &[u8]| {
        let received = &mut *lock(&sink);
        match received.decoder.decode(record) {
            Some(event) => received.events.push(event),
            None => received.undecodable += 1,
        }
        0
    };
    builder.add(&map, take).map_err(Error::Ring)?;
    builder.build().map_err(Error::Ring)
}

fn attach_all(object: &Object, plan: &JvmPlan, options: &JvmOptions) -> Result<(Vec<Link>, JvmPlan), Error> {
    let mut plan = plan.clone();
    let mut links = Vec::new();
    let mut first = None;
    for hook in plan.used().cloned().collect::<Vec<JvmHook>>() {
        match object::attach(object, &plan, &hook, options) {
            Ok(attached) => links.extend(attached),
            Err(error) => {
                if let Some(hook) = plan.hooks.iter_mut().find(|it| it.purpose == hook.purpose) {
                    hook.state = State::Missing { why: error.to_string(), remedy: None };
                }
                first.get_or_insert(error);
            }
        }
    }
    match first {
        Some(error) if links.is_empty() => Err(error),
        _ => Ok((links, plan)),
    }
}

/// Nothing panics while it is held, and if it did, what it guards is still whole.
fn lock(received: &Mutex<Received>) -> MutexGuard<'_, Received> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}
