//! Collectors that stop the JVM for the whole of their work.

use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

const STOPPING: [&str; 3] = ["-XX:+UseSerialGC", "-XX:+UseParallelGC", "-XX:+UseConcMarkSweepGC"];

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "collector",
    layer: Layer::Jvm,
    condition: "the JVM was told to use the serial, the parallel or the concurrent mark-sweep collector",
    source: "Kafka's documentation, operations: Java version, and kafka-run-class.sh use G1; JEP 363 removed \
        concurrent mark-sweep",
    look_at: "gc-pause among the causes; `brokerscope locks` tells each pause",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let words = inputs.jvm()?;
    let old = words.iter().find_map(|word| STOPPING.into_iter().find(|option| &**word == *option));
    let Some(old) = old else {
        return Err(NoAdvice::silent("the JVM was told none of them"));
    };
    Ok(Recommendation {
        evidence: format!("the JVM's command line has {old}"),
        changes: vec![
            Change::of("KAFKA_JVM_PERFORMANCE_OPTS", old, "-XX:+UseG1GC -XX:MaxGCPauseMillis=20").on(
                Scope::Jvm,
                "-XX:+UseG1GC",
                "",
            ),
        ],
        cost: None,
        effect: "shorter pauses with a heap of some GiB; what they cost here is with gc-pause, if anything"
            .to_owned(),
        risk: "G1 takes some more memory and processor time",
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, lacks, silent, with_jvm};

    #[test]
    fn fires_of_one_that_stops_everything() {
        let mut inputs = broker();
        with_jvm(&mut inputs, &["java", "-XX:+UseParallelGC", "kafka.Kafka"]);
        assert_eq!(fired(&RULE, &inputs).changes[0].old, "-XX:+UseParallelGC");
    }

    #[test]
    fn is_silent_of_others() {
        silent(&RULE, &broker());
        let mut inputs = broker();
        inputs.surroundings.jvm_arguments = Err("another user's".into());
        assert_eq!(lacks(&RULE, &inputs), "the JVM's command line");
    }
}
