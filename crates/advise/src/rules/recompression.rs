//! Batches that the broker compresses anew, because a topic asks for another codec than its producers use.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "recompression",
    layer: Layer::Broker,
    condition: "recompression is the cause of at least 1 % of the slow requests' time (brokerscope's own bound); where nothing was \
                watched: compression.type of the broker is not producer",
    source: "Kafka's documentation, topic configuration: compression.type=producer retains the codec set by the producer",
    look_at: "recompression among the causes, and the stage handler",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let changes = || {
        let old = inputs.shown("compression.type", "producer");
        vec![
            Change::of(
                "compression.type (of the broker, and of the topics that `explain` names)",
                old,
                "producer",
            )
            .on(Scope::Broker, "compression.type", "producer"),
            Change::of(
                "message.timestamp.type",
                inputs.shown("log.message.timestamp.type", "CreateTime"),
                "CreateTime",
            )
            .on(Scope::Broker, "log.message.timestamp.type", "CreateTime"),
        ]
    };
    let risk = "the broker stores what producers chose: those that do not compress take more of the disk and the network";
    if inputs.costs.is_ok() {
        let (cost, evidence) = costly(inputs, &[Cause::Recompression])?;
        let effect = cost.gain("");
        return Ok(Recommendation { evidence, changes: changes(), cost: Some(cost), effect, risk });
    }
    match inputs.settings()?.text("compression.type") {
        Some(codec) if codec != "producer" => Ok(Recommendation {
            evidence: format!(
                "compression.type={codec}: batches of any other codec are decompressed and compressed anew"
            ),
            changes: changes(),
            cost: None,
            effect: "less processor time of the request handlers; nobody watched how much".to_owned(),
            risk,
        }),
        _ => Err(NoAdvice::silent("compression.type is producer, and nobody watched requests")),
    }
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::Inputs;
    use crate::testing::{broker, fired, rests_without, silent, with_cost, with_setting};

    #[test]
    fn fires_where_it_cost_something_or_is_asked_for() {
        let mut inputs = broker();
        with_cost(&mut inputs, Cause::Recompression, 5, model::Nanos::from_millis(200));
        assert!(fired(&RULE, &inputs).cost.is_some());
        let mut unwatched = Inputs { costs: Err("nobody watched".into()), ..broker() };
        with_setting(&mut unwatched, "compression.type", "gzip");
        let finding = fired(&RULE, &unwatched);
        assert_eq!((finding.cost, &*finding.changes[0].old), (None, "gzip"));
    }

    #[test]
    fn is_silent_where_it_cost_nothing_or_nothing_asks_for_it() {
        rests_without(&RULE, Cause::Recompression);
        silent(&RULE, &Inputs { costs: Err("nobody watched".into()), ..broker() });
    }
}
