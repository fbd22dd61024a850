//! A single thread that fetches all partitions of each leader.

use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

const MANY_PARTITIONS: u64 = 1_000;

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "replica-fetchers",
    layer: Layer::Broker,
    condition: "num.replica.fetchers is 1, topics are replicated by default, and the broker has at least 1,000 \
        partitions",
    source: "Kafka's documentation, broker configuration: more fetchers raise the parallelism of a follower. \
        The bound of 1,000 partitions is brokerscope's own",
    look_at: "replication-wait among the causes of the leaders, and the stage remote",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let settings = inputs.settings()?;
    let fetchers = settings.number("num.replica.fetchers", 1)?;
    let replicas = settings.number("default.replication.factor", 1)?;
    let partitions = inputs.partitions()?;
    if fetchers.value > 1 || replicas.value < 2 || partitions < MANY_PARTITIONS {
        return Err(NoAdvice::Silent(format!(
            "num.replica.fetchers is {}, default.replication.factor is {}, of {partitions} partitions",
            fetchers.shown, replicas.shown
        )));
    }
    Ok(Recommendation {
        evidence: format!("one fetcher for each leader, of {partitions} partitions"),
        changes: vec![
            Change::of("num.replica.fetchers (kafka-configs, while the broker runs)", fetchers.shown, 4).on(
                Scope::Broker,
                "num.replica.fetchers",
                4,
            ),
        ],
        cost: None,
        effect: "followers that are behind under load catch up sooner; nothing where they are not".to_owned(),
        risk: "four times as many connections and fetches to every leader",
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, silent, with_setting};

    #[test]
    fn fires_where_one_thread_has_thousands() {
        let mut inputs = broker();
        inputs.surroundings.partitions = Ok(2_000);
        assert_eq!(fired(&RULE, &inputs).changes[0].old, "1 (the default)");
    }

    #[test]
    fn is_silent_where_there_are_few_or_more_threads_or_no_replicas() {
        silent(&RULE, &broker());
        for (name, value) in [("num.replica.fetchers", "4"), ("default.replication.factor", "1")] {
            let mut inputs = broker();
            inputs.surroundings.partitions = Ok(2_000);
            with_setting(&mut inputs, name, value);
            silent(&RULE, &inputs);
        }
    }
}
