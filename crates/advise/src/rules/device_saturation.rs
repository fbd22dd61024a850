//! Devices of the log dirs that are busy all the time: then whoever waits for them, or for memory that they do not write away in
//! time, waits for their throughput. What waits for a device that has time left is the rule slow-device's.

use std::sync::Arc;

use model::{Cause, HostScope};

use crate::costs::costly;
use crate::words::percent;
use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Samples, Scope, Series};

/// Busier than this, on average, is saturated.
const SATURATED: f64 = 0.95;
/// What such a device makes requests wait for.
const ITS_CAUSES: [Cause; 2] = [Cause::SlowDevice, Cause::DirtyThrottling];

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "device-saturation",
    layer: Layer::Disk,
    condition: "a device under the log dirs was busy (%util) for at least 95 % of the time",
    source: "a public case (IBM zSystems, 2022): over 95 % busy was the limit of throughput. Documentation/admin-guide/iostats.rst: \
             of a device that serves many requests at once it is no proof of saturation. Who writes more than it takes is held up \
             by slow-device or by dirty-throttling (mm/page-writeback.c), and no setting of the kernel's makes it faster",
    look_at: "util_ratio and write_wait_ms of the device in host_samples/, and requests a second",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let Some((name, util)) = busiest(inputs, inputs.samples()?) else { return Err(no_figures()) };
    let busy = format!("{name} was busy for {} of the time", percent(util));
    if util < SATURATED {
        return Err(NoAdvice::Silent(format!("the busiest of the log dirs' devices: {busy}")));
    }
    let cost = costly(inputs, &ITS_CAUSES).ok();
    let unmeasured = "more throughput, if the device is the limit; no slow request was seen to wait for it";
    Ok(Recommendation {
        evidence: cost.as_ref().map_or_else(|| busy.clone(), |(_, told)| format!("{busy}; {told}")),
        changes: changes(inputs),
        effect: cost.as_ref().map_or_else(
            || unmeasured.to_owned(),
            |(cost, _)| cost.gain("; the public case wrote 1.8 times as much with three devices"),
        ),
        cost: cost.map(|(cost, _)| cost),
        risk: "partitions have to be moved to new log dirs; a stripe that loses one disk loses all, so replicas matter more",
    })
}

/// As much of the waits for a device that has no time left is said here, others need not say.
pub(super) fn says_it(inputs: &Inputs) -> Result<(), NoAdvice> {
    let busiest = inputs.samples.as_ref().ok().and_then(|samples| busiest(inputs, samples));
    match busiest.filter(|(_, util)| *util >= SATURATED) {
        Some((name, util)) => Err(NoAdvice::Silent(format!(
            "{name} was busy for {} of the time: device-saturation says what that cost",
            percent(util)
        ))),
        None => Ok(()),
    }
}

/// More devices; and partitions to be on them, because a log dir gets whole partitions.
pub(super) fn changes(inputs: &Inputs) -> Vec<Change> {
    let disks = u64::from(inputs.data_disks());
    let log_dirs = Change::of(
        "log.dirs",
        inputs.shown_log_dirs(),
        "one more device each, or a volume striped over several",
    );
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

/// The device that partitions are on which was busy most; of all devices where that is not known.
fn busiest(inputs: &Inputs, samples: &Samples) -> Option<(Arc<str>, f64)> {
    let of = |wanted: &dyn Fn(&str) -> bool| {
        let figures = samples.of(HostScope::Device, "util_ratio").filter(|(name, _)| wanted(name));
        let busiest = figures.max_by(|a, b| a.1.mean().total_cmp(&b.1.mean()));
        busiest.map(|(name, util): (&Arc<str>, &Series)| (Arc::clone(name), util.mean()))
    };
    of(&|name| inputs.data_volumes().any(|volume| &*volume.device == name)).or_else(|| of(&|_| true))
}

fn no_figures() -> NoAdvice {
    NoAdvice::NotKnown {
        input: "how busy the log dirs' devices are",
        why: "the host's figures name no device".into(),
    }
}

#[cfg(test)]
mod tests {
    use model::{Cause, HostSample, HostScope, Nanos};

    use super::RULE;
    use crate::testing::{broker, fired, lacks, produce, silent, with_cost, with_sample, with_setting};
    use crate::{Inputs, Scope, Traffic};

    fn busy(ratio: f64) -> Inputs {
        let mut inputs = broker();
        with_sample(&mut inputs, HostScope::Device, "sda", "util_ratio", ratio);
        inputs
    }

    #[test]
    fn fires_of_a_device_that_is_always_busy() {
        let finding = fired(&RULE, &busy(0.97));
        assert_eq!((&*finding.evidence, finding.cost), ("sda was busy for 97 % of the time", None));
        let target = finding.changes[0].target.clone().unwrap();
        assert_eq!((target.of, &*target.name, &*target.value), (Scope::LogDirs, "devices", "2"));
    }

    #[test]
    fn what_waits_for_it_in_either_way_is_its_cost() {
        let mut inputs = busy(0.97);
        with_cost(&mut inputs, Cause::SlowDevice, 3, Nanos::from_millis(200));
        with_cost(&mut inputs, Cause::DirtyThrottling, 7, Nanos::from_millis(200));
        let finding = fired(&RULE, &inputs);
        assert_eq!(finding.cost.unwrap().time, Nanos::from_millis(2_000));
        assert!(finding.evidence.contains("dirty-throttling cost 1.4 s"), "{}", finding.evidence);
    }

    #[test]
    fn a_single_partition_is_on_one_device_however_many_there_are() {
        let mut inputs = busy(0.97);
        let mut traffic = Traffic::default();
        traffic.add(&produce("app", 0, 1, 100, 1));
        inputs.traffic = Ok(traffic);
        let changes = fired(&RULE, &inputs).changes;
        assert_eq!((&*changes[0].old, &*changes[0].new), ("1", "2"));
        assert!(changes[0].setting.starts_with("partitions") && changes[1].together, "{changes:?}");
    }

    #[test]
    fn is_silent_of_one_with_room() {
        assert!(silent(&RULE, &busy(0.94)).contains("94 %"));
        let mut inputs = busy(0.97);
        inputs.samples = Err("nobody looked".into());
        assert_eq!(lacks(&RULE, &inputs), Inputs::SAMPLES);
    }

    #[test]
    fn is_silent_of_one_that_holds_the_metadata_log_alone() {
        let mut inputs = busy(0.97);
        with_setting(&mut inputs, "metadata.log.dir", "/metadata");
        let volumes = inputs.surroundings.volumes.as_mut().unwrap();
        let mut metadata = volumes[0].clone();
        (metadata.log_dir, metadata.device) = ("/metadata".into(), "sda".into());
        volumes.push(metadata);
        let (start, end, scope) = (Nanos(0), Nanos(1), HostScope::Device);
        let (name, metric) = ("nvme0n1".into(), "util_ratio".into());
        inputs.samples.as_mut().unwrap().add(&HostSample { start, end, scope, name, metric, value: 0.3 });
        assert!(silent(&RULE, &inputs).contains("nvme0n1 was busy for 30 %"));
        assert_eq!(inputs.data_disks(), 1);
    }
}
