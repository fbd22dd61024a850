//! Opens the BPF object, fills in its settings and loads the programs that the plan uses. Attaches none.

use std::ops::Range;
use std::sync::Mutex;

use libbpf_rs::{
    Map, MapCore, MapFlags, Object, ObjectBuilder, OpenMapMut, OpenObject, PrintLevel, ProgramMut,
};

use super::{Options, refusal};
use crate::bpf::{OBJECT, types};
use crate::error::Error;
use crate::facts::Field;
use crate::plan::{Hook, Mechanism, Plan, Point, Purpose};
use crate::process_ids::ProcessIds;

/// What the programs are told.
pub(super) struct Settings<'a> {
    /// The target, as the root pid namespace numbers it.
    pub(super) pid: u32,
    /// Of the namespace by which records number processes.
    pub(super) ids: &'a ProcessIds,
    pub(super) stacks: bool,
    /// Processes that the target started, with theirs.
    pub(super) children: &'a [u32],
    /// Where the kernel's function of that name is, if known.
    pub(super) filemap_fault: Option<Range<u64>>,
    pub(super) options: &'a Options,
}

/// Loads the plan's programs; libbpf's warnings go into the error, not to stderr.
pub(super) fn load(plan: &Plan, settings: &Settings<'_>) -> Result<Object, Error> {
    catch_log();
    let refused = |source| Error::Load { source, log: take_log() };
    let mut builder = ObjectBuilder::default();
    let mut opened =
        builder.name("brokerscope").and_then(|builder| builder.open_memory(OBJECT)).map_err(refused)?;
    choose_programs(&mut opened, plan);
    prepare_maps(&mut opened, plan, settings)?;
    let object = opened.load().map_err(|source| refusal::error(source, take_log()))?;
    allow_devices(&object, &settings.options.devices)?;
    follow_children(&object, settings.children)?;
    Ok(object)
}

fn choose_programs(object: &mut OpenObject, plan: &Plan) {
    for mut program in object.progs_mut() {
        let used = plan.used().flat_map(Hook::programs).any(|name| program.name() == name);
        program.set_autoload(used);
    }
}

fn prepare_maps(object: &mut OpenObject, plan: &Plan, settings: &Settings<'_>) -> Result<(), Error> {
    // Kernels before 5.11 have no such map, nor need it.
    let mut rooms = open_map(object, |name| name == "thread_scratches")?;
    rooms.set_autocreate(is_preemptible(plan)).map_err(Error::Ring)?;
    let mut ring = open_map(object, |name| name == "ring")?;
    ring.set_max_entries(settings.options.ring_bytes).map_err(Error::Ring)?;
    let typed = plan.used().any(|hook| hook.purpose == Purpose::BlockIo && !hook.typed_programs().is_empty());
    let unused = if typed { "requests_at" } else { "requests" };
    open_map(object, |name| name == unused)?.set_max_entries(1).map_err(Error::Ring)?;
    let mut constants = open_map(object, |name| name.ends_with(".rodata"))?;
    let bytes = constants.initial_value_mut().unwrap_or_default();
    let values = constants_of(plan, settings);
    let room = bytes.get_mut(..size_of::<types::settings>()).ok_or_else(|| no_map("settings"))?;
    // SAFETY: settings is a C structure of integers without padding (the C side names every byte), readable
    // for its size; in the object it is the first of the constants (asserted below).
    room.copy_from_slice(unsafe {
        std::slice::from_raw_parts((&raw const values).cast::<u8>(), size_of::<types::settings>())
    });
    Ok(())
}

const _: () = assert!(std::mem::offset_of!(types::rodata, settings) == 0);

fn constants_of(plan: &Plan, settings: &Settings<'_>) -> types::settings {
    let mut constants = types::settings {
        tgid: settings.pid,
        stacks: u8::from(settings.stacks),
        sockets: u8::from(plan.uses(Purpose::SocketOps)),
        jiffy_us: plan.hz.filter(|&hz| hz > 0).map_or(0, |hz| 1_000_000 / hz),
        children: settings.children.len() as u32,
        filemap_fault: settings.filemap_fault.as_ref().map_or(0, |function| function.start),
        filemap_fault_end: settings.filemap_fault.as_ref().map_or(0, |function| function.end),
        page_shift: page_shift(),
        only_devices: u8::from(!settings.options.devices.is_empty()),
        kernel_threads: u8::from(settings.stacks && plan.uses(Purpose::KernelThreads)),
        preemptible: u8::from(is_preemptible(plan)),
        exact_commits: u8::from(plan.uses(Purpose::BtrfsFunctions)),
        wake_bytes: u64::from(settings.options.ring_bytes / 4),
        pid_namespace: settings.ids.namespace,
        pid_level: settings.ids.level,
        ..types::settings::default()
    };
    for point in plan.used().flat_map(|hook| &hook.points) {
        tell_fields(&mut constants.at, point);
    }
    constants
}

/// Programs on functions of the kernel may be preempted, unlike those on its tracepoints.
fn is_preemptible(plan: &Plan) -> bool {
    plan.used().any(|hook| hook.mechanism == Mechanism::Functions)
}

