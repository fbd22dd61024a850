//! Loads, attaches and reads the always-on programs of one broker; detaches on drop.
//!
//! Decides nothing: see [`super::Plan`].

use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use libbpf_rs::{Link, Object};

use super::histogram::{self, Histogram};
use super::memory::{Mapping, bytes_of, copy_stamped};
use super::plan::{Plan, Purpose};
use super::record::{self, Connection, Record, SlowRequest};
use super::ring::{self, Interval};
use crate::bpf::always_on::{OBJECT, types};
use crate::bpf::{self, Loader, map_name, whole};
use crate::error::Error;
use crate::kallsyms::Symbols;
use crate::overhead::{self, ProgramCost};
use crate::process_ids::ProcessIds;
use crate::stacks::Stacks;

use types::always_on_count as Count;

/// Words of a request or append record, a wait record and a connection's ends.
const RECORD_WORDS: usize = size_of::<types::request_record>() / 8;
const WAIT_WORDS: usize = size_of::<types::wait_record>() / 8;
const ENDS_WORDS: usize = size_of::<types::ends>() / 8;
const MAX_PORTS: usize = 16;
/// Programs on reads. Those on arrivals are attached before them.
const READS: [&str; 2] = ["always_on_receive", "always_on_tcp_receive"];
/// Pause before these. Requests that lie in sockets when the first program is attached are read in this time; each one
/// after them is seen from its arrival on.
const BEFORE_READS: Duration = Duration::from_millis(100);
/// A histogram has a part for each CPU up to this number; more CPUs share them.
const MAX_HISTOGRAM_PARTS: u32 = 4;
/// `MAX_ENDS` of `bpf/always_on.h`.
const MAX_ENDS: u32 = 16_384;
/// log2 of the fewest slots that a part's marks need.
const MIN_SLOT_BITS: u32 = 8;
/// Keeps the array of all CPUs within the kernel's limit on map entries.
const MAX_SLOT_BITS: u32 = 20;

const _: () = assert!(size_of::<types::histogram>() == histogram::WORDS * 8);
const _: () = assert!(size_of::<types::part>() == ring::PART_WORDS * 8);
const _: () = assert!(offset_of!(types::ends, stamp) == (ENDS_WORDS - 1) * 8);

/// How to watch a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Ports of its listeners, at most 16.
    ///
    /// Empty: all connections that it accepts while it is watched; older ones are not followed, because nothing shows
    /// which end is the broker.
    pub ports: Vec<u16>,
    /// Requests that take at least this long are slow.
    pub threshold: Duration,
    /// Shorter waits are not recorded.
    pub min_wait: Duration,
    /// Slots for records of 64 bytes, for all CPUs: two per request, for as many seconds as are to be kept.
    pub records: u32,
    /// Slots for uninterruptible waits of 512 bytes, for all CPUs.
    pub waits: u32,
    /// Histograms, one per API and listener; 18 KiB for each CPU, of at most four.
    pub histograms: u32,
    /// Slow requests reported per second; more are counted.
    pub slow_per_second: u32,
    /// Makes the kernel measure the programs' run time (see [`Session::overhead`]).
    pub measure: bool,
}

impl Default for Options {
    /// 500 ms; 1 ms; 262,144 records, 16 MiB for 26 s of 5,000 requests a second; 2,048 waits, 1 MiB; 128 histograms,
    /// 2 MiB for each CPU, of at most four; 1,000 slow requests a second.
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            threshold: Duration::from_millis(500),
            min_wait: Duration::from_millis(1),
            records: 1 << 18,
            waits: 1 << 11,
            histograms: 128,
            // A stall of 0.2 s delays this many of 5,000 requests a second.
            slow_per_second: 1_000,
            measure: false,
        }
    }
}

