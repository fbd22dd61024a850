//! What is declared of a cause beside its name and its finder.

use model::{Cause, EvidenceKind, named};

/// The declaration of a cause. Everything that is said of a cause in general follows from it.
#[derive(Clone, Copy, Debug)]
pub struct CauseSpec {
    /// The cause; its name and its one-line description are declared in `model`.
    pub cause: Cause,
    /// Its root events, for a sentence that counts them: `{s}` or `{es}` stands for the plural's ending, ` on {place}` is
    /// left out where they were in several places. Without an ending they are not counted.
    pub event: &'static str,
    /// Where the time goes.
    pub area: Area,
    /// Its place in a chain.
    pub role: Role,
    /// The evidence without which it is not named.
    pub needs: &'static str,
    /// Kinds of evidence that name the root event, the best first.
    pub root_evidence: &'static [EvidenceKind],
    /// What would have joined the evidence by more than the time.
    pub proof: &'static str,
    /// What to change, the most effective first; empty where there is nothing to change.
    pub advice: &'static [&'static str],
    /// Where the advice comes from.
    pub source: &'static str,
    /// The layer on which a rule of `advise` changes something; none where no rule follows from the cause.
    pub layer: Option<Layer>,
    /// The name of that rule, a contract; the cause's own where it is empty.
    pub rule: &'static str,
    /// Whether requests count that waited in it for something else.
    pub on_the_way: bool,
    /// What the rule's condition needs besides the cost of the cause; empty for nothing.
    pub condition: &'static str,
    /// What a comparison must show besides less of the cause, if the change helped.
    pub look_at: &'static str,
    /// Settings, the first to be tried first; `advise` may compute others from the broker's own.
    pub changes: &'static [SettingChange],
    /// What limits the gain besides the cost; or all there is to expect, with `{cost}` in it.
    pub effect: &'static str,
    /// What it may cost.
    pub risk: &'static str,
}

/// The condition of causes that device-saturation stands for where the device has no time left.
pub(crate) const DEVICE_HAS_TIME: &str =
    ", and no device under the log dirs was busy for 95 % of the time (device-saturation covers that)";

/// What most causes have in common.
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
    on_the_way: false,
    condition: "",
    look_at: "",
    changes: &[],
    effect: "; no public case gives a figure",
    risk: "",
};

/// Declares the causes of a file: each with its place in a chain, where its time goes, and the layer on which a rule of
/// `advise` changes something, where one follows; then the fields of [`CauseSpec`] in which it differs from most.
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
        /// A wait behind other requests or threads: the advice is about what these wait for.
        Queue = "queue",
    }
}

/// One setting as a declaration has it.
#[derive(Clone, Copy, Debug)]
pub struct SettingChange {
    /// Its name, for people.
    pub setting: &'static str,
    /// Where its present value comes from.
    pub current: Current,
    /// What it should be.
    pub new: &'static str,
    /// Where a program sets it: scope, name and value.
    pub target: Option<(Scope, &'static str, &'static str)>,
    /// How it goes with the changes before it.
    pub combination: Combination,
}

named! {
    /// How a change goes with those before it, in the word that stands before it.
    pub enum Combination {
        /// It helps alone, and with the one before it.
        Either = "and/or",
        /// It helps only together with the one before it.
        Together = "and",
        /// It excludes those before it. Those after it, up to the next of this kind, go with it.
        Alternative = "or",
    }
}

/// Where the present value of a setting comes from.
#[derive(Clone, Copy, Debug)]
pub enum Current {
    /// These words.
    Text(&'static str),
    /// The broker's setting of that name, with Kafka's default.
    Broker(&'static str, &'static str),
    /// The kernel's setting of that name.
    Kernel(&'static str),
    /// What follows this prefix on the JVM's command line.
    Jvm(&'static str),
    /// Whether this option is on the JVM's command line.
    JvmFlag(&'static str),
    /// The memory limit of the broker's cgroup.
    MemoryLimit,
    /// The memory that the broker may use.
    Memory,
}

/// A change that only a person can make, of something that no file says.
pub(crate) const fn change(setting: &'static str, current: &'static str, new: &'static str) -> SettingChange {
    change_from(setting, Current::Text(current), new)
}

/// A change of a broker's setting, with Kafka's default.
pub(crate) const fn broker(name: &'static str, default: &'static str, new: &'static str) -> SettingChange {
    change_from(name, Current::Broker(name, default), new)
}

/// A change of something whose present value is known elsewhere.
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
    /// The same, which a program can make too.
    pub(crate) const fn on(self, scope: Scope, name: &'static str, value: &'static str) -> Self {
        Self { target: Some((scope, name, value)), ..self }
    }

    /// The same, with the name and the value that people are shown.
    pub(crate) const fn by_name(self, scope: Scope) -> Self {
        self.on(scope, self.setting, self.new)
    }

    /// The same, to be made with the one before it.
    pub(crate) const fn together(self) -> Self {
        Self { combination: Combination::Together, ..self }
    }

    /// The same, to be made instead of those before it.
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
        /// What log dirs lie on: `devices`, how many disks, by several log dirs or by a stripe.
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
