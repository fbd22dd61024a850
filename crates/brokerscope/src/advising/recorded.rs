//! What a recording or a capture says for rules to look at, once all of it was read: its manifest, and what was added up of its
//! events. Reads no events, and advises nothing.

use std::path::Path;
use std::sync::Arc;

use advise::Inputs;
use model::{HostScope, Interface, Nanos};
use recording::{Manifest, Recording};

use super::{Advising, WhyNot};
use crate::commands::record::{in_force, partial, runs_on};

/// What a recording does not hold.
const NOT_RECORDED: &str = "the recording does not hold it: run advise beside the broker";
/// Why sums of operations on files are not known where the recorder left some out.
const LEFT_OUT: &str = "the recording holds operations on files only around what was slow";
const NOTHING_SEEN: WhyNot = WhyNot {
    requests: "no request was recorded",
    samples: "the recording holds none",
    files: "no operation on a file was recorded",
    profile: "the recording holds no samples of it",
};

/// All of it. `requests` is whether there were any; `input` is what the user named.
pub(crate) fn inputs(
    advising: Advising,
    requests: bool,
    input: &Path,
    recording: Option<&Recording>,
    slower_than: Nanos,
) -> Inputs {
    let mut inputs = Inputs { slower_than, ..Inputs::unknown(NOT_RECORDED) };
    let manifest = recording.map(Recording::manifest);
    if let Some(manifest) = manifest {
        inputs.surroundings = runs_on::read(&manifest.settings, NOT_RECORDED);
        inputs.before = quoted(input).into();
        of_broker(&mut inputs, manifest);
    }
    advising.finish(&mut inputs, requests, manifest.and_then(window), &NOTHING_SEEN);
    if manifest.is_some_and(|manifest| partial::threshold(&manifest.settings).is_some()) {
        inputs.unsent = Err(LEFT_OUT.into());
    }
    of_samples(&mut inputs);
    inputs
}

/// How long it lasted, where it ended in order.
fn window(manifest: &Manifest) -> Option<Nanos> {
    let started = Some(manifest.started_ns).filter(|ns| *ns > 0)?;
    Some(Nanos(manifest.ended_ns?.saturating_sub(started))).filter(|window| *window > Nanos::ZERO)
}

fn of_broker(inputs: &mut Inputs, manifest: &Manifest) {
    let host = &manifest.host;
    if host.cpus > 0 && inputs.surroundings.cpus.is_err() {
        inputs.surroundings.cpus = Ok(host.cpus);
    }
    if !host.kernel.is_empty() {
        inputs.surroundings.kernel = Ok(host.kernel.as_str().into());
    }
    let Some(broker) = &manifest.broker else { return };
    inputs.settings = Ok(in_force::settings(broker));
    if let Some(jvm) = broker.jvm.as_ref().filter(|jvm| !jvm.options.is_empty()) {
        inputs.surroundings.jvm_arguments =
            Ok(jvm.options.iter().map(|word| Arc::from(word.as_str())).collect());
    }
}

/// What the host's figures say of the host itself.
fn of_samples(inputs: &mut Inputs) {
    let Ok(samples) = &inputs.samples else { return };
    let memory = samples.one(HostScope::Host, "memory_bytes");
    if let (Some(memory), Err(_)) = (memory, &inputs.surroundings.memory_bytes) {
        inputs.surroundings.memory_bytes = Ok(memory.last as u64);
        // A group without a limit has no such figure.
        let limit = samples.one(HostScope::Cgroup, "memory_limit_bytes");
        inputs.surroundings.memory_limit_bytes = Ok(limit.map(|limit| limit.last as u64));
    }
    if inputs.surroundings.interfaces.is_ok() {
        return;
    }
    let speed = |name: &Arc<str>| {
        let mut speeds = samples.of(HostScope::Interface, "speed_bits_per_second");
        speeds.find(|(of, _)| *of == name).map(|(_, speed)| speed.last as u64)
    };
    let interfaces = samples.of(HostScope::Interface, "mtu_bytes").filter(|(name, _)| &***name != "lo");
    let interface = |(name, mtu): (&Arc<str>, &advise::Series)| Interface {
        name: Arc::clone(name),
        mtu_bytes: mtu.last as u32,
        speed_bits_per_second: speed(name),
    };
    let interfaces: Vec<_> = interfaces.map(interface).collect();
    inputs.surroundings.interfaces = Ok(interfaces);
}

/// A path as a shell takes it for one word.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::quoted;

    #[test]
    fn a_path_stays_one_word() {
        assert_eq!(quoted(Path::new("samples/journal-stall")), "samples/journal-stall");
        assert_eq!(quoted(Path::new("it's a dir")), "'it'\\''s a dir'");
    }
}
