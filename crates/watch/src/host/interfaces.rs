//! Samples the interfaces of the broker's network namespace.
//! Interfaces without traffic are left out.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use model::{HostScope, Nanos};

use super::figures::{Counter, Figures};
use super::text::{self, Kernel};

/// Limit of interfaces: a host with many containers has one for each.
const MAX_INTERFACES: usize = 64;
/// Interval of reading a link's speed, in readings: it is rare because the driver is queried.
const LINK_EVERY: u64 = 64;

/// Known links.
#[derive(Default)]
pub(super) struct Interfaces {
    readings: u64,
    links: HashMap<String, Link>,
}

#[derive(Clone, Copy, Default)]
struct Link {
    mtu_bytes: Option<u64>,
    bits_per_second: Option<u64>,
    packets: u64,
}

/// Columns of `/proc/PID/net/dev`, up to the last that is read.
const COUNTERS: usize = 12;

/// A line of `/proc/PID/net/dev`: (bytes, packets, errors, drops) each way.
struct Counters<'t> {
    name: &'t str,
    fields: [u64; COUNTERS],
}

impl Interfaces {
    pub(super) fn sample(&mut self, kernel: &Kernel, pid: u32, figures: &mut Figures, at: Nanos) {
        let Some(table) = kernel.text(&kernel.of_process(pid, "net/dev")) else { return };
        let fresh = self.readings % LINK_EVERY == 0;
        self.readings += 1;
        let mut links = HashMap::new();
        for counters in table.lines().filter_map(Counters::parse).take(MAX_INTERFACES) {
            let known = self.links.remove(counters.name);
            let read =
                || sysfs(kernel, pid).map(|sysfs| Link::read(&sysfs, counters.name)).unwrap_or_default();
            let mut link = known.filter(|_| !fresh).unwrap_or_else(read);
            let is_active = known.is_none_or(|known| known.packets != counters.packets());
            link.packets = counters.packets();
            counters.sample(&link, is_active, figures, at);
            links.insert(counters.name.to_owned(), link);
        }
        self.links = links;
    }
}

/// Whether the broker is in this process's network namespace.
pub(super) fn is_same_network(kernel: &Kernel, pid: u32) -> bool {
    let namespace = |process: PathBuf| fs::read_link(process).ok();
    namespace(kernel.of_process(pid, "ns/net")) == namespace(kernel.proc.join("self/ns/net"))
}

/// Finds a sysfs's `class/net` that shows the broker's network.
/// A sysfs shows the network namespace of its mounter, and each namespace has a separate file system
/// (`sysfs_init_fs_context`, fs/sysfs/mount.c): `None` if a broker in another namespace sees this process's sysfs.
pub(super) fn sysfs(kernel: &Kernel, pid: u32) -> Option<PathBuf> {
    if is_same_network(kernel, pid) {
        return Some(kernel.sys.join("class/net"));
    }
    let theirs = kernel.of_process(pid, "root/sys");
    let file_system = |path: &Path| fs::metadata(path).ok().map(|found| found.dev());
    let is_other = file_system(&theirs)? != file_system(&kernel.sys)?;
    is_other.then(|| theirs.join("class/net"))
}

impl Link {
    fn read(sysfs: &Path, name: &str) -> Self {
        // A name from the table is one path component: the kernel does not allow a slash (`dev_valid_name`).
        if name.contains('/') || name.starts_with('.') {
            return Self::default();
        }
        let dir = sysfs.join(name);
        // In megabits; -1 or an error if it is unknown (`speed_show`, net/core/net-sysfs.c).
        let megabits = text::number(&dir.join("speed")).filter(|&speed| speed > 0 && speed < 1 << 31);
        Self {
            mtu_bytes: text::number(&dir.join("mtu")),
            bits_per_second: megabits.map(|speed| speed * 1_000_000),
            packets: 0,
        }
    }
}

impl<'t> Counters<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let (name, counters) = line.split_once(':')?;
        let fields: Vec<u64> =
            counters.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
        Some(Self { name: name.trim(), fields: *fields.first_chunk()? })
    }

    fn field(&self, index: usize) -> Option<u64> {
        self.fields.get(index).copied()
    }

    fn packets(&self) -> u64 {
        let [_, received, _, _, _, _, _, _, _, sent, _, _] = self.fields;
        received.wrapping_add(sent)
    }

    /// Samples the counters, which the next increase needs; drops the samples unless the link `is_active`.
    fn sample(&self, link: &Link, is_active: bool, figures: &mut Figures, at: Nanos) {
        let mut figure = figures.of(HostScope::Interface, self.name);
        figure.sample(&mut |field| {
            let value = match field {
                "mtu" => link.mtu_bytes,
                "speed" => link.bits_per_second,
                column => self.field(column.parse().ok()?),
            };
            Some(Counter { value: value?, at })
        });
        if !is_active {
            figure.withdraw();
        }
    }
}
