//! A broker's disk reads that are of tiered storage's own state.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Finding, Inputs, Judgement, Layer, Rule, Scope};

const CLEANUP_ENABLE: &str = "confluent.tier.partition.state.cleanup.enable";

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "tier-state",
    layer: Layer::Disk,
    condition: "tier-state-io is the cause of at least 1 % of the slow requests' time (brokerscope's own \
        bound): reads of *.tierstate* files without egress to match",
    source: "a public case (Honeycomb, 2024): state files of hundreds of MB each, over 99 % of it of \
        segments long deleted; with the cleanup the reads were gone and a broker started in one minute instead of \
        20",
    look_at: "tier-state-io among the causes; `brokerscope files` on *.tierstate*; `brokerscope logs` on the \
        lines \"state file size changed\"",
    judge,
};

fn judge(inputs: &Inputs) -> Judgement {
    let (cost, evidence) = costly(inputs, &[Cause::TierStateIo])?;
    Ok(Finding {
        evidence,
        changes: vec![
            Change::of(CLEANUP_ENABLE, inputs.shown(CLEANUP_ENABLE, "false"), "true").by_name(Scope::Broker),
            Change::of(
                "confluent.tier.partition.state.cleanup.delay.ms",
                inputs.shown("confluent.tier.partition.state.cleanup.delay.ms", "not set"),
                "2592000000",
            )
            .by_name(Scope::Broker)
            .with_the_last(),
            Change::of(
                "confluent.tier.partition.state.cleanup.interval.ms",
                inputs.shown("confluent.tier.partition.state.cleanup.interval.ms", "not set"),
                "86400000",
            )
            .by_name(Scope::Broker)
            .with_the_last(),
        ],
        cost: Some(cost),
        effect: cost.gain("; not at once: see the risk"),
        risk: "ages count from when the cleanup is first on, so nothing is removed before delay.ms (30 days) \
            are over, and the first removals come at once for all partitions; only in Confluent Server",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::TierStateIo);
        assert!(finding.changes.len() == 3 && finding.changes[0].new == "true");
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::TierStateIo);
    }
}
