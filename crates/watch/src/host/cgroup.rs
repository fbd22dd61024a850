//! The broker's cgroup, in version 1, version 2, or both.
//! Finds its directories and unifies the figures of both versions.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::{Component, Path, PathBuf};

use model::HostScope;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::Moment;
use super::figures::Figures;
use super::metrics;
use super::text::{self, Kernel};
use crate::mounts::{self, DeviceNumber, Mount};

/// Moves the calling thread to the cgroup namespace of the host's first process.
/// Within a container's cgroup namespace, a broker's cgroup in another one has no name (`cgroup_namespaces(7)`). Needs
/// `CAP_SYS_ADMIN` and the host's process ids; without them, nothing changes.
#[allow(clippy::disallowed_methods, reason = "/proc or /sys")]
pub(super) fn see_all() {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/cgroup")).ok();
    if namespace("1") == namespace("thread-self") {
        return;
    }
    if let Ok(hosts) = File::open("/proc/1/ns/cgroup") {
        let _ = move_into_link_name_space(hosts.as_fd(), Some(LinkNameSpaceType::ControlGroup));
    }
}

/// What version 1 reports without a limit: the largest number of pages (`PAGE_COUNTER_MAX`).
pub(super) const NO_LIMIT_BYTES: u64 = 1 << 62;

/// Directories of a process's cgroups, by controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cgroup {
    /// The cgroup's name in samples.
    name: String,
    unified: Option<PathBuf>,
    cpu: Option<PathBuf>,
    memory: Option<PathBuf>,
    block_io: Option<PathBuf>,
}

impl Cgroup {
    /// Finds the cgroups of a process, as far as they can be read.
    pub(super) fn of(kernel: &Kernel, pid: u32) -> Self {
        let memberships = text::read(&kernel.of_process(pid, "cgroup")).unwrap_or_default();
        let mounts = text::read(&kernel.proc.join("self/mountinfo")).unwrap_or_default();
        Self::parse(&memberships, &mounts)
    }

    /// Finds cgroups in the texts of `/proc/PID/cgroup` and `/proc/self/mountinfo`.
    pub(super) fn parse(memberships: &str, mounts: &str) -> Self {
        let mounts = mounts::parse(mounts);
        let mut cgroup = Self::default();
        for line in memberships.lines() {
            // `4:memory:/user.slice`; `0::/user.slice` is version 2 (cgroups(7)).
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            cgroup.add_membership(&mounts, controllers, path);
        }
        cgroup
    }

    fn add_membership(&mut self, mounts: &[Mount], controllers: &str, path: &str) {
        let has = |controller| controllers.split(',').any(|name| name == controller);
        let found = || directory(mounts, controllers, path);
        if controllers.is_empty() {
            self.unified = found();
        }
        if has("cpu") {
            self.cpu = found();
        }
        if has("memory") {
            self.memory = found();
        }
        if has("blkio") {
            self.block_io = found();
        }
        // Prefer the unified hierarchy's name; with version 1, any name that is not the root's.
        if self.name.len() <= 1 {
            path.clone_into(&mut self.name);
        }
    }

    /// The directory with the CPU controller's files.
    pub(super) fn cpu_directory(&self) -> Option<&PathBuf> {
        self.cpu.as_ref().or(self.unified.as_ref())
    }

    /// The directory with the memory controller's files.
    pub(super) fn memory_directory(&self) -> Option<&PathBuf> {
        self.memory.as_ref().or(self.unified.as_ref())
    }

    /// The lowest CPU quota of the cgroup and its ancestors, in CPUs; `None` without any.
    pub(super) fn cpu_quota(&self) -> Option<f64> {
        least(self.cpu_directory()?, |dir| {
            if let Some(text) = text::read(&dir.join("cpu.max")) {
                // `max 100000` or `200000 100000`, in microseconds (cgroup-v2.rst).
                let (quota, period) = text.trim().split_once(' ')?;
                return ratio(quota.parse().ok()?, period.parse().ok()?);
            }
            // -1 without a quota (sched-bwc.rst).
            ratio(text::number(&dir.join("cpu.cfs_quota_us"))?, text::number(&dir.join("cpu.cfs_period_us"))?)
        })
    }

    /// The lowest memory limit of the cgroup and its ancestors; `None` without any.
    pub(super) fn memory_limit_bytes(&self) -> Option<u64> {
        let limit = |dir: &Path| {
            let bytes = text::number(&dir.join("memory.max"));
            let bytes = bytes.or_else(|| text::number(&dir.join("memory.limit_in_bytes")))?;
            (bytes < NO_LIMIT_BYTES).then_some(bytes as f64)
        };
        least(self.memory_directory()?, limit).map(|bytes| bytes as u64)
    }

