//! Host facts, read once: host, limits, file systems, interfaces, the JVM's command line.
//! Read-only: reads files in `/proc`, `/sys` and the log dirs, ext4 superblocks, and the sysfs of the broker's network
//! namespace. A fact that cannot be read has the reason.
//! Not fuzzed: the kernel writes what is read by its format.

#![allow(clippy::disallowed_methods, reason = "/proc or /sys")]

mod links;
mod volumes;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{HostFacts, Known, Limits, Pid};

use super::cgroup::Cgroup;
use super::text::{self, Kernel};

/// Limit for a process's maps: a broker maps two files per segment, with a line for each.
const MAX_MAP_BYTES: u64 = 64 << 20;
/// Limit for small files, among them command line and environment.
const MAX_ARGUMENT_BYTES: u64 = 4 << 20;
/// Limit of entries in a directory.
const MAX_ENTRIES: usize = 1_000_000;

/// Kernel settings that advice rules use, each with the files that may hold it.
const SYSCTLS: [(&str, &[&str]); 8] = [
    ("vm.swappiness", &["proc/sys/vm/swappiness"]),
    ("vm.dirty_ratio", &["proc/sys/vm/dirty_ratio"]),
    ("vm.dirty_background_ratio", &["proc/sys/vm/dirty_background_ratio"]),
    ("vm.dirty_bytes", &["proc/sys/vm/dirty_bytes"]),
    ("vm.dirty_background_bytes", &["proc/sys/vm/dirty_background_bytes"]),
    ("vm.max_map_count", &["proc/sys/vm/max_map_count"]),
    ("vm.min_free_kbytes", &["proc/sys/vm/min_free_kbytes"]),
    // Since Linux 5.13 in debugfs (kernel/sched/debug.c), which only root may read.
    (
        "kernel.sched_migration_cost_ns",
        &["proc/sys/kernel/sched_migration_cost_ns", "sys/kernel/debug/sched/migration_cost_ns"],
    ),
];

/// Reads the facts about a broker's host. `log_dirs` are paths in this process's view.
pub fn read_host_facts(pid: Pid, log_dirs: &Known<Vec<PathBuf>>) -> HostFacts {
    of(&Kernel::default(), Path::new("/dev"), pid, log_dirs)
}

fn of(kernel: &Kernel, devices: &Path, pid: Pid, log_dirs: &Known<Vec<PathBuf>>) -> HostFacts {
    let cgroup = cgroup(kernel, pid);
    let status = read(&kernel.of_process(pid, "status"));
    let dirs = |read: &dyn Fn(&[PathBuf]) -> Known<u64>| log_dirs.clone().and_then(|dirs| read(&dirs));
    HostFacts {
        cpus: status.and_then(|text| {
            allowed_cpus(&text).ok_or_else(|| "/proc/PID/status has no list of CPUs".into())
        }),
        cpu_quota: cgroup.clone().and_then(|cgroup| {
            cgroup.cpu_directory().ok_or(NO_CGROUP_MOUNT)?;
            Ok(cgroup.cpu_quota())
        }),
        memory_limit_bytes: cgroup.and_then(|cgroup| {
            cgroup.memory_directory().ok_or(NO_CGROUP_MOUNT)?;
            Ok(cgroup.memory_limit_bytes())
        }),
        volumes: log_dirs.clone().map(|dirs| volumes::under(kernel, devices, &dirs)),
        interfaces: links::of(kernel, pid),
        limits: limits(kernel, pid),
        open_files: entries(&kernel.of_process(pid, "fd")).map(|names| names.len() as u64),
        mapped_areas: lines(&kernel.of_process(pid, "maps")),
        jvm_arguments: jvm_arguments(kernel, pid),
        partitions: dirs(&|dirs| dirs.iter().map(|dir| partitions(dir)).sum()),
        ..host_facts(kernel)
    }
}

const NO_CGROUP_MOUNT: &str = "no mount that this process sees has the broker's cgroup";

