//! Stops of the JVM that are no collections, or that take long to reach.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult, Scope};

fn set(inputs: &Inputs) -> &'static str {
    match inputs.jvm() {
        Ok(words) if words.iter().any(|word| &**word == "-XX:+PerfDisableSharedMem") => "set",
        Ok(_) => "not set",
        Err(_) => "not known",
    }
}

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "safepoint",
    layer: Layer::Jvm,
    condition: "safepoint is the cause of at least 1 % of the slow requests' time (brokerscope's own bound)",
    source: "a public talk on Kafka at LINE: threads that fault on a mapped file keep the JVM from a \
        safepoint; Evan Jones (2015) on the file of the performance counters",
    look_at: "safepoint among the causes; -Xlog:safepoint says which part was waited for",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::Safepoint])?;
    Ok(Recommendation {
        evidence,
        changes: vec![
            Change::of("-XX:+PerfDisableSharedMem", set(inputs), "set").on(
                Scope::Jvm,
                "-XX:+PerfDisableSharedMem",
                "",
            ),
            Change::of("-Xlog:safepoint", "not known", "set, to see what is waited for"),
        ],
        cost: Some(cost),
        effect: cost.gain("; only where a page of a mapped file, or of what was swapped out, was waited for"),
        risk: "jps, jstat and VisualVM do not see a JVM without its file of counters; brokerscope does",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::Safepoint);
        assert_eq!(finding.changes[0].old, "not set");
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::Safepoint);
    }
}
