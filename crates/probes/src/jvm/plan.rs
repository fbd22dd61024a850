//! Which of a JVM's probes to use: a pure function of the facts of host and process. Attaches nothing.

use std::path::PathBuf;

use super::JvmFacts;
use crate::facts::Facts;
use crate::plan::{self, State};

model::named! {
    /// What a JVM's probes are for; purposes that others build on come first.
    pub enum JvmPurpose {
        /// Contended monitor waits.
        MonitorWaits = "monitor-waits",
        /// Who held the monitor.
        MonitorHolders = "monitor-holders",
        /// Safepoints.
        Safepoints = "safepoints",
        /// Why a safepoint was requested, and how long threads took to stop.
        Operations = "vm-operations",
        /// Collections.
        Collections = "collections",
    }
}

/// How a hook attaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JvmMechanism {
    /// The purpose's USDT probes, each a trap for the thread that reaches it.
    Probes,
    /// The kernel's tracepoint `sched_waking`: the thread that wakes a monitor's waiter has released the monitor.
    Wakeups,
}

/// A probe of a JVM and the program for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its provider.
    pub provider: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The BPF program.
    pub program: &'static str,
}

const fn probe(provider: &'static str, name: &'static str, program: &'static str) -> Probe {
    Probe { provider, name, program }
}

impl Probe {
    fn is_in(&self, facts: &JvmFacts) -> bool {
        facts.probes.contains(&format!("{}:{}", self.provider, self.name))
    }
}

/// Ends before beginnings. A wait whose beginning is seen thus has its end seen too.
const MONITOR_WAITS: &[Probe] = &[
    probe("hotspot", "monitor__contended__entered", "contended_entered"),
    probe("hotspot", "monitor__contended__enter", "contended_enter"),
];
const MONITOR_HOLDERS: &[Probe] = &[probe("hotspot", "monitor__contended__exit", "contended_exit")];
const SAFEPOINTS: &[Probe] = &[
    probe("hs_private", "safepoint__end", "safepoint_end"),
    probe("hs_private", "safepoint__begin", "safepoint_begin"),
];
const OPERATIONS: &[Probe] = &[probe("hotspot", "vmops__begin", "operation_begin")];
const COLLECTIONS: &[Probe] =
    &[probe("hotspot", "gc__end", "collection_end"), probe("hotspot", "gc__begin", "collection_begin")];

impl JvmPurpose {
    /// The probes that serve this purpose.
    pub fn probes(self) -> &'static [Probe] {
        match self {
            Self::MonitorWaits => MONITOR_WAITS,
            Self::MonitorHolders => MONITOR_HOLDERS,
            Self::Safepoints => SAFEPOINTS,
            Self::Operations => OPERATIONS,
            Self::Collections => COLLECTIONS,
        }
    }

    fn is_of_monitors(self) -> bool {
        matches!(self, Self::MonitorWaits | Self::MonitorHolders)
    }
}

/// One purpose and whether it can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JvmHook {
    /// What it is for.
    pub purpose: JvmPurpose,
    /// How it attaches.
    pub mechanism: JvmMechanism,
    /// Whether it is available here.
    pub state: State,
}

impl JvmHook {
    /// The program on wake-ups.
    pub(super) const ON_WAKEUPS: &'static str = "contended_waking";

    /// The JVM's probes it needs.
    pub fn probes(&self) -> &'static [Probe] {
        match self.mechanism {
            JvmMechanism::Probes => self.purpose.probes(),
            JvmMechanism::Wakeups => &[],
        }
    }

    /// The program on the kernel's tracepoint of wake-ups, if it uses that.
    pub(super) fn on_wakeups(&self) -> Option<&'static str> {
        (self.mechanism == JvmMechanism::Wakeups).then_some(Self::ON_WAKEUPS)
    }

    /// The BPF programs it needs.
    pub(super) fn programs(&self) -> impl Iterator<Item = &'static str> {
        self.probes().iter().map(|probe| probe.program).chain(self.on_wakeups())
    }

    /// Describes its mechanism, for people.
    pub fn describe(&self) -> String {
        let names = self.probes().iter().rev().map(|probe| format!("{}:{}", probe.provider, probe.name));
        match self.mechanism {
            JvmMechanism::Probes => format!("USDT {}", names.collect::<Vec<_>>().join(", ")),
            JvmMechanism::Wakeups => "sched_waking among the threads".to_owned(),
        }
    }
}

/// What to attach to one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JvmPlan {
    /// The process.
    pub pid: u32,
    /// One hook per [`JvmPurpose`], in its order.
    pub hooks: Vec<JvmHook>,
    pub(super) library: PathBuf,
    /// Offset of the owner in an `ObjectMonitor`, in bytes; 0 if unknown.
    pub(super) owner_at: u64,
    facts: Box<(Facts, JvmFacts)>,
}

