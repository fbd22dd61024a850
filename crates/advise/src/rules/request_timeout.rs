//! Produce requests that take longer than producers wait: they are sent again, and come on top.

use model::Nanos;

use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

/// The producers' default.
const DEFAULT_TIMEOUT: Nanos = Nanos::from_millis(30_000);

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "request-timeout",
    layer: Layer::Producer,
    condition: "p99.9 of produce requests (of 1,000 or more) is at or above 30 s, the default of request.timeout.ms",
    source: "Kafka's documentation, producer configuration: request.timeout.ms is 30000 and must be above the broker's \
             replica.lag.time.max.ms; delivery.timeout.ms is 120000. What a producer has set is not read",
    look_at: "p99.9 of produce, and record-retry-rate of the producers",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let traffic = inputs.traffic()?;
    let Some(p999) = traffic.p999() else {
        return Err(NoAdvice::silent(
            "fewer than 1,000 produce requests were seen: their p99.9 is not known",
        ));
    };
    if p999 < DEFAULT_TIMEOUT {
        return Err(NoAdvice::Silent(format!(
            "p99.9 of produce requests is {p999}, and producers wait 30 s by default"
        )));
    }
    let new = (p999.0 / 1_000_000).saturating_mul(2);
    Ok(Recommendation {
        evidence: format!("p99.9 of produce requests is {p999}, and producers wait 30 s by default"),
        changes: vec![
            Change::of("request.timeout.ms (of the producers)", "not known; 30000 by default", new).on(
                Scope::Producers,
                "request.timeout.ms",
                new,
            ),
            Change::of(
                "delivery.timeout.ms (of the producers)",
                "not known; 120000 by default",
                new.saturating_mul(4).max(120_000),
            )
            .on(Scope::Producers, "delivery.timeout.ms", new.saturating_mul(4).max(120_000)),
        ],
        cost: None,
        effect:
            "no second copy of what the broker is still at work on; first remove what makes it take so long"
                .to_owned(),
        risk: "a broker that is gone is noticed later",
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, lacks, produce, silent};
    use crate::{Inputs, Traffic};

    fn took(slowest_ms: i64, requests: i64) -> Inputs {
        let mut traffic = Traffic::default();
        for at in 0..requests {
            traffic.add(&produce("app", at, if at < 20 { slowest_ms } else { 2 }, 100, 1));
        }
        Inputs { traffic: Ok(traffic), ..broker() }
    }

    #[test]
    fn fires_where_producers_give_up_before_the_broker() {
        let finding = fired(&RULE, &took(31_000, 2_000));
        assert!(finding.changes[0].new.parse::<u64>().unwrap() >= 62_000, "{finding:?}");
    }

    #[test]
    fn is_silent_where_they_do_not_or_too_few_were_seen() {
        silent(&RULE, &took(29_000, 2_000));
        assert!(silent(&RULE, &took(31_000, 900)).contains("fewer"));
        assert_eq!(
            lacks(&RULE, &Inputs { traffic: Err("nobody watched".into()), ..broker() }),
            Inputs::TRAFFIC
        );
    }
}
