//! Which always-on programs to use: a pure function of the host's facts. Attaches nothing.

use crate::facts::Facts;
use crate::plan::{self, State};
use crate::registry::Need;

model::named! {
    /// What the always-on programs are for.
    pub enum Purpose {
        /// Requests and their answers, parsed from the broker's connections. Required: without it the mode is
        /// unavailable.
        Requests = "requests",
        /// Writes to files on ext4, and syncs of mapped files.
        Ext4Appends = "ext4-appends",
        /// Writes to files on XFS, and syncs of mapped files.
        XfsAppends = "xfs-appends",
        /// Writes to files on btrfs, and syncs of mapped files.
        BtrfsAppends = "btrfs-appends",
        /// Off-CPU times of threads.
        Waits = "waits",
    }
}

/// How a hook attaches to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Tracepoints with typed arguments.
    Tracepoints,
    /// The kernel's functions (fentry and fexit).
    Functions,
}

/// A program and its target: a tracepoint by group and name, or a function.
type Attachment = (&'static str, &'static str);

/// Socket tracepoints: arrivals and sends come before receives. A request that is read thus has a known arrival, and
/// its answer is seen.
const SOCKET_TRACEPOINTS: &[Attachment] = &[
    ("always_on_data_ready", "sock/sk_data_ready"),
    ("always_on_send", "sock/sock_send_length"),
    ("always_on_receive", "sock/sock_recv_length"),
];
const SOCKET_FUNCTIONS: &[Attachment] = &[
    ("always_on_sock_readable", "sock_def_readable"),
    ("always_on_tcp_sendpage", "tcp_sendpage"),
    ("always_on_tcp_send", "tcp_sendmsg"),
    ("always_on_tcp_receive", "tcp_recvmsg"),
];
/// Absent since Linux 6.5, which sends with `tcp_sendmsg` instead.
const OPTIONAL_FUNCTION: &str = "tcp_sendpage";
const EXT4: &[Attachment] = &[
    ("always_on_ext4_da", "ext4/ext4_da_write_end"),
    ("always_on_ext4", "ext4/ext4_write_end"),
    ("always_on_ext4_sync", "ext4/ext4_sync_file_enter"),
];
const XFS: &[Attachment] =
    &[("always_on_xfs", "xfs/xfs_file_buffered_write"), ("always_on_xfs_sync", "xfs/xfs_file_fsync")];
const SWITCHES: &[Attachment] = &[("always_on_switch", "sched/sched_switch")];

/// Every tracepoint that a plan may use.
pub(crate) fn tracepoint_names() -> impl Iterator<Item = &'static str> {
    [SOCKET_TRACEPOINTS, EXT4, XFS, SWITCHES].into_iter().flatten().map(|(_, name)| *name)
}

/// Every function that a plan may use.
pub(crate) fn function_names() -> impl Iterator<Item = &'static str> {
    SOCKET_FUNCTIONS.iter().map(|(_, name)| *name)
}

impl Purpose {
    fn tracepoints(self) -> &'static [Attachment] {
        match self {
            Self::Requests => SOCKET_TRACEPOINTS,
            Self::Ext4Appends => EXT4,
            Self::XfsAppends => XFS,
            Self::BtrfsAppends => &[],
            Self::Waits => SWITCHES,
        }
    }
}

/// One purpose and whether it can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// What it is for.
    pub purpose: Purpose,
    /// How it attaches.
    pub mechanism: Mechanism,
    /// Whether it is available here.
    pub state: State,
    attachments: Vec<Attachment>,
}

impl Hook {
    fn choose(purpose: Purpose, facts: &Facts) -> Self {
        let by_tracepoints = by_tracepoints(purpose, facts);
        let (mechanism, found) = match by_tracepoints {
            Err(why) if purpose == Purpose::Requests => match by_functions(facts) {
                Ok(attachments) => (Mechanism::Functions, Ok(attachments)),
                Err(why_not) => (Mechanism::Tracepoints, Err(neither(&why, &why_not))),
            },
            found => (Mechanism::Tracepoints, found),
        };
        match found {
            Ok(attachments) => Self { purpose, mechanism, state: State::Use, attachments },
            Err(state) => Self { purpose, mechanism, state, attachments: Vec::new() },
        }
    }

    /// Whether it will be used.
    pub fn is_used(&self) -> bool {
        self.state == State::Use
    }

