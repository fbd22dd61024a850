//! Probes on one process: loaded, attached, read, and gone when dropped. Decides nothing: see
//! [`crate::plan`].

mod children;
mod kernel_threads;
mod links;
mod loss_counters;
mod object;
mod perf_event;
mod refusal;
mod ring;

use std::os::fd::OwnedFd;
use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, Object};

use crate::bpf::lost;
use crate::decode::Decoder;
use crate::error::Error;
use crate::event::Event;
use crate::kallsyms::Symbols;
use crate::losses::Losses;
use crate::overhead::{self, ProgramCost};
use crate::plan::{Plan, Purpose};
use crate::process_ids::ProcessIds;
use crate::stacks::Stacks;

use kernel_threads::KernelThreads;
use links::Links;
pub(crate) use object::{catch_log, map, program, take_log};
use ring::Ring;
pub(crate) use ring::wait;

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
    /// Have the kernel measure the BPF programs' run time (see [`Probes::overhead`]).
    pub measure: bool,
}

impl Default for Options {
    /// 4 MiB hold about 15,000 writes; all devices; no measuring.
    fn default() -> Self {
        Self { ring_bytes: 4 << 20, devices: Vec::new(), measure: false }
    }
}

/// Attached probes.
pub struct Probes {
    // Dropped in this order: no more events, then the buffer, then the maps.
    _links: Links,
    ring: Ring,
    object: Object,
    kernel_threads: Option<KernelThreads>,
    _measuring: Option<OwnedFd>,
    plan: Plan,
}

impl Probes {
    /// Loads and attaches what the plan uses, with default [`Options`].
    pub fn attach(plan: &Plan, target: &Target) -> Result<Self, Error> {
        Self::attach_with(plan, target, &Options::default())
    }

    /// Loads and attaches what the plan uses. A program that the kernel refuses is left out, with the purposes it
    /// served: [`Probes::plan`] says which.
    pub fn attach_with(plan: &Plan, target: &Target, options: &Options) -> Result<Self, Error> {
        let mut plan = plan.clone();
        loop {
            match Self::try_attach(&plan, target, options) {
                Err(Error::Refused { program, why }) if plan.needs(&program) => {
                    plan = plan.without(&program, &why);
                }
                result => return result,
            }
        }
    }

    fn try_attach(plan: &Plan, target: &Target, options: &Options) -> Result<Self, Error> {
        if plan.used().next().is_none() {
            return Err(Error::NothingToAttach);
        }
        let stacks = target.stacks && plan.uses(Purpose::KernelStacks);
        let measuring = if options.measure { overhead::count_run_time() } else { None };
        let symbols =
            if stacks { Symbols::of_this_kernel().map_err(Error::Read)? } else { Symbols::default() };
        let ids = ProcessIds::of_this_host()?;
        let children: Vec<_> = children::of(target.pid).iter().filter_map(|&pid| ids.root_of(pid)).collect();
        let filemap_fault = symbols.range_of("filemap_fault");
        let pid = ids.root_of(target.pid).ok_or(Error::OtherPidNamespace { pid: target.pid })?;
        let settings =
            object::Settings { pid, ids: &ids, stacks, children: &children, filemap_fault, options };
        let object = object::load(plan, &settings)?;
        let decoder = Decoder::new(target.pid, plan.hz, Stacks::new(symbols));
        let ring = Ring::new(&object::map(&object, "ring")?, decoder)?;
        let mut kernel_threads = (stacks && plan.uses(Purpose::KernelThreads)).then(KernelThreads::default);
        kernel_threads.as_mut().map_or(Ok(()), |threads| threads.refresh(&object))?;
        let links = attach_all(plan, &object)?;
        Ok(Self { _links: links, ring, object, kernel_threads, _measuring: measuring, plan: plan.clone() })
    }

    /// What was attached: the plan less what the kernel refused.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Waits until the ring buffer fills up, 200 ms have passed or the timeout has, then delivers what is
    /// there: in the order in which the kernel finished the events, roughly by their end.
    pub fn poll(&mut self, timeout: Duration, out: &mut dyn FnMut(Event)) -> Result<(), Error> {
        self.kernel_threads.as_mut().map_or(Ok(()), |threads| threads.refresh(&self.object))?;
        self.ring.wait(timeout)?;
        self.ring.drain(out)
    }

    /// What was lost since the probes were attached.
    pub fn losses(&self) -> Losses {
        Losses {
            ring_full: self.lost(lost::RING_FULL),
            map_full: self.lost(lost::MAP_FULL),
            heads_unread: self.lost(lost::HEAD),
            stacks_missing: self.lost(lost::STACK),
            mappings_unseen: self.lost(lost::MAPPING),
            skipped: self.overhead().iter().map(|cost| cost.skipped).sum(),
            undecodable: self.ring.undecodable(),
        }
    }

    /// Calls on TCP connections that moved nothing and are no [`crate::SocketOp`]: they would have had to wait, or
    /// the stream had ended.
    pub fn quiet_socket_calls(&self) -> u64 {
        self.sum("quiet", 0)
    }

    /// What each BPF program cost so far; times and counts only with [`Options::measure`].
    pub fn overhead(&self) -> Vec<ProgramCost> {
        overhead::costs(&self.object)
    }

    fn lost(&self, slot: u32) -> u64 {
        loss_counters::count(&self.object, slot)
    }

    /// The sum over all CPUs. A slot of a per-CPU array always exists, so a failed look-up has no meaning.
    fn sum(&self, map: &str, slot: u32) -> u64 {
        let counts = object::map(&self.object, map).ok();
        let counts =
            counts.and_then(|map| map.lookup_percpu(&slot.to_ne_bytes(), MapFlags::ANY).ok().flatten());
        let counts = counts.unwrap_or_default();
        counts.iter().filter_map(|count| count.as_slice().try_into().ok().map(u64::from_ne_bytes)).sum()
    }
}

/// Returns of system calls before their entries, completions before issues: what is seen starting is then
/// also seen ending. The tables list entries first, so the order is reversed.
fn attach_all(plan: &Plan, object: &Object) -> Result<Links, Error> {
    let mut links = Links::default();
    for hook in plan.used() {
        for name in hook.typed_programs().iter().rev() {
            links.keep(attach_typed(object, name)?);
        }
        for function in &hook.functions {
            links.keep(attach_typed(object, &function.exit)?);
            links.keep(attach_typed(object, &function.entry)?);
        }
        for point in hook.points.iter().rev() {
            let program = object::program(object, point.program)?;
            links.keep(perf_event::attach(&program, point)?);
        }
    }
    Ok(links)
}

/// To the tracepoint or function that the program names itself.
fn attach_typed(object: &Object, name: &str) -> Result<Link, Error> {
    let link = object::program(object, name)?.attach_trace();
    link.map_err(|error| Error::Refused { program: name.to_owned(), why: error.to_string() })
}
