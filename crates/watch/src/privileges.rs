//! Gives away the capabilities that a watch does not need once its hooks are attached. Asks for none, and does not
//! say which were needed to attach: `brokerscope doctor` does.

use rustix::thread::{CapabilitySet, CapabilitySets};

/// What attaching to the process that takes a restarted broker's place takes, and reading about it in `/proc`.
const KEPT: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::SYSLOG);

/// Gives away all other capabilities of the calling thread and of those it will start, from all sets, and the means
/// to come by new ones. Capabilities are a thread's own: a watch's threads each call it first of all, and the main
/// thread once its output is there.
pub fn drop_unneeded_capabilities() -> rustix::io::Result<()> {
    keep_only(KEPT)
}

/// Gives away all capabilities of the calling thread and of those it will start: for one that talks with strangers, or that
/// needs none.
pub fn drop_all_capabilities() -> rustix::io::Result<()> {
    keep_only(CapabilitySet::empty())
}

/// As [`drop_unneeded_capabilities`], but for becoming the broker's user, which gives away even more (`jvm::act_as`): for the
/// thread that asks the JVM.
pub(crate) fn keep_setuid_capabilities() -> rustix::io::Result<()> {
    keep_only(KEPT | CapabilitySet::SETUID | CapabilitySet::SETGID)
}

/// Gives away all but what it takes to become the broker's user in another thread, and to read the names of its topics.
pub(crate) fn keep_attaching_capabilities() -> rustix::io::Result<()> {
    let to_read = CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH;
    keep_only(to_read | CapabilitySet::SETUID | CapabilitySet::SETGID)
}

/// Gives away all but what it takes to have the kernel measure BPF programs.
pub(crate) fn keep_measuring_capability() -> rustix::io::Result<()> {
    keep_only(CapabilitySet::SYS_ADMIN)
}

/// Gives away all but what it takes to open a packet socket in another process's network namespace.
pub(crate) fn keep_entering_capabilities() -> rustix::io::Result<()> {
    keep_only(CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_PTRACE | CapabilitySet::NET_RAW)
}

fn keep_only(kept: CapabilitySet) -> rustix::io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    // Needs another capability, and matters no more where no program can gain any.
    for capability in CapabilitySet::all().difference(kept) {
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    // Kernels before 4.3 have no such set.
    let _ = rustix::thread::clear_ambient_capability_set();
    let now = rustix::thread::capabilities(None)?;
    let left = CapabilitySets {
        effective: now.effective & kept,
        permitted: now.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, left)
}

#[cfg(test)]
mod tests {
    use super::{KEPT, drop_unneeded_capabilities};
    use rustix::thread::CapabilitySet;

    #[test]
    fn a_thread_keeps_what_it_needs_and_cannot_gain_more() {
        let check = || {
            drop_unneeded_capabilities().unwrap();
            let sets = rustix::thread::capabilities(None).unwrap();
            assert!(KEPT.contains(sets.permitted) && sets.effective == sets.permitted, "{sets:?}");
            assert_eq!(sets.inheritable, CapabilitySet::empty());
            assert!(rustix::thread::no_new_privs().unwrap());
        };
        // In another thread: the other tests keep theirs.
        std::thread::spawn(check).join().unwrap();
    }
}
