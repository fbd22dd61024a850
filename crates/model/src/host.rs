//! Host metrics, and facts about what the broker runs on. The metrics are those of the host, its devices and the broker
//! as a whole. The facts are about the host, file systems, limits and JVM command line. Does not read or judge them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Nanos;

row! {
    host_sample_row =>
    /// One metric of one thing over about a second. Rates are per second of `end - start`; the metrics, their units and
    /// sources are listed where they are read.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HostSample {
        /// The reading before.
        start: Nanos as "start_ns",
        /// This reading.
        end: Nanos as "end_ns",
        /// The kind of thing that was measured.
        scope: HostScope,
        /// Which one: a device, an interface, a group of threads, a cgroup; empty for the host itself.
        name: Arc<str>,
        /// The metric's name with its unit (`util_ratio`, `read_bytes_per_second`).
        metric: Arc<str>,
        /// Its value.
        value: f64,
    }
}

named! {
    /// The kind of thing that a sample measures.
    pub enum HostScope {
        /// A block device, as iostat counts.
        Device = "device",
        /// A network interface.
        Interface = "interface",
        /// The processor time of the broker's threads of one role.
        Threads = "threads",
        /// The broker's process.
        Process = "process",
        /// The broker's cgroup.
        Cgroup = "cgroup",
        /// The host: memory, pressure, TCP.
        Host = "host",
    }
}

/// A value, or the reason why it is unknown, in a few words (`/proc/7/limits: permission denied`).
pub type Known<T> = Result<T, Arc<str>>;

/// Declares facts, each known or with the reason why it is not.
macro_rules! facts {
    ($(#[$meta:meta])* pub struct $Facts:ident { $($(#[doc = $doc:literal])+ $fact:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        pub struct $Facts { $($(#[doc = $doc])+ pub $fact: Known<$ty>,)* }

        impl $Facts {
            /// Facts that are all unknown, for one reason.
            pub fn unknown(why: &str) -> Self {
                let why: Arc<str> = why.into();
                Self { $($fact: Err(Arc::clone(&why)),)* }
            }
        }
    };
}

facts! {
    /// Facts about what one broker runs on.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HostFacts {
        /// The kernel's release (`6.1.0-18-amd64`).
        kernel: Arc<str>,
        /// CPUs that are online.
        cpus: u32,
        /// The cgroup's quota in CPUs; none without a quota.
        cpu_quota: Option<f64>,
        /// Memory of the host.
        memory_bytes: u64,
        /// The cgroup's limit; none without one.
        memory_limit_bytes: Option<u64>,
        /// Swap space of the host.
        swap_bytes: u64,
        /// Kernel settings by name (`vm.swappiness`).
        sysctls: BTreeMap<Arc<str>, i64>,
        /// The mode of transparent huge pages (`always`, `madvise`, `never`).
        huge_pages: Arc<str>,
        /// The volumes of the log dirs, one for each.
        volumes: Vec<Volume>,
        /// Interfaces of the broker's network namespace, without the loopback.
        interfaces: Vec<Interface>,
        /// The process's limits.
        limits: Limits,
        /// Files that it has open, sockets among them.
        open_files: u64,
        /// Memory areas that it has mapped.
        mapped_areas: u64,
        /// The words of the JVM's command line, those from the environment first.
        jvm_arguments: Vec<Arc<str>>,
        /// Partitions with a replica on this broker, or at least those seen in use.
        partitions: u64,
    }
}

/// The volume that a log dir is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// The log dir, as the broker names it.
    pub log_dir: Arc<str>,
    /// The kernel's name of the device (`nvme0n1p1`, `dm-3`); empty where it has none.
    pub device: Arc<str>,
    /// The file system's type.
    pub fs: Arc<str>,
    /// Its mount options: those of the mount and those of the file system.
    pub options: Known<Vec<Arc<str>>>,
    /// Disks beneath the device: partitions, volumes and arrays followed down.
    pub disks: Known<u32>,
    /// Features from an ext4's superblock; none for other file systems.
    pub ext4: Known<Option<Ext4>>,
}

/// Features of an ext4 file system (`fs/ext4/ext4.h`, `s_feature_compat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ext4 {
    /// Whether it has a journal.
    pub journal: bool,
    /// Whether it has fast commits.
    pub fast_commit: bool,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: Arc<str>,
    /// Its largest packet.
    pub mtu_bytes: u32,
    /// The link's speed, where the driver knows it.
    pub speed_bits_per_second: Option<u64>,
}

/// Limits of a process (`/proc/PID/limits`, soft); none is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open files.
    pub open_files: Option<u64>,
}