/// What the programs could not follow or report since they were attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Requests in no histogram: more pairs of API and listener than [`Options::histograms`].
    pub without_histogram: u64,
    /// Slow requests over [`Options::slow_per_second`].
    pub over_limit: u64,
    /// Slow requests for which the ring buffer had no room.
    pub ring_full: u64,
    /// Calls on connections for whose state the kernel had no memory.
    pub without_connection: u64,
    /// Reads of connections whose request boundaries are unknown: older than the watch, encrypted, or after a bad
    /// frame.
    pub unsynchronised_reads: u64,
    /// Frames that are not Kafka's or whose head could not be read.
    pub bad_frames: u64,
    /// Requests abandoned because their answers could not be followed.
    pub given_up: u64,
    /// Answers whose correlation id matches no open request.
    pub mismatched: u64,
    /// Answers on a followed connection without an open request.
    pub unmatched: u64,
    /// Fetch requests not reported when slow: their `max_wait_ms` could not be read.
    pub without_max_wait: u64,
    /// Waits not followed: another waiting thread had the slot.
    pub without_slot: u64,
    /// Waits without a stack.
    pub without_stack: u64,
    /// Runs of a program that the kernel skipped.
    pub skipped: u64,
    /// Slow requests that this process could not decode.
    pub undecodable: u64,
}

/// The memory that the BPF programs write.
struct Memory {
    records: Mapping,
    record_parts: Mapping,
    waits: Mapping,
    wait_parts: Mapping,
    histograms: Mapping,
    ends: Mapping,
}

/// Binary logarithms of how CPUs share the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bits {
    /// Slots of one CPU.
    records: u32,
    waits: u32,
    /// Parts of a histogram.
    histograms: u32,
}

impl Bits {
    fn of(options: &Options, cpus: u32) -> Self {
        let histograms = cpus.clamp(1, MAX_HISTOGRAM_PARTS).next_power_of_two().ilog2();
        Self { records: slot_bits(options.records, cpus), waits: slot_bits(options.waits, cpus), histograms }
    }
}

/// Attached always-on programs.
pub struct Session {
    // Dropped in this order: events stop, then the buffer goes, then the maps.
    links: Vec<(&'static str, Link)>,
    ring: bpf::Ring,
    memory: Memory,
    object: Object,
    plan: Plan,
    bits: Bits,
    /// Read when the first wait is decoded.
    stacks: Option<Stacks>,
    undecodable: u64,
    _measuring: Option<OwnedFd>,
}

impl Session {
    /// Loads and attaches what the plan uses.
    ///
    /// Leaves out a program that the kernel refuses, with its purpose: [`Session::plan`] says why.
    ///
    /// # Errors
    /// Requests cannot be followed, or the kernel refuses the object.
    pub fn attach(plan: &Plan, pid: u32, options: &Options) -> Result<Self, Error> {
        let mut plan = plan.clone();
        let mut refused = None;
        loop {
            if plan.unavailable().is_some() {
                return Err(refused.unwrap_or(Error::NothingToAttach));
            }
            match Self::try_attach(&plan, pid, options) {
                Err(Error::Refused { program, why }) if plan.programs().any(|name| name == program) => {
                    plan = plan.without(&program, &why);
                    refused = Some(Error::Refused { program, why });
                }
                result => return result,
            }
        }
    }

    fn try_attach(plan: &Plan, pid: u32, options: &Options) -> Result<Self, Error> {
        let measuring = if options.measure { overhead::count_run_time() } else { None };
        let cpus = possible_cpus()?;
        let bits = Bits::of(options, cpus);
        let object = load(plan, pid, options, cpus, bits)?;
        let memory = Memory {
            records: Mapping::new(&object, map_name!(always_on.records))?,
            record_parts: Mapping::new(&object, map_name!(always_on.record_parts))?,
            waits: Mapping::new(&object, map_name!(always_on.waits))?,
            wait_parts: Mapping::new(&object, map_name!(always_on.wait_parts))?,
            histograms: Mapping::new(&object, map_name!(always_on.histograms))?,
            ends: Mapping::new(&object, map_name!(always_on.all_ends))?,
        };
        let ring = bpf::Ring::new(&object, map_name!(always_on.ring))?;
        set_threshold(&object, options.threshold);
        let mut links = Vec::new();
        for name in plan.programs() {
            if READS.contains(&name) {
                std::thread::sleep(BEFORE_READS);
            }
            links.push((name, attach(&object, name)?));
        }
        Ok(Self {
            links,
            ring,
            memory,
            object,
            plan: plan.clone(),
            bits,
            stacks: None,
            undecodable: 0,
            _measuring: measuring,
        })
    }

    /// The plan as attached, without what the kernel refused.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Detaches the programs of a purpose for the rest of the session.
    pub fn detach(&mut self, purpose: Purpose, why: &str) {
        self.plan = self.plan.clone().without_purpose(purpose, why);
        let plan = &self.plan;
        self.links.retain(|(program, _)| plan.programs().any(|used| used == *program));
    }

