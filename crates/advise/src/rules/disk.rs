//! Devices that are busy all the time, and mount options of log dirs.

use std::sync::Arc;

use model::{Cause, HostScope};

use crate::costs::costly;
use crate::rule::{advise, need, not_known, rules, silent};
use crate::words::percent;
use crate::{Change, Inputs, NoAdvice, RuleResult, Samples, Scope, Series};

/// A device that is at least this busy, on average, is saturated.
const SATURATED: f64 = 0.95;
/// Causes of waits for such a device.
const ITS_CAUSES: [Cause; 2] = [Cause::SlowDevice, Cause::DirtyThrottling];

rules! { RULES:
    "device-saturation" in Disk, saturation => {
        condition: "a device under the log dirs was busy (%util) for at least 95 % of the time",
        source: "a public case (IBM zSystems, 2022): over 95 % busy was the limit of throughput. \
                 Documentation/admin-guide/iostats.rst: of a device that serves many requests at once it is no proof of \
                 saturation. A writer that exceeds it waits in slow-device or dirty-throttling (mm/page-writeback.c); no \
                 kernel setting makes the device faster",
        look_at: "util_ratio and write_wait_ms of the device in host_samples/, and requests a second",
        effect: "more throughput, if the device is the limit; no slow request was seen to wait for it",
        risk: "partitions have to be moved to new log dirs; a stripe that loses one disk loses all, so replicas matter more",
    }
}

rules! { MOUNT_OPTIONS:
    "noatime" in FileSystem, noatime => {
        condition: "a log dir's file system is mounted without noatime",
        source: "Kafka's documentation, operations: general file system notes. mount(8): with relatime, the default, a file's time is \
                 written at most once a day",
        look_at: "journal_commits/ and writes_per_second of the device: a small difference at most",
        effect: "fewer writes of inodes; no slow request was seen to wait for one",
        risk: "other programs on that file system no longer see when a file was read",
    }
}

fn saturation(inputs: &Inputs) -> RuleResult {
    let Some((name, util)) = busiest(inputs, inputs.samples()?) else {
        return not_known("how busy the log dirs' devices are", "the host's figures name no device");
    };
    let busy = format!("{name} was busy for {} of the time", percent(util));
    if util < SATURATED {
        return silent(format!("the busiest of the log dirs' devices: {busy}"));
    }
    let changes = more_devices(inputs);
    match costly(inputs, &ITS_CAUSES) {
        Ok((cost, evidence)) => {
            let limit = "; the public case wrote 1.8 times as much with three devices";
            Ok(advise(format!("{busy}; {evidence}"), changes).at(cost, limit))
        }
        Err(_) => Ok(advise(busy, changes)),
    }
}

/// Stays silent if the device is saturated: device-saturation says what that cost.
pub(super) fn silent_if_saturated(inputs: &Inputs) -> Result<(), NoAdvice> {
    let busiest = inputs.samples.as_ref().ok().and_then(|samples| busiest(inputs, samples));
    match busiest.filter(|(_, util)| *util >= SATURATED) {
        Some((name, util)) => silent(format!(
            "{name} was busy for {} of the time: device-saturation says what that cost",
            percent(util)
        )),
        None => Ok(()),
    }
}

/// More devices, and enough partitions for them. Each log dir holds whole partitions.
pub(super) fn more_devices(inputs: &Inputs) -> Vec<Change> {
    let disks = u64::from(inputs.data_disks());
    let new = "one more device each, or a volume striped over several";
    let log_dirs = Change::of("log.dirs", inputs.describe_log_dirs(), new);
    if disks == 0 {
        return vec![log_dirs];
    }
    let devices = disks * 2;
    let log_dirs = log_dirs.on(Scope::LogDirs, "devices", devices);
    match inputs.written_partitions().filter(|written| *written < devices) {
        Some(written) => {
            let setting = "partitions, over all topics that are written to (unless it is a stripe)";
            let partitions = Change::of(setting, written, devices).on(Scope::Topics, "partitions", devices);
            vec![partitions, log_dirs.with_the_last()]
        }
        None => vec![log_dirs],
    }
}

/// The busiest device with partitions; the busiest of all devices if it is not known which have any.
fn busiest(inputs: &Inputs, samples: &Samples) -> Option<(Arc<str>, f64)> {
    let of = |is_eligible: &dyn Fn(&str) -> bool| {
        let figures = samples.of(HostScope::Device, "util_ratio").filter(|(name, _)| is_eligible(name));
        let busiest = figures.max_by(|a, b| a.1.mean().total_cmp(&b.1.mean()));
        busiest.map(|(name, util): (&Arc<str>, &Series)| (Arc::clone(name), util.mean()))
    };
    of(&|name| inputs.data_volumes().any(|volume| &*volume.device == name)).or_else(|| of(&|_| true))
}

fn noatime(inputs: &Inputs) -> RuleResult {
    let (mut dirs, mut changes): (Vec<&str>, _) = (Vec::new(), Vec::new());
    for volume in inputs.volumes()? {
        let options = need("the log dirs' mount options", &volume.options)?;
        if !options.iter().any(|option| &**option == "noatime") {
            let atime = options.iter().find(|option| option.ends_with("atime"));
            let old = atime.map_or("strictatime", |option| option);
            let change = Change::of(format!("mount option of {}", volume.log_dir), old, "noatime");
            changes.push(change.on(Scope::FileSystem, "mount", "noatime"));
            dirs.push(&volume.log_dir);
        }
    }
    if dirs.is_empty() {
        return silent("every log dir is mounted with noatime");
    }
    Ok(advise(format!("mounted without noatime: {}", dirs.join(", ")), changes))
}
