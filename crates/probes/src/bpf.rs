//! The compiled BPF objects: their generated types, loading, map access and ring buffers. Knows no probe.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libbpf_rs::{
    AsRawLibbpf as _, Map, MapCore as _, MapFlags, Object, ObjectBuilder, OpenMapMut, OpenObject, PrintLevel,
    ProgramMut, RingBuffer, RingBufferBuilder, libbpf_sys,
};

use crate::error::Error;
use crate::slice::Slice;

macro_rules! objects {
    ($($object:ident $Maps:ident),+) => {
        $(pub(crate) mod $object {
            #[allow(clippy::all, clippy::pedantic, clippy::indexing_slicing, clippy::undocumented_unsafe_blocks)]
            #[allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub, unsafe_op_in_unsafe_fn, dead_code)]
            #[allow(unused_imports)]
            mod skeleton {
                include!(concat!(env!("OUT_DIR"), "/", stringify!($object), ".skel.rs"));
            }

            #[allow(unused_imports, reason = "not every object has maps that are looked up")]
            pub(crate) use skeleton::$Maps as Maps;
            pub(crate) use skeleton::types;

            /// The object file that the skeleton was generated from.
            pub(crate) static OBJECT: &[u8] =
                include_bytes!(concat!(env!("OUT_DIR"), "/", stringify!($object), ".bpf.o"));
        })+
    };
}

objects!(probes ProbesMaps, profile ProfileMaps, process_list ProcessListMaps,
    thread_times ThreadTimesMaps, jvm JvmMaps, always_on AlwaysOnMaps, arrivals ArrivalsMaps);

/// The name of a map in one of the objects; made by [`map_name!`].
#[derive(Clone, Copy)]
pub(crate) struct MapName(pub(crate) &'static str);

/// The name of an object's map, as `map_name!(probes.ring)`.
///
/// Does not compile if the object has no such map.
macro_rules! map_name {
    ($object:ident.$map:ident) => {{
        const _: fn(&$crate::bpf::$object::Maps<'_>) = |maps| _ = &maps.$map;
        $crate::bpf::MapName(stringify!($map))
    }};
}
pub(crate) use map_name;

/// A C type of these objects: integers and arrays of integers, so any bytes are a valid value.
///
/// # Safety
/// Only for `repr(C)` types without unnamed padding, references, `bool` or enums.
pub(crate) unsafe trait Record: Default {}

macro_rules! records {
    ($($object:ident: $($record:ident),+;)+) => {
        // SAFETY: generated from C structures that hold only integers and arrays, without unnamed padding.
        $($(unsafe impl Record for $object::types::$record {})+)+
    };
}

records! {
    probes: settings, field, file_op_event, given_path, file_path_event, socket_event, tcp_trouble_event, off_cpu_event,
        waker_stack_event, journal_commit_event, block_io_event, dirty_throttle_event, reclaim_event, kernel_span_event,
        kernel_wait_event, process_stop_event, cpu_gap_event;
    profile: profile_settings, stack_key, stack_time, off_cpu, sample_event;
    process_list: process_list_settings, process_ids;
    thread_times: thread_times;
    jvm: jvm_settings, monitor_wait_event, jvm_pause_event;
    always_on: always_on_settings, request_record, append_record, cpu_wait_record, wait_record, ends, slow_request;
    arrivals: read_event;
}

/// Copies a record from bytes; `None` if they are too few.
pub(crate) fn whole<T: Record>(bytes: &[u8]) -> Option<T> {
    record(bytes, size_of::<T>())
}

/// Copies a record from at least `min_bytes` bytes; missing bytes are zero.
pub(crate) fn record<T: Record>(bytes: &[u8], min_bytes: usize) -> Option<T> {
    if bytes.len() < min_bytes {
        return None;
    }
    let mut value = T::default();
    let length = bytes.len().min(size_of::<T>());
    // SAFETY: `length` bytes are readable in `bytes` and writable in `value`, which do not overlap; any bytes
    // are a valid T (see Record).
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut value).cast::<u8>(), length) };
    Some(value)
}

