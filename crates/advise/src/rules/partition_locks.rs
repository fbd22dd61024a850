//! Fewer partitions than request handlers: some can only wait.

use model::Cause;

use crate::costs::costly_on_the_way;
use crate::rule::need;
use crate::words::counted;
use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "partition-locks",
    layer: Layer::Locks,
    condition: "there are fewer partitions, over all topics, than request handlers, and requests that waited for logs or for handlers \
                took at least 1 % of the slow requests' time (brokerscope's own bound)",
    source: "a public case (IBM zSystems, 2022), checked by experiment: one lock a partition, 1 topic of 16 partitions is as good \
             as 2 of 8; num.io.threads never above the number of these locks",
    look_at: "requests a second, and log-lock in the ways to the causes",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let partitions = inputs.partitions()?;
    let handlers = inputs.settings()?.number("num.io.threads", 8)?;
    if i64::try_from(partitions).is_ok_and(|partitions| partitions >= handlers.value) {
        let there_are = counted(partitions, "partition");
        return Err(NoAdvice::silent(format!(
            "there are {there_are} for {} request handlers",
            handlers.value
        )));
    }
    need(Inputs::COSTS, &inputs.costs)?;
    if [Cause::LogLock, Cause::HandlersBusy].iter().all(|cause| costly_on_the_way(inputs, *cause).is_err()) {
        return Err(NoAdvice::silent("no slow request waited for a log or for a handler"));
    }
    Ok(Recommendation {
        evidence: format!("{} for {} request handlers", counted(partitions, "partition"), handlers.value),
        changes: vec![
            Change::of(
                "partitions, over all topics that are written to",
                partitions,
                format!("{} or more", handlers.value),
            )
            .on(Scope::Topics, "partitions", handlers.value),
            Change::of(
                "num.io.threads (kafka-configs, while the broker runs)",
                &handlers.shown,
                "no more than partitions",
            )
            .on(Scope::Broker, "num.io.threads", partitions),
        ],
        cost: None,
        effect: "more appends at once; what waiting for a log cost is with the rule log-lock".to_owned(),
        risk: "keys go to other partitions than before, and the order of their records ends there",
    })
}

#[cfg(test)]
mod tests {
    use model::{Cause, Nanos};

    use super::RULE;
    use crate::Inputs;
    use crate::testing::{broker, fired, lacks, silent, with_way};

    #[test]
    fn fires_where_handlers_outnumber_partitions() {
        let mut inputs = broker();
        inputs.surroundings.partitions = Ok(2);
        with_way(
            &mut inputs,
            Cause::SlowDevice,
            &[Cause::LogLock, Cause::SlowDevice],
            5,
            Nanos::from_millis(200),
        );
        let finding = fired(&RULE, &inputs);
        assert_eq!(finding.evidence, "2 partitions for 8 request handlers");
    }

    #[test]
    fn is_silent_where_there_are_enough_or_nobody_waits() {
        let mut inputs = broker();
        assert!(silent(&RULE, &inputs).contains("100 partitions"));
        inputs.surroundings.partitions = Ok(2);
        assert!(silent(&RULE, &inputs).contains("waited"));
        inputs.costs = Err("nobody watched".into());
        assert_eq!(lacks(&RULE, &inputs), Inputs::COSTS);
        inputs.surroundings.partitions = Err("nobody counted".into());
        assert_eq!(lacks(&RULE, &inputs), "the number of partitions");
    }
}
