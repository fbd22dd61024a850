//! Brokers that make the disk flush on their own account.

use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

const FLUSHES: [&str; 2] = ["log.flush.interval.messages", "log.flush.interval.ms"];

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "flush-interval",
    layer: Layer::Broker,
    condition: "log.flush.interval.messages or log.flush.interval.ms is set",
    source: "Kafka's documentation, operations: application against OS flush management recommends the \
        defaults, which leave flushing to the kernel: replication keeps what was acknowledged",
    look_at: "roll-fsync among the causes, and fsync in `brokerscope io --op fsync --summary`",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let settings = inputs.settings()?;
    let set: Vec<Change> = FLUSHES
        .iter()
        .filter_map(|name| {
            Some(Change::of(name, settings.text(name)?, "not set").on(Scope::Broker, name, ""))
        })
        .collect();
    if set.is_empty() {
        return Err(NoAdvice::silent("neither is set: flushing is left to the kernel"));
    }
    let evidence =
        set.iter().map(|change| format!("{}={}", change.setting, change.old)).collect::<Vec<_>>().join(", ");
    Ok(Recommendation {
        evidence,
        changes: set,
        cost: None,
        effect: "no append waits for an fsync of its log; what it cost here is with roll-fsync, if anything"
            .to_owned(),
        risk: "a partition without replicas loses what was not flushed when its host crashes",
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, silent, with_setting};

    #[test]
    fn fires_where_one_is_set() {
        let mut inputs = broker();
        with_setting(&mut inputs, "log.flush.interval.messages", "1");
        assert_eq!(fired(&RULE, &inputs).evidence, "log.flush.interval.messages=1");
    }

    #[test]
    fn is_silent_where_none_is() {
        silent(&RULE, &broker());
    }
}
