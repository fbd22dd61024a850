//! Opens the BPF object for a JVM's probes, fills in its settings, loads and attaches the programs of a plan. Reads nothing.

use libbpf_rs::{Link, Object, ObjectBuilder, OpenObject};

use super::plan::{JvmHook, JvmPlan, Probe};
use super::session::JvmOptions;
use crate::error::Error;
use crate::process_ids::ProcessIds;
use crate::session;

#[allow(clippy::all, clippy::pedantic, clippy::indexing_slicing, clippy::undocumented_unsafe_blocks)]
#[allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub, unsafe_op_in_unsafe_fn, dead_code)]
#[allow(unused_imports)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/jvm.skel.rs"));
}

pub(super) use skeleton::types;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/jvm.bpf.o"));

/// The programs that do nothing, on a probe and on wake-ups.
const NOTHING: &str = "nothing";
const NOTHING_ON_WAKEUPS: &str = "nothing_waking";

const SETTINGS_BYTES: usize = 48;

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<types::jvm_settings>() == SETTINGS_BYTES);
    assert!(offset_of!(types::jvm_settings, tgid) == 0);
    assert!(offset_of!(types::jvm_settings, min_ns) == 8);
    assert!(offset_of!(types::jvm_settings, wake_bytes) == 16);
    assert!(offset_of!(types::jvm_settings, owner_at) == 24);
    assert!(offset_of!(types::jvm_settings, pid_namespace) == 32);
    assert!(offset_of!(types::jvm_settings, pid_level) == 40);
    assert!(offset_of!(types::rodata, settings) == 0);
};

/// Loads the plan's programs.
pub(super) fn load(plan: &JvmPlan, options: &JvmOptions) -> Result<Object, Error> {
    session::catch_log();
    let refused = |source| Error::Load { source, log: session::take_log() };
    let mut builder = ObjectBuilder::default();
    let opened = builder.name("brokerscope_jvm").and_then(|builder| builder.open_memory(OBJECT));
    let mut opened = opened.map_err(refused)?;
    for mut program in opened.progs_mut() {
        let mut used = plan.used().flat_map(JvmHook::programs);
        let used = used.any(|name| program.name() == in_place_of(name, options));
        program.set_autoload(used);
    }
    for mut map in opened.maps_mut().filter(|map| map.name() == "ring") {
        map.set_max_entries(options.ring_bytes).map_err(Error::Ring)?;
    }
    let ids = ProcessIds::of_this_host()?;
    let tgid = ids.root_of(plan.pid).ok_or(Error::OtherPidNamespace { pid: plan.pid })?;
    fill_in(&mut opened, &settings(tgid, plan.owner_at, &ids, options))?;
    opened.load().map_err(refused)
}

/// `struct jvm_settings`.
fn settings(tgid: u32, owner_at: u64, ids: &ProcessIds, options: &JvmOptions) -> Vec<u8> {
    let least = u64::try_from(options.min_wait.as_nanos()).unwrap_or(u64::MAX);
    let mut bytes = [tgid, 0].map(u32::to_ne_bytes).concat();
    let wake = u64::from(options.ring_bytes / 4);
    bytes.extend([least, wake, owner_at, ids.namespace].map(u64::to_ne_bytes).concat());
    bytes.extend([ids.level, 0].map(u32::to_ne_bytes).concat());
    bytes
}

fn fill_in(object: &mut OpenObject, settings: &[u8]) -> Result<(), Error> {
    let no_map = || Error::NoSuchPart { what: "map", name: "of settings".to_owned() };
    let mut maps = object.maps_mut();
    let mut constants =
        maps.find(|map| map.name().to_string_lossy().ends_with(".rodata")).ok_or_else(no_map)?;
    let bytes = constants.initial_value_mut().unwrap_or_default();
    bytes.get_mut(..SETTINGS_BYTES).ok_or_else(no_map)?.copy_from_slice(settings);
    Ok(())
}

fn in_place_of(program: &'static str, options: &JvmOptions) -> &'static str {
    match program {
        _ if !options.idle => program,
        JvmHook::ON_WAKEUPS => NOTHING_ON_WAKEUPS,
        _ => NOTHING,
    }
}

/// Attaches a hook's programs: to the process's library, to the kernel's wake-ups.
pub(super) fn attach(
    object: &Object,
    plan: &JvmPlan,
    hook: &JvmHook,
    options: &JvmOptions,
) -> Result<Vec<Link>, Error> {
    let probes = hook.probes().iter();
    let probes = probes.map(|probe| attach_probe(object, plan, probe, in_place_of(probe.program, options)));
    let wakeups = hook.on_wakeups().map(|program| attach_wakeups(object, in_place_of(program, options)));
    probes.chain(wakeups).collect()
}

fn attach_wakeups(object: &Object, program: &'static str) -> Result<Link, Error> {
    let link = session::program(object, program)?.attach_trace();
    link.map_err(|source| Error::Attach { program: program.to_owned(), source })
}

fn attach_probe(
    object: &Object,
    plan: &JvmPlan,
    probe: &Probe,
    program: &'static str,
) -> Result<Link, Error> {
    session::catch_log();
    let pid = i32::try_from(plan.pid).unwrap_or(i32::MAX);
    let link = session::program(object, program)?.attach_usdt(pid, &plan.library, probe.provider, probe.name);
    link.map_err(|error| {
        let log = session::take_log();
        let why = log.lines().last().map_or_else(|| error.to_string(), |last| format!("{error}: {last}"));
        Error::Refused { program: program.to_owned(), why }
    })
}

#[cfg(test)]
mod tests {
    use super::{JvmOptions, ProcessIds, SETTINGS_BYTES, settings};
    use std::time::Duration;

    #[test]
    fn settings_are_laid_out_as_the_programs_read_them() {
        let min_wait = Duration::from_micros(5);
        let options = JvmOptions { min_wait, ring_bytes: 4096, ..JvmOptions::default() };
        let mut ids = ProcessIds::default();
        (ids.level, ids.namespace) = (2, 9);
        let bytes = settings(7, 64, &ids, &options);
        assert_eq!(bytes.len(), SETTINGS_BYTES);
        assert_eq!(bytes[..4], 7_u32.to_ne_bytes());
        assert_eq!(bytes[8..16], 5_000_u64.to_ne_bytes());
        assert_eq!(bytes[16..24], 1_024_u64.to_ne_bytes());
        assert_eq!(bytes[24..32], 64_u64.to_ne_bytes());
        assert_eq!(bytes[32..40], 9_u64.to_ne_bytes());
        assert_eq!(bytes[40..], 2_u64.to_ne_bytes());
    }
}
