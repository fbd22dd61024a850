//! Options by which each lock costs the JVM more, contended or not.

use std::sync::Arc;

use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult};

/// What makes locks dearer.
const DEAR: [&str; 4] =
    ["-XX:+UseHeavyMonitors", "-XX:LockingMode=0", "-XX:+UseBiasedLocking", "-Xthr:noAdaptSpin"];

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "jvm-locking",
    layer: Layer::Jvm,
    condition: "the JVM was told to use a full monitor for each lock (-XX:+UseHeavyMonitors, -XX:LockingMode=0), biased locking, or, \
                on OpenJ9, not to adapt its spinning (-Xthr:noAdaptSpin)",
    source: "HotSpot's runtime/globals.hpp: LockingMode 0 uses monitors only, 1 and 2 are fast where nobody else wants the lock; \
             JEP 374: biased locking no longer pays, and taking a bias back stops threads; OpenJ9's documentation, -Xthr: \
             noAdaptSpin is there for tests",
    look_at: "requests a second, safepoint among the causes, and the share of monitor enter in `advise`",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let words = inputs.jvm()?;
    let told = DEAR.into_iter().filter(|option| is_on(words, option)).collect::<Vec<_>>();
    if told.is_empty() {
        return Err(NoAdvice::silent("the JVM was told nothing that makes locks dearer"));
    }
    Ok(Recommendation {
        evidence: format!("the JVM's command line has {}", told.join(" ")),
        changes: told.iter().map(|option| Change::of("KAFKA_OPTS", option, "(without it)")).collect(),
        cost: None,
        effect: "less processor time for each of the locks that a request takes; nobody measured how much"
            .to_owned(),
        risk: "the option may be there for a fault of an older JVM: see who set it",
    })
}

/// Whether an option is in force: of `+` and `-`, and of several values, the last counts.
fn is_on(words: &[Arc<str>], option: &str) -> bool {
    let name = |word: &str| match word.split_once('=') {
        Some((name, _)) => name.to_owned(),
        None => word.replacen("-XX:+", "-XX:", 1).replacen("-XX:-", "-XX:", 1),
    };
    words.iter().rev().find(|word| name(word) == name(option)).is_some_and(|last| **last == *option)
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, lacks, silent, with_jvm};

    #[test]
    fn fires_of_options_that_make_locks_dearer() {
        let mut inputs = broker();
        with_jvm(
            &mut inputs,
            &["java", "-XX:LockingMode=1", "-XX:LockingMode=0", "-XX:+UseHeavyMonitors", "kafka.Kafka"],
        );
        let finding = fired(&RULE, &inputs);
        let old: Vec<_> = finding.changes.iter().map(|change| &*change.old).collect();
        assert_eq!(old, ["-XX:+UseHeavyMonitors", "-XX:LockingMode=0"]);
        with_jvm(&mut inputs, &["java", "-Xthr:noAdaptSpin"]);
        assert!(fired(&RULE, &inputs).evidence.ends_with("-Xthr:noAdaptSpin"));
    }

    #[test]
    fn is_silent_of_others_and_where_the_last_word_is_another() {
        silent(&RULE, &broker());
        let mut inputs = broker();
        with_jvm(
            &mut inputs,
            &["java", "-XX:+UseBiasedLocking", "-XX:-UseBiasedLocking", "-XX:LockingMode=2"],
        );
        silent(&RULE, &inputs);
        inputs.surroundings.jvm_arguments = Err("another user's".into());
        assert_eq!(lacks(&RULE, &inputs), "the JVM's command line");
    }
}
