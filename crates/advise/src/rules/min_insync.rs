//! acks=all that asks for no second replica, or for all of them.

use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "min-insync",
    layer: Layer::Broker,
    condition: "topics have two replicas or more by default, and min.insync.replicas is 1 with three of them, \
        or as many as there are",
    source: "Kafka's documentation, topic configuration: a replication factor of 3 with min.insync.replicas \
        of 2 is typical. With 1, acks=all is content with the leader; with as many as replicas, one broker that is \
        away stops all producers",
    look_at: "replication-wait among the causes (a higher value does not change it), and NOT_ENOUGH_REPLICAS \
        of the producers",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let settings = inputs.settings()?;
    let replicas = settings.number("default.replication.factor", 1)?;
    let least = settings.number("min.insync.replicas", 1)?;
    let told =
        format!("min.insync.replicas is {}, default.replication.factor is {}", least.shown, replicas.shown);
    let too_low = replicas.value >= 3 && least.value <= 1;
    let too_high = replicas.value >= 2 && least.value >= replicas.value;
    if !too_low && !too_high {
        return Err(NoAdvice::Silent(told));
    }
    let (new, effect) = if too_low {
        (2, "what acks=all has acknowledged survives the loss of a broker")
    } else {
        (replicas.value - 1, "producers with acks=all go on while one broker is away")
    };
    Ok(Recommendation {
        evidence: told,
        changes: vec![
            Change::of(
                "min.insync.replicas (of the broker, and of topics that have their own)",
                least.shown,
                new,
            )
            .on(Scope::Broker, "min.insync.replicas", new),
        ],
        cost: None,
        effect: effect.to_owned(),
        risk: "the more replicas must have a record, the fewer brokers may be away; the fewer must, the fewer may be lost",
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, silent, with_setting};

    #[test]
    fn fires_where_it_guards_nothing_or_stops_everything() {
        let mut inputs = broker();
        with_setting(&mut inputs, "min.insync.replicas", "1");
        assert_eq!(fired(&RULE, &inputs).changes[0].new, "2");
        with_setting(&mut inputs, "min.insync.replicas", "3");
        assert_eq!(fired(&RULE, &inputs).changes[0].new, "2");
    }

    #[test]
    fn is_silent_where_one_replica_may_be_away_and_where_there_is_only_one() {
        let mut inputs = broker();
        silent(&RULE, &inputs);
        with_setting(&mut inputs, "default.replication.factor", "1");
        with_setting(&mut inputs, "min.insync.replicas", "1");
        silent(&RULE, &inputs);
    }
}
