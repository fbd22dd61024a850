//! Threads of the broker that could run and had no processor.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult, Scope};

const MIGRATION_COST: &str = "kernel.sched_migration_cost_ns";

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "run-queue",
    layer: Layer::Os,
    condition: "run-queue is the cause of at least 1 % of the slow requests' time (brokerscope's own bound)",
    source: "a public case (IBM zSystems, 2022): kernel.sched_migration_cost_ns 50000, a small gain; since Linux 5.13 it is \
             /sys/kernel/debug/sched/migration_cost_ns (kernel/sched/debug.c)",
    look_at: "run-queue among the causes, and run_queue_ratio of the threads in host_samples/",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::RunQueue])?;
    let mut changes = Vec::new();
    let handlers = inputs.settings().and_then(|settings| settings.number("num.io.threads", 8));
    if let (Ok(handlers), Ok(cpus)) = (handlers, inputs.cpus()) {
        if handlers.value > i64::from(cpus) + 2 {
            changes.push(
                Change::of("num.io.threads (kafka-configs, while the broker runs)", handlers.shown, cpus + 2)
                    .on(Scope::Broker, "num.io.threads", cpus + 2),
            );
        }
    }
    let cpus = inputs.cpus().map_or_else(|_| "not known".to_owned(), |cpus| cpus.to_string());
    changes.push(Change::of("CPUs, or what else runs on this host", cpus, "more, or less of it"));
    let migration = Change::of(MIGRATION_COST, inputs.shown_sysctl(MIGRATION_COST), 50_000);
    let settable = inputs.sysctl(MIGRATION_COST).is_ok();
    changes.push(if settable { migration.by_name(Scope::Kernel) } else { migration });
    Ok(Recommendation {
        evidence,
        changes,
        cost: Some(cost),
        effect: cost.gain("; the kernel's setting had a small share of it in the public case"),
        risk: "threads that move between processors sooner find their caches cold more often",
    })
}

#[cfg(test)]
mod tests {
    use model::{Cause, Nanos};

    use super::RULE;
    use crate::testing::{broker, fired, fires_on, rests_without, with_cost, with_setting};

    #[test]
    fn fires_where_it_cost_something_and_names_handlers_that_are_too_many() {
        assert_eq!(fires_on(&RULE, Cause::RunQueue).changes.len(), 2);
        let mut inputs = broker();
        with_cost(&mut inputs, Cause::RunQueue, 5, Nanos::from_millis(200));
        with_setting(&mut inputs, "num.io.threads", "32");
        assert_eq!(fired(&RULE, &inputs).changes[0].new, "10");
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::RunQueue);
    }
}
