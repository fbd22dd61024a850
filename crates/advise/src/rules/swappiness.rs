//! A host that would rather swap the broker out than drop what it has read.

use crate::rule::need;
use crate::words::size;
use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

const MOST: i64 = 10;

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "swappiness",
    layer: Layer::Os,
    condition: "vm.swappiness is above 10, and the host has swap space",
    source: "vm.swappiness=1 is what Confluent's and Cloudera's deployment guides for Kafka say; \
        Documentation/admin-guide/sysctl/vm.rst. The bound of 10 is brokerscope's own",
    look_at: "safepoint and memory-reclaim among the causes, and swapped_bytes of the process in \
        host_samples/",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let swappiness = inputs.sysctl("vm.swappiness")?;
    let swap = *need("the host's swap space", &inputs.surroundings.swap_bytes)?;
    if swap == 0 {
        return Err(NoAdvice::silent("the host has no swap space"));
    }
    if swappiness <= MOST {
        return Err(NoAdvice::Silent(format!("vm.swappiness is {swappiness}")));
    }
    Ok(Recommendation {
        evidence: format!("vm.swappiness is {swappiness}, with {} of swap space", size(swap)),
        changes: vec![Change::of("vm.swappiness", swappiness, 1).by_name(Scope::Kernel)],
        cost: None,
        effect: "the heap stays in memory while there is page cache to drop".to_owned(),
        risk: "a host that runs out of memory ends a process sooner instead of getting slow",
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, lacks, silent, with_sysctl};

    #[test]
    fn fires_where_the_host_swaps_readily() {
        let mut inputs = broker();
        with_sysctl(&mut inputs, "vm.swappiness", 60);
        assert_eq!(fired(&RULE, &inputs).evidence, "vm.swappiness is 60, with 1.0 GiB of swap space");
    }

    #[test]
    fn is_silent_where_it_does_not_or_cannot() {
        let mut inputs = broker();
        silent(&RULE, &inputs);
        with_sysctl(&mut inputs, "vm.swappiness", 60);
        inputs.surroundings.swap_bytes = Ok(0);
        assert!(silent(&RULE, &inputs).contains("no swap space"));
        inputs.surroundings.sysctls.as_mut().unwrap().clear();
        assert_eq!(lacks(&RULE, &inputs), "vm.swappiness");
    }
}
