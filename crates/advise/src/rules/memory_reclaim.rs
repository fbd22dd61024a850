//! Threads of the broker that have to free memory themselves.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult};

fn limit(inputs: &Inputs) -> String {
    match &inputs.surroundings.memory_limit_bytes {
        Ok(Some(bytes)) => crate::words::size(*bytes),
        Ok(None) => "none".to_owned(),
        Err(_) => "not known".to_owned(),
    }
}

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "memory-reclaim",
    layer: Layer::Os,
    condition: "memory-reclaim is the cause of at least 1 % of the slow requests' time (brokerscope's own \
        bound)",
    source: "Documentation/admin-guide/sysctl/vm.rst, min_free_kbytes; \
        Documentation/admin-guide/cgroup-v2.rst: the page cache of what the broker writes is charged to its cgroup",
    look_at: "memory-reclaim among the causes, and direct_reclaim_pages_per_second in host_samples/",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::MemoryReclaim])?;
    Ok(Recommendation {
        evidence,
        changes: vec![
            Change::of("vm.min_free_kbytes", inputs.shown_sysctl("vm.min_free_kbytes"), "twice that"),
            Change::of("memory.max of the broker's cgroup, where it has one", limit(inputs), "more, or none"),
        ],
        cost: Some(cost),
        effect: cost.gain("; the first where the host ran short, the second where the cgroup did"),
        risk: "memory kept free is not page cache; set far too high, min_free_kbytes makes the host run out \
            of memory at once",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::MemoryReclaim);
        assert_eq!((&*finding.changes[0].old, &*finding.changes[1].old), ("90112", "none"));
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::MemoryReclaim);
    }
}
