//! The interfaces of the broker's network namespace, with MTU and speed.
//! Does not count their traffic.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use model::{Interface, Known, Pid};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::{Kernel, entries, text};
use crate::host::interfaces::{is_same_network, sysfs};
use crate::network;

/// Limit of interfaces: a host with many containers has one for each.
const MAX_INTERFACES: usize = 64;

/// Lists all interfaces except loopback, by name.
pub(super) fn of(kernel: &Kernel, pid: Pid) -> Known<Vec<Interface>> {
    find(kernel, pid, || network::within(pid, mount_sysfs)?)
}

/// Finds the interfaces: those of another namespace through a sysfs mounted in it, or else through the sysfs that the broker
/// sees.
fn find(kernel: &Kernel, pid: Pid, mount: impl FnOnce() -> io::Result<OwnedFd>) -> Known<Vec<Interface>> {
    if is_same_network(kernel, pid) {
        return read_interfaces(&kernel.sys.join("class/net"));
    }
    match (mount(), sysfs(kernel, pid)) {
        (Ok(mount), _) => {
            read_interfaces(&PathBuf::from(format!("/proc/self/fd/{}/class/net", mount.as_fd().as_raw_fd())))
        }
        (Err(_), Some(dir)) => read_interfaces(&dir),
        (Err(error), None) => Err(format!(
            "the broker's network namespace cannot be entered ({error}; run as root or with CAP_SYS_ADMIN), and its \
             sysfs shows another namespace"
        )
        .into()),
    }
}

/// Mounts a sysfs that shows this thread's network namespace.
/// See `sysfs_init_fs_context`, fs/sysfs/mount.c. The mount is not attached to any directory and disappears with the
/// descriptor.
fn mount_sysfs() -> io::Result<OwnedFd> {
    let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY)?)
}

/// Reads the interfaces in a sysfs.
fn read_interfaces(dir: &Path) -> Known<Vec<Interface>> {
    let mut names = entries(dir)?;
    names.sort();
    Ok(names.iter().filter_map(|name| interface(&dir.join(name))).take(MAX_INTERFACES).collect())
}

fn interface(dir: &Path) -> Option<Interface> {
    /// `IFF_LOOPBACK`, include/uapi/linux/if.h.
    const LOOPBACK: u64 = 0x8;
    let flags = text::read(&dir.join("flags"))?;
    let flags = u64::from_str_radix(flags.trim().trim_start_matches("0x"), 16).ok()?;
    if flags & LOOPBACK != 0 {
        return None;
    }
    // In megabits; -1 or an error if it is unknown (`speed_show`, net/core/net-sysfs.c).
    let speed = text::number(&dir.join("speed")).filter(|megabits| *megabits > 0);
    Some(Interface {
        name: dir.file_name()?.to_string_lossy().into(),
        mtu_bytes: text::number(&dir.join("mtu"))?.try_into().ok()?,
        speed_bits_per_second: speed.map(|megabits| megabits.saturating_mul(1_000_000)),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io;
    use std::os::fd::OwnedFd;

    use model::Interface;

    use super::{find, of};
    use crate::host::tests::fixture::Fixture;

    /// A host whose `eth0` carries 1,500 bytes at 10 Gbit/s.
    fn host(test: &str) -> Fixture {
        let fixture = Fixture::new(test);
        for (name, text) in [
            ("sys/class/net/lo/flags", "0x9\n"),
            ("sys/class/net/lo/mtu", "65536\n"),
            ("sys/class/net/eth0/flags", "0x1003\n"),
            ("sys/class/net/eth0/mtu", "1500\n"),
            ("sys/class/net/eth0/speed", "10000\n"),
        ] {
            fixture.file(name, text);
        }
        fixture
    }

    fn fields(found: &[Interface]) -> Vec<(&str, u32, Option<u64>)> {
        found.iter().map(|one| (&*one.name, one.mtu_bytes, one.speed_bits_per_second)).collect()
    }

    #[test]
    fn reads_interfaces_of_the_namespace() {
        let fixture = host("links");
        for (name, text) in [
            ("sys/class/net/veth1/flags", "0x1003\n"),
            ("sys/class/net/veth1/mtu", "9000\n"),
            ("sys/class/net/veth1/speed", "-1\n"),
            ("sys/class/net/bonding_masters", "\n"),
        ] {
            fixture.file(name, text);
        }
        let found = of(&fixture.kernel(), 7).unwrap();
        assert_eq!(fields(&found), [("eth0", 1_500, Some(10_000_000_000)), ("veth1", 9_000, None)]);
    }

    fn no_mount() -> io::Result<OwnedFd> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    #[test]
    fn never_reports_host_interfaces_for_another_namespace() {
        let fixture = host("links-elsewhere");
        fixture.link("proc/self/ns/net", "net:[1]");
        fixture.link("proc/7/ns/net", "net:[2]");
        fixture.link("proc/7/root/sys", "../../../sys");
        let refused = find(&fixture.kernel(), 7, no_mount).unwrap_err();
        assert!(refused.contains("CAP_SYS_ADMIN") && refused.lines().count() == 1, "{refused}");
    }

    #[test]
    fn reads_interfaces_from_a_mounted_sysfs() {
        let fixture = host("links-mounted");
        fixture.link("proc/self/ns/net", "net:[1]");
        fixture.link("proc/7/ns/net", "net:[2]");
        let mount = || Ok(File::open(fixture.path("sys"))?.into());
        let found = find(&fixture.kernel(), 7, mount).unwrap();
        assert_eq!(fields(&found), [("eth0", 1_500, Some(10_000_000_000))]);
    }

    #[test]
    fn falls_back_to_the_brokers_sysfs() {
        let fixture = host("links-own-sysfs");
        fixture.link("proc/self/ns/net", "net:[1]");
        fixture.link("proc/7/ns/net", "net:[2]");
        // Any file system that is not the fixture's, and has no interfaces.
        fixture.link("proc/7/root/sys", "/proc/self");
        let unreadable = find(&fixture.kernel(), 7, no_mount).unwrap_err();
        assert!(unreadable.contains("root/sys/class/net"), "{unreadable}");
    }
}