pub(crate) fn as_bytes<T: Record>(value: &T) -> &[u8] {
    // SAFETY: a Record has no uninitialised bytes and is readable for its size.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// A string of the kernel, up to its first NUL.
pub(crate) fn text_of(chars: &[i8]) -> &[u8] {
    let bytes = bytes_of(chars);
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// The kernel's characters as bytes.
pub(crate) fn bytes_of(chars: &[i8]) -> &[u8] {
    // SAFETY: i8 and u8 have the same size, alignment and validity.
    unsafe { std::slice::from_raw_parts(chars.as_ptr().cast::<u8>(), chars.len()) }
}

/// An object that is not loaded yet. libbpf's warnings go into errors, not to stderr.
pub(crate) struct Loader(OpenObject);

impl Loader {
    /// Opens an object; `name` prefixes its data maps (`.rodata`, `.bss`) in the kernel.
    pub(crate) fn open(name: &str, object: &[u8]) -> Result<Self, Error> {
        catch_log();
        let mut builder = ObjectBuilder::default();
        builder.name(name).and_then(|builder| builder.open_memory(object)).map(Self).map_err(load_error)
    }

    /// Selects the programs to load.
    pub(crate) fn choose_programs(&mut self, is_used: impl Fn(&str) -> bool) {
        for mut program in self.0.progs_mut() {
            let used = program.name().to_str().is_some_and(&is_used);
            program.set_autoload(used);
        }
    }

    /// Sets a map's number of entries; for a ring buffer, its bytes.
    pub(crate) fn resize(&mut self, map: MapName, entries: u32) -> Result<(), Error> {
        self.map(map.0)?.set_max_entries(entries).map_err(load_error)
    }

    /// Leaves a map out.
    pub(crate) fn leave_out(&mut self, map: MapName) -> Result<(), Error> {
        self.map(map.0)?.set_autocreate(false).map_err(load_error)
    }

    /// Sets a constant of the programs, at its offset in `types::rodata`.
    pub(crate) fn set<T: Record>(&mut self, offset: usize, value: &T) -> Result<(), Error> {
        let mut constants = self.map(".rodata")?;
        let bytes = constants.initial_value_mut().unwrap_or_default();
        let target = bytes.get_mut(offset..offset + size_of::<T>()).ok_or_else(|| no_map(".rodata"))?;
        target.copy_from_slice(as_bytes(value));
        Ok(())
    }

    /// Loads the object into the kernel.
    pub(crate) fn load(self) -> Result<Object, Error> {
        self.0.load().map_err(load_error)
    }

    /// Finds a map by name; `.rodata` has the object's name as a prefix.
    fn map(&mut self, name: &str) -> Result<OpenMapMut<'_>, Error> {
        let is_it = |map: &str| map == name || (name.starts_with('.') && map.ends_with(name));
        self.0.maps_mut().find(|map| map.name().to_str().is_some_and(is_it)).ok_or_else(|| no_map(name))
    }
}

/// A map of a loaded object.
pub(crate) fn map(object: &Object, name: MapName) -> Result<Map<'_>, Error> {
    object.maps().find(|map| map.name() == name.0).ok_or_else(|| no_map(name.0))
}

/// A program of a loaded object.
pub(crate) fn program<'a>(object: &'a Object, name: &str) -> Result<ProgramMut<'a>, Error> {
    let found = object.progs_mut().find(|program| program.name() == name);
    found.ok_or_else(|| Error::NoSuchPart { what: "program", name: name.to_owned() })
}

/// Sums a per-CPU array's counter over all CPUs. Every slot exists, so a failed look-up counts as zero.
pub(crate) fn sum_over_cpus(object: &Object, name: MapName, slot: u32) -> u64 {
    let counts = map(object, name).ok();
    let counts = counts.and_then(|map| map.lookup_percpu(&slot.to_ne_bytes(), MapFlags::ANY).ok().flatten());
    let counts = counts.unwrap_or_default();
    counts.iter().filter_map(|count| count.as_slice().try_into().ok().map(u64::from_ne_bytes)).sum()
}

