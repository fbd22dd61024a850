//! Bytes that come or go slowly for the client's or the network's sake.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "slow-client",
    layer: Layer::Network,
    condition: "slow-client is the cause of at least 1 % of the slow requests' time (brokerscope's own bound)",
    source: "KIP-764 and KAFKA-9648: connections that SYN cookies set up have no window scaling and carry 64 \
        KiB a round trip",
    look_at: "slow-client among the causes, and tcp_retransmits_per_second in host_samples/",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::SlowClient])?;
    Ok(Recommendation {
        evidence,
        changes: vec![
            Change::of(
                "the client that `explain` names",
                "reads or writes late",
                "its CPU, its pauses, the network to it",
            ),
            Change::of(
                "socket.listen.backlog.size",
                inputs.shown("socket.listen.backlog.size", "50"),
                "1024, with net.core.somaxconn and net.ipv4.tcp_max_syn_backlog",
            ),
        ],
        cost: Some(cost),
        effect: cost.gain("; the second only where SYN cookies were sent"),
        risk: "a longer backlog takes a little memory",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::SlowClient);
        assert_eq!(finding.changes[1].old, "50 (the default)");
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::SlowClient);
    }
}
