//! All inputs of rules. Each part is known, or has a reason why it is not. Does not collect inputs.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{HostFacts, Known, Nanos, Volume};

use crate::{Costs, NoAdvice, Profile, ReadsWithoutEgress, Samples, Settings, Traffic, rule};

/// Facts about one broker.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// First argument of a comparison: the recording, or a placeholder for a recording still to be made.
    pub before: Arc<str>,
    /// Latency from which requests were judged.
    pub slower_than: Nanos,
    /// The broker's settings.
    pub settings: Known<Settings>,
    /// The host that it runs on.
    pub host_facts: HostFacts,
    /// Time that slow requests lost, by cause.
    pub costs: Known<Costs>,
    /// Traffic of clients.
    pub traffic: Known<Traffic>,
    /// Figures of the host.
    pub samples: Known<Samples>,
    /// Profile of CPU samples.
    pub profile: Known<Profile>,
    /// Thread dumps.
    pub dumps: Known<Dumps>,
    /// Bytes read from disk and sent to nobody; `None` if insignificant.
    pub unsent: Known<Option<ReadsWithoutEgress>>,
}

/// Results of a series of thread dumps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dumps {
    /// Number of dumps.
    pub dumps: u64,
    /// Locks that threads were blocked on, the one in the most dumps first.
    pub blocked: Vec<ContendedLock>,
    /// Profile of threads that were neither blocked nor waiting: a sample is one thread of one dump.
    pub running: Profile,
}

/// One lock in one method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContendedLock {
    /// The lock's class.
    pub class: Arc<str>,
    /// The method that its waiters were in.
    pub method: Arc<str>,
    /// Number of dumps in which any thread waited for it.
    pub dumps: u64,
    /// Number of waits in all dumps.
    pub waits: u64,
    /// Threads that held it, most often first.
    pub owners: Vec<Arc<str>>,
}

impl Inputs {
    /// Name of [`Inputs::costs`].
    pub const COSTS: &'static str = "the causes of slow requests";
    /// Name of `traffic`.
    pub const TRAFFIC: &'static str = "what clients send";
    /// Name of `samples`.
    pub const SAMPLES: &'static str = "host metrics over time";
    /// Name of `settings`.
    pub const SETTINGS: &'static str = "the broker's settings";
    /// Name of [`Inputs::profile`].
    pub const PROFILE: &'static str = "the CPU profile";
    /// Name of [`Inputs::dumps`].
    pub const DUMPS: &'static str = "thread dumps";
    /// Name of [`Inputs::unsent`].
    pub const UNSENT: &'static str = "what is read from disk and sent to nobody";

    /// Inputs that are all unknown, for one reason.
    pub fn unknown(why: &str) -> Self {
        Self {
            before: "BEFORE".into(),
            slower_than: Nanos::from_millis(100),
            settings: Err(why.into()),
            host_facts: HostFacts::unknown(why),
            costs: Err(why.into()),
            traffic: Err(why.into()),
            samples: Err(why.into()),
            profile: Err(why.into()),
            dumps: Err(why.into()),
            unsent: Err(why.into()),
        }
    }

    pub(crate) fn settings(&self) -> Result<&Settings, NoAdvice> {
        rule::need(Self::SETTINGS, &self.settings)
    }

    pub(crate) fn traffic(&self) -> Result<&Traffic, NoAdvice> {
        rule::need(Self::TRAFFIC, &self.traffic)
    }

    pub(crate) fn samples(&self) -> Result<&Samples, NoAdvice> {
        rule::need(Self::SAMPLES, &self.samples)
    }

    /// Volumes of the log dirs.
    pub(crate) fn volumes(&self) -> Result<&[Volume], NoAdvice> {
        rule::need("what the log dirs are on", &self.host_facts.volumes).map(Vec::as_slice)
    }

    /// The words of the JVM's command line.
    pub(crate) fn jvm(&self) -> Result<&[Arc<str>], NoAdvice> {
        rule::need("the JVM's command line", &self.host_facts.jvm_arguments).map(Vec::as_slice)
    }

