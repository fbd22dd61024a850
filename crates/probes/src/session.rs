//! Loads, attaches and reads the probes of one process; detaches on drop.
//!
//! Decides nothing: see [`crate::plan`].

mod links;
mod procfs;

use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use libbpf_rs::{MapCore as _, MapFlags, Object};
use model::ClockOffset;

use crate::bpf::probes::{OBJECT, types};
use crate::bpf::{self, BATCH, Loader, MapName, Ring, map_name};
use crate::decode::{Decoder, Decoding};
use crate::error::Error;
use crate::event::Event;
use crate::kallsyms::Symbols;
use crate::losses::Losses;
use crate::overhead::{self, ProgramCost};
use crate::perf_event;
use crate::plan::{Mechanism, Plan, Purpose};
use crate::process_ids::ProcessIds;
use crate::slice::Slice;
use crate::stacks::Stacks;

use links::Links;
use procfs::KernelThreads;

/// The longest wait, and so the delay of events.
const MAX_WAIT: Duration = Duration::from_millis(200);
/// Added delay after rare events were read.
///
/// Thousands of block requests a second wake the reader only twice a second, and fill less than half of a ring of 4 MiB
/// until then.
const REST_AFTER_RARE: Duration = Duration::from_millis(500);
/// Maximum batches per poll. A reader slower than its writers thus still returns to its caller.
const MAX_BATCHES: usize = 2_048;

/// What to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The process, as this process's `/proc` numbers it.
    pub pid: u32,
    /// Take kernel stacks where a thread leaves the CPU within a write.
    pub stacks: bool,
}

/// How to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of the ring buffer: a power of two, at least one page. Kernel memory, fixed.
    pub ring_bytes: u32,
    /// Report block requests of these devices only (whole disks, major and minor; at most 256); empty: of all.
    pub devices: Vec<(u32, u32)>,
    /// Makes the kernel measure the BPF programs' run time (see [`Probes::overhead`]).
    pub measure: bool,
    /// From `CLOCK_MONOTONIC` to the clock of the events.
    pub clock: ClockOffset,
}

impl Default for Options {
    /// 4 MiB hold about 15,000 writes; all devices; no measuring; the events' clock is `CLOCK_MONOTONIC`.
    fn default() -> Self {
        Self { ring_bytes: 4 << 20, devices: Vec::new(), measure: false, clock: ClockOffset::from_ns(0) }
    }
}

/// Programs that the kernel has verified, not attached yet.
pub struct LoadedProbes {
    probes: Probes,
    target: Target,
    options: Options,
}

