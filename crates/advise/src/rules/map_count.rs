//! Too few memory areas that the broker may map.

use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "map-count",
    layer: Layer::Os,
    condition: "half of vm.max_map_count is used, or would be by two areas (index, time index) for one segment \
        of each partition",
    source: "Kafka's documentation, operations: virtual memory: two areas a segment, the default of about \
        65535 is enough for some 50,000 partitions less what else is mapped; \
        Documentation/admin-guide/sysctl/vm.rst",
    look_at: "nothing that a comparison shows: a broker that may map no more stops with \"Map failed\"",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let most = inputs.sysctl("vm.max_map_count")?;
    let most = u64::try_from(most).unwrap_or(0);
    let partitions = inputs.partitions()?;
    let mapped = inputs.surroundings.mapped_areas.as_ref().ok().copied();
    let used = mapped.unwrap_or(0).max(partitions.saturating_mul(2));
    let mapped = mapped.map_or_else(|| "not known how many".to_owned(), |mapped| mapped.to_string());
    let told = format!("of {most} areas {mapped} are mapped, and there are {partitions} partitions");
    if used < most / 2 {
        return Err(NoAdvice::Silent(told));
    }
    Ok(Recommendation {
        evidence: told,
        changes: vec![
            Change::of("vm.max_map_count", most, used.saturating_mul(4).max(262_144)).by_name(Scope::Kernel),
        ],
        cost: None,
        effect: "the broker does not stop for want of a mapped area".to_owned(),
        risk: "none that is known; each area takes some memory of the kernel",
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, lacks, silent, with_sysctl};

    #[test]
    fn fires_where_half_is_used() {
        let mut inputs = broker();
        with_sysctl(&mut inputs, "vm.max_map_count", 65_530);
        inputs.surroundings.mapped_areas = Ok(40_000);
        assert_eq!(fired(&RULE, &inputs).changes[0].new, "262144");
    }

    #[test]
    fn is_silent_where_there_are_enough() {
        let mut inputs = broker();
        silent(&RULE, &inputs);
        inputs.surroundings.sysctls = Err("nobody looked".into());
        assert_eq!(lacks(&RULE, &inputs), "the kernel's settings");
    }
}
