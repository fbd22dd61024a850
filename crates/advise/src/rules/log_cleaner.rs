//! The log cleaner's own reads and writes beside the requests'.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "log-cleaner",
    layer: Layer::Disk,
    condition: "log-cleaner is the cause of at least 1 % of the slow requests' time (brokerscope's own bound)",
    source: "Kafka's documentation, broker configuration: log.cleaner.io.max.bytes.per.second, which may be \
        changed while the broker runs",
    look_at: "log-cleaner among the causes",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::LogCleaner])?;
    Ok(Recommendation {
        evidence,
        changes: vec![Change::of(
            "log.cleaner.io.max.bytes.per.second",
            inputs.shown("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308"),
            "a quarter of what the device can do",
        )],
        cost: Some(cost),
        effect: cost.gain("; nothing is known of it from elsewhere"),
        risk: "compacted topics grow until the cleaner has caught up: watch max-dirty-percent",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::LogCleaner);
        assert!(finding.changes[0].old.contains("the default"));
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::LogCleaner);
    }
}
