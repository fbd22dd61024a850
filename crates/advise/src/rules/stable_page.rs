//! Writes that wait for pages which must not change on their way to the device.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "stable-page",
    layer: Layer::FileSystem,
    condition: "stable-page is the cause of at least 1 % of the slow requests' time (brokerscope's own bound)",
    source: "Documentation/ABI/stable/sysfs-block: queue/stable_writes is 1 where checksums or parity are \
        computed of the pages",
    look_at: "stable-page among the causes",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::StablePage])?;
    Ok(Recommendation {
        evidence,
        changes: vec![Change::of(
            "device of the log dirs (/sys/block/DEVICE/queue/stable_writes)",
            "1",
            "0: one without checksums or parity in software",
        )],
        cost: Some(cost),
        effect: cost.gain("; nothing is known of it from elsewhere"),
        risk: "what checked the data is gone: Kafka keeps a CRC of each batch",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::StablePage);
        assert_eq!(finding.changes[0].old, "1");
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::StablePage);
    }
}