impl JvmPlan {
    /// Chooses hooks from the facts alone.
    pub fn choose(host: &Facts, jvm: &JvmFacts) -> Self {
        let hook = |purpose| JvmHook {
            purpose,
            mechanism: mechanism(purpose, host, jvm),
            state: check(purpose, host, jvm).err().unwrap_or(State::Use),
        };
        Self {
            pid: jvm.pid,
            hooks: JvmPurpose::ALL.map(hook).into(),
            library: jvm.library.clone().unwrap_or_default(),
            owner_at: jvm.owner_at.as_ref().copied().unwrap_or(0),
            facts: Box::new((host.clone(), jvm.clone())),
        }
    }

    /// The plan after the kernel refused the program on wake-ups: it uses the JVM's own probe instead.
    pub(super) fn without_wakeups(&self, why: &str) -> Self {
        let (mut host, jvm) = (*self.facts).clone();
        host.refused.insert(JvmHook::ON_WAKEUPS.to_owned(), why.to_owned());
        Self::choose(&host, &jvm).only(|purpose| self.hooks.iter().any(|hook| hook.purpose == purpose))
    }

    /// Whether this purpose will be served.
    pub fn uses(&self, purpose: JvmPurpose) -> bool {
        self.used().any(|hook| hook.purpose == purpose)
    }

    /// The hooks that will be used.
    pub fn used(&self) -> impl Iterator<Item = &JvmHook> {
        self.hooks.iter().filter(|hook| hook.state == State::Use)
    }

    /// Removes the purposes for which `keep` is false from the plan.
    #[must_use]
    pub fn only(mut self, keep: impl Fn(JvmPurpose) -> bool) -> Self {
        self.hooks.retain(|hook| keep(hook.purpose));
        self
    }
}

fn mechanism(purpose: JvmPurpose, host: &Facts, jvm: &JvmFacts) -> JvmMechanism {
    let known = host.btf && jvm.call_registers && jvm.owner_at.is_ok();
    if purpose == JvmPurpose::MonitorHolders && known && !host.refused.contains_key(JvmHook::ON_WAKEUPS) {
        JvmMechanism::Wakeups
    } else {
        JvmMechanism::Probes
    }
}

/// The probes that a purpose needs: wake-ups name a holder only with the probes that show who waits.
fn needed(purpose: JvmPurpose, host: &Facts, jvm: &JvmFacts) -> &'static [Probe] {
    match mechanism(purpose, host, jvm) {
        JvmMechanism::Probes => purpose.probes(),
        JvmMechanism::Wakeups => MONITOR_WAITS,
    }
}

