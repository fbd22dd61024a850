//! Describes what this host offers for a live watch. `probes` surveys and decides.

use capture::live::{Live, LiveConfig};
use probes::facts::{Capabilities, PidNamespace};
use probes::{Facts, Hook, Plan, State, always_on, arrivals};
use report::doctor::{Examination, Fact, Hook as HookRow, OutageFacts, Remedy, WatchFacts};
use watch::Outage;

use super::{fact, remedy};

/// Surveys the host, and tries to open a capture.
pub(super) fn examine() -> Examination {
    let facts = Facts::survey();
    let plan = Plan::choose(&facts);
    let capture = Live::open(&LiveConfig { interface: "lo".to_owned(), ..LiveConfig::default() });
    let mut examination = Examination { live: true, facts: list_facts(&facts), ..Examination::default() };
    examination.watches = watch::running_watches().iter().map(watch_facts).collect();
    examination.hooks.push(HookRow {
        purpose: "requests".to_owned(),
        mechanism: "packet socket".to_owned(),
        missing: capture.as_ref().err().map(ToString::to_string),
    });
    examination.hooks.extend(plan.hooks.iter().map(hook_row));
    examination.hooks.extend(always_on::Plan::choose(&facts).hooks.iter().map(|hook| HookRow {
        purpose: format!("always-on: {}", hook.purpose.as_str()),
        mechanism: hook.describe(),
        missing: missing(&hook.state),
    }));
    let tls = arrivals::Plan::choose(&facts);
    examination.hooks.push(HookRow {
        purpose: watch::TLS_ARRIVALS.to_owned(),
        mechanism: tls.describe(),
        missing: missing(&tls.state),
    });
    examination.remedies.extend(capture.err().map(|error| {
        remedy(
            format!("requests cannot be captured: {error}"),
            "run as root, or `setcap cap_net_raw+ep` on the binary; reading tcpdump's files needs neither",
        )
    }));
    examination.remedies.extend(remedies(&plan.hooks));
    examination
}

fn list_facts(facts: &Facts) -> Vec<Fact> {
    let yes_no = |value: bool| if value { "yes" } else { "no" }.to_owned();
    let number = |value: Option<u32>| value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    vec![
        fact("kernel", facts.kernel_release.clone()),
        fact(
            "bpf(2)",
            facts.bpf_refused.clone().map_or_else(|| "permitted".to_owned(), |why| format!("refused: {why}")),
        ),
        fact("BPF ring buffers", yes_no(facts.ring_buffer)),
        fact("kernel BTF", yes_no(facts.btf)),
        fact("capabilities", capabilities(facts.capabilities)),
        fact("lockdown", facts.lockdown.as_str().to_owned()),
        fact("pid namespace", pid_namespace(&facts.pid_namespace)),
        fact("tracepoints", format!("{} of those used exist", facts.tracepoints.len())),
        fact(
            "kernel functions",
            match &facts.functions.refused {
                None => format!("{} of those used exist", facts.functions.known.len()),
                Some(why) => format!("cannot be hooked: {why}"),
            },
        ),
        fact("jbd2 (ext4 journal)", yes_no(facts.jbd2)),
        fact("kernel symbols", yes_no(facts.kallsyms)),
        fact("deepest kernel stack", number(facts.max_stack)),
        fact("timer ticks a second", number(facts.hz)),
        fact("sandbox of commands on files", sandbox()),
    ]
}

/// Describes the restrictions that this kernel offers.
fn sandbox() -> String {
    sandbox::survey()
        .map_or_else(|error| format!("cannot be tried: {error}"), |status| status.describe_features())
}

fn pid_namespace(namespace: &PidNamespace) -> String {
    match namespace {
        PidNamespace::Root => "the host's".to_owned(),
        PidNamespace::Below(1) => "1 level below the host's; ids are those of this namespace".to_owned(),
        PidNamespace::Below(level) => {
            format!("{level} levels below the host's; ids are those of this namespace")
        }
        PidNamespace::Unknown(why) => format!("unknown: {why}"),
    }
}

fn capabilities(held: Capabilities) -> String {
    let known = [
        (Capabilities::BPF, "CAP_BPF"),
        (Capabilities::PERFMON, "CAP_PERFMON"),
        (Capabilities::NET_RAW, "CAP_NET_RAW"),
        (Capabilities::SYS_PTRACE, "CAP_SYS_PTRACE"),
        (Capabilities::DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"),
        (Capabilities::SYSLOG, "CAP_SYSLOG"),
        (Capabilities::SYS_ADMIN, "CAP_SYS_ADMIN"),
    ];
    let held =
        known.iter().filter(|(number, _)| held.has(*number)).map(|(_, name)| *name).collect::<Vec<_>>();
    if held.is_empty() { "none of those that probes need".to_owned() } else { held.join(" ") }
}

fn hook_row(hook: &Hook) -> HookRow {
    HookRow {
        purpose: hook.purpose.as_str().to_owned(),
        mechanism: hook.describe(),
        missing: missing(&hook.state),
    }
}

fn watch_facts(watch: &watch::RunningWatch) -> WatchFacts {
    WatchFacts {
        pid: watch.pid,
        mode: if watch.is_always_on { "always-on" } else { "full" }.to_owned(),
        programs_cpus: watch.programs,
        process_cpus: watch.process,
        down: watch.down.iter().map(outage_facts).collect(),
    }
}

fn outage_facts(Outage { since, purposes, why }: &Outage) -> OutageFacts {
    OutageFacts { since_ns: since.0, purposes: purposes.clone(), why: why.clone() }
}

/// Why something cannot be observed; `None` if it can.
pub(super) fn missing(state: &State) -> Option<String> {
    if let State::Missing { why, .. } = state { Some(why.clone()) } else { None }
}

/// One remedy for all purposes that lack the same.
fn remedies(hooks: &[Hook]) -> Vec<Remedy> {
    let states = hooks.iter().map(|hook| (hook.purpose.as_str(), &hook.state));
    let remedies = by_reason(states).into_iter();
    remedies
        .map(|(purposes, why, action)| remedy(format!("{purposes} cannot be seen: {why}"), action))
        .collect()
}

/// Groups purposes that lack the same: their names, the reason and the remedy.
pub(super) fn by_reason<'a>(
    states: impl Iterator<Item = (&'a str, &'a State)>,
) -> Vec<(String, &'a str, &'a str)> {
    let mut found: Vec<(String, &str, &str)> = Vec::new();
    for (purpose, state) in states {
        let State::Missing { why, remedy: Some(action) } = state else { continue };
        match found.iter_mut().find(|(_, known, done)| known == why && done == action) {
            Some((purposes, ..)) => purposes.extend([", ", purpose]),
            None => found.push((purpose.to_owned(), why, action)),
        }
    }
    found
}