/// A variable of the programs, in memory shared with this process. `at` is its offset in `types::bss`.
///
/// System calls will not do: while one accesses a map, no program on a classic tracepoint runs on that CPU
/// (`bpf_disable_instrumentation`, include/linux/bpf.h), and meanwhile the reader may be preempted by the threads that
/// it watches.
pub(crate) fn shared_word(object: &Object, at: usize) -> Option<&AtomicU64> {
    let map = object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss"))?;
    let mut size = 0;
    // SAFETY: the map lives as long as the object, which is borrowed; libbpf has mapped its memory and reports its
    // size.
    let memory =
        unsafe { libbpf_sys::bpf_map__initial_value(map.as_libbpf_object().as_ptr(), &raw mut size) };
    let is_inside = at % size_of::<u64>() == 0 && at + size_of::<u64>() <= size as usize;
    if memory.is_null() || !is_inside {
        return None;
    }
    // SAFETY: inside the mapping, which is page-aligned and lives as long as the object; both sides access it as 64-bit
    // words.
    Some(unsafe { AtomicU64::from_ptr(memory.cast::<u8>().add(at).cast()) })
}

fn no_map(name: &str) -> Error {
    Error::NoSuchPart { what: "map", name: name.to_owned() }
}

/// Records taken from a ring at a time: few enough for a CPU's own cache, and for a part of a [`crate::Slice`].
pub(crate) const BATCH: usize = 32;

/// The reading end of a ring.
pub(crate) struct Ring {
    buffer: RingBuffer<'static>,
    received: Arc<Mutex<Records>>,
    /// The batch being delivered, swapped out of `received`; empty between batches, kept for its memory.
    batch: Records,
}

/// Records in order of arrival, concatenated.
#[derive(Default)]
struct Records {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Records {
    #[expect(clippy::expect_used, reason = "both are filled together")]
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        let mut next = move |end| self.bytes.get(std::mem::replace(&mut start, end)..end);
        self.ends.iter().map(move |&end| next(end).expect("a record ends within the bytes that came"))
    }
}

impl Ring {
    pub(crate) fn new(object: &Object, ring: MapName) -> Result<Self, Error> {
        let received = Arc::<Mutex<Records>>::default();
        let sink = Arc::clone(&received);
        let mut builder = RingBufferBuilder::new();
        let receive = move |record: &[u8]| {
            let records = &mut *lock(&sink);
            records.bytes.extend_from_slice(record);
            records.ends.push(records.bytes.len());
            0
        };
        let map = map(object, ring)?;
        builder.add(&map, receive).map_err(Error::Ring)?;
        let buffer = builder.build().map_err(Error::Ring)?;
        Ok(Self { buffer, received, batch: Records::default() })
    }

    /// Sleeps until a program wakes the reader or `timeout` is over.
    pub(crate) fn wait(&self, timeout: Duration) -> Result<(), Error> {
        let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        let mut poll_fd = libc::pollfd { fd: self.buffer.epoll_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        let result = unsafe { libc::poll(&raw mut poll_fd, 1, timeout_ms) };
        let error = io::Error::last_os_error();
        if result < 0 && error.kind() != io::ErrorKind::Interrupted {
            return Err(Error::Read(error));
        }
        Ok(())
    }

    /// Bytes that programs have written and this process has not read.
    pub(crate) fn unread_bytes(&self) -> usize {
        // SAFETY: the buffer lives as long as `self`, and its ring as long as the buffer; reading the ring's two
        // positions, which are shared with the kernel, is safe while they change. Without a ring, the pointer is null.
        unsafe {
            let ring = libbpf_sys::ring_buffer__ring(self.buffer.as_libbpf_object().as_ptr(), 0);
            if ring.is_null() { 0 } else { libbpf_sys::ring__avail_data_size(ring) as usize }
        }
    }

    /// Delivers at most one [`BATCH`]; returns the number of records.
    pub(crate) fn read_batch(&mut self, out: impl FnMut(&[u8])) -> Result<usize, Error> {
        let count = self.buffer.consume_raw_n(BATCH);
        std::mem::swap(&mut *lock(&self.received), &mut self.batch);
        self.batch.iter().for_each(out);
        self.batch.bytes.clear();
        self.batch.ends.clear();
        usize::try_from(count).map_err(|_| Error::Read(io::Error::from_raw_os_error(-count)))
    }

    /// Delivers all pending records, and rests after each [`Slice`].
    pub(crate) fn read_all(&mut self, mut out: impl FnMut(&[u8])) -> Result<(), Error> {
        let mut slice = Slice::new(Slice::SHORT);
        while self.read_batch(&mut out)? == BATCH {
            slice.rest_if_over(|| false);
        }
        Ok(())
    }
}

/// Locks the records. Nothing panics while holding the lock, and even then the records would be intact.
fn lock(received: &Mutex<Records>) -> MutexGuard<'_, Records> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The verifier's log of one refused program can be megabytes; its end has the reason.
const MAX_LOG_BYTES: usize = 8 << 10;
/// Longer reasons are cut.
const MAX_REASON_BYTES: usize = 300;

static LOG: Mutex<String> = Mutex::new(String::new());

/// Collects libbpf's warnings from now on instead of printing them; discards earlier ones.
pub(crate) fn catch_log() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, collect_log)));
    take_log();
}