/// The broker's cgroups. Only a cgroup that was found can be known to have no limit.
fn cgroup(kernel: &Kernel, pid: Pid) -> Known<Cgroup> {
    let memberships = read(&kernel.of_process(pid, "cgroup"))?;
    Ok(Cgroup::parse(&memberships, &read(&kernel.proc.join("self/mountinfo"))?))
}

fn host_facts(kernel: &Kernel) -> HostFacts {
    let memory = read(&kernel.proc.join("meminfo"));
    let of_memory = |key: &str| {
        let bytes = |text: &String| text::keyed_kib(text, key).map(|bytes| bytes as u64);
        memory
            .clone()
            .and_then(|text| bytes(&text).ok_or_else(|| format!("/proc/meminfo has no {key}").into()))
    };
    HostFacts {
        kernel: read(&kernel.proc.join("sys/kernel/osrelease")).map(|text| text.trim().into()),
        memory_bytes: of_memory("MemTotal"),
        swap_bytes: of_memory("SwapTotal"),
        sysctls: Ok(sysctls(kernel)),
        huge_pages: huge_pages(kernel),
        ..HostFacts::unknown("it is not of the host")
    }
}

/// Reads a small file as text.
fn read(path: &Path) -> Known<String> {
    let why = |error: std::io::Error| -> Arc<str> { format!("{}: {error}", path.display()).into() };
    let mut bytes = Vec::new();
    File::open(path).map_err(why)?.take(MAX_ARGUMENT_BYTES).read_to_end(&mut bytes).map_err(why)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Lists the names in a directory.
fn entries(dir: &Path) -> Known<Vec<String>> {
    let read =
        fs::read_dir(dir).map_err(|error| -> Arc<str> { format!("{}: {error}", dir.display()).into() })?;
    Ok(read
        .flatten()
        .take(MAX_ENTRIES)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect())
}

/// Counts the lines of a file.
fn lines(path: &Path) -> Known<u64> {
    let why = |error: std::io::Error| -> Arc<str> { format!("{}: {error}", path.display()).into() };
    let mut reader = BufReader::new(File::open(path).map_err(why)?.take(MAX_MAP_BYTES));
    let (mut count, mut line) = (0, Vec::new());
    while reader.read_until(b'\n', &mut line).map_err(why)? > 0 {
        count += 1;
        line.clear();
    }
    Ok(count)
}

/// Counts the CPUs in `Cpus_allowed_list: 0-3,8` (`proc_pid_status(5)`).
fn allowed_cpus(status: &str) -> Option<u32> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    list.trim().split(',').map(range).sum()
}

fn range(text: &str) -> Option<u32> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
    last.checked_sub(first)?.checked_add(1)
}

fn sysctls(kernel: &Kernel) -> BTreeMap<Arc<str>, i64> {
    let path = |named: &str| match named.strip_prefix("proc/") {
        Some(below) => kernel.proc.join(below),
        None => kernel.sys.join(named.trim_start_matches("sys/")),
    };
    let number = |named: &&str| text::read(&path(named))?.trim().parse().ok();
    SYSCTLS
        .iter()
        .filter_map(|(name, files)| Some(((*name).into(), files.iter().find_map(number)?)))
        .collect()
}

/// Reads `always [madvise] never`, where brackets mark the selected mode.
fn huge_pages(kernel: &Kernel) -> Known<Arc<str>> {
    let path = kernel.sys.join("kernel/mm/transparent_hugepage/enabled");
    let modes = read(&path)?;
    let chosen = modes.split_whitespace().find_map(|mode| mode.strip_prefix('[')?.strip_suffix(']'));
    chosen.map(Into::into).ok_or_else(|| format!("{}: no mode is chosen", path.display()).into())
}

