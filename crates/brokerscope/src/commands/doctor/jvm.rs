//! What a broker's JVM offers for a live watch, in words. The survey of its probes and the decision are `probes`';
//! whether it can be asked says `attach.rs`.

use probes::jvm::{JvmFacts, JvmHook, JvmPlan};
use probes::{Facts, State};
use report::doctor::{Examination, Fact, Hook, Remedy};

/// Looks at the JVMs of the brokers that were found.
pub(super) fn examine(examination: &mut Examination) {
    if examination.brokers.is_empty() {
        return;
    }
    let host = Facts::survey();
    for broker in &mut examination.brokers {
        let jvm = JvmFacts::survey(broker.pid);
        let plan = JvmPlan::choose(&host, &jvm);
        let asking = super::attach::examine(broker.pid, jvm.library.as_deref().ok());
        broker.facts.extend(asking.facts);
        examination.hooks.extend(asking.hooks);
        examination.remedies.extend(asking.remedies);
        broker.facts.extend(facts_shown(&jvm));
        examination.hooks.extend(plan.hooks.iter().map(|hook| hook_shown(broker.pid, hook)));
        examination.remedies.extend(remedies(broker.pid, &plan));
    }
}

fn facts_shown(jvm: &JvmFacts) -> [Fact; 2] {
    let fact = |name: &str, value| Fact { name: name.to_owned(), value };
    let probes = match &jvm.library {
        Ok(_) => format!("{} in its libjvm.so", jvm.probes.len()),
        Err(why) => why.clone(),
    };
    let monitors = match &jvm.monitor_probes {
        Ok(true) => "on".to_owned(),
        Ok(false) => "off".to_owned(),
        Err(why) => format!("unknown: {why}"),
    };
    [fact("USDT probes", probes), fact("DTraceMonitorProbes", monitors)]
}

fn hook_shown(pid: u32, hook: &JvmHook) -> Hook {
    Hook {
        purpose: hook.purpose.as_str().to_owned(),
        mechanism: format!("{} of broker {pid}", hook.describe()),
        missing: match &hook.state {
            State::Use => None,
            State::Missing { why, .. } => Some(why.clone()),
        },
    }
}

/// One for all purposes that lack the same.
fn remedies(pid: u32, plan: &JvmPlan) -> Vec<Remedy> {
    let mut found: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for hook in &plan.hooks {
        let State::Missing { why, remedy: Some(action) } = &hook.state else { continue };
        match found.iter_mut().find(|(known, ..)| known == why) {
            Some((.., purposes)) => purposes.push(hook.purpose.as_str()),
            None => found.push((why, action, vec![hook.purpose.as_str()])),
        }
    }
    let remedies = found.into_iter().map(|(why, action, purposes)| Remedy {
        problem: format!("{} of broker {pid} cannot be seen by USDT: {why}", purposes.join(", ")),
        action: action.to_owned(),
    });
    remedies.collect()
}
