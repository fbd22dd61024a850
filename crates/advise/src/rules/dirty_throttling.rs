//! Writers that the kernel pauses because too much memory is dirty.

use model::Cause;

use super::device_saturation;
use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult, Scope};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "dirty-throttling",
    layer: Layer::Os,
    condition: "dirty-throttling is the cause of at least 1 % of the slow requests' time (brokerscope's own \
        bound), and no device under the log dirs was busy for 95 % of the time: then it is device-saturation's",
    source: "Documentation/admin-guide/sysctl/vm.rst; Kafka's documentation, operations: understanding Linux \
        flush behaviour",
    look_at: "dirty-throttling among the causes, and dirty_bytes against dirty_limit_bytes in host_samples/",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::DirtyThrottling])?;
    // However much may be dirty: a device that takes less than is written fills that too.
    device_saturation::says_it(inputs)?;
    Ok(Recommendation {
        evidence,
        changes: changes(inputs),
        cost: Some(cost),
        effect: cost
            .gain("; the device keeps up on average, so room for what comes at once is what was lacking"),
        risk: "more memory may be dirty when the host crashes: replicas hold it; a cgroup with a memory \
            limit has its own share of these",
    })
}

/// Room for what comes at once; or devices that write it away sooner, each with room of its own (mm/page-writeback.c).
fn changes(inputs: &Inputs) -> Vec<Change> {
    let room = |name, ratio: u32| Change::of(name, inputs.shown_sysctl(name), ratio).by_name(Scope::Kernel);
    let mut changes = vec![room("vm.dirty_background_ratio", 5), room("vm.dirty_ratio", 60).with_the_last()];
    changes.extend(device_saturation::changes(inputs));
    changes
}

#[cfg(test)]
mod tests {
    use model::{Cause, HostScope, Nanos};

    use super::RULE;
    use crate::testing::{broker, fires_on, rests_without, silent, with_cost, with_sample};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::DirtyThrottling);
        assert_eq!((&*finding.changes[1].setting, &*finding.changes[1].old), ("vm.dirty_ratio", "60"));
        assert!(finding.changes[1].together && !finding.changes[2].together, "{finding:?}");
        assert_eq!(finding.changes[2].setting, "log.dirs");
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::DirtyThrottling);
    }

    #[test]
    fn is_silent_where_the_device_is_the_limit() {
        let mut inputs = broker();
        with_cost(&mut inputs, Cause::DirtyThrottling, 9, Nanos::from_millis(200));
        with_sample(&mut inputs, HostScope::Device, "nvme0n1", "util_ratio", 0.99);
        assert!(silent(&RULE, &inputs).contains("device-saturation"));
    }
}
