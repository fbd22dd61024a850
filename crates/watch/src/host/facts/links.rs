//! The interfaces of the broker's network namespace: MTU and speed. Does not count what they carry.

use std::io;
use std::path::Path;

use model::{Interface, Known, Pid};

use super::{Kernel, entries, netlink, text};
use crate::host::interfaces::{is_same_network, sysfs};

/// A host of many containers has an interface for each: those beyond are left out.
pub(super) const MOST_INTERFACES: usize = 64;

/// Those that are no loopback, by name.
pub(super) fn of(kernel: &Kernel, pid: Pid) -> Known<Vec<Interface>> {
    asking(kernel, pid, || netlink::interfaces(pid))
}

/// Another namespace is asked itself, where it may be entered. Its sysfs, where it has one, knows speeds, and else must do.
fn asking(
    kernel: &Kernel,
    pid: Pid,
    ask: impl FnOnce() -> io::Result<Vec<Interface>>,
) -> Known<Vec<Interface>> {
    if is_same_network(kernel, pid) {
        return shown(&kernel.sys.join("class/net"));
    }
    match (ask(), sysfs(kernel, pid)) {
        (Ok(asked), Some(dir)) => Ok(with_speeds(asked, &shown(&dir).unwrap_or_default())),
        (Ok(asked), None) => Ok(asked),
        (Err(_), Some(dir)) => shown(&dir),
        (Err(error), None) => Err(format!(
            "the broker runs in a network namespace that cannot be asked ({error}; it takes CAP_SYS_ADMIN), and the sysfs that it \
             sees shows another's"
        )
        .into()),
    }
}

/// What a sysfs shows.
fn shown(dir: &Path) -> Known<Vec<Interface>> {
    let mut names = entries(dir)?;
    names.sort();
    Ok(names.iter().filter_map(|name| interface(&dir.join(name))).take(MOST_INTERFACES).collect())
}

/// Speeds of those that are shown alike.
fn with_speeds(mut asked: Vec<Interface>, shown: &[Interface]) -> Vec<Interface> {
    for one in &mut asked {
        let alike = shown.iter().find(|other| other.name == one.name && other.mtu_bytes == one.mtu_bytes);
        one.speed_bits_per_second = alike.and_then(|other| other.speed_bits_per_second);
    }
    asked
}

fn interface(dir: &Path) -> Option<Interface> {
    /// `IFF_LOOPBACK`, include/uapi/linux/if.h.
    const LOOPBACK: u64 = 0x8;
    let flags = text::read(&dir.join("flags"))?;
    let flags = u64::from_str_radix(flags.trim().trim_start_matches("0x"), 16).ok()?;
    if flags & LOOPBACK != 0 {
        return None;
    }
    // In megabits; -1 or an error where there is none (`speed_show`, net/core/net-sysfs.c).
    let speed = text::number(&dir.join("speed")).filter(|megabits| *megabits > 0);
    Some(Interface {
        name: dir.file_name()?.to_string_lossy().into(),
        mtu_bytes: text::number(&dir.join("mtu"))?.try_into().ok()?,
        speed_bits_per_second: speed.map(|megabits| megabits.saturating_mul(1_000_000)),
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use model::Interface;

    use super::{asking, of};
    use crate::host::fixture::Fixture;

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

    fn told(found: &[Interface]) -> Vec<(&str, u32, Option<u64>)> {
        found.iter().map(|one| (&*one.name, one.mtu_bytes, one.speed_bits_per_second)).collect()
    }

    fn asked(mtu_bytes: u32) -> Vec<Interface> {
        vec![Interface { name: "eth0".into(), mtu_bytes, speed_bits_per_second: None }]
    }

    #[test]
    fn interfaces_of_the_namespace_are_read() {
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
        assert_eq!(told(&found), [("eth0", 1_500, Some(10_000_000_000)), ("veth1", 9_000, None)]);
    }

    /// Its `eth0` is another than this host's: the files that both see are this host's.
    #[test]
    fn another_namespace_is_asked_itself_and_never_taken_for_the_host_s() {
        let fixture = host("links-elsewhere");
        fixture.link("proc/self/ns/net", "net:[1]");
        fixture.link("proc/7/ns/net", "net:[2]");
        fixture.link("proc/7/root/sys", "../../../sys");
        let kernel = fixture.kernel();
        let found = asking(&kernel, 7, || Ok(asked(1_400))).unwrap();
        assert_eq!(told(&found), [("eth0", 1_400, None)]);
        let refused = asking(&kernel, 7, || Err(io::ErrorKind::PermissionDenied.into())).unwrap_err();
        assert!(refused.contains("CAP_SYS_ADMIN") && refused.lines().count() == 1, "{refused}");
    }

    #[test]
    fn a_sysfs_of_its_own_tells_speeds_and_stands_in_for_the_namespace() {
        let fixture = host("links-own-sysfs");
        fixture.link("proc/self/ns/net", "net:[1]");
        fixture.link("proc/7/ns/net", "net:[2]");
        // Another file system than the fixture's, with nothing below it: any will do.
        fixture.link("proc/7/root/sys", "/proc/self");
        let kernel = fixture.kernel();
        let found = asking(&kernel, 7, || Ok(asked(1_400))).unwrap();
        assert_eq!(told(&found), [("eth0", 1_400, None)]);
        let unreadable = asking(&kernel, 7, || Err(io::ErrorKind::PermissionDenied.into())).unwrap_err();
        assert!(unreadable.contains("root/sys/class/net"), "{unreadable}");
        let shown =
            |mtu_bytes| vec![Interface { speed_bits_per_second: Some(25), ..asked(mtu_bytes).remove(0) }];
        assert_eq!(told(&super::with_speeds(asked(1_400), &shown(1_400))), [("eth0", 1_400, Some(25))]);
        assert_eq!(told(&super::with_speeds(asked(1_400), &shown(9_000))), [("eth0", 1_400, None)]);
    }
}
