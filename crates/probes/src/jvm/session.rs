//! Loads, attaches and reads the probes of one JVM; detaches on drop.
//!
//! Decides nothing: see [`super::JvmPlan`].

use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::time::Duration;

use libbpf_rs::{Link, Object};
use model::{ClockOffset, Event};

use super::decode::Decoder;
use super::plan::{JvmHook, JvmMechanism, JvmPlan, JvmPurpose, Probe};
use crate::bpf::jvm::OBJECT;
use crate::bpf::jvm::types::{self, jvm_count};
use crate::bpf::{self, Loader, Ring, map_name};
use crate::error::Error;
use crate::overhead::{self, ProgramCost};
use crate::plan::State;
use crate::process_ids::ProcessIds;

/// The longest wait if monitors are watched, and so the delay of events: nothing wakes the reader for each.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// Shorter waits explain no slow request, and are the majority.
pub const DEFAULT_MIN_WAIT: Duration = Duration::from_micros(100);

/// How to watch a JVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JvmOptions {
    /// Minimum length of a reported monitor wait. Shorter ones are counted ([`JvmProbes::short_waits`]) but not
    /// reported.
    pub min_wait: Duration,
    /// Bytes of the ring buffer: a power of two, at least one page. Kernel memory, fixed.
    pub ring_bytes: u32,
    /// Makes the kernel measure BPF programs' run time (see [`JvmProbes::overhead`]).
    pub measure: bool,
    /// Attaches a program that does nothing to every probe. Nothing is reported: its cost is what the kernel takes to
    /// call any program, the baseline for measurements.
    pub idle: bool,
    /// From `CLOCK_MONOTONIC` to the clock of the events.
    pub clock: ClockOffset,
}

impl Default for JvmOptions {
    /// 256 KiB hold about 1,200 waits; the events' clock is `CLOCK_MONOTONIC`.
    fn default() -> Self {
        Self {
            min_wait: DEFAULT_MIN_WAIT,
            ring_bytes: 256 << 10,
            measure: false,
            idle: false,
            clock: ClockOffset::from_ns(0),
        }
    }
}

/// What the probes could not report since they were attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JvmLosses {
    /// Events for which the ring buffer had no room.
    pub ring_full: u64,
    /// Waits not followed: too many threads waited at once.
    pub map_full: u64,
    /// Runs of a BPF program that the kernel skipped. Kernels before 5.12 do not count them.
    pub skipped: u64,
    /// Probe arguments that could not be read: a wait is lost, or its class has no name.
    pub arguments_unread: u64,
    /// Records that user space could not decode.
    pub undecodable: u64,
}

impl JvmLosses {
    /// Sum of all losses.
    pub fn sum(&self) -> u64 {
        self.ring_full + self.map_full + self.skipped + self.arguments_unread + self.undecodable
    }
}

/// Waits too short to be reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShortWaits {
    /// Number of waits.
    pub count: u64,
    /// Sum of their durations, in nanoseconds.
    pub total_ns: u64,
}

/// Attached probes.
pub struct JvmProbes {
    // Dropped in this order: events stop, then the buffer goes, then the maps.
    _links: Vec<Link>,
    ring: Ring,
    object: Object,
    decoder: Decoder,
    undecodable: u64,
    plan: JvmPlan,
    /// Whether each event wakes the reader, because only pauses are watched.
    is_woken: bool,
    _measuring: Option<OwnedFd>,
}

impl JvmProbes {
    /// Loads and attaches what the plan uses.
    ///
    /// Leaves out a purpose whose probes cannot be attached: [`JvmProbes::plan`] says why.
    ///
    /// # Errors
    /// Nothing remains, or the kernel refuses the programs.
    pub fn attach(plan: &JvmPlan, options: &JvmOptions) -> Result<Self, Error> {
        if plan.used().next().is_none() {
            return Err(Error::NothingToAttach);
        }
        let measuring = if options.measure { overhead::count_run_time() } else { None };
        let (object, plan) = load(plan, options)?;
        let ring = Ring::new(&object, map_name!(jvm.ring))?;
        let is_woken = !watches_waits(&plan);
        let (links, plan) = attach_all(&object, &plan, options)?;
        let decoder = Decoder::new(plan.pid, options.clock);
        Ok(Self {
            _links: links,
            ring,
            object,
            decoder,
            undecodable: 0,
            plan,
            is_woken,
            _measuring: measuring,
        })
    }

    /// The plan as attached, without what could not be.
    pub fn plan(&self) -> &JvmPlan {
        &self.plan
    }

    /// Waits for a pause or for the ring buffer to fill up, at most `timeout`. Waits for a pause only if no monitors
    /// are watched.
    ///
    /// Then delivers the pending events in order of their ends.
    ///
    /// # Errors
    /// The ring buffer cannot be read.
    pub fn poll(&mut self, timeout: Duration, out: &mut dyn FnMut(Event)) -> Result<(), Error> {
        self.ring.wait(if self.is_woken { timeout } else { timeout.min(MAX_WAIT) })?;
        let (decoder, undecodable) = (&mut self.decoder, &mut self.undecodable);
        self.ring.read_all(|record| match decoder.decode(record) {
            Some(event) => out(event),
            None => *undecodable += 1,
        })
    }

    /// What was lost since the probes were attached.
    pub fn losses(&self) -> JvmLosses {
        JvmLosses {
            ring_full: self.count(jvm_count::JVM_RING_FULL),
            map_full: self.count(jvm_count::JVM_MAP_FULL),
            skipped: overhead::skipped(&self.object),
            arguments_unread: self.count(jvm_count::JVM_NO_ARGUMENT),
            undecodable: self.undecodable,
        }
    }