fn check(purpose: JvmPurpose, host: &Facts, jvm: &JvmFacts) -> Result<(), State> {
    let missing =
        |why: String, remedy: Option<&str>| Err(State::Missing { why, remedy: remedy.map(str::to_owned) });
    if let Err(why) = &jvm.library {
        return missing(why.clone(), None);
    }
    if let Some(absent) = needed(purpose, host, jvm).iter().find(|probe| !probe.is_in(jvm)) {
        let why = format!("the broker's libjvm.so has no USDT probe {}:{}", absent.provider, absent.name);
        return missing(why, Some("a JDK built with --enable-dtrace (most distributions' are), or JFR"));
    }
    if purpose.is_of_monitors() && jvm.monitor_probes == Ok(false) {
        return missing(
            "the broker's JVM runs without -XX:+DTraceMonitorProbes".to_owned(),
            Some(
                "start the broker with -XX:+DTraceMonitorProbes (KAFKA_OPTS), or leave it: JFR needs no restart",
            ),
        );
    }
    plan::permits_process(host)?;
    if !jvm.uprobes {
        return missing("this kernel has no uprobes".to_owned(), Some("a kernel with CONFIG_UPROBE_EVENTS"));
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::{JvmMechanism, JvmPlan, JvmPurpose};
    use crate::facts::{Facts, Lockdown, PidNamespace};
    use crate::jvm::JvmFacts;
    use crate::plan::State;

    /// A host and a JVM on which everything can be watched.
    pub(in crate::jvm) fn capable() -> (Facts, JvmFacts) {
        let mut host = Facts::survey();
        (host.bpf_refused, host.ring_buffer, host.lockdown) = (None, true, Lockdown::None);
        host.btf = true;
        host.pid_namespace = PidNamespace::Below(1);
        let probes = JvmPurpose::ALL.iter().flat_map(|purpose| purpose.probes());
        let jvm = JvmFacts {
            pid: 7,
            library: Ok("/proc/7/root/libjvm.so".into()),
            probes: probes.map(|probe| format!("{}:{}", probe.provider, probe.name)).collect(),
            monitor_probes: Ok(true),
            owner_at: Ok(64),
            call_registers: true,
            uprobes: true,
        };
        (host, jvm)
    }

    fn missing(host: &Facts, jvm: &JvmFacts) -> Vec<(JvmPurpose, String)> {
        let hooks = JvmPlan::choose(host, jvm).hooks.into_iter();
        let missing = hooks.filter_map(|hook| match hook.state {
            State::Use => None,
            State::Missing { why, remedy } => Some((hook.purpose, format!("{why}; {remedy:?}"))),
        });
        missing.collect()
    }

    #[test]
    fn capable_host_uses_every_purpose() {
        let (host, mut jvm) = capable();
        assert_eq!(missing(&host, &jvm), []);
        // An unknown state of the flag is no reason not to attach.
        jvm.monitor_probes = Err("unreadable".to_owned());
        assert_eq!(missing(&host, &jvm), []);
        let plan = JvmPlan::choose(&host, &jvm).only(|purpose| purpose != JvmPurpose::MonitorHolders);
        assert!(plan.uses(JvmPurpose::MonitorWaits) && !plan.uses(JvmPurpose::MonitorHolders));
    }

    #[test]
    fn holders_come_from_wakeups_or_from_the_exit_probe() {
        let (host, jvm) = capable();
        let holders = |plan: &JvmPlan| {
            plan.used().find(|hook| hook.purpose == JvmPurpose::MonitorHolders).cloned().unwrap()
        };
        let plan = JvmPlan::choose(&host, &jvm);
        let hook = holders(&plan);
        assert_eq!((hook.mechanism, plan.owner_at), (JvmMechanism::Wakeups, 64));
        assert_eq!((hook.probes(), hook.programs().collect::<Vec<_>>()), (&[][..], vec!["contended_waking"]));
        assert!(hook.describe().contains("sched_waking"), "{}", hook.describe());
        let others = [
            JvmPlan::choose(&Facts { btf: false, ..host.clone() }, &jvm),
            JvmPlan::choose(&host, &JvmFacts { call_registers: false, ..jvm.clone() }),
            JvmPlan::choose(&host, &JvmFacts { owner_at: Err("unreadable".to_owned()), ..jvm.clone() }),
            plan.without_wakeups("refused"),
        ];
        for other in others {
            let hook = holders(&other);
            assert_eq!(hook.programs().collect::<Vec<_>>(), ["contended_exit"]);
            assert!(hook.describe().contains("monitor__contended__exit"), "{}", hook.describe());
        }
        let fewer = plan.only(|purpose| purpose == JvmPurpose::MonitorHolders).without_wakeups("refused");
        assert_eq!(fewer.hooks.len(), 1, "the purposes that were left out are gone");
    }

    #[test]
    fn monitor_purposes_require_the_jvm_flag() {
        let (host, mut jvm) = capable();
        jvm.monitor_probes = Ok(false);
        let missing = missing(&host, &jvm);
        let purposes: Vec<_> = missing.iter().map(|(purpose, _)| *purpose).collect();
        assert_eq!(purposes, [JvmPurpose::MonitorWaits, JvmPurpose::MonitorHolders]);
        assert!(
            missing.iter().all(|(_, why)| why.contains("-XX:+DTraceMonitorProbes") && why.contains("JFR"))
        );
    }

    #[test]
    fn missing_probe_disables_only_its_purpose() {
        let (mut host, jvm) = capable();
        host.btf = false;
        for purpose in JvmPurpose::ALL {
            for probe in purpose.probes() {
                let mut jvm = jvm.clone();
                jvm.probes.remove(&format!("{}:{}", probe.provider, probe.name));
                let missing = missing(&host, &jvm);
                assert_eq!(missing.len(), 1, "{missing:?}");
                assert!(missing[0].0 == purpose && missing[0].1.contains(probe.name), "{missing:?}");
            }
        }
    }

    #[test]
    fn no_purpose_is_used_without_bpf_ids_uprobes_or_jvm() {
        let (host, jvm) = capable();
        let refused = Facts { bpf_refused: Some("EPERM".to_owned()), ..host.clone() };
        let pid_namespace = PidNamespace::Unknown("no iterator".to_owned());
        let elsewhere = Facts { pid_namespace, ..host.clone() };
        let no_uprobes = JvmFacts { uprobes: false, ..jvm.clone() };
        let no_jvm = JvmFacts { library: Err("no JVM".to_owned()), ..jvm.clone() };
        for (host, jvm) in [(&refused, &jvm), (&elsewhere, &jvm), (&host, &no_uprobes), (&host, &no_jvm)] {
            assert_eq!(missing(host, jvm).len(), JvmPurpose::ALL.len());
        }
    }
}