    /// The BPF programs it needs.
    pub(super) fn programs(&self) -> impl Iterator<Item = &'static str> {
        self.attachments.iter().map(|(program, _)| *program)
    }

    /// Describes what it is attached to, for people.
    pub fn describe(&self) -> String {
        let names: Vec<_> = self.attachments.iter().map(|(_, name)| *name).collect();
        match self.mechanism {
            Mechanism::Tracepoints => format!("BTF tracepoints {}", names.join(" ")),
            Mechanism::Functions => format!("functions {}", names.join(" ")),
        }
    }
}

/// The always-on programs to attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// One hook per [`Purpose`], in its order.
    pub hooks: Vec<Hook>,
    facts: Box<Facts>,
}

impl Plan {
    /// Chooses hooks from the facts alone.
    pub fn choose(facts: &Facts) -> Self {
        let hooks = Purpose::ALL.map(|purpose| Hook::choose(purpose, facts)).into();
        Self { hooks, facts: Box::new(facts.clone()) }
    }

    /// The plan that remains after the kernel refused a program.
    pub(super) fn without(&self, program: &str, why: &str) -> Self {
        let mut facts = self.facts.clone();
        facts.refused.insert(program.to_owned(), why.to_owned());
        Self::choose(&facts)
    }

    /// The plan without a purpose.
    pub(super) fn without_purpose(mut self, purpose: Purpose, why: &str) -> Self {
        for hook in self.hooks.iter_mut().filter(|hook| hook.purpose == purpose) {
            hook.state = missing(why, None);
        }
        self
    }

    /// Why the mode is unavailable; `None` if it is available.
    pub fn unavailable(&self) -> Option<&State> {
        let requests = self.hooks.iter().find(|hook| hook.purpose == Purpose::Requests);
        requests.map(|hook| &hook.state).filter(|state| **state != State::Use)
    }

    /// Whether this purpose will be served.
    pub fn uses(&self, purpose: Purpose) -> bool {
        self.used().any(|hook| hook.purpose == purpose)
    }

    /// The hooks that will be used.
    pub fn used(&self) -> impl Iterator<Item = &Hook> {
        self.hooks.iter().filter(|hook| hook.is_used())
    }

    pub(super) fn programs(&self) -> impl Iterator<Item = &'static str> {
        self.used().flat_map(Hook::programs)
    }
}

fn missing(why: impl Into<String>, remedy: Option<&str>) -> State {
    State::Missing { why: why.into(), remedy: remedy.map(str::to_owned) }
}

/// Checks what all programs need: process ids, and BTF of the kernel's structures.
fn permits(facts: &Facts) -> Result<(), State> {
    plan::permits_process(facts)?;
    plan::meets(Need::Btf, facts)
}

fn by_tracepoints(purpose: Purpose, facts: &Facts) -> Result<Vec<Attachment>, State> {
    permits(facts)?;
    if purpose == Purpose::BtrfsAppends {
        return Err(missing("btrfs has no tracepoint that reports writes to the page cache", None));
    }
    let attachments = purpose.tracepoints();
    attachments.iter().try_for_each(|(_, name)| plan::meets(Need::Typed(name), facts))?;
    unless_refused(attachments.to_vec(), facts)
}

fn by_functions(facts: &Facts) -> Result<Vec<Attachment>, State> {
    permits(facts)?;
    let is_there =
        |(_, name): &&Attachment| *name != OPTIONAL_FUNCTION || facts.functions.known.contains(*name);
    let attachments: Vec<_> = SOCKET_FUNCTIONS.iter().filter(is_there).copied().collect();
    attachments.iter().try_for_each(|(_, name)| plan::permits_function(name, facts))?;
    unless_refused(attachments, facts)
}

fn unless_refused(attachments: Vec<Attachment>, facts: &Facts) -> Result<Vec<Attachment>, State> {
    let refused = attachments.iter().find_map(|(program, _)| facts.refused.get_key_value(*program));
    match refused {
        Some((program, why)) => {
            Err(missing(format!("this kernel refuses the program {program}: {why}"), None))
        }
        None => Ok(attachments),
    }
}

