//! What a rule advises. Does not print it.

use crate::Cost;

/// One piece of advice with its evidence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recommendation {
    /// What was seen that the advice rests on.
    pub evidence: String,
    /// What to change, the first of several ways being the one to try first.
    pub changes: Vec<Change>,
    /// What it cost slow requests here, where that was measured: an upper bound of what the change can give back.
    pub cost: Option<Cost>,
    /// What is to be expected, and what is not.
    pub effect: String,
    /// What it may cost.
    pub risk: &'static str,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its name, or the command that changes it.
    pub setting: String,
    /// What it is now.
    pub old: String,
    /// What it should be.
    pub new: String,
    /// The same for programs; none where only a person can make the change, or choose the value.
    pub target: Option<Target>,
    /// Whether it helps only together with the change before it.
    pub together: bool,
}

/// A setting as a program changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where it is set.
    pub of: Scope,
    /// Its name there.
    pub name: String,
    /// Its new value; empty where it is to be left out, and of a flag that has none.
    pub value: String,
}

/// Where a setting is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The broker's server.properties.
    Broker,
    /// Topics that are written to: their `partitions`, all together.
    Topics,
    /// The configuration of producers.
    Producers,
    /// What log dirs lie on: `devices`, how many disks, by log dirs of their own or by a stripe.
    LogDirs,
    /// The log dirs' file system: its `type`, a `mount` option, one of its `features`.
    FileSystem,
    /// The network interface that the setting names: its `mtu`.
    Interface,
    /// The kernel's settings, as sysctl(8) names them.
    Kernel,
    /// Options of the JVM.
    Jvm,
}

impl Scope {
    /// The name in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Topics => "topics",
            Self::Producers => "producers",
            Self::LogDirs => "log-dirs",
            Self::FileSystem => "file-system",
            Self::Interface => "interface",
            Self::Kernel => "kernel",
            Self::Jvm => "jvm",
        }
    }
}

impl Change {
    /// A setting, what it is and what it should be.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "numbers, names and sentences alike, made for this one call"
    )]
    pub(crate) fn of(setting: impl ToString, old: impl ToString, new: impl ToString) -> Self {
        Self {
            setting: setting.to_string(),
            old: old.to_string(),
            new: new.to_string(),
            target: None,
            together: false,
        }
    }

    /// The same, which a program can make too.
    #[expect(clippy::needless_pass_by_value, reason = "numbers and words alike, made for this one call")]
    pub(crate) fn on(mut self, of: Scope, name: impl ToString, value: impl ToString) -> Self {
        self.target = Some(Target { of, name: name.to_string(), value: value.to_string() });
        self
    }

    /// The same, made by a program with the very name and value that people are told.
    pub(crate) fn by_name(self, of: Scope) -> Self {
        let (name, value) = (self.setting.clone(), self.new.clone());
        self.on(of, name, value)
    }

    /// The same, to be made with the one before it.
    pub(crate) fn with_the_last(self) -> Self {
        Self { together: true, ..self }
    }
}
