//! Memory that gets dirty for long before the kernel begins to write it back.

use crate::rule::need;
use crate::words::size;
use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

const DEFAULT_RATIO: i64 = 10;
const MUCH_BYTES: u64 = 2 << 30;

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "dirty-ratio",
    layer: Layer::Os,
    condition: "vm.dirty_background_ratio is 10 or more, which is 2 GiB or more of this host, and \
        vm.dirty_background_bytes is not set",
    source: "Documentation/admin-guide/sysctl/vm.rst; vm.dirty_background_ratio=5 is what deployment guides \
        for Kafka say. The bound of 2 GiB is brokerscope's own",
    look_at: "dirty-throttling and journal-commit among the causes, and the greatest write_wait_ms in \
        host_samples/",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let ratio = inputs.sysctl("vm.dirty_background_ratio")?;
    let bytes = inputs.sysctl("vm.dirty_background_bytes").unwrap_or(0);
    let memory = *need("the host's memory", &inputs.surroundings.memory_bytes)?;
    let begins = memory / 100 * u64::try_from(ratio).unwrap_or(0);
    if bytes > 0 || ratio < DEFAULT_RATIO || begins < MUCH_BYTES {
        let set = if bytes > 0 {
            format!("vm.dirty_background_bytes is {bytes}")
        } else {
            format!("vm.dirty_background_ratio is {ratio} of {}", size(memory))
        };
        return Err(NoAdvice::Silent(set));
    }
    Ok(Recommendation {
        evidence: format!(
            "write-back begins when up to {} are dirty ({ratio} % of {})",
            size(begins),
            size(memory)
        ),
        changes: vec![Change::of("vm.dirty_background_ratio", ratio, 5).by_name(Scope::Kernel)],
        cost: None,
        effect: "writes reach the device more evenly: commits and flushes have less to wait for".to_owned(),
        risk: "what is overwritten or deleted soon is written in vain; a device that is always busy anyway gains nothing",
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, silent, with_sysctl};

    #[test]
    fn fires_where_gigabytes_may_be_dirty() {
        let mut inputs = broker();
        with_sysctl(&mut inputs, "vm.dirty_background_ratio", 10);
        assert_eq!(fired(&RULE, &inputs).changes[0].new, "5");
    }

    #[test]
    fn is_silent_where_they_may_not() {
        let mut inputs = broker();
        silent(&RULE, &inputs);
        with_sysctl(&mut inputs, "vm.dirty_background_ratio", 10);
        inputs.surroundings.memory_bytes = Ok(8 << 30);
        silent(&RULE, &inputs);
        inputs.surroundings.memory_bytes = Ok(64 << 30);
        with_sysctl(&mut inputs, "vm.dirty_background_bytes", 1 << 28);
        silent(&RULE, &inputs);
    }
}