/// Fields come in the order of the C structures: see [`crate::tracepoints`].
fn tell_fields(at: &mut types::fields, point: &Point) {
    let mut fields = point.fields.iter().map(|&Field { offset, size }| types::field { offset, size });
    let mut next = || fields.next().unwrap_or_default();
    match point.program {
        "start_commit" => at.start_commit = types::commit_fields { dev: next(), transaction: next() },
        "end_commit" => at.end_commit = types::commit_fields { dev: next(), transaction: next() },
        "run_stats" => {
            at.run_stats = types::run_stats_fields {
                dev: next(),
                tid: next(),
                wait: next(),
                running: next(),
                locked: next(),
                flushing: next(),
                logging: next(),
                handle_count: next(),
                blocks: next(),
                blocks_logged: next(),
            }
        }
        "handle_start" => at.handle_start = types::handle_fields { dev: next(), tid: next() },
        "rq_issue" => {
            at.rq_issue = types::rq_issue_fields {
                dev: next(),
                sector: next(),
                nr_sector: next(),
                bytes: next(),
                rwbs: next(),
            }
        }
        "rq_complete" => {
            at.rq_complete = types::rq_complete_fields { dev: next(), sector: next(), nr_sector: next() }
        }
        "balance_dirty_pages" => {
            at.dirty = types::dirty_fields { limit: next(), setpoint: next(), dirty: next(), pause: next() }
        }
        "reclaim_end" => at.reclaim_end = types::reclaim_fields { nr_reclaimed: next() },
        "fc_commit_start" => at.fc_commit_start = types::span_fields { dev: next() },
        "grant_sleep" => at.grant_sleep = types::span_fields { dev: next() },
        "iclog_syncing" => at.iclog_syncing = types::iclog_fields { dev: next(), lsn: next() },
        "iclog_sync_done" => at.iclog_sync_done = types::iclog_fields { dev: next(), lsn: next() },
        "page_added" => {
            at.page_added =
                types::page_added_fields { ino: next(), dev: next(), index: next(), order: next() }
        }
        "page_fault" => at.page_fault = types::page_fault_fields { ino: next(), dev: next(), index: next() },
        "task_start" => at.task_start = types::task_start_fields { pid: next(), flags: next() },
        _ => {}
    }
}

/// Of the page size, which is a power of two.
fn page_shift() -> u32 {
    // SAFETY: the call takes a number only.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    bytes.trailing_zeros()
}

fn follow_children(object: &Object, children: &[u32]) -> Result<(), Error> {
    let map = map(object, "children")?;
    for pid in children {
        map.update(&pid.to_ne_bytes(), &[1], MapFlags::ANY)
            .map_err(|source| Error::Load { source, log: format!("child process {pid}") })?;
    }
    Ok(())
}

fn allow_devices(object: &Object, devices: &[(u32, u32)]) -> Result<(), Error> {
    let map = map(object, "devices")?;
    for &(major, minor) in devices {
        let number = (major << 20) | (minor & 0xf_ffff);
        map.update(&number.to_ne_bytes(), &[1], MapFlags::ANY)
            .map_err(|source| Error::Load { source, log: format!("device {major}:{minor}") })?;
    }
    Ok(())
}

pub(crate) fn map<'a>(object: &'a Object, name: &str) -> Result<Map<'a>, Error> {
    object.maps().find(|map| map.name() == name).ok_or_else(|| no_map(name))
}

pub(crate) fn program<'a>(object: &'a Object, name: &str) -> Result<ProgramMut<'a>, Error> {
    let found = object.progs_mut().find(|program| program.name() == name);
    found.ok_or_else(|| Error::NoSuchPart { what: "program", name: name.to_owned() })
}

fn open_map(object: &mut OpenObject, is_it: impl Fn(&str) -> bool) -> Result<OpenMapMut<'_>, Error> {
    let found = object.maps_mut().find(|map| map.name().to_str().is_some_and(&is_it));
    found.ok_or_else(|| no_map("of settings"))
}

fn no_map(name: &str) -> Error {
    Error::NoSuchPart { what: "map", name: name.to_owned() }
}

/// The verifier's log of one refused program can be megabytes; its end says why.
const MOST_LOG_BYTES: usize = 8 << 10;

static LOG: Mutex<String> = Mutex::new(String::new());

/// From now on libbpf's warnings are kept instead of printed; those of before are forgotten.
pub(crate) fn catch_log() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, keep_log)));
    take_log();
}

#[expect(clippy::needless_pass_by_value, reason = "libbpf-rs calls it so")]
fn keep_log(_: PrintLevel, line: String) {
    if let Ok(mut log) = LOG.lock() {
        log.push_str(&line);
        let excess = log.len().saturating_sub(MOST_LOG_BYTES);
        let cut = (excess..=log.len()).find(|&at| log.is_char_boundary(at)).unwrap_or(0);
        log.drain(..cut);
    }
}

/// What libbpf said since its log was caught.
pub(crate) fn take_log() -> String {
    LOG.lock().map(|mut log| std::mem::take(&mut *log)).unwrap_or_default()
}
