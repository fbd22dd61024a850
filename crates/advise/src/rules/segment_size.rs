//! Segments so small that they roll all the time.

use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

const DEFAULT_BYTES: i64 = 1 << 30;
const LEAST_BYTES: i64 = 128 << 20;

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "segment-size",
    layer: Layer::Broker,
    condition: "log.segment.bytes is below 128 MiB",
    source: "Kafka's documentation, broker configuration: 1 GiB by default; KAFKA-9693 on what a roll costs. \
        The bound, an eighth of the default, is brokerscope's own",
    look_at: "roll-fsync among the causes; `brokerscope logs` on the lines \"Rolled new log segment\"",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let bytes = inputs.settings()?.number("log.segment.bytes", DEFAULT_BYTES)?;
    if bytes.value >= LEAST_BYTES {
        return Err(NoAdvice::Silent(format!("log.segment.bytes is {}", bytes.shown)));
    }
    Ok(Recommendation {
        evidence: format!("log.segment.bytes is {}", bytes.shown),
        changes: vec![Change::of("log.segment.bytes", bytes.shown, DEFAULT_BYTES).by_name(Scope::Broker)],
        cost: None,
        effect: "fewer rolls, files and mapped areas; what rolls cost here is with roll-fsync, if anything"
            .to_owned(),
        risk: "records are kept until their whole segment may be deleted: topics with little traffic keep more",
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, lacks, silent, with_setting};

    #[test]
    fn fires_where_segments_are_small() {
        let mut inputs = broker();
        with_setting(&mut inputs, "log.segment.bytes", "1048576");
        assert_eq!(fired(&RULE, &inputs).changes[0].old, "1048576");
    }

    #[test]
    fn is_silent_where_they_are_not_and_of_what_is_no_number() {
        let mut inputs = broker();
        assert!(silent(&RULE, &inputs).contains("the default"));
        with_setting(&mut inputs, "log.segment.bytes", "large");
        assert_eq!(lacks(&RULE, &inputs), "log.segment.bytes");
    }
}