    /// Sets the threshold: from now on requests that take at least this long are slow.
    pub fn set_threshold(&self, threshold: Duration) {
        set_threshold(&self.object, threshold);
    }

    /// Sleeps until a request was slow or the time is up; returns the slow requests since the last call, ordered by
    /// their end.
    ///
    /// # Errors
    /// The ring buffer cannot be read.
    pub fn wait(&mut self, timeout: Duration) -> Result<Vec<SlowRequest>, Error> {
        self.ring.wait(timeout)?;
        let (mut slow, undecodable) = (Vec::new(), &mut self.undecodable);
        self.ring.read_all(|bytes| match SlowRequest::decode(bytes) {
            Some(request) => slow.push(request),
            None => *undecodable += 1,
        })?;
        Ok(slow)
    }

    /// Reads the records of an interval that are still there. Includes records that overlap its ends, and counts those
    /// that were overwritten. Open requests, without their answers, are not in it yet.
    pub fn interval(&mut self, from_ns: u64, to_ns: u64) -> Interval {
        let mut found = Interval::default();
        let mut take = |record: Option<Record>| {
            found.records.extend(record.filter(|it| it.first_ns() <= to_ns && it.last_ns() >= from_ns));
        };
        let memory = &self.memory;
        let (slots, parts, bits) = (memory.records.words(), memory.record_parts.words(), self.bits.records);
        let records = ring::Ring::<RECORD_WORDS> { slots, parts, bits };
        let overwritten = records.read(from_ns, |words| take(record::decode(&bytes_of(&words))));
        let (slots, parts, bits) = (memory.waits.words(), memory.wait_parts.words(), self.bits.waits);
        let waits = ring::Ring::<WAIT_WORDS> { slots, parts, bits };
        let stacks = &mut self.stacks;
        found.overwritten = overwritten
            + waits.read(from_ns, |words| {
                let stacks = stacks.get_or_insert_with(names_of_functions);
                take(record::decode_wait(&bytes_of(&words), stacks).map(Record::Wait));
            });
        found.records.sort_by_key(Record::first_ns);
        found
    }

    /// Histograms since the session began. There is one for every API on every listener that had requests.
    pub fn histograms(&self) -> impl Iterator<Item = Histogram> {
        let words = histogram::WORDS << self.bits.histograms;
        self.memory.histograms.words().chunks_exact(words).filter_map(Histogram::read)
    }

    /// Ends of a connection by its number; `None` once later connections have displaced it.
    pub fn connection(&self, number: u32) -> Option<Connection> {
        let at = (number % MAX_ENDS) as usize * ENDS_WORDS;
        let words = self.memory.ends.words().get(at..)?;
        let words = copy_stamped::<ENDS_WORDS>(words, ENDS_WORDS - 1, u64::from(number))?;
        whole(&bytes_of(&words)).map(|ends| record::decode_ends(&ends))
    }

    /// What was not followed or not reported since the session began.
    pub fn losses(&self) -> Losses {
        Losses {
            without_histogram: self.count(Count::COUNT_NO_HISTOGRAM),
            over_limit: self.count(Count::COUNT_OVER_LIMIT),
            ring_full: self.count(Count::COUNT_RING_FULL),
            without_connection: self.count(Count::COUNT_NO_CONNECTION),
            unsynchronised_reads: self.count(Count::COUNT_UNSYNCHRONISED),
            bad_frames: self.count(Count::COUNT_BAD_FRAME),
            given_up: self.count(Count::COUNT_GIVEN_UP),
            mismatched: self.count(Count::COUNT_MISMATCHED),
            unmatched: self.count(Count::COUNT_UNMATCHED),
            without_max_wait: self.count(Count::COUNT_NO_MAX_WAIT),
            without_slot: self.count(Count::COUNT_NO_SLOT),
            without_stack: self.count(Count::COUNT_NO_STACK),
            skipped: overhead::skipped(&self.object),
            undecodable: self.undecodable,
        }
    }

    /// What each program has cost so far; times and counts only with [`Options::measure`].
    pub fn overhead(&self) -> Vec<ProgramCost> {
        overhead::costs(&self.object)
    }

