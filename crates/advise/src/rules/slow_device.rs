//! Operations that wait for the device itself.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Finding, Inputs, Judgement, Layer, Rule};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "slow-device",
    layer: Layer::Disk,
    condition: "slow-device is the cause of at least 1 % of the slow requests' time (brokerscope's own bound)",
    source: "a public case (IBM zSystems, 2022): one device over 95 % busy at 259 MB/s; striped over three, \
        155 MB/s on each at 80 to 83 %",
    look_at: "slow-device among the causes, and util_ratio of the devices in host_samples/",
    judge,
};

fn judge(inputs: &Inputs) -> Judgement {
    let (cost, evidence) = costly(inputs, &[Cause::SlowDevice])?;
    Ok(Finding {
        evidence,
        changes: vec![Change::of(
            "log.dirs",
            inputs.shown_log_dirs(),
            "one more device each, or a volume striped over several",
        )],
        cost: Some(cost),
        effect: cost.gain("; the public case wrote 1.8 times as much with three devices"),
        risk: "partitions have to be moved to new log dirs; a stripe that loses one disk loses all, so \
            replicas matter more",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

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
}