    /// The lowest I/O limits of the cgroup and its ancestors, by device.
    /// Devices without limits are left out.
    pub(super) fn io_limits(&self, kernel: &Kernel) -> IoLimits {
        let mut limits = IoLimits::new();
        let mut hold = |metric, (device, limit): (DeviceNumber, u64)| {
            let least = limits.entry((device, metric)).or_insert(limit);
            *least = limit.min(*least);
        };
        let read = |dir: &Path, file: &str| kernel.text(&dir.join(file)).unwrap_or_default();
        // This runs once a second, so only the version that has the controller is read.
        if let Some(dir) = &self.block_io {
            for (dir, (metric, _, file)) in
                dir.ancestors().flat_map(|dir| IO_LIMITS.map(|limit| (dir, limit)))
            {
                read(dir, file).lines().filter_map(limit_of_line).for_each(|limit| hold(metric, limit));
            }
        } else if let Some(dir) = &self.unified {
            for text in dir.ancestors().map(|dir| read(dir, "io.max")) {
                for (metric, key, _) in IO_LIMITS {
                    text.lines()
                        .filter_map(|line| limit_in_line(line, key))
                        .for_each(|limit| hold(metric, limit));
                }
            }
        }
        limits
    }

    pub(super) fn sample(&self, kernel: &Kernel, figures: &mut Figures, moment: &mut Moment<'_>) {
        metrics::sample(HostScope::Cgroup, &self.name, figures, moment, &|file| self.read(kernel, file));
    }

    /// Reads a file, from version 1 if that has the controller.
    fn read(&self, kernel: &Kernel, name: &str) -> Option<Vec<u8>> {
        let of_controller = match name.split('.').next()? {
            "cpu" => self.cpu.as_ref(),
            "memory" => self.memory.as_ref(),
            "blkio" => self.block_io.as_ref(),
            _ => None,
        };
        of_controller.into_iter().chain(&self.unified).find_map(|dir| kernel.bytes(&dir.join(name)))
    }
}

