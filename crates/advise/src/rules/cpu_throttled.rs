//! A broker that stands still because its cgroup has used up its quota of processors.

use model::{Cause, HostScope};

use crate::costs::costly;
use crate::{Change, Cost, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult};

/// Periods of 100 ms that ran out, a second: fewer are noise.
const LEAST_PER_SECOND: f64 = 0.1;

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "cpu-throttled",
    layer: Layer::Os,
    condition: "cpu-throttled is the cause of at least 1 % of the slow requests' time, or the cgroup's quota ran out in at least one \
                period of 10 s (both brokerscope's own bounds)",
    source: "Documentation/scheduler/sched-bwc.rst: nr_throttled and throttled_usec of cpu.stat",
    look_at: "cpu-throttled among the causes, and cpu_throttled_per_second in host_samples/",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    match costly(inputs, &[Cause::CpuThrottled]) {
        Ok((cost, evidence)) => Ok(finding(inputs, evidence, Some(cost))),
        Err(unfired) => ran_out(inputs, unfired),
    }
}

/// What the cgroup's own counters say, where verdicts say nothing.
fn ran_out(inputs: &Inputs, unfired: NoAdvice) -> RuleResult {
    let Ok(samples) = inputs.samples() else { return Err(unfired) };
    let often =
        samples.one(HostScope::Cgroup, "cpu_throttled_per_second").map_or(0.0, |series| series.mean());
    if often < LEAST_PER_SECOND {
        return Err(NoAdvice::silent("the cgroup's quota did not run out, or it has none"));
    }
    let evidence = format!("the cgroup's quota ran out in {often:.1} periods a second");
    Ok(finding(inputs, evidence, None))
}

fn finding(inputs: &Inputs, evidence: String, cost: Option<Cost>) -> Recommendation {
    let quota = match &inputs.surroundings.cpu_quota {
        Ok(Some(cpus)) => format!("{cpus:.1} CPUs"),
        Ok(None) => "none of its own: look at the groups above".to_owned(),
        Err(_) => "not known".to_owned(),
    };
    let unmeasured =
        "no thread stands still with processors idle; what that costs requests was not seen".to_owned();
    Recommendation {
        evidence,
        changes: vec![Change::of(
            "cpu.max of the broker's cgroup (Kubernetes: limits.cpu)",
            quota,
            "max: no quota",
        )],
        cost,
        effect: cost.map_or(unmeasured, |cost| cost.gain("")),
        risk: "the broker may take processors from its neighbours: shares (cpu.weight, requests.cpu) bound that without standing still",
    }
}

#[cfg(test)]
mod tests {
    use model::{Cause, HostScope, Nanos};

    use super::RULE;
    use crate::Inputs;
    use crate::testing::{broker, fired, lacks, silent, with_cost, with_sample};

    #[test]
    fn fires_where_it_cost_something_or_ran_out() {
        let mut inputs = broker();
        inputs.surroundings.cpu_quota = Ok(Some(2.0));
        with_sample(&mut inputs, HostScope::Cgroup, "/kafka", "cpu_throttled_per_second", 3.0);
        let finding = fired(&RULE, &inputs);
        assert_eq!((finding.cost, &*finding.changes[0].old), (None, "2.0 CPUs"));
        with_cost(&mut inputs, Cause::CpuThrottled, 4, Nanos::from_millis(200));
        assert!(fired(&RULE, &inputs).cost.is_some());
    }

    #[test]
    fn is_silent_where_it_did_not_run_out_or_nobody_looked() {
        silent(&RULE, &broker());
        let unseen =
            Inputs { costs: Err("nobody watched".into()), samples: Err("nor that".into()), ..broker() };
        assert_eq!(lacks(&RULE, &unseen), Inputs::COSTS);
    }
}
