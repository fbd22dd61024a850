//! Writers that the kernel pauses because too much memory is dirty.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Finding, Inputs, Judgement, Layer, Rule};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "dirty-throttling",
    layer: Layer::Os,
    condition: "dirty-throttling is the cause of at least 1 % of the slow requests' time (brokerscope's own \
        bound)",
    source: "Documentation/admin-guide/sysctl/vm.rst; Kafka's documentation, operations: understanding Linux \
        flush behaviour",
    look_at: "dirty-throttling among the causes, and dirty_bytes against dirty_limit_bytes in host_samples/",
    judge,
};

fn judge(inputs: &Inputs) -> Judgement {
    let (cost, evidence) = costly(inputs, &[Cause::DirtyThrottling])?;
    Ok(Finding {
        evidence,
        changes: vec![
            Change::of("vm.dirty_background_ratio", inputs.shown_sysctl("vm.dirty_background_ratio"), "5"),
            Change::of("vm.dirty_ratio", inputs.shown_sysctl("vm.dirty_ratio"), "60"),
        ],
        cost: Some(cost),
        effect: cost.gain("; only if the device keeps up on average: else it is the limit"),
        risk: "more memory may be dirty when the host crashes: replicas hold it; a cgroup with a memory \
            limit has its own share of these",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::DirtyThrottling);
        assert_eq!((&*finding.changes[1].setting, &*finding.changes[1].old), ("vm.dirty_ratio", "60"));
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::DirtyThrottling);
    }
}
