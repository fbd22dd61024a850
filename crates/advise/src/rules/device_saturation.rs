//! Devices of the log dirs that are busy all the time. What they cost slow requests is the rule slow-device's.

use model::{Cause, HostScope};

use crate::costs::costly;
use crate::words::percent;
use crate::{Change, Finding, Inputs, Judgement, Layer, Rule, Unfired};

/// Busier than this, on average, is saturated.
const SATURATED: f64 = 0.95;

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "device-saturation",
    layer: Layer::Disk,
    condition: "a device under the log dirs was busy (%util) for at least 95 % of the time, and slow-device did not speak",
    source: "a public case (IBM zSystems, 2022): over 95 % busy was the limit of throughput. Documentation/admin-guide/iostats.rst: \
             of a device that serves many requests at once it is no proof of saturation",
    look_at: "util_ratio and write_wait_ms of the device in host_samples/, and requests a second",
    judge,
};

fn judge(inputs: &Inputs) -> Judgement {
    let samples = inputs.samples()?;
    if costly(inputs, &[Cause::SlowDevice]).is_ok() {
        return Err(Unfired::silent("slow-device says what it cost"));
    }
    let busiest =
        samples.of(HostScope::Device, "util_ratio").max_by(|a, b| a.1.mean().total_cmp(&b.1.mean()));
    let Some((name, util)) = busiest else { return Err(no_figures()) };
    if util.mean() < SATURATED {
        let busy = percent(util.mean());
        return Err(Unfired::silent(format!("the busiest device, {name}, was busy for {busy} of the time")));
    }
    Ok(Finding {
        evidence: format!("{name} was busy for {} of the time", percent(util.mean())),
        changes: vec![Change::of(
            "log.dirs",
            inputs.shown_log_dirs(),
            "one more device each, or a volume striped over several",
        )],
        cost: None,
        effect: "more throughput, if the device is the limit; no slow request was seen to wait for it"
            .to_owned(),
        risk: "partitions have to be moved to new log dirs; a stripe that loses one disk loses all, so replicas matter more",
    })
}

fn no_figures() -> Unfired {
    Unfired::NotKnown {
        input: "how busy the log dirs' devices are",
        why: "the host's figures name no device".into(),
    }
}

#[cfg(test)]
mod tests {
    use model::{Cause, HostScope, Nanos};

    use super::RULE;
    use crate::Inputs;
    use crate::testing::{broker, fired, lacks, silent, with_cost, with_sample};

    fn busy(ratio: f64) -> Inputs {
        let mut inputs = broker();
        with_sample(&mut inputs, HostScope::Device, "sda", "util_ratio", ratio);
        inputs
    }

    #[test]
    fn fires_of_a_device_that_is_always_busy() {
        let finding = fired(&RULE, &busy(0.97));
        assert_eq!((&*finding.evidence, finding.cost), ("sda was busy for 97 % of the time", None));
    }

    #[test]
    fn is_silent_of_one_with_room_and_where_slow_device_speaks() {
        assert!(silent(&RULE, &busy(0.94)).contains("94 %"));
        let mut inputs = busy(0.97);
        with_cost(&mut inputs, Cause::SlowDevice, 9, Nanos::from_millis(200));
        assert!(silent(&RULE, &inputs).contains("slow-device"));
        inputs.samples = Err("nobody looked".into());
        assert_eq!(lacks(&RULE, &inputs), Inputs::SAMPLES);
    }
}
