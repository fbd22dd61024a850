//! Operations that wait for the device itself, which has time left: of one that has none, device-saturation speaks.

use model::Cause;

use super::device_saturation;
use crate::costs::costly;
use crate::{Inputs, Layer, Recommendation, Rule, RuleResult};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "slow-device",
    layer: Layer::Disk,
    condition: "slow-device is the cause of at least 1 % of the slow requests' time (brokerscope's own bound), and no device under \
        the log dirs was busy for 95 % of the time: then it is device-saturation's",
    source: "a public case (IBM zSystems, 2022): one device over 95 % busy at 259 MB/s; striped over three, \
        155 MB/s on each at 80 to 83 %",
    look_at: "slow-device among the causes, and util_ratio of the devices in host_samples/",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::SlowDevice])?;
    device_saturation::says_it(inputs)?;
    Ok(Recommendation {
        evidence,
        changes: device_saturation::changes(inputs),
        cost: Some(cost),
        effect: cost.gain("; the public case wrote 1.8 times as much with three devices"),
        risk: "partitions have to be moved to new log dirs; a stripe that loses one disk loses all, so \
            replicas matter more",
    })
}

#[cfg(test)]
mod tests {
    use model::{Cause, HostScope, Nanos};

    use super::RULE;
    use crate::testing::{broker, fires_on, rests_without, silent, with_cost, with_sample};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::SlowDevice);
        assert_eq!(
            (&*finding.changes[0].setting, &*finding.changes[0].old),
            ("log.dirs", "/data (on one disk)")
        );
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::SlowDevice);
    }

    #[test]
    fn is_silent_where_the_device_has_no_time_left() {
        let mut inputs = broker();
        with_cost(&mut inputs, Cause::SlowDevice, 9, Nanos::from_millis(200));
        with_sample(&mut inputs, HostScope::Device, "nvme0n1", "util_ratio", 0.99);
        assert!(silent(&RULE, &inputs).contains("device-saturation"));
    }
}
