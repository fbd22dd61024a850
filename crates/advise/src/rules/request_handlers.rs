//! Too few request handlers for the processors there are.

use model::Cause;

use crate::costs::costly_on_the_way;
use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

/// Handlers beside the CPUs: some of them are always in a write.
const BESIDE_CPUS: i64 = 2;

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "request-handlers",
    layer: Layer::Broker,
    condition: "requests that waited for a handler took at least 1 % of the slow requests' time (brokerscope's own bound), and \
                there are fewer handlers than CPUs",
    source: "a public case (IBM zSystems, 2022): num.io.threads slightly above the number of CPUs, and never above the number of \
             partition locks",
    look_at: "handlers-busy in the ways to the causes, and the stage queue",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, told) = costly_on_the_way(inputs, Cause::HandlersBusy)?;
    let handlers = inputs.settings()?.number("num.io.threads", 8)?;
    let cpus = i64::from(inputs.cpus()?);
    let partitions = inputs.partitions().ok().and_then(|count| i64::try_from(count).ok());
    let new = (cpus + BESIDE_CPUS).min(partitions.unwrap_or(i64::MAX));
    if handlers.value >= cpus || new <= handlers.value {
        return Err(NoAdvice::silent(format!(
            "{} handlers are enough for {cpus} CPUs and the partitions there are: what kept them is to be removed, not their number",
            handlers.value
        )));
    }
    Ok(Recommendation {
        evidence: format!("{told}; {} handlers on {cpus} CPUs", handlers.value),
        changes: vec![
            Change::of("num.io.threads (kafka-configs, while the broker runs)", handlers.shown, new).on(
                Scope::Broker,
                "num.io.threads",
                new,
            ),
        ],
        cost: Some(cost),
        effect: cost.gain("; only after what kept the handlers, which has its own advice, is removed"),
        risk: "more threads compete for processors and for the partitions' locks",
    })
}

#[cfg(test)]
mod tests {
    use model::{Cause, Nanos};

    use super::RULE;
    use crate::Inputs;
    use crate::testing::{broker, fired, silent, with_setting, with_way};

    fn waited(handlers: &str) -> Inputs {
        let mut inputs = broker();
        with_way(
            &mut inputs,
            Cause::SlowDevice,
            &[Cause::HandlersBusy, Cause::SlowDevice],
            5,
            Nanos::from_millis(200),
        );
        with_setting(&mut inputs, "num.io.threads", handlers);
        inputs
    }

    #[test]
    fn fires_where_cpus_are_left_and_never_beyond_the_partitions() {
        let mut inputs = waited("4");
        let change = fired(&RULE, &inputs).changes.remove(0);
        assert_eq!((&*change.old, &*change.new), ("4", "10"));
        inputs.surroundings.partitions = Ok(6);
        assert_eq!(fired(&RULE, &inputs).changes[0].new, "6");
        inputs.surroundings.cpu_quota = Ok(Some(1.5));
        silent(&RULE, &inputs);
    }

    #[test]
    fn is_silent_where_there_are_as_many_as_cpus_or_nobody_waited() {
        assert!(silent(&RULE, &waited("8")).contains("enough"));
        assert!(silent(&RULE, &broker()).contains("no request was slow"));
    }
}