#[expect(clippy::needless_pass_by_value, reason = "libbpf-rs expects this signature")]
fn collect_log(_: PrintLevel, line: String) {
    if let Ok(mut log) = LOG.lock() {
        log.push_str(&line);
        let excess = log.len().saturating_sub(MAX_LOG_BYTES);
        let cut = (excess..=log.len()).find(|&at| log.is_char_boundary(at)).unwrap_or(0);
        log.drain(..cut);
    }
}

/// Returns and clears libbpf's warnings since its log was caught.
pub(crate) fn take_log() -> String {
    std::mem::take(&mut *LOG.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The error for an object that was not loaded: about one program if libbpf names one, else the log.
fn load_error(source: libbpf_rs::Error) -> Error {
    let log = take_log();
    match refused_program(&log) {
        Some(program) => Error::Refused { program: program.to_owned(), why: reason(&log, program) },
        None => Error::Load { source, log },
    }
}

/// Parses `libbpf: prog 'sched_switch': failed to load: -EACCES`: the last such line names the program that failed.
fn refused_program(log: &str) -> Option<&str> {
    log.lines().rev().find_map(|line| {
        let (name, rest) = line.split_once("prog '")?.1.split_once('\'')?;
        rest.starts_with(": failed to ").then_some(name)
    })
}

/// The verifier's last line before its statistics. Without one, libbpf's message about that program.
fn reason(log: &str, program: &str) -> String {
    let mut lines = log.lines().rev().skip_while(|line| !line.starts_with("processed "));
    let verifier = lines.nth(1).map(str::trim).filter(|line| !line.is_empty());
    let libbpf =
        || log.lines().find_map(|line| line.split_once(&format!("prog '{program}': "))).map(|it| it.1);
    let why = verifier.or_else(libbpf).unwrap_or("it does not say why");
    model::beginning(why, MAX_REASON_BYTES).to_owned()
}

#[cfg(test)]
mod tests {
    use super::{reason, refused_program};

    const VERIFIER: &str = "libbpf: prog 'sched_switch': BPF program load failed: Permission denied
libbpf: prog 'sched_switch': -- BEGIN PROG LOAD LOG --
; bpf_probe_read_kernel(event->stack, stack_bytes, op->stack);
161: (85) call bpf_probe_read_kernel#113
R2 unbounded memory access, use 'var &= const' or 'if (var < const)'
processed 131 insns (limit 1000000) max_states_per_insn 0 total_states 11 peak_states 11 mark_read 5
-- END PROG LOAD LOG --
libbpf: prog 'sched_switch': failed to load: -EACCES
libbpf: failed to load object 'brokerscope'
";

    #[test]
    fn reason_is_the_last_verifier_message() {
        assert_eq!(refused_program(VERIFIER), Some("sched_switch"));
        assert!(reason(VERIFIER, "sched_switch").starts_with("R2 unbounded memory access"));
    }

    #[test]
    fn reason_is_libbpfs_message_without_a_verifier_log() {
        let log = "libbpf: prog 'a_called': failed to find kernel BTF type ID of 'a': -ESRCH
libbpf: prog 'a_called': failed to prepare load attributes: -ESRCH
libbpf: prog 'a_called': failed to load: -ESRCH
";
        assert_eq!(refused_program(log), Some("a_called"));
        assert_eq!(reason(log, "a_called"), "failed to find kernel BTF type ID of 'a': -ESRCH");
    }

    #[test]
    fn log_without_a_program_name_refuses_no_program() {
        assert_eq!(
            refused_program("libbpf: Error in bpf_object__probe_loading(): Operation not permitted\n"),
            None
        );
        assert_eq!(refused_program(""), None);
        assert_eq!(reason("", "x"), "it does not say why");
    }
}
