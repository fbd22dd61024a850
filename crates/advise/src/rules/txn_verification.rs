//! Appends of transactions that wait for their coordinator.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult, Scope};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "txn-verification",
    layer: Layer::Broker,
    condition: "txn-verification is the cause of at least 1 % of the slow requests' time (brokerscope's own \
        bound)",
    source: "KAFKA-14904; KIP-890: the partition is confirmed with the coordinator before the append",
    look_at: "txn-verification among the causes",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::TxnVerification])?;
    Ok(Recommendation {
        evidence,
        changes: vec![
            Change::of(
                "the transaction's coordinator (another broker)",
                "slow",
                "the disk under its __transaction_state partitions: run brokerscope there",
            ),
            Change::of(
                "transaction.partition.verification.enable",
                inputs.shown("transaction.partition.verification.enable", "true"),
                "false, as a last resort",
            )
            .on(Scope::Broker, "transaction.partition.verification.enable", "false"),
        ],
        cost: Some(cost),
        effect: cost.gain("; nothing is known of it from elsewhere"),
        risk: "without the verification a transaction may hang and keep consumers of committed records \
            waiting",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::TxnVerification);
        assert_eq!(finding.changes[1].old, "true (the default)");
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::TxnVerification);
    }
}
