//! Followers that are thrown out of the in-sync replicas too soon.

use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

const DEFAULT_MS: i64 = 30_000;

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "replica-lag",
    layer: Layer::Broker,
    condition: "replica.lag.time.max.ms is set below 30000",
    source: "KIP-537: the default was raised from 10 s to 30 s, because a slow disk or a pause threw \
        followers out of the in-sync replicas and back in",
    look_at: "replication-wait among the causes; IsrShrinksPerSec of the broker",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let lag = inputs.settings()?.number("replica.lag.time.max.ms", DEFAULT_MS)?;
    if lag.value >= DEFAULT_MS {
        return Err(NoAdvice::Silent(format!("replica.lag.time.max.ms is {}", lag.shown)));
    }
    Ok(Recommendation {
        evidence: format!("replica.lag.time.max.ms is {}", lag.shown),
        changes: vec![Change::of("replica.lag.time.max.ms", lag.shown, DEFAULT_MS).by_name(Scope::Broker)],
        cost: None,
        effect: "a stall of some seconds does not shrink the in-sync replicas".to_owned(),
        risk: "requests with acks=all wait longer for a follower that is gone",
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, silent, with_setting};

    #[test]
    fn fires_where_it_is_short() {
        let mut inputs = broker();
        with_setting(&mut inputs, "replica.lag.time.max.ms", "10000");
        assert_eq!(fired(&RULE, &inputs).changes[0].new, "30000");
    }

    #[test]
    fn is_silent_where_it_is_not() {
        silent(&RULE, &broker());
    }
}
