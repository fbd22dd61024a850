//! Requests that lie in a socket while its network thread works for others.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult, Scope};

/// Twice as many, but no more than there are CPUs, where both are known.
fn change(inputs: &Inputs) -> Change {
    let name = "num.network.threads";
    let old = inputs.shown(name, "3");
    let threads = inputs.settings().and_then(|settings| settings.number(name, 3));
    let Ok(threads) = threads else { return Change::of(name, old, "twice as many") };
    let twice = threads.value.saturating_mul(2);
    let most = inputs.cpus().map_or(twice, |cpus| i64::from(cpus).max(threads.value.saturating_add(1)));
    Change::of(name, old, twice.min(most)).by_name(Scope::Broker)
}

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "network-threads",
    layer: Layer::Network,
    condition: "network-threads-busy is the cause of at least 1 % of the slow requests' time (brokerscope's own \
        bound)",
    source: "a public case (IBM zSystems, 2022): num.network.threads 3 to 4, a small gain; \
        RequestHandlerAvgIdlePercent and NetworkProcessorAvgIdlePercent in Kafka's documentation, monitoring",
    look_at: "network-threads-busy among the causes, and the stages receive and respond",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::NetworkThreadsBusy])?;
    Ok(Recommendation {
        evidence,
        changes: vec![change(inputs)],
        cost: Some(cost),
        effect: cost.gain("; nothing where their time goes into reads of the disk: see cold-reads"),
        risk: "threads compete for the processors: no more of them than CPUs",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::NetworkThreadsBusy);
        assert_eq!((&*finding.changes[0].old, &*finding.changes[0].new), ("3", "6"));
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::NetworkThreadsBusy);
    }
}
