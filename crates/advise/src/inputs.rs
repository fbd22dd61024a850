//! Everything that rules may look at. Each part is known, or says why it is not. Does not collect any of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{HostFacts, Known, Nanos, Volume};

use crate::{Costs, NoAdvice, Profile, ReadsWithoutEgress, Samples, Settings, Traffic, rule};

/// What is known of one broker.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// What a comparison begins with: the recording, or the name of one that is yet to be made.
    pub before: Arc<str>,
    /// Requests that took so long were judged.
    pub slower_than: Nanos,
    /// The broker's settings.
    pub settings: Known<Settings>,
    /// What it runs on.
    pub surroundings: HostFacts,
    /// What slow requests lost to what.
    pub costs: Known<Costs>,
    /// What clients sent.
    pub traffic: Known<Traffic>,
    /// The host's figures.
    pub samples: Known<Samples>,
    /// What ran on the processors.
    pub profile: Known<Profile>,
    /// What threads did in thread dumps.
    pub dumps: Known<Dumps>,
    /// What is read from disk and sent to nobody; none where that is next to nothing.
    pub unsent: Known<Option<ReadsWithoutEgress>>,
}

/// What a series of thread dumps shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dumps {
    /// How many dumps.
    pub dumps: u64,
    /// Locks that threads were blocked on, those in the most dumps first.
    pub blocked: Vec<ContendedLock>,
    /// What threads did that were not blocked and did not wait: a sample is one thread of one dump.
    pub running: Profile,
}

/// One lock in one method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContendedLock {
    /// The lock's class.
    pub class: Arc<str>,
    /// The method that its waiters were in.
    pub method: Arc<str>,
    /// In how many dumps anyone waited for it.
    pub dumps: u64,
    /// How many waits all dumps show.
    pub waits: u64,
    /// Who had it, most often first.
    pub owners: Vec<Arc<str>>,
}

impl Inputs {
    /// What [`Inputs::costs`] are called.
    pub const COSTS: &'static str = "the causes of slow requests";
    /// What `traffic` is called.
    pub const TRAFFIC: &'static str = "what clients send";
    /// What `samples` are called.
    pub const SAMPLES: &'static str = "host metrics over time";
    /// What `settings` are called.
    pub const SETTINGS: &'static str = "the broker's settings";
    /// What [`Inputs::profile`] is called.
    pub const PROFILE: &'static str = "the CPU profile";
    /// What [`Inputs::dumps`] are called.
    pub const DUMPS: &'static str = "thread dumps";
    /// What [`Inputs::unsent`] are called.
    pub const UNSENT: &'static str = "what is read from disk and sent to nobody";

    /// Those of which nothing is known, for one reason.
    pub fn unknown(why: &str) -> Self {
        Self {
            before: "BEFORE".into(),
            slower_than: Nanos::from_millis(100),
            settings: Err(why.into()),
            surroundings: HostFacts::unknown(why),
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

    /// What the log dirs are on.
    pub(crate) fn volumes(&self) -> Result<&[Volume], NoAdvice> {
        rule::need("what the log dirs are on", &self.surroundings.volumes).map(Vec::as_slice)
    }

    /// The words of the JVM's command line.
    pub(crate) fn jvm(&self) -> Result<&[Arc<str>], NoAdvice> {
        rule::need("the JVM's command line", &self.surroundings.jvm_arguments).map(Vec::as_slice)
    }

    /// CPUs that the broker may use: those of its host, or its quota of them.
    pub(crate) fn cpus(&self) -> Result<u32, NoAdvice> {
        let cpus = *rule::need("the number of CPUs", &self.surroundings.cpus)?;
        let quota = self.surroundings.cpu_quota.as_ref().ok().copied().flatten();
        Ok(quota.map_or(cpus, |quota| cpus.min(quota.ceil().max(1.0) as u32)))
    }

    /// Memory that the broker may use: the host's, or its cgroup's.
    pub(crate) fn memory(&self) -> Result<u64, NoAdvice> {
        let memory = *rule::need("the host's memory", &self.surroundings.memory_bytes)?;
        let limit = self.surroundings.memory_limit_bytes.as_ref().ok().copied().flatten();
        Ok(limit.map_or(memory, |limit| memory.min(limit)))
    }

    /// Partitions of which the broker has replicas, or at least those that were seen to be used.
    pub(crate) fn partitions(&self) -> Result<u64, NoAdvice> {
        rule::need("the number of partitions", &self.surroundings.partitions).copied()
    }

    /// A setting of the kernel.
    pub(crate) fn sysctl(&self, name: &'static str) -> Result<i64, NoAdvice> {
        let all = rule::need("the kernel's settings", &self.surroundings.sysctls)?;
        let lacking = || rule::not_known(name, "this kernel does not have it, or does not show it");
        all.get(name).copied().map_or_else(lacking, Ok)
    }

    /// A setting of the broker where it is known, else a word that says it is not.
    pub(crate) fn shown(&self, name: &'static str, default: &str) -> String {
        let Ok(settings) = &self.settings else { return "(not known)".to_owned() };
        settings.text(name).map_or_else(|| format!("{default} (the default)"), str::to_owned)
    }

    /// The devices that partitions are on, as far as they are known: what holds the metadata log alone is none of them.
    pub(crate) fn data_volumes(&self) -> impl Iterator<Item = &Volume> {
        let text = |name| self.settings.as_ref().ok().and_then(|settings| settings.text(name));
        let (metadata, dirs) = (text("metadata.log.dir"), text("log.dirs").unwrap_or_default());
        let holds_data =
            move |dir: &str| metadata != Some(dir) || dirs.split(',').any(|data| data.trim() == dir);
        self.surroundings.volumes.iter().flatten().filter(move |volume| holds_data(&volume.log_dir))
    }

    /// On how many disks partitions are; 0 where it is not known.
    pub(crate) fn data_disks(&self) -> u32 {
        let disks =
            self.data_volumes().filter_map(|volume| Some((&*volume.device, *volume.disks.as_ref().ok()?)));
        disks.collect::<BTreeMap<&str, u32>>().values().sum()
    }

    /// Partitions that clients were seen to write to, or else all that there are.
    pub(crate) fn written_partitions(&self) -> Option<u64> {
        let written = self.traffic.as_ref().map_or(0, Traffic::partitions);
        if written > 0 { Some(written) } else { self.surroundings.partitions.as_ref().ok().copied() }
    }

    /// The log dirs, and on how many disks they are, as far as it is known.
    pub(crate) fn shown_log_dirs(&self) -> String {
        let dirs = self.shown("log.dirs", "/tmp/kafka-logs");
        match self.data_disks() {
            0 => dirs,
            1 => format!("{dirs} (on one disk)"),
            disks => format!("{dirs} (on {disks} disks)"),
        }
    }

    /// A setting of the kernel where it is known, else a word that says it is not.
    pub(crate) fn shown_sysctl(&self, name: &'static str) -> String {
        self.sysctl(name).map_or_else(|_| "(not known)".to_owned(), |value| value.to_string())
    }

    /// The command that shows whether a change helped.
    pub fn comparison(&self) -> String {
        format!("brokerscope compare {} AFTER --slo {}ms", self.before, self.slower_than.as_millis_rounded())
    }
}
