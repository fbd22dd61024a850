//! Drops the capabilities that a watch does not need once its hooks are attached.
//! Does not request any, and does not report which were needed to attach: `brokerscope doctor` does.

use rustix::thread::{CapabilitySet, CapabilitySets};

/// Capabilities for attaching to a restarted broker and reading its `/proc`.
const KEPT: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::SYSLOG);

/// Drops all capabilities that the calling thread does not need.
/// Also drops them from threads that it starts, from all sets, and prevents it from gaining new ones. Capabilities
/// belong to a thread: each thread of a watch calls this first, and the main thread once its output is open.
pub fn drop_unneeded_capabilities() -> rustix::io::Result<()> {
    keep_only(KEPT)
}

/// Drops all capabilities of the calling thread and of threads that it starts: for threads that talk to untrusted peers or
/// need none.
pub fn drop_all_capabilities() -> rustix::io::Result<()> {
    keep_only(CapabilitySet::empty())
}

/// Like [`drop_unneeded_capabilities`], for the thread that talks to the JVM.
/// Also keeps the capabilities for becoming the broker's user, which drops even more (`jvm::act_as`).
pub(crate) fn keep_setuid_capabilities() -> rustix::io::Result<()> {
    keep_only(KEPT | CapabilitySet::SETUID | CapabilitySet::SETGID)
}

/// Drops all capabilities but those of a thread that attaches to a JVM.
/// They allow becoming the broker's user in another thread, and reading its topic names.
pub(crate) fn keep_attaching_capabilities() -> rustix::io::Result<()> {
    let to_read = CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH;
    keep_only(to_read | CapabilitySet::SETUID | CapabilitySet::SETGID)
}

/// Drops all capabilities but the one for having the kernel measure BPF programs.
pub(crate) fn keep_measuring_capability() -> rustix::io::Result<()> {
    keep_only(CapabilitySet::SYS_ADMIN)
}

/// Drops all capabilities but those for entering a network namespace.
/// They allow opening a packet socket in the namespace of another process.
pub(crate) fn keep_entering_capabilities() -> rustix::io::Result<()> {
    keep_only(CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_PTRACE | CapabilitySet::NET_RAW)
}

fn keep_only(retained: CapabilitySet) -> rustix::io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    // This needs another capability, and does not matter if no program can gain any.
    for capability in CapabilitySet::all().difference(retained) {
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    // Kernels before 4.3 do not have this set.
    let _ = rustix::thread::clear_ambient_capability_set();
    let now = rustix::thread::capabilities(None)?;
    let left = CapabilitySets {
        effective: now.effective & retained,
        permitted: now.permitted & retained,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, left)
}

#[cfg(test)]
mod tests {
    use super::{KEPT, drop_unneeded_capabilities};
    use rustix::thread::CapabilitySet;

    #[test]
    fn thread_drops_unneeded_capabilities_and_cannot_gain_new_ones() {
        let check = || {
            drop_unneeded_capabilities().unwrap();
            let sets = rustix::thread::capabilities(None).unwrap();
            assert!(KEPT.contains(sets.permitted) && sets.effective == sets.permitted, "{sets:?}");
            assert_eq!(sets.inheritable, CapabilitySet::empty());
            assert!(rustix::thread::no_new_privs().unwrap());
        };
        // In another thread, so that other tests keep their capabilities.
        std::thread::spawn(check).join().unwrap();
    }
}
