//! The declaration of a cause, without its name and its finder.

use model::{Cause, EvidenceKind, named};

/// The declaration of a cause. Everything stated about a cause in general follows from it.
#[derive(Clone, Copy, Debug)]
pub struct CauseSpec {
    /// The cause; its name and its one-line description are declared in `model`.
    pub cause: Cause,
    /// Its root events, for a sentence that counts them: `{s}` or `{es}` stands for the plural's ending; ` on
    /// {place}` is left out if they were in several places. Without an ending they are not counted.
    pub event: &'static str,
    /// Where the time goes.
    pub area: Area,
    /// Its place in a chain.
    pub role: Role,
    /// The evidence it requires.
    pub needs: &'static str,
    /// Kinds of evidence that name the root event, the best first.
    pub root_evidence: &'static [EvidenceKind],
    /// What would have joined the evidence by more than time.
    pub proof: &'static str,
    /// What to change, the most effective first; empty where there is nothing to change.
    pub advice: &'static [&'static str],
    /// Where the advice comes from.
    pub source: &'static str,
    /// The layer that a rule of `advise` changes; `None` if no rule follows from the cause.
    pub layer: Option<Layer>,
    /// The name of that rule, a contract; empty for the cause's own name.
    pub rule: &'static str,
    /// Whether the rule also counts requests that have this cause as a link.
    /// Their chain contains it on the way to another root.
    pub counts_as_link: bool,
    /// What the rule's condition requires in addition to the cause's cost; may be empty.
    pub condition: &'static str,
    /// What a comparison must show if the change helped, besides less of the cause.
    pub look_at: &'static str,
    /// Settings, the first to be tried first; `advise` may compute others from the broker's own values.
    pub changes: &'static [SettingChange],
    /// What limits the gain in addition to the cost; or the complete expected effect, if it contains `{cost}`.
    pub effect: &'static str,
    /// What the change may cost.
    pub risk: &'static str,
}

/// Condition that a device has time left. For causes that the rule device-saturation covers if it has none.
pub(crate) const DEVICE_HAS_TIME: &str =
    ", and no device under the log dirs was busy for 95 % of the time (device-saturation covers that)";

/// The defaults of the fields.
pub(crate) const SPEC: CauseSpec = CauseSpec {
    cause: Cause::Unobserved,
    event: "",
    area: Area::None,
    role: Role::Root,
    needs: "nothing that was seen explains most of the time",
    root_evidence: &[],
    proof: "a recording without losses",
    advice: &[],
    source: "",
    layer: None,
    rule: "",
    counts_as_link: false,
    condition: "",
    look_at: "",
    changes: &[],
    effect: "; no public case gives a figure",
    risk: "",
};

/// Declares the causes of a file: each with its role, its area and, if a rule of `advise` follows, the layer that the
/// rule changes; then the fields of [`CauseSpec`] that differ from the defaults.
macro_rules! causes {
    ($($Cause:ident: $Role:ident in $Area:ident $(, changed in $Layer:ident)? { $($field:ident: $value:expr,)* })+) => {
        /// Causes of this file.
        pub(crate) const CAUSES: &[$crate::causes::spec::CauseSpec] = &[$($crate::causes::spec::CauseSpec {
            cause: model::Cause::$Cause,
            area: $crate::causes::spec::Area::$Area,
            role: $crate::causes::spec::Role::$Role,
            $(layer: Some($crate::causes::spec::Layer::$Layer),)?
            $($field: $value,)*
            ..$crate::causes::spec::SPEC
        }),+];
    };
}
pub(crate) use causes;

named! {
    /// Where a cause's time goes.
    pub enum Area {
        /// Clients, and their connections to the broker.
        Connection = "clients and connections",
        /// The broker's threads.
        Threads = "threads",
        /// Locks, and calls under them.
        Locks = "locks",
        /// Writes to files.
        Writes = "writes",
        /// Reads from files.
        Reads = "reads",
        /// Work on records.
        Records = "work on records",
        /// Other brokers.
        Brokers = "other brokers",
        /// No cause in the broker.
        None = "nothing to change",
    }
}

named! {
    /// A cause's place in the chain from a request to its root.
    pub enum Role {
        /// Ends a chain.
        Root = "root",
        /// May have something deeper behind it, and is worth changing all the same.
        Link = "link",
        /// A wait behind other requests or threads: the advice is about what those wait for.
        Queue = "queue",
    }
}