/// Limits by device and metric.
pub(super) type IoLimits = BTreeMap<(DeviceNumber, &'static str), u64>;

/// Metrics of limits, with their keys in `io.max`.
/// The last column has their files in version 1 (block/blk-throttle.c).
const IO_LIMITS: [(&str, &str, &str); 4] = [
    ("read_limit_bytes_per_second", "rbps", "blkio.throttle.read_bps_device"),
    ("write_limit_bytes_per_second", "wbps", "blkio.throttle.write_bps_device"),
    ("read_limit_per_second", "riops", "blkio.throttle.read_iops_device"),
    ("write_limit_per_second", "wiops", "blkio.throttle.write_iops_device"),
];

/// Parses a key of `8:16 rbps=2097152 wbps=max riops=max wiops=120`; `max` is no limit.
fn limit_in_line(line: &str, key: &str) -> Option<(DeviceNumber, u64)> {
    let (device, rest) = line.split_once(' ')?;
    let of_key = |word: &str| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok();
    Some((mounts::parse_number(device)?, rest.split_whitespace().find_map(of_key)?))
}

/// Parses `8:16 1048576`.
fn limit_of_line(line: &str) -> Option<(DeviceNumber, u64)> {
    let (device, limit) = line.split_once(' ')?;
    Some((mounts::parse_number(device)?, limit.trim().parse().ok()?))
}

/// The lowest value in a cgroup and its ancestors. Directories that are not cgroups have none.
fn least(dir: &Path, of: impl Fn(&Path) -> Option<f64>) -> Option<f64> {
    dir.ancestors().filter_map(of).min_by(f64::total_cmp)
}

fn ratio(quota_us: u64, period_us: u64) -> Option<f64> {
    (period_us > 0).then(|| quota_us as f64 / period_us as f64)
}

/// The directory of a cgroup, below the mount of its hierarchy.
/// The mount may show only a part of the hierarchy.
fn directory(mounts: &[Mount], controllers: &str, path: &str) -> Option<PathBuf> {
    let is_hierarchy = |mount: &Mount| match mount.fs.as_str() {
        "cgroup2" => controllers.is_empty(),
        "cgroup" => {
            let has = |name| mount.options.split(',').any(|option| option == name);
            !controllers.is_empty() && controllers.split(',').all(has)
        }
        _ => false,
    };
    mounts.iter().filter(|mount| is_hierarchy(mount)).find_map(|mount| {
        let below = Path::new(path).strip_prefix(Path::new("/").join(&mount.root)).ok()?;
        // The path of a cgroup outside the reader's cgroup namespace begins with `..` (cgroup_namespaces(7)).
        let inside = below.components().all(|part| matches!(part, Component::Normal(_) | Component::RootDir));
        inside.then(|| Path::new(&mount.point).join(below))
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Cgroup, directory, mounts};
    use crate::host::tests::fixture::Fixture;

    #[test]
    fn lowest_quota_and_limit_of_the_ancestors_apply() {
        let fixture = Fixture::new("limits-of-groups");
        for (name, text) in [
            ("v2/pod/cpu.max", "200000 100000\n"),
            ("v2/pod/kafka/cpu.max", "max 100000\n"),
            ("v2/pod/memory.max", "8589934592\n"),
            ("v2/pod/kafka/memory.max", "max\n"),
            ("v1/kafka/cpu.cfs_quota_us", "50000\n"),
            ("v1/kafka/cpu.cfs_period_us", "100000\n"),
            ("v1/kafka/memory.limit_in_bytes", "9223372036854771712\n"),
            ("none/cpu.cfs_quota_us", "-1\n"),
            ("none/cpu.cfs_period_us", "100000\n"),
        ] {
            fixture.file(name, text);
        }
        let v2 = Cgroup { unified: Some(fixture.path("v2/pod/kafka")), ..Cgroup::default() };
        assert_eq!((v2.cpu_quota(), v2.memory_limit_bytes()), (Some(2.0), Some(8 << 30)));
        let v1 = fixture.path("v1/kafka");
        let v1 = Cgroup { cpu: Some(v1.clone()), memory: Some(v1), ..Cgroup::default() };
        assert_eq!((v1.cpu_quota(), v1.memory_limit_bytes()), (Some(0.5), None));
        let none = Cgroup { cpu: Some(fixture.path("none")), ..Cgroup::default() };
        assert_eq!((none.cpu_quota(), none.memory_limit_bytes()), (None, None));
    }

    #[test]
    fn lowest_io_limit_of_a_device_applies() {
        let fixture = Fixture::new("io-limits");
        for (name, text) in [
            (
                "v2/pod/io.max",
                "8:0 rbps=4096 wbps=max riops=max wiops=120\n8:16 rbps=max wbps=1000 riops=max wiops=max\n",
            ),
            ("v2/pod/kafka/io.max", "8:0 rbps=9000 wbps=7000 riops=max wiops=100\n"),
            ("v1/kafka/blkio.throttle.read_bps_device", "7:0 16384\n"),
            ("v1/kafka/blkio.throttle.write_iops_device", "7:0 30\n7:1 max\n"),
            ("v1/blkio.throttle.read_bps_device", "7:0 8192\n"),
        ] {
            fixture.file(name, text);
        }
        let v2 = Cgroup { unified: Some(fixture.path("v2/pod/kafka")), ..Cgroup::default() };
        let found: Vec<_> = v2.io_limits(&fixture.kernel()).into_iter().collect();
        let expected = [
            (((8, 0), "read_limit_bytes_per_second"), 4096),
            (((8, 0), "write_limit_bytes_per_second"), 7000),
            (((8, 0), "write_limit_per_second"), 100),
            (((8, 16), "write_limit_bytes_per_second"), 1000),
        ];
        assert_eq!(found, expected);
        let v1 = Cgroup { block_io: Some(fixture.path("v1/kafka")), ..Cgroup::default() };
        let found: Vec<_> = v1.io_limits(&fixture.kernel()).into_iter().collect();
        let expected =
            [(((7, 0), "read_limit_bytes_per_second"), 8192), (((7, 0), "write_limit_per_second"), 30)];
        assert_eq!(found, expected);
    }

    const MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                          32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                          35 31 0:32 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                          41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn finds_a_cgroup_below_the_mount_of_its_hierarchy() {
        for (controllers, path, dir) in [
            ("", "/system.slice/kafka", Some("/sys/fs/cgroup/unified/system.slice/kafka")),
            ("cpu,cpuacct", "/", Some("/sys/fs/cgroup/cpu/")),
            ("memory", "/docker/x/kafka", Some("/sys/fs/cgroup/memory/kafka")),
            ("memory", "/elsewhere", None),
            ("", "/../../other", None),
            ("blkio", "/", None),
        ] {
            assert_eq!(
                directory(&mounts::parse(MOUNTS), controllers, path),
                dir.map(PathBuf::from),
                "{controllers}:{path}"
            );
        }
    }
}
