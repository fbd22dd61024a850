//! The interfaces of the broker's network namespace: MTU and speed. Does not count what they carry.

use std::path::Path;

use model::{Interface, Known, Pid};

use super::{Kernel, entries, text};
use crate::host::interfaces::sysfs;

/// A host of many containers has an interface for each: those beyond are left out.
const MOST_INTERFACES: usize = 64;

/// Those that are no loopback, by name.
pub(super) fn of(kernel: &Kernel, pid: Pid) -> Known<Vec<Interface>> {
    let dir = sysfs(kernel, pid);
    let mut names = entries(&dir)?;
    names.sort();
    Ok(names.iter().filter_map(|name| interface(&dir.join(name))).take(MOST_INTERFACES).collect())
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
    use super::of;
    use crate::host::fixture::Fixture;

    #[test]
    fn interfaces_of_the_namespace_are_read() {
        let fixture = Fixture::new("links");
        for (name, text) in [
            ("sys/class/net/lo/flags", "0x9\n"),
            ("sys/class/net/lo/mtu", "65536\n"),
            ("sys/class/net/eth0/flags", "0x1003\n"),
            ("sys/class/net/eth0/mtu", "1500\n"),
            ("sys/class/net/eth0/speed", "10000\n"),
            ("sys/class/net/veth1/flags", "0x1003\n"),
            ("sys/class/net/veth1/mtu", "9000\n"),
            ("sys/class/net/veth1/speed", "-1\n"),
            ("sys/class/net/bonding_masters", "\n"),
        ] {
            fixture.file(name, text);
        }
        let found = of(&fixture.kernel(), 7).unwrap();
        let told: Vec<_> =
            found.iter().map(|one| (&*one.name, one.mtu_bytes, one.speed_bits_per_second)).collect();
        assert_eq!(told, [("eth0", 1_500, Some(10_000_000_000)), ("veth1", 9_000, None)]);
    }
}
