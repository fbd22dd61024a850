//! Requests behind earlier ones of their own connection.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "head-of-line",
    layer: Layer::Producer,
    condition: "head-of-line is the cause of at least 1 % of the slow requests' time (brokerscope's own bound), \
        where nothing more is known of the requests ahead",
    source: "SocketServer mutes a connection until its request has been answered",
    look_at: "the stage head_of_line, and p99.9 of produce",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::HeadOfLine])?;
    Ok(Recommendation {
        evidence,
        changes: vec![Change::of(
            "max.in.flight.requests.per.connection (of the client)",
            "not on the wire",
            "1 or 2: a shorter line",
        )],
        cost: Some(cost),
        effect: cost.gain(": time in line becomes time in the client, unless the requests ahead get quicker"),
        risk: "less throughput on connections with long round trips",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::HeadOfLine);
        assert!(finding.changes[0].setting.starts_with("max.in.flight"));
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::HeadOfLine);
    }
}