/// JVM options, those from the environment first.
/// The rest of the command line may be confidential and is left out.
fn jvm_arguments(kernel: &Kernel, pid: Pid) -> Known<Vec<Arc<str>>> {
    let arguments = read(&kernel.of_process(pid, "cmdline"))?;
    // The environment of another user's process cannot be read; then the command line has to do.
    let environment = read(&kernel.of_process(pid, "environ")).unwrap_or_default();
    let variables = ["JAVA_TOOL_OPTIONS=", "JDK_JAVA_OPTIONS="];
    let named =
        environment.split('\0').filter_map(|set| variables.iter().find_map(|name| set.strip_prefix(name)));
    let words = named.flat_map(str::split_whitespace).chain(arguments.split('\0'));
    Ok(words.filter(|word| word.starts_with("-X")).map(Into::into).collect())
}

/// Counts the partitions in a log dir.
/// Leaves out those being deleted and the controllers' own.
fn partitions(dir: &Path) -> Known<u64> {
    let names = entries(dir)?;
    let is_one = |name: &&String| {
        let partition = broker::path::partition_of(name).filter(|_| !name.ends_with("-delete"));
        partition.is_some_and(|partition| &*partition.topic != "__cluster_metadata")
    };
    Ok(names.iter().filter(is_one).count() as u64)
}

const OPEN_FILES: &str = "Max open files";