    /// CPUs that the broker may use: those of its host, or its quota of them.
    pub(crate) fn cpus(&self) -> Result<u32, NoAdvice> {
        let cpus = *rule::need("the number of CPUs", &self.host_facts.cpus)?;
        let quota = self.host_facts.cpu_quota.as_ref().ok().copied().flatten();
        Ok(quota.map_or(cpus, |quota| cpus.min(quota.ceil().max(1.0) as u32)))
    }

    /// Memory that the broker may use: the host's, or its cgroup's.
    pub(crate) fn memory(&self) -> Result<u64, NoAdvice> {
        let memory = *rule::need("the host's memory", &self.host_facts.memory_bytes)?;
        let limit = self.host_facts.memory_limit_bytes.as_ref().ok().copied().flatten();
        Ok(limit.map_or(memory, |limit| memory.min(limit)))
    }

    /// Number of partitions with a replica on the broker. Or a lower bound: the number of those seen in use.
    pub(crate) fn partitions(&self) -> Result<u64, NoAdvice> {
        rule::need("the number of partitions", &self.host_facts.partitions).copied()
    }

    /// A setting of the kernel.
    pub(crate) fn sysctl(&self, name: &'static str) -> Result<i64, NoAdvice> {
        let all = rule::need("the kernel's settings", &self.host_facts.sysctls)?;
        let lacking = || rule::not_known(name, "this kernel does not have it, or does not show it");
        all.get(name).copied().map_or_else(lacking, Ok)
    }

    /// Describes a setting of the broker; says so if it is not known.
    pub(crate) fn describe_setting(&self, name: &'static str, default: &str) -> String {
        let Ok(settings) = &self.settings else { return "(not known)".to_owned() };
        settings.text(name).map_or_else(|| format!("{default} (the default)"), str::to_owned)
    }

    /// Known volumes with partitions. A volume that holds only the metadata log is not one of them.
    pub(crate) fn data_volumes(&self) -> impl Iterator<Item = &Volume> {
        let text = |name| self.settings.as_ref().ok().and_then(|settings| settings.text(name));
        let (metadata, dirs) = (text("metadata.log.dir"), text("log.dirs").unwrap_or_default());
        let holds_data =
            move |dir: &str| metadata != Some(dir) || dirs.split(',').any(|data| data.trim() == dir);
        self.host_facts.volumes.iter().flatten().filter(move |volume| holds_data(&volume.log_dir))
    }

    /// Number of disks with partitions; 0 if unknown.
    pub(crate) fn data_disks(&self) -> u32 {
        let disks =
            self.data_volumes().filter_map(|volume| Some((&*volume.device, *volume.disks.as_ref().ok()?)));
        disks.collect::<BTreeMap<&str, u32>>().values().sum()
    }

    /// Number of partitions that clients were seen to write to, else of all partitions.
    pub(crate) fn written_partitions(&self) -> Option<u64> {
        let written = self.traffic.as_ref().map_or(0, Traffic::partitions);
        if written > 0 { Some(written) } else { self.host_facts.partitions.as_ref().ok().copied() }
    }

    /// Describes the log dirs and, if known, their number of disks.
    pub(crate) fn describe_log_dirs(&self) -> String {
        let dirs = self.describe_setting("log.dirs", "/tmp/kafka-logs");
        match self.data_disks() {
            0 => dirs,
            1 => format!("{dirs} (on one disk)"),
            disks => format!("{dirs} (on {disks} disks)"),
        }
    }

    /// Describes a setting of the kernel; says so if it is not known.
    pub(crate) fn describe_sysctl(&self, name: &'static str) -> String {
        self.sysctl(name).map_or_else(|_| "(not known)".to_owned(), |value| value.to_string())
    }

    /// The command that shows whether a change helped.
    pub fn comparison(&self) -> String {
        format!("brokerscope compare {} AFTER --slo {}ms", self.before, self.slower_than.as_millis_rounded())
    }
}
