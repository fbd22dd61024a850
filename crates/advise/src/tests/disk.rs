//! Each rule fires when it should and is silent otherwise: disk.

use super::{broker, fired, lacks, produce, silent, with_cost, with_sample, with_setting};
use crate::{Inputs, Scope, Traffic};
use model::{Cause, HostSample, HostScope, Nanos};

use super::rule;

fn device_saturation_busy(ratio: f64) -> Inputs {
    let mut inputs = broker();
    with_sample(&mut inputs, HostScope::Device, "sda", "util_ratio", ratio);
    inputs
}

#[test]
fn device_saturation_fires_on_a_busy_device() {
    let finding = fired(rule("device-saturation"), &device_saturation_busy(0.97));
    assert_eq!((&*finding.evidence, finding.cost), ("sda was busy for 97 % of the time", None));
    let target = finding.changes[0].target.clone().unwrap();
    assert_eq!((target.of, &*target.name, &*target.value), (Scope::LogDirs, "devices", "2"));
}

#[test]
fn device_saturation_cost_includes_dirty_throttling() {
    let mut inputs = device_saturation_busy(0.97);
    with_cost(&mut inputs, Cause::SlowDevice, 3, Nanos::from_millis(200));
    with_cost(&mut inputs, Cause::DirtyThrottling, 7, Nanos::from_millis(200));
    let finding = fired(rule("device-saturation"), &inputs);
    assert_eq!(finding.cost.unwrap().time, Nanos::from_millis(2_000));
    assert!(finding.evidence.contains("dirty-throttling cost 1.4 s"), "{}", finding.evidence);
}

#[test]
fn device_saturation_adds_partitions_to_a_single_one() {
    let mut inputs = device_saturation_busy(0.97);
    let mut traffic = Traffic::default();
    traffic.add(&(&produce("app", 0, 1, 100, 1)).into());
    inputs.traffic = Ok(traffic);
    let changes = fired(rule("device-saturation"), &inputs).changes;
    assert_eq!((&*changes[0].old, &*changes[0].new), ("1", "2"));
    assert!(changes[0].setting.starts_with("partitions") && changes[1].is_together(), "{changes:?}");
}

#[test]
fn device_saturation_is_silent_on_a_device_with_idle_time() {
    assert!(silent(rule("device-saturation"), &device_saturation_busy(0.94)).contains("94 %"));
    let mut inputs = device_saturation_busy(0.97);
    inputs.samples = Err("nobody looked".into());
    assert_eq!(lacks(rule("device-saturation"), &inputs), Inputs::SAMPLES);
}

#[test]
fn device_saturation_ignores_the_device_of_the_metadata_log() {
    let mut inputs = device_saturation_busy(0.97);
    with_setting(&mut inputs, "metadata.log.dir", "/metadata");
    let volumes = inputs.host_facts.volumes.as_mut().unwrap();
    let mut metadata = volumes[0].clone();
    (metadata.log_dir, metadata.device) = ("/metadata".into(), "sda".into());
    volumes.push(metadata);
    let (start, end, scope) = (Nanos(0), Nanos(1), HostScope::Device);
    let (name, metric) = ("nvme0n1".into(), "util_ratio".into());
    inputs.samples.as_mut().unwrap().add(&HostSample { start, end, scope, name, metric, value: 0.3 });
    assert!(silent(rule("device-saturation"), &inputs).contains("nvme0n1 was busy for 30 %"));
    assert_eq!(inputs.data_disks(), 1);
}

#[test]
fn noatime_fires_on_relatime() {
    let mut inputs = broker();
    inputs.host_facts.volumes.as_mut().unwrap()[0].options = Ok(["rw", "relatime"].map(Into::into).to_vec());
    let finding = fired(rule("noatime"), &inputs);
    assert_eq!(
        (&*finding.changes[0].setting, &*finding.changes[0].old),
        ("mount option of /data", "relatime")
    );
}

#[test]
fn noatime_is_silent_on_noatime_and_lacks_unknown_options() {
    let mut inputs = broker();
    assert!(silent(rule("noatime"), &inputs).contains("noatime"));
    inputs.host_facts.volumes.as_mut().unwrap()[0].options = Err("a recording holds none".into());
    assert_eq!(lacks(rule("noatime"), &inputs), "the log dirs' mount options");
}
