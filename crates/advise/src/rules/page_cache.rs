//! A heap that leaves no memory to the page cache.

use super::heap::heap_bytes;
use crate::words::size;
use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

/// What production brokers are usually given.
const MOST_HEAP_BYTES: u64 = 6 << 30;

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "page-cache",
    layer: Layer::Jvm,
    condition: "the heap (-Xmx) is more than half of the memory that the broker may use",
    source: "Kafka's documentation, operations: hardware and OS: memory for the page cache, by the rule of \
        write throughput times 30 s; kafka-server-start.sh gives the heap 1 GiB. The bound of a half is \
        brokerscope's own",
    look_at: "cache-eviction and disk-read-in-network-thread among the causes, and page_cache_bytes in \
        host_samples/",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let memory = inputs.memory()?;
    let Some(heap) = heap_bytes(inputs.jvm()?) else {
        return Err(NoAdvice::silent("no -Xmx is set: the JVM takes a quarter of the memory at most"));
    };
    let told = format!("the heap may have {} of {}", size(heap), size(memory));
    if heap <= memory / 2 {
        return Err(NoAdvice::Silent(told));
    }
    let new = (memory / 4).min(MOST_HEAP_BYTES);
    Ok(Recommendation {
        evidence: told,
        changes: vec![
            Change::of("-Xmx (KAFKA_HEAP_OPTS)", format!("{}m", heap >> 20), format!("{}m", new >> 20)).on(
                Scope::Jvm,
                "-Xmx",
                format!("{}m", new >> 20),
            ),
        ],
        cost: None,
        effect: "consumers that lag a little are served from memory; what cold reads cost here is with cold-reads, if anything".to_owned(),
        risk: "a heap too small collects all the time: watch gc-pause",
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, lacks, silent, with_jvm};

    #[test]
    fn fires_where_the_heap_takes_most_of_the_memory() {
        let mut inputs = broker();
        inputs.surroundings.memory_limit_bytes = Ok(Some(8 << 30));
        let change = fired(&RULE, &inputs).changes.remove(0);
        assert_eq!((&*change.old, &*change.new), ("6144m", "2048m"));
    }

    #[test]
    fn is_silent_where_it_leaves_half_or_nothing_is_set() {
        let mut inputs = broker();
        silent(&RULE, &inputs);
        with_jvm(&mut inputs, &["java", "kafka.Kafka"]);
        assert!(silent(&RULE, &inputs).contains("no -Xmx"));
        inputs.surroundings.jvm_arguments = Err("another user's".into());
        assert_eq!(lacks(&RULE, &inputs), "the JVM's command line");
    }
}