/// Why neither mechanism works: if both fail for the same reason, that one.
pub(crate) fn neither(tracepoints: &State, functions: &State) -> State {
    match (tracepoints, functions) {
        (State::Missing { why, .. }, State::Missing { why: other, remedy }) if why != other => missing(
            format!("{why}, and {other}"),
            Some(
                remedy
                    .as_deref()
                    .unwrap_or("Linux 6.3 or newer, or a kernel that lets programs hook functions"),
            ),
        ),
        _ => functions.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Mechanism, Plan, Purpose, function_names, tracepoint_names};
    use crate::facts::{Facts, Format, Functions, Lockdown, PidNamespace, Tracefs};
    use crate::plan::State;

    /// A host with everything except functions that can be hooked.
    fn able() -> Facts {
        let mut facts = Facts::survey();
        (facts.bpf_refused, facts.ring_buffer, facts.btf) = (None, true, true);
        (facts.lockdown, facts.pid_namespace) = (Lockdown::Integrity, PidNamespace::Root);
        facts.tracefs = Tracefs::Private;
        facts.untyped_modules.clear();
        facts.tracepoints = tracepoint_names().map(|name| (name.to_owned(), Format::default())).collect();
        let known = function_names().map(str::to_owned).collect();
        facts.functions = Functions { refused: Some("EPERM".to_owned()), known };
        facts
    }

    fn why(plan: &Plan, purpose: Purpose) -> String {
        let hook = plan.hooks.iter().find(|hook| hook.purpose == purpose).unwrap();
        match &hook.state {
            State::Use => panic!("{purpose:?} is used"),
            State::Missing { why, .. } => why.clone(),
        }
    }

    fn missing(plan: &Plan) -> Vec<Purpose> {
        plan.hooks.iter().filter(|hook| !hook.is_used()).map(|hook| hook.purpose).collect()
    }

    #[test]
    fn tracepoints_serve_all_purposes_except_btrfs() {
        let plan = Plan::choose(&able());
        assert_eq!(missing(&plan), [Purpose::BtrfsAppends]);
        assert!(why(&plan, Purpose::BtrfsAppends).contains("btrfs"));
        assert!(plan.unavailable().is_none());
        assert!(plan.programs().any(|program| program == "always_on_receive"));
        assert!(plan.hooks[0].describe().contains("sock_recv_length"));
    }

    #[test]
    fn functions_serve_requests_without_the_socket_tracepoints() {
        let mut facts = able();
        facts.tracepoints.remove("sock/sock_recv_length");
        let plan = Plan::choose(&facts);
        let State::Missing { why, remedy } = plan.unavailable().unwrap() else { panic!("it is used") };
        assert!(why.contains("sock_recv_length") && why.contains("EPERM"), "{why}");
        assert!(remedy.is_some());
        facts.functions.refused = None;
        let plan = Plan::choose(&facts);
        assert_eq!(plan.hooks[0].mechanism, Mechanism::Functions);
        assert_eq!(plan.hooks[0].programs().count(), 4);
        facts.functions.known.remove("tcp_sendpage");
        assert_eq!(Plan::choose(&facts).hooks[0].programs().count(), 3);
        facts.functions.known.remove("tcp_recvmsg");
        assert!(Plan::choose(&facts).unavailable().is_some());
    }

    #[test]
    fn missing_file_systems_affect_only_their_appends() {
        let mut facts = able();
        facts.tracepoints.remove("xfs/xfs_file_buffered_write");
        facts.untyped_modules.insert("ext4".to_owned());
        let plan = Plan::choose(&facts);
        assert_eq!(missing(&plan), [Purpose::Ext4Appends, Purpose::XfsAppends, Purpose::BtrfsAppends]);
        assert!(plan.unavailable().is_none());
    }

    #[test]
    fn refused_program_removes_its_purpose() {
        let plan = Plan::choose(&able()).without("always_on_switch", "too large");
        assert!(why(&plan, Purpose::Waits).contains("too large"));
        let plan = plan.without("always_on_send", "invalid");
        assert!(plan.unavailable().is_some());
    }

    #[test]
    fn no_purpose_is_used_without_bpf_btf_or_ring_buffer() {
        for facts in [
            Facts { bpf_refused: Some("EPERM".to_owned()), ..able() },
            Facts { btf: false, ..able() },
            Facts { ring_buffer: false, ..able() },
        ] {
            assert_eq!(missing(&Plan::choose(&facts)).len(), Purpose::ALL.len());
        }
    }
}
