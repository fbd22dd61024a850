//! What a broker's JVM offers for a live watch: USDT probes, and whether it can be attached to for thread names and for
//! recording lock waits. Does not attach: that would start the JVM's attach listener.

use std::path::Path;

use jvm::{Error, Machine, flight, may_act_as};
use probes::Facts;
use probes::jvm::{JvmFacts, JvmHook, JvmPlan};
use report::doctor::{Examination, Fact, Hook, Remedy};

use super::host::{by_reason, missing};
use super::{fact, remedy};

/// Names of purposes in `record`'s plan.
const NAMES: &str = "thread-names";
const WAITS: &str = "lock-waits";
const CALLS: &str = "handler-calls";

/// Examines the JVMs of the brokers that were found.
pub(super) fn examine(examination: &mut Examination) {
    if examination.brokers.is_empty() {
        return;
    }
    let host = Facts::survey();
    for broker in &mut examination.brokers {
        let jvm = JvmFacts::survey(broker.pid);
        let plan = JvmPlan::choose(&host, &jvm);
        let attach = examine_attach(broker.pid, jvm.library.as_deref().ok());
        broker.facts.extend(attach.facts.into_iter().chain(list_facts(&jvm)));
        examination.hooks.extend(attach.hooks);
        examination.remedies.extend(attach.remedies);
        examination.hooks.extend(plan.hooks.iter().map(|hook| hook_row(broker.pid, hook)));
        examination.remedies.extend(remedies(broker.pid, &plan));
    }
}

fn list_facts(jvm: &JvmFacts) -> [Fact; 2] {
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

fn hook_row(pid: u32, hook: &JvmHook) -> Hook {
    Hook {
        purpose: hook.purpose.as_str().to_owned(),
        mechanism: format!("{} of broker {pid}", hook.describe()),
        missing: missing(&hook.state),
    }
}

/// One remedy for all purposes that lack the same.
fn remedies(pid: u32, plan: &JvmPlan) -> Vec<Remedy> {
    let states = plan.hooks.iter().map(|hook| (hook.purpose.as_str(), &hook.state));
    let remedies = by_reason(states).into_iter().map(|(purposes, why, action)| {
        remedy(format!("{purposes} of broker {pid} cannot be seen by USDT: {why}"), action)
    });
    remedies.collect()
}

/// Examines the JVM of a process, given its `libjvm.so` if known.
fn examine_attach(pid: u32, library: Option<&Path>) -> Examination {
    let machine = Machine::of(pid);
    let answers = machine.as_ref().map_err(ToString::to_string).and_then(|machine| {
        machine.check_attachable().and_then(|()| may_act_as(machine)).map_err(|error| error.to_string())
    });
    let library = library.unwrap_or(Path::new(""));
    let costs = machine.as_ref().ok().and_then(|machine| flight::start_cost_of_library(machine, library));
    let recorded = answers.clone().and_then(|()| costs.map_or(Ok(()), Err));
    let traced = answers.clone().and_then(|()| flight::check_handler_calls_of_library(library));
    let hook = |purpose: &str, means: &str, state: &Result<(), String>| Hook {
        purpose: purpose.to_owned(),
        mechanism: format!("{means} of broker {pid}"),
        missing: state.clone().err(),
    };
    let mut remedies = Vec::new();
    if let Err(why) = &answers {
        remedies.push(remedy(
            format!("{NAMES}, {WAITS} of broker {pid} cannot be seen: {why}"),
            attach_remedy(machine.as_ref()),
        ));
    } else if let Err(why) = &recorded {
        remedies.push(remedy(
            format!("{WAITS} of broker {pid} are not recorded by default: {why}"),
            "run record or locks with --flight-recorder always, which accepts that once for each start of the \
                     broker; or run the broker with JDK 25 or newer",
        ));
    }
    if let (Ok(()), Err(why)) = (&answers, &traced) {
        remedies.push(remedy(
            format!("{CALLS} of broker {pid} cannot be recorded: {why}"),
            "run the broker with JDK 25 or newer, and record with --flight-recorder handlers",
        ));
    }
    Examination {
        facts: attach_facts(&answers, &recorded),
        hooks: vec![
            hook(NAMES, "attach protocol", &answers),
            hook(WAITS, "Flight Recorder, by attach protocol,", &recorded),
            hook(CALLS, "Flight Recorder's method tracing (--flight-recorder handlers)", &traced),
        ],
        remedies,
        ..Examination::default()
    }
}

fn attach_facts(answers: &Result<(), String>, recorded: &Result<(), String>) -> Vec<Fact> {
    let start = match (answers, recorded) {
        (Err(_), _) => "cannot be started",
        (Ok(()), Ok(())) => "record and locks start it (--flight-recorder auto)",
        (Ok(()), Err(_)) => "started only with --flight-recorder always",
    };
    vec![fact("JVM can be asked", if answers.is_ok() { "yes" } else { "no" }), fact("Flight Recorder", start)]
}

/// Remedy for what prevents attaching.
fn attach_remedy(machine: Result<&Machine, &Error>) -> &'static str {
    match machine.map(Machine::check_attachable) {
        Ok(Err(Error::Disabled { .. })) => {
            "start the broker without -XX:+DisableAttachMechanism; or with -XX:+DTraceMonitorProbes, which shows waits for \
             monitors without attaching"
        }
        Ok(Err(Error::OpenJ9 { .. })) => "give its javacores to locks --dump",
        _ => "run as root, or as the broker's user with the same capabilities",
    }
}

#[cfg(test)]
mod tests {
    use super::examine_attach;

    #[test]
    fn non_jvm_process_lacks_all_hooks_and_has_one_remedy() {
        let asking = examine_attach(std::process::id(), None);
        assert!(
            asking
                .hooks
                .iter()
                .all(|hook| hook.missing.as_ref().is_some_and(|why| why.contains("is not a HotSpot")))
        );
        assert_eq!(asking.hooks.len(), 3);
        assert_eq!(asking.remedies.len(), 1);
        assert_eq!(
            asking.facts.iter().map(|fact| &*fact.value).collect::<Vec<_>>(),
            ["no", "cannot be started"]
        );
    }
}