    fn count(&self, slot: Count) -> u64 {
        let at = offset_of!(types::bss, counts) + slot.0 as usize * size_of::<u64>();
        bpf::shared_word(&self.object, at).map_or(0, |word| word.load(Ordering::Relaxed))
    }
}

fn set_threshold(object: &Object, threshold: Duration) {
    let at = offset_of!(types::bss, control) + offset_of!(types::always_on_control, threshold_ns);
    if let Some(word) = bpf::shared_word(object, at) {
        word.store(saturated_ns(threshold), Ordering::Relaxed);
    }
}

/// Half the range of 64 bits, so that a program may add to it.
fn saturated_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX / 2)
}

fn names_of_functions() -> Stacks {
    Stacks::new(Symbols::of_this_kernel().unwrap_or_default())
}

fn possible_cpus() -> Result<u32, Error> {
    let cpus = libbpf_rs::num_possible_cpus();
    let cpus = cpus.map_err(|source| Error::Load { source, log: String::new() })?;
    Ok(u32::try_from(cpus).unwrap_or(u32::MAX).max(1))
}

/// log2 of the slots in one CPU's part: `slots` divided among the CPUs, rounded up to a power of two.
fn slot_bits(slots: u32, cpus: u32) -> u32 {
    let slots = slots.div_ceil(cpus).clamp(1 << MIN_SLOT_BITS, 1 << MAX_SLOT_BITS);
    slots.next_power_of_two().trailing_zeros()
}

fn attach(object: &Object, name: &str) -> Result<Link, Error> {
    let link = bpf::program(object, name)?.attach_trace();
    link.map_err(|error| Error::Refused { program: name.to_owned(), why: error.to_string() })
}

/// Loads the plan's programs with their settings; attaches none.
fn load(plan: &Plan, pid: u32, options: &Options, cpus: u32, bits: Bits) -> Result<Object, Error> {
    let ids = ProcessIds::of_this_host()?;
    let tgid = ids.root_of(pid).ok_or(Error::OtherPidNamespace { pid })?;
    let mut loader = Loader::open("brokerscope_on", OBJECT)?;
    loader.choose_programs(|program| plan.programs().any(|name| name == program));
    loader.resize(map_name!(always_on.records), cpus << bits.records)?;
    loader.resize(map_name!(always_on.record_parts), cpus)?;
    loader.resize(map_name!(always_on.waits), cpus << bits.waits)?;
    loader.resize(map_name!(always_on.wait_parts), cpus)?;
    loader.resize(map_name!(always_on.histograms), options.histograms.max(1) << bits.histograms)?;
    loader.resize(map_name!(always_on.all_ends), MAX_ENDS)?;
    loader.set(offset_of!(types::rodata, settings), &settings(tgid, options, bits))?;
    loader.set(offset_of!(types::rodata, pid_settings), &ids.settings())?;
    loader.load()
}

fn settings(tgid: u32, options: &Options, bits: Bits) -> types::always_on_settings {
    let mut ports = [0; MAX_PORTS];
    for (slot, port) in ports.iter_mut().zip(&options.ports) {
        *slot = *port;
    }
    types::always_on_settings {
        tgid,
        port_count: options.ports.len().min(MAX_PORTS) as u32,
        ports,
        min_wait_ns: saturated_ns(options.min_wait),
        record_bits: bits.records,
        wait_bits: bits.waits,
        histograms: options.histograms.max(1),
        histogram_bits: bits.histograms,
        slow_per_second: options.slow_per_second,
        reserved: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Bits, Options, settings, slot_bits};

    #[test]
    fn slots_are_divided_among_cpus_and_are_a_power_of_two() {
        assert_eq!((slot_bits(1 << 18, 2), slot_bits(1 << 18, 1)), (17, 18));
        assert_eq!((slot_bits(1000, 3), slot_bits(0, 64)), (9, 8));
        assert_eq!(slot_bits(u32::MAX, 1), 20);
        let parts = [1, 2, 3, 4, 256].map(|cpus| Bits::of(&Options::default(), cpus).histograms);
        assert_eq!(parts, [0, 1, 2, 2, 2]);
    }

    #[test]
    fn settings_hold_sixteen_listeners() {
        let ports = (9_000..9_020).collect();
        let options = Options { ports, min_wait: Duration::MAX, ..Options::default() };
        let settings = settings(7, &options, Bits { records: 10, waits: 9, histograms: 1 });
        assert_eq!((settings.tgid, settings.port_count, settings.ports[15]), (7, 16, 9_015));
        assert_eq!((settings.min_wait_ns, settings.record_bits, settings.wait_bits), (u64::MAX / 2, 10, 9));
    }
}
