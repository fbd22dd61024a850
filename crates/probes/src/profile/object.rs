//! Opens the profile's BPF object, fills in its settings and loads the programs that are asked for. Reads no
//! tables.

use libbpf_rs::{Link, Object, ObjectBuilder, OpenObject, ProgramType, libbpf_sys};

use super::{ProfileOptions, cpu_clock};
use crate::error::Error;
use crate::process_ids::ProcessIds;
use crate::session;

#[allow(clippy::all, clippy::pedantic, clippy::indexing_slicing, clippy::undocumented_unsafe_blocks)]
#[allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub, unsafe_op_in_unsafe_fn, dead_code)]
#[allow(unused_imports)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/profile.skel.rs"));
}

use skeleton::types;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/profile.bpf.o"));

/// Return addresses kept of a stack.
pub(super) const MOST_FRAMES: usize = 127;
const MOST_CALLS: usize = 8;

const _: () = {
    assert!(size_of::<types::profile_settings>() == 72);
    assert!(size_of::<types::stack>() == 8 + 8 * MOST_FRAMES);
    assert!(size_of::<types::spent_key>() == 40);
    assert!(size_of::<types::spent>() == 16);
    assert!(size_of::<types::absence>() == 40);
    assert!(size_of::<types::sample_event>() == 48);
    assert!(std::mem::offset_of!(types::rodata, settings) == 0);
};

/// What to load it for.
pub(super) enum Sampling<'a> {
    /// Time added up in the kernel.
    Total {
        options: &'a ProfileOptions,
        /// Whether the kernel is to look at the system call.
        in_calls: bool,
    },
    /// Single samples of a process, in the ring buffer.
    Each { pid: u32, hz: u32 },
}

pub(super) fn load(sampling: &Sampling<'_>) -> Result<Object, Error> {
    session::catch_log();
    let refused = |source| Error::Load { source, log: session::take_log() };
    let mut builder = ObjectBuilder::default();
    let opened = builder.name("brokerscope_prof").and_then(|builder| builder.open_memory(OBJECT));
    let mut opened = opened.map_err(refused)?;
    choose_programs(&mut opened, sampling);
    shrink_maps(&mut opened, sampling).map_err(refused)?;
    fill_in(&mut opened, &settings(sampling, &ProcessIds::of_this_host()?)?)?;
    opened.load().map_err(refused)
}

fn choose_programs(object: &mut OpenObject, sampling: &Sampling<'_>) {
    for mut program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        program.set_autoload(match sampling {
            Sampling::Total { options, .. } => match name.as_str() {
                "sample_total" => options.on_cpu_hz.is_some(),
                "sched_switch" => options.off_cpu_from.is_some(),
                _ => false,
            },
            Sampling::Each { .. } => name == "sample_each",
        });
    }
}

/// What is not used takes no memory. Single samples are read soon, so few stacks are there at a time.
fn shrink_maps(object: &mut OpenObject, sampling: &Sampling<'_>) -> libbpf_rs::Result<()> {
    let page = 4096;
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        match (sampling, name.as_str()) {
            (Sampling::Total { .. }, "ring") => map.set_max_entries(page)?,
            (Sampling::Each { .. }, "spents" | "absences") => map.set_max_entries(1)?,
            (Sampling::Each { .. }, "stacks") => map.set_max_entries(1024)?,
            _ => {}
        }
    }
    Ok(())
}

fn settings(sampling: &Sampling<'_>, ids: &ProcessIds) -> Result<types::profile_settings, Error> {
    let pid = match *sampling {
        Sampling::Total { options, .. } => options.pid,
        Sampling::Each { pid, .. } => pid,
    };
    let of_process = types::profile_settings {
        tgid: ids.root_of(pid).ok_or(Error::OtherPidNamespace { pid })?,
        pid_namespace: ids.namespace,
        pid_level: ids.level,
        ..types::profile_settings::default()
    };
    Ok(match *sampling {
        Sampling::Total { options, in_calls } => {
            let mut call = [0; MOST_CALLS];
            let calls = if in_calls { options.calls.as_slice() } else { &[] };
            for (slot, number) in call.iter_mut().zip(calls) {
                *slot = *number;
            }
            let min = options.off_cpu_from.unwrap_or_default().as_nanos();
            types::profile_settings {
                by_thread: u8::from(options.by_thread),
                calls: calls.len().min(MOST_CALLS) as u8,
                period_ns: cpu_clock::period_ns(options.on_cpu_hz.unwrap_or(1)),
                min_ns: u64::try_from(min).unwrap_or(u64::MAX),
                call,
                ..of_process
            }
        }
        Sampling::Each { hz, .. } => {
            types::profile_settings { period_ns: cpu_clock::period_ns(hz), ..of_process }
        }
    })
}

fn fill_in(object: &mut OpenObject, settings: &types::profile_settings) -> Result<(), Error> {
    let no_map = || Error::NoSuchPart { what: "map", name: "of settings".to_owned() };
    let mut maps = object.maps_mut();
    let mut constants =
        maps.find(|map| map.name().to_string_lossy().ends_with(".rodata")).ok_or_else(no_map)?;
    let bytes = constants.initial_value_mut().unwrap_or_default();
    let room = bytes.get_mut(..size_of::<types::profile_settings>()).ok_or_else(no_map)?;
    // SAFETY: the settings are a C structure of integers without padding (the C side names every byte),
    // readable for its size; in the object it is the first of the constants (asserted above).
    room.copy_from_slice(unsafe {
        std::slice::from_raw_parts(
            std::ptr::from_ref(settings).cast::<u8>(),
            size_of::<types::profile_settings>(),
        )
    });
    Ok(())
}

pub(super) fn attach_switches(object: &Object) -> Result<Link, Error> {
    let program = session::program(object, "sched_switch")?;
    program.attach_trace().map_err(|source| Error::Attach { program: "sched_switch".to_owned(), source })
}

/// Whether programs can look at the registers with which a thread entered the kernel (Linux 5.15).
pub(super) fn can_tell_calls() -> bool {
    let kind = ProgramType::PerfEvent as libbpf_sys::bpf_prog_type;
    // SAFETY: the call takes numbers, and a null pointer for no options.
    let found = unsafe {
        libbpf_sys::libbpf_probe_bpf_helper(kind, libbpf_sys::BPF_FUNC_task_pt_regs, std::ptr::null())
    };
    found == 1
}
