//! Whether a broker's JVM can be asked who its threads are and to record who waits for locks, and what would be in the
//! way. Asks it nothing: the first question makes a JVM listen.

use std::path::Path;

use jvm::{Error, Machine, flight, may_act_as};
use report::doctor::{Fact, Hook, Remedy};

/// What `record`'s plan calls them.
const NAMES: &str = "thread-names";
const WAITS: &str = "lock-waits";

/// What was found of one broker.
pub(super) struct Asking {
    pub(super) facts: Vec<Fact>,
    pub(super) hooks: Vec<Hook>,
    pub(super) remedies: Vec<Remedy>,
}

/// Looks at the JVM of a process whose `libjvm.so` is here, where it is known.
pub(super) fn examine(pid: u32, library: Option<&Path>) -> Asking {
    let machine = Machine::of(pid);
    let answers = machine.as_ref().map_err(ToString::to_string).and_then(|machine| {
        machine.check_attachable().and_then(|()| may_act_as(machine)).map_err(|error| error.to_string())
    });
    let library = library.unwrap_or(Path::new(""));
    let costs = machine.as_ref().ok().and_then(|machine| flight::start_cost_of_library(machine, library));
    let recorded = answers.clone().and_then(|()| costs.map_or(Ok(()), Err));
    let hook = |purpose: &str, means: &str, state: &Result<(), String>| Hook {
        purpose: purpose.to_owned(),
        mechanism: format!("{means} of broker {pid}"),
        missing: state.clone().err(),
    };
    let mut remedies = Vec::new();
    if let Err(why) = &answers {
        remedies.push(Remedy {
            problem: format!("{NAMES}, {WAITS} of broker {pid} cannot be seen: {why}"),
            action: remedy(machine.as_ref()),
        });
    } else if let Err(why) = &recorded {
        remedies.push(Remedy {
            problem: format!("{WAITS} of broker {pid} are not recorded unasked: {why}"),
            action: "give record or locks --flight-recorder always, which accepts that, once for each start of the \
                     broker; or run it with JDK 25 or newer"
                .to_owned(),
        });
    }
    Asking {
        facts: facts(&answers, &recorded),
        hooks: vec![
            hook(NAMES, "attach protocol", &answers),
            hook(WAITS, "Flight Recorder, by attach protocol,", &recorded),
        ],
        remedies,
    }
}

fn facts(answers: &Result<(), String>, recorded: &Result<(), String>) -> Vec<Fact> {
    let fact = |name: &str, value: &str| Fact { name: name.to_owned(), value: value.to_owned() };
    let start = match (answers, recorded) {
        (Err(_), _) => "cannot be started",
        (Ok(()), Ok(())) => "record and locks start it (--flight-recorder auto)",
        (Ok(()), Err(_)) => "started only with --flight-recorder always",
    };
    vec![fact("JVM can be asked", if answers.is_ok() { "yes" } else { "no" }), fact("Flight Recorder", start)]
}

/// By what is in the way.
fn remedy(machine: Result<&Machine, &Error>) -> String {
    match machine.map(Machine::check_attachable) {
        Ok(Err(Error::Disabled { .. })) => {
            "start the broker without -XX:+DisableAttachMechanism; or with -XX:+DTraceMonitorProbes, by which waits for \
             monitors are seen without asking"
        }
        Ok(Err(Error::OpenJ9 { .. })) => "give its javacores to locks --dump",
        _ => "run as root, or as the broker's user with the same capabilities",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::examine;

    #[test]
    fn what_runs_no_jvm_cannot_be_asked_and_the_reason_is_said_once() {
        let asking = examine(std::process::id(), None);
        assert!(
            asking.hooks.iter().all(|hook| hook.missing.as_ref().is_some_and(|why| why.contains("no JVM")))
        );
        assert_eq!(asking.hooks.len(), 2);
        assert_eq!(asking.remedies.len(), 1);
        assert_eq!(
            asking.facts.iter().map(|fact| &*fact.value).collect::<Vec<_>>(),
            ["no", "cannot be started"]
        );
    }
}
