//! Rolls of segments that wait for the disk while they hold the log.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "roll-fsync",
    layer: Layer::Broker,
    condition: "roll-fsync is the cause of at least 1 % of the slow requests' time (brokerscope's own bound)",
    source: "KAFKA-15046 (resolved in 3.7: the producers' snapshot is written without the lock), KAFKA-9693, \
        KAFKA-16541; Kafka's documentation: leave flushing to the kernel",
    look_at: "roll-fsync among the causes, and fsync in `brokerscope io --op fsync`",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::RollFsync])?;
    Ok(Recommendation {
        evidence,
        changes: vec![
            Change::of("Kafka's version", "not known", "3.7 or later"),
            Change::of(
                "log.segment.bytes",
                inputs.shown("log.segment.bytes", "1073741824"),
                "1073741824 or more: fewer rolls",
            ),
            Change::of(
                "log.flush.interval.messages",
                inputs.shown("log.flush.interval.messages", "9223372036854775807"),
                "not set",
            ),
        ],
        cost: Some(cost),
        effect: cost.gain("; of rolls that come less often, the part that does not come"),
        risk: "that of an upgrade; larger segments are kept longer before they may be deleted",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::RollFsync);
        assert_eq!(finding.changes[1].old, "1073741824 (the default)");
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::RollFsync);
    }
}