impl LoadedProbes {
    /// Loads what the plan uses, without what the kernel refuses.
    ///
    /// # Errors
    /// Nothing can be loaded.
    pub fn load(plan: &Plan, target: &Target, options: &Options) -> Result<Self, Error> {
        let mut plan = plan.clone();
        loop {
            match Probes::load(&plan, target, options) {
                Ok(probes) => return Ok(Self { probes, target: target.clone(), options: options.clone() }),
                Err(Error::Refused { program, why }) if plan.needs(&program) => {
                    plan = plan.without(&program, &why);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// What will be attached.
    pub fn plan(&self) -> &Plan {
        &self.probes.plan
    }

    /// Attaches the programs. If the kernel refuses to attach one, loads the rest again.
    ///
    /// # Errors
    /// Nothing can be attached.
    pub fn attach(mut self) -> Result<Probes, Error> {
        let Probes { plan, object, cpus, .. } = &self.probes;
        match attach_all(plan, object, cpus) {
            Ok(links) => {
                self.probes.links = links;
                Ok(self.probes)
            }
            Err(Error::Refused { program, why }) if plan.needs(&program) => {
                Self::load(&plan.without(&program, &why), &self.target, &self.options)?.attach()
            }
            Err(error) => Err(error),
        }
    }
}

/// Attached probes.
pub struct Probes {
    // Dropped in this order: events stop, then the buffer goes, then the maps.
    links: Links,
    cpus: Vec<i32>,
    ring: Ring,
    object: Object,
    decoder: Decoder,
    undecodable: u64,
    /// Whether the last poll found rare events.
    had_rare: bool,
    /// From this many bytes on the ring is filling up: more than the amount at which the programs wake the reader,
    /// which it regularly reaches under load.
    urgent_bytes: usize,
    kernel_threads: Option<KernelThreads>,
    _measuring: Option<OwnedFd>,
    plan: Plan,
}

impl Probes {
    /// Loads and attaches what the plan uses, with default [`Options`].
    pub fn attach(plan: &Plan, target: &Target) -> Result<Self, Error> {
        Self::attach_with(plan, target, &Options::default())
    }

    /// Loads and attaches what the plan uses.
    ///
    /// Leaves out a program that the kernel refuses, with the purposes it served: [`Probes::plan`] says which.
    pub fn attach_with(plan: &Plan, target: &Target, options: &Options) -> Result<Self, Error> {
        LoadedProbes::load(plan, target, options)?.attach()
    }

    fn load(plan: &Plan, target: &Target, options: &Options) -> Result<Self, Error> {
        if plan.used().next().is_none() {
            return Err(Error::NothingToAttach);
        }
        let stacks = target.stacks && plan.uses(Purpose::KernelStacks);
        let measuring = if options.measure { overhead::count_run_time() } else { None };
        let symbols =
            if stacks { Symbols::of_this_kernel().map_err(Error::Read)? } else { Symbols::default() };
        let object = load(plan, target.pid, stacks, &symbols, options)?;
        let cpus = perf_event::online_cpus().map_err(Error::Read)?;
        let decoder = Decoder::new(target.pid, plan.hz, options.clock, Stacks::new(symbols))
            .with_cpus(cpus.len() as u32);
        let ring = Ring::new(&object, map_name!(probes.ring))?;
        let mut kernel_threads = (stacks && plan.uses(Purpose::KernelThreads)).then(KernelThreads::default);
        kernel_threads.as_mut().map_or(Ok(()), |threads| threads.refresh(&object))?;
        Ok(Self {
            links: Links::default(),
            cpus,
            ring,
            object,
            decoder,
            undecodable: 0,
            had_rare: false,
            urgent_bytes: options.ring_bytes as usize / 2,
            kernel_threads,
            _measuring: measuring,
            plan: plan.clone(),
        })
    }

    /// The plan as attached, without what the kernel refused.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Waits for the ring buffer to fill up, then delivers the pending events. Waits no longer than 200 ms or
    /// `timeout`.
    ///
    /// Events are in the order in which the kernel finished them, roughly by their end. The programs do not wake the
    /// reader until a quarter of the ring is full, so that the broker's threads send few interrupts. With a plan of
    /// rare events ([`Plan::choose_rare`]) the first event wakes the reader, which then does not poll again for half a
    /// second. Rests after each [`Slice`], unless the ring is half full.
    pub fn poll(&mut self, timeout: Duration, out: &mut dyn FnMut(Event)) -> Result<(), Error> {
        self.kernel_threads.as_mut().map_or(Ok(()), |threads| threads.refresh(&self.object))?;
        self.wait(timeout)?;
        self.had_rare = self.plan.is_rare && self.ring.unread_bytes() > 0;
        let mut slice = Slice::new(Slice::SHORT);
        let (decoder, undecodable) = (&mut self.decoder, &mut self.undecodable);
        let mut decode = |record: &[u8]| match decoder.decode(record) {
            Decoding::Event(event) => out(event),
            Decoding::Context => {}
            Decoding::Unknown => *undecodable += 1,
        };
        for _ in 0..MAX_BATCHES {
            if self.ring.read_batch(&mut decode)? < BATCH {
                break;
            }
            slice.rest_if_over(|| self.ring.unread_bytes() > self.urgent_bytes);
        }
        Ok(())
    }

    fn wait(&self, timeout: Duration) -> Result<(), Error> {
        if self.had_rare {
            // Not a sleep: a thread that stops this one unparks it.
            std::thread::park_timeout(timeout.min(REST_AFTER_RARE));
        }
        self.ring.wait(if self.plan.is_rare { timeout } else { timeout.min(MAX_WAIT) })
    }

    /// What was lost since the probes were attached.
    pub fn losses(&self) -> Losses {
        let lost = |slot: types::lost_slot| lost(&self.object, slot.0);
        Losses {
            ring_full: lost(types::lost_slot::LOST_RING_FULL),
            map_full: lost(types::lost_slot::LOST_MAP_FULL),
            heads_unread: lost(types::lost_slot::LOST_HEAD),
            stacks_missing: lost(types::lost_slot::LOST_STACK),
            mappings_unseen: lost(types::lost_slot::LOST_MAPPING),
            skipped: overhead::skipped(&self.object),
            switches_unseen: lost(types::lost_slot::LOST_SWITCH),
            undecodable: self.undecodable,
        }
    }

    /// Calls on TCP connections that moved nothing and are no event: they would have had to wait, or the stream had
    /// ended.
    pub fn empty_socket_calls(&self) -> u64 {
        bpf::sum_over_cpus(&self.object, map_name!(probes.empty_socket_calls), 0)
    }

    /// What each BPF program has cost so far; times and counts only with [`Options::measure`].
    pub fn overhead(&self) -> Vec<ProgramCost> {
        overhead::costs(&self.object)
    }
}

/// Attaches all programs, ends before beginnings. Returns of system calls come before their entries, and completions
/// before issues, so that an operation whose start is seen has its end seen too. Declarations list entries first, so
/// the order is reversed.
fn attach_all(plan: &Plan, object: &Object, cpus: &[i32]) -> Result<Links, Error> {
    let mut links = Links::default();
    for hook in plan.used() {
        for name in hook.typed_programs().iter().rev() {
            links.0.push(links::attach_typed(object, name)?);
        }
        for function in &hook.functions {
            links.0.push(links::attach_typed(object, function.exit)?);
            links.0.push(links::attach_typed(object, function.entry)?);
        }
        if let Some(program) = hook.clock_program() {
            links.0.extend(links::attach_clock(object, program, cpus)?);
        }
        for point in hook.points.iter().rev() {
            links.0.push(links::attach_point(object, point)?);
        }
    }
    Ok(links)
}

/// Loads the plan's programs with their settings; attaches none.
fn load(plan: &Plan, pid: u32, stacks: bool, symbols: &Symbols, options: &Options) -> Result<Object, Error> {
    let ids = ProcessIds::of_this_host()?;
    let children: Vec<_> = procfs::children_of(pid).iter().filter_map(|&pid| ids.root_of(pid)).collect();
    let filemap_fault = symbols.range_of("filemap_fault").unwrap_or_default();
    // Programs on kernel functions may be preempted, unlike those on tracepoints.
    let preemptible = plan.used().any(|hook| hook.mechanism == Mechanism::Functions);
    let settings = types::settings {
        tgid: ids.root_of(pid).ok_or(Error::OtherPidNamespace { pid })?,
        stacks: u8::from(stacks),
        sockets: u8::from(plan.uses(Purpose::SocketOps)),
        jiffy_us: plan.hz.filter(|&hz| hz > 0).map_or(0, |hz| 1_000_000 / hz),
        children: children.len() as u32,
        filemap_fault: filemap_fault.start,
        filemap_fault_end: filemap_fault.end,
        page_shift: page_shift(),
        only_devices: u8::from(!options.devices.is_empty()),
        kernel_threads: u8::from(stacks && plan.uses(Purpose::KernelThreads)),
        preemptible: u8::from(preemptible),
        futex_waits: u8::from(stacks && plan.uses(Purpose::FutexWaits)),
        exact_commits: u8::from(plan.uses(Purpose::BtrfsFunctions)),
        process_stops: u8::from(plan.uses(Purpose::ProcessStops)),
        wake_bytes: if plan.is_rare { 0 } else { u64::from(options.ring_bytes / 4) },
    };
    let mut loader = Loader::open("brokerscope", OBJECT)?;
    loader.choose_programs(|program| plan.needs(program));
    if !preemptible {
        // Kernels before 5.11 neither have nor need this map type.
        loader.leave_out(map_name!(probes.thread_scratches))?;
    }
    loader.resize(map_name!(probes.ring), options.ring_bytes)?;
    let unused =
        if plan.needs("rq_issue") { map_name!(probes.requests) } else { map_name!(probes.requests_at) };
    loader.resize(unused, 1)?;
    loader.set(offset_of!(types::rodata, settings), &settings)?;
    loader.set(offset_of!(types::rodata, pid_settings), &ids.settings())?;
    for point in plan.used().flat_map(|hook| &hook.points) {
        for (declared, found) in point.tracepoint.fields.iter().zip(&point.fields) {
            let at = offset_of!(types::rodata, fields) + declared.slot;
            loader.set(at, &types::field { offset: found.offset, size: found.size })?;
        }
    }
    let object = loader.load()?;
    fill_set(&object, map_name!(probes.children), children.into_iter())?;
    let devices = options.devices.iter().map(|&(major, minor)| (major << 20) | (minor & 0xf_ffff));
    fill_set(&object, map_name!(probes.devices), devices)?;
    Ok(object)
}

/// log2 of the page size, which is a power of two.
fn page_shift() -> u32 {
    // SAFETY: the call takes a number only.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    bytes.trailing_zeros()
}

fn fill_set(object: &Object, name: MapName, numbers: impl Iterator<Item = u32>) -> Result<(), Error> {
    let map = bpf::map(object, name)?;
    for number in numbers {
        map.update(&number.to_ne_bytes(), &[1], MapFlags::ANY)
            .map_err(|source| Error::Load { source, log: format!("{}: {number}", name.0) })?;
    }
    Ok(())
}

/// The current count in a slot of `lost`.
fn lost(object: &Object, slot: u32) -> u64 {
    let at = offset_of!(types::bss, lost) + slot as usize * size_of::<u64>();
    bpf::shared_word(object, at).map_or(0, |word| word.load(Ordering::Relaxed))
}

const _: () = assert!(offset_of!(types::bss, lost) % size_of::<u64>() == 0);