/// Parses `/proc/PID/limits`: a name of 25 characters, the soft limit, the hard limit, a unit (fs/proc/base.c).
fn limits(kernel: &Kernel, pid: Pid) -> Known<Limits> {
    let text = read(&kernel.of_process(pid, "limits"))?;
    let rest = text.lines().find_map(|line| line.strip_prefix(OPEN_FILES));
    let soft = rest.and_then(|rest| rest.split_whitespace().next()).unwrap_or_default();
    if soft == "unlimited" {
        return Ok(Limits { open_files: None });
    }
    let open_files = soft.parse().map_err(|_| "/proc/PID/limits has no limit of open files")?;
    Ok(Limits { open_files: Some(open_files) })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{allowed_cpus, of};
    use crate::host::tests::fixture::Fixture;

    fn host(fixture: &Fixture) {
        for (name, text) in [
            ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            ("proc/meminfo", "MemTotal:  16384 kB\nSwapTotal: 0 kB\n"),
            ("proc/sys/vm/swappiness", "60\n"),
            ("sys/kernel/debug/sched/migration_cost_ns", "500000\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ] {
            fixture.file(name, text);
        }
    }

    fn broker(fixture: &Fixture) {
        for (name, text) in [
            ("proc/7/status", "Name:\tjava\nCpus_allowed_list:\t0-3,8\n"),
            ("proc/7/cmdline", "java\0-Xmx6g\0-Dpassword=x\0kafka.Kafka\0server.properties\0"),
            ("proc/7/environ", "A=b\0JAVA_TOOL_OPTIONS=-XX:+UseG1GC -Dsecret=y\0"),
            ("proc/7/maps", "a\nb\nc\n"),
            ("proc/7/fd/0", ""),
            ("proc/7/fd/1", ""),
            ("data/t-0/x", ""),
            ("data/t-1/x", ""),
            ("data/t-2.0123456789abcdef0123456789abcdef-delete/x", ""),
            ("data/__cluster_metadata-0/x", ""),
            ("data/meta.properties", ""),
        ] {
            fixture.file(name, text);
        }
    }

    #[test]
    fn reads_host_facts_from_the_kernels_files() {
        let fixture = Fixture::new("surroundings");
        host(&fixture);
        broker(&fixture);
        let found = of(&fixture.kernel(), &fixture.path("dev"), 7, &Ok(vec![fixture.path("data")]));
        assert_eq!(found.kernel.as_deref(), Ok("6.1.0-18-amd64"));
        assert_eq!((found.cpus, found.memory_bytes, found.swap_bytes), (Ok(5), Ok(16 << 20), Ok(0)));
        let sysctls = found.sysctls.unwrap();
        assert_eq!((sysctls.get("vm.swappiness"), sysctls.get("vm.dirty_ratio")), (Some(&60), None));
        assert_eq!(sysctls.get("kernel.sched_migration_cost_ns"), Some(&500_000));
        assert_eq!(found.huge_pages.as_deref(), Ok("madvise"));
        assert_eq!((found.open_files, found.mapped_areas, found.partitions), (Ok(2), Ok(3), Ok(2)));
        let arguments = found.jvm_arguments.unwrap();
        assert_eq!(
            arguments.iter().map(|word| &**word).collect::<Vec<_>>(),
            ["-XX:+UseG1GC", "-Xmx6g"],
            "and no secret"
        );
    }

    #[test]
    fn unreadable_facts_have_a_reason() {
        let fixture = Fixture::new("surroundings-missing");
        host(&fixture);
        let why = "server.properties: permission denied";
        let found = of(&fixture.kernel(), &fixture.path("dev"), 7, &Err(why.into()));
        assert!(found.memory_bytes.is_ok() && found.limits.is_err());
        assert!(found.cpus.unwrap_err().contains("proc/7/status: No such file"));
        assert!(found.cpu_quota.unwrap_err().contains("proc/7/cgroup: No such file"));
        assert!(found.memory_limit_bytes.unwrap_err().contains("proc/7/cgroup: No such file"));
        assert_eq!((&*found.partitions.unwrap_err(), &*found.volumes.unwrap_err()), (why, why));
        let missing = Ok(vec![PathBuf::from("/no/such/dir")]);
        assert!(of(&fixture.kernel(), &fixture.path("dev"), 7, &missing).partitions.is_err());
    }

    /// A cgroup that this process does not see may have any limit.
    #[test]
    fn cgroup_limits_are_unknown_outside_the_mount() {
        let fixture = Fixture::new("surroundings-cgroup");
        let mount = format!("30 23 0:26 / {} rw - cgroup2 cgroup2 rw\n", fixture.path("cg").display());
        fixture.file("proc/self/mountinfo", &mount);
        fixture.file("cg/limited/cpu.max", "150000 100000\n");
        fixture.file("cg/limited/memory.max", "4096\n");
        fixture.file("cg/free/cpu.max", "max 100000\n");
        let limits = |group: &str| {
            fixture.file("proc/7/cgroup", &format!("0::{group}\n"));
            let found = of(&fixture.kernel(), &fixture.path("dev"), 7, &Ok(Vec::new()));
            (found.cpu_quota, found.memory_limit_bytes)
        };
        assert_eq!(limits("/limited"), (Ok(Some(1.5)), Ok(Some(4_096))));
        assert_eq!(limits("/free"), (Ok(None), Ok(None)));
        let unknown = limits("/../outside");
        assert!(unknown.0.is_err() && unknown.1.is_err(), "{unknown:?}");
    }

    #[test]
    fn counts_allowed_cpus_by_ranges() {
        for (list, count) in [("0", Some(1)), ("0-3,8", Some(5)), ("3-1", None), ("x", None)] {
            assert_eq!(allowed_cpus(&format!("Cpus_allowed_list:\t{list}\n")), count, "{list}");
        }
        assert_eq!(allowed_cpus(""), None);
    }
}

#[cfg(test)]
mod limits_tests {
    use model::Limits;

    use super::limits;
    use crate::host::tests::fixture::Fixture;

    #[test]
    fn reads_soft_limits() {
        let fixture = Fixture::new("limits");
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max processes             unlimited            unlimited            processes \n\
                    Max open files            1024                 524288               files     \n";
        fixture.file("proc/7/limits", text);
        fixture.file("proc/8/limits", "Max open files            many\n");
        assert_eq!(limits(&fixture.kernel(), 7), Ok(Limits { open_files: Some(1_024) }));
        fixture.file(
            "proc/10/limits",
            "Max open files            unlimited            unlimited            files\n",
        );
        assert_eq!(limits(&fixture.kernel(), 10), Ok(Limits { open_files: None }));
        assert!(limits(&fixture.kernel(), 8).unwrap_err().contains("open files"));
        assert!(limits(&fixture.kernel(), 9).unwrap_err().contains("No such file"));
    }
}
