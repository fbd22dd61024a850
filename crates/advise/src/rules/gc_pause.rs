//! Stops of the JVM to collect garbage.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult, Scope};

/// What follows an option's name on the JVM's command line.
fn option(inputs: &Inputs, name: &str) -> String {
    let Ok(words) = inputs.jvm() else { return "not known".to_owned() };
    let value = words.iter().filter_map(|word| word.strip_prefix(name)).next_back();
    value.unwrap_or("not set").to_owned()
}

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "gc-pause",
    layer: Layer::Jvm,
    condition: "gc-pause is the cause of at least 1 % of the slow requests' time (brokerscope's own bound)",
    source: "kafka-run-class.sh: -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35; \
        Kafka's documentation, operations: Java version",
    look_at: "gc-pause among the causes; `brokerscope locks` tells each pause",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::GcPause])?;
    Ok(Recommendation {
        evidence,
        changes: vec![
            Change::of("-XX:MaxGCPauseMillis", option(inputs, "-XX:MaxGCPauseMillis="), "20")
                .by_name(Scope::Jvm),
            Change::of(
                "-XX:InitiatingHeapOccupancyPercent",
                option(inputs, "-XX:InitiatingHeapOccupancyPercent="),
                "35",
            )
            .by_name(Scope::Jvm),
            Change::of(
                "collector (JDK 21 and later, if that is not enough)",
                option(inputs, "-XX:+Use"),
                "-XX:+UseZGC",
            ),
        ],
        cost: Some(cost),
        effect: cost.gain("; nothing is known of it from elsewhere"),
        risk: "shorter pauses come more often and take more of the processor; ZGC wants a larger heap for \
            the same work",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::GcPause);
        assert_eq!((&*finding.changes[0].old, &*finding.changes[2].old), ("not set", "G1GC"));
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::GcPause);
    }
}
