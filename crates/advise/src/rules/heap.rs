//! A heap of the scripts' default for a broker of many partitions.

use std::sync::Arc;

use crate::words::size;
use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

const SMALL_BYTES: u64 = 1 << 30;
const MANY_PARTITIONS: u64 = 1_000;

/// The largest heap that a JVM's command line allows; of several options the last counts.
pub(super) fn heap_bytes(words: &[Arc<str>]) -> Option<u64> {
    let value = |word: &Arc<str>| {
        word.strip_prefix("-Xmx").or_else(|| word.strip_prefix("-XX:MaxHeapSize=")).and_then(bytes)
    };
    words.iter().filter_map(value).next_back()
}

/// `6g`, `512m`, `1048576`.
fn bytes(text: &str) -> Option<u64> {
    let shift = match text.bytes().next_back()?.to_ascii_lowercase() {
        b'k' => 10,
        b'm' => 20,
        b'g' => 30,
        b't' => 40,
        _ => 0,
    };
    let digits = if shift > 0 { text.get(..text.len() - 1)? } else { text };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "heap",
    layer: Layer::Jvm,
    condition: "the heap (-Xmx) is at most 1 GiB, and the broker has at least 1,000 partitions",
    source: "kafka-server-start.sh: -Xmx1G -Xms1G where KAFKA_HEAP_OPTS is not set; Kafka's documentation, \
        operations: Java version, shows 6 GiB. The bound of 1,000 partitions is brokerscope's own",
    look_at: "gc-pause among the causes; `brokerscope locks` tells each pause",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let Some(heap) = heap_bytes(inputs.jvm()?) else {
        return Err(NoAdvice::silent("no -Xmx is set: the JVM takes a quarter of the memory at most"));
    };
    let partitions = inputs.partitions()?;
    let told = format!("the heap may have {}, for {partitions} partitions", size(heap));
    if heap > SMALL_BYTES || partitions < MANY_PARTITIONS {
        return Err(NoAdvice::Silent(told));
    }
    Ok(Recommendation {
        evidence: told,
        changes: vec![Change::of("KAFKA_HEAP_OPTS", format!("-Xmx{}m", heap >> 20), "-Xms4g -Xmx4g").on(
            Scope::Jvm,
            "-Xmx",
            "4g",
        )],
        cost: None,
        effect: "fewer collections; what they cost here is with gc-pause, if anything".to_owned(),
        risk: "what the heap takes is not page cache",
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, silent, with_jvm};

    #[test]
    fn fires_where_thousands_share_a_gigabyte() {
        let mut inputs = broker();
        inputs.surroundings.partitions = Ok(2_000);
        with_jvm(&mut inputs, &["java", "-Xmx6g", "-Xmx1G"]);
        assert_eq!(fired(&RULE, &inputs).changes[0].old, "-Xmx1024m", "the last one counts");
    }

    #[test]
    fn is_silent_where_it_is_larger_or_there_are_few() {
        silent(&RULE, &broker());
        let mut inputs = broker();
        with_jvm(&mut inputs, &["java", "-Xmx512m"]);
        silent(&RULE, &inputs);
    }

    #[test]
    fn a_heap_is_read_as_the_jvm_does() {
        for (word, bytes) in [
            ("-Xmx6g", Some(6 << 30)),
            ("-Xmx512m", Some(512 << 20)),
            ("-Xmx1024", Some(1024)),
            ("-XX:MaxHeapSize=2G", Some(2 << 30)),
            ("-Xmxlots", None),
            ("-Xmx99999999999999t", None),
        ] {
            assert_eq!(super::heap_bytes(&[word.into()]), bytes, "{word}");
        }
    }
}