    /// Waits below [`JvmOptions::min_wait`] since the probes were attached.
    pub fn short_waits(&self) -> ShortWaits {
        ShortWaits {
            count: self.count(jvm_count::JVM_SHORT_WAITS),
            total_ns: self.count(jvm_count::JVM_SHORT_NS),
        }
    }

    /// What each BPF program has cost so far; times and counts only with [`JvmOptions::measure`].
    pub fn overhead(&self) -> Vec<ProgramCost> {
        overhead::costs(&self.object)
    }

    fn count(&self, slot: jvm_count) -> u64 {
        bpf::sum_over_cpus(&self.object, map_name!(jvm.counts), slot.0)
    }
}

/// Loads the plan; if the kernel refuses it, uses the JVM's own probe instead of wake-ups.
fn load(plan: &JvmPlan, options: &JvmOptions) -> Result<(Object, JvmPlan), Error> {
    let on_wakeups = plan.used().any(|hook| hook.mechanism == JvmMechanism::Wakeups);
    match load_planned(plan, options) {
        Err(error) if on_wakeups => {
            let plan = plan.without_wakeups(&error.to_string());
            Ok((load_planned(&plan, options)?, plan))
        }
        loaded => Ok((loaded?, plan.clone())),
    }
}

fn attach_all(object: &Object, plan: &JvmPlan, options: &JvmOptions) -> Result<(Vec<Link>, JvmPlan), Error> {
    let mut plan = plan.clone();
    let mut links = Vec::new();
    let mut first = None;
    for hook in plan.used().cloned().collect::<Vec<JvmHook>>() {
        match attach_hook(object, &plan, &hook, options) {
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

/// The programs that do nothing, on a probe and on wake-ups.
const NOTHING: &str = "nothing";
const NOTHING_ON_WAKEUPS: &str = "nothing_waking";

/// Loads the plan's programs.
fn load_planned(plan: &JvmPlan, options: &JvmOptions) -> Result<Object, Error> {
    let ids = ProcessIds::of_this_host()?;
    let tgid = ids.root_of(plan.pid).ok_or(Error::OtherPidNamespace { pid: plan.pid })?;
    let mut loader = Loader::open("brokerscope_jvm", OBJECT)?;
    loader.choose_programs(|program| {
        plan.used().flat_map(JvmHook::programs).any(|name| program == program_or_idle(name, options))
    });
    loader.resize(map_name!(jvm.ring), options.ring_bytes)?;
    loader.set(offset_of!(types::rodata, settings), &settings(tgid, plan, options))?;
    loader.set(offset_of!(types::rodata, pid_settings), &ids.settings())?;
    loader.load()
}

fn watches_waits(plan: &JvmPlan) -> bool {
    plan.uses(JvmPurpose::MonitorWaits)
}

fn settings(tgid: u32, plan: &JvmPlan, options: &JvmOptions) -> types::jvm_settings {
    types::jvm_settings {
        tgid,
        min_ns: u64::try_from(options.min_wait.as_nanos()).unwrap_or(u64::MAX),
        wake_bytes: if watches_waits(plan) { u64::from(options.ring_bytes / 4) } else { 0 },
        owner_at: plan.owner_at,
        ..types::jvm_settings::default()
    }
}

fn program_or_idle(program: &'static str, options: &JvmOptions) -> &'static str {
    match program {
        _ if !options.idle => program,
        JvmHook::ON_WAKEUPS => NOTHING_ON_WAKEUPS,
        _ => NOTHING,
    }
}

/// Attaches a hook's programs to the process's library and the kernel's wake-ups.
fn attach_hook(
    object: &Object,
    plan: &JvmPlan,
    hook: &JvmHook,
    options: &JvmOptions,
) -> Result<Vec<Link>, Error> {
    let probes = hook.probes().iter();
    let probes =
        probes.map(|probe| attach_probe(object, plan, probe, program_or_idle(probe.program, options)));
    let wakeups = hook.on_wakeups().map(|program| attach_wakeups(object, program_or_idle(program, options)));
    probes.chain(wakeups).collect()
}

fn attach_wakeups(object: &Object, program: &'static str) -> Result<Link, Error> {
    let link = bpf::program(object, program)?.attach_trace();
    link.map_err(|source| Error::Attach { program: program.to_owned(), source })
}

fn attach_probe(
    object: &Object,
    plan: &JvmPlan,
    probe: &Probe,
    program: &'static str,
) -> Result<Link, Error> {
    bpf::catch_log();
    let pid = i32::try_from(plan.pid).unwrap_or(i32::MAX);
    let link = bpf::program(object, program)?.attach_usdt(pid, &plan.library, probe.provider, probe.name);
    link.map_err(|error| {
        let log = bpf::take_log();
        let why = log.lines().last().map_or_else(|| error.to_string(), |last| format!("{error}: {last}"));
        Error::Refused { program: program.to_owned(), why }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{JvmOptions, settings};
    use crate::jvm::plan::tests::capable;
    use crate::jvm::{JvmPlan, JvmPurpose};

    #[test]
    fn settings_have_minimum_wait_and_quarter_ring_wakeup() {
        let (host, jvm) = capable();
        let plan = JvmPlan::choose(&host, &jvm);
        let min_wait = Duration::from_micros(5);
        let options = JvmOptions { min_wait, ring_bytes: 4096, ..JvmOptions::default() };
        let all = settings(7, &plan, &options);
        assert_eq!((all.tgid, all.owner_at), (7, 64));
        assert_eq!((all.min_ns, all.wake_bytes), (5_000, 1_024));
        let pauses = plan.only(|purpose| purpose == JvmPurpose::Safepoints);
        assert_eq!(settings(7, &pauses, &options).wake_bytes, 0, "each wakes the reader");
    }
}