/// A change of one setting, as declared.
#[derive(Clone, Copy, Debug)]
pub struct SettingChange {
    /// Its name, for people.
    pub setting: &'static str,
    /// Where its current value comes from.
    pub current: Current,
    /// The new value.
    pub new: &'static str,
    /// Where a program sets it: scope, name and value.
    pub target: Option<(Scope, &'static str, &'static str)>,
    /// How it combines with the changes before it.
    pub combination: Combination,
}

named! {
    /// How a change combines with the ones before it, as the word that precedes it.
    pub enum Combination {
        /// It helps alone, and with the one before it.
        Either = "and/or",
        /// It helps only together with the one before it.
        Together = "and",
        /// It excludes those before it. Those after it, up to the next alternative, go with it.
        Alternative = "or",
    }
}

/// Where the current value of a setting comes from.
#[derive(Clone, Copy, Debug)]
pub enum Current {
    /// A fixed text.
    Text(&'static str),
    /// The broker's setting with that name, and Kafka's default.
    Broker(&'static str, &'static str),
    /// The kernel's setting with that name.
    Kernel(&'static str),
    /// The text after this prefix on the JVM's command line.
    Jvm(&'static str),
    /// Whether this option is on the JVM's command line.
    JvmFlag(&'static str),
    /// The memory limit of the broker's cgroup.
    MemoryLimit,
    /// The memory that the broker may use.
    Memory,
}

/// A change that only a person can make, of something that no file contains.
pub(crate) const fn change(setting: &'static str, current: &'static str, new: &'static str) -> SettingChange {
    change_from(setting, Current::Text(current), new)
}

/// A change of a broker's setting, with Kafka's default.
pub(crate) const fn broker(name: &'static str, default: &'static str, new: &'static str) -> SettingChange {
    change_from(name, Current::Broker(name, default), new)
}

/// A change of something whose current value is known elsewhere.
pub(crate) const fn change_from(setting: &'static str, current: Current, new: &'static str) -> SettingChange {
    SettingChange { setting, current, new, target: None, combination: Combination::Either }
}

impl CauseSpec {
    /// The name of the rule of `advise` that follows from it, if one does.
    pub fn rule_name(&self) -> Option<&'static str> {
        self.layer.map(|_| if self.rule.is_empty() { self.cause.as_str() } else { self.rule })
    }
}

impl SettingChange {
    /// Lets a program make the change too.
    pub(crate) const fn on(self, scope: Scope, name: &'static str, value: &'static str) -> Self {
        Self { target: Some((scope, name, value)), ..self }
    }

    /// Lets a program make the change, with the displayed name and value.
    pub(crate) const fn by_name(self, scope: Scope) -> Self {
        self.on(scope, self.setting, self.new)
    }

    /// Must be made together with the change before it.
    pub(crate) const fn together(self) -> Self {
        Self { combination: Combination::Together, ..self }
    }

    /// Must be made instead of the changes before it.
    pub(crate) const fn alternative(self) -> Self {
        Self { combination: Combination::Alternative, ..self }
    }
}

named! {
    /// The layers of a broker, from the disk up.
    pub enum Layer {
        /// Devices and how log dirs are spread over them.
        Disk = "disk",
        /// File systems and their journals.
        FileSystem = "file system",
        /// Partitions and what guards them.
        Locks = "locks",
        /// The broker's own settings: threads, segments, replication.
        Broker = "broker",
        /// The Java virtual machine.
        Jvm = "JVM",
        /// Network interfaces and the broker's network threads.
        Network = "network",
        /// Producers, and other clients.
        Producer = "producer",
        /// The kernel's settings, memory, processors, limits.
        Os = "OS",
    }
}

named! {
    /// Where a setting is set.
    pub enum Scope {
        /// The broker's server.properties.
        Broker = "broker",
        /// Topics that are written to: their `partitions`, all together.
        Topics = "topics",
        /// The configuration of producers.
        Producers = "producers",
        /// What log dirs lie on: `devices`, the number of disks, by several log dirs or by a stripe.
        LogDirs = "log-dirs",
        /// The log dirs' file system: its `type`, a `mount` option, one of its `features`.
        FileSystem = "file-system",
        /// The network interface that the setting names: its `mtu`.
        Interface = "interface",
        /// The kernel's settings, as sysctl(8) names them.
        Kernel = "kernel",
        /// Options of the JVM.
        Jvm = "jvm",
    }
}
