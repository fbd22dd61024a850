//! Acting as the user whose process is asked. Credentials are a thread's own on Linux, so only the calling thread
//! changes.

use rustix::process::{getegid, geteuid};
use rustix::thread::{self, CapabilitySet, CapabilitySets};
use rustix::thread::{Gid, Uid};

use crate::{Error, Machine};

/// Makes the calling thread the JVM's own user for whatever it does from now on, with no capability but the one to look
/// into other namespaces' processes (`/proc/PID/root`), and no way back to another.
///
/// A JVM answers those of its own effective user and group (`HotSpot`'s `attachListener_posix.cpp`), and its files are
/// closed to others; and what a thread cannot do, an error in it cannot do either. Real and saved user stay, so that
/// the broker's user may not signal this process.
///
/// # Errors
/// [`Error::NotOwner`] where this process may not.
pub fn act_as(machine: &Machine) -> Result<(), Error> {
    let owner = machine.owner;
    let not_owner = |_| Error::NotOwner { pid: machine.pid, uid: owner.uid };
    if (geteuid().as_raw(), getegid().as_raw()) != (owner.uid, owner.gid) {
        thread::set_thread_groups(&[]).map_err(not_owner)?;
        thread::set_thread_res_gid(None, Gid::from_raw(owner.gid), None).map_err(not_owner)?;
        thread::set_thread_res_uid(None, Uid::from_raw(owner.uid), None).map_err(not_owner)?;
    }
    // Where these fail nothing was gained either.
    let _ = thread::set_no_new_privs(true);
    let _ = keep_only(CapabilitySet::SYS_PTRACE);
    Ok(())
}

/// Whether [`act_as`] will succeed, as far as this thread's rights say.
///
/// # Errors
/// [`Error::NotOwner`] where not.
pub fn may_act_as(machine: &Machine) -> Result<(), Error> {
    let owner = machine.owner;
    let is_owner = (geteuid().as_raw(), getegid().as_raw()) == (owner.uid, owner.gid);
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    let held = thread::capabilities(None).is_ok_and(|held| held.effective.contains(needed));
    if is_owner || held { Ok(()) } else { Err(Error::NotOwner { pid: machine.pid, uid: owner.uid }) }
}

fn keep_only(kept: CapabilitySet) -> rustix::io::Result<()> {
    let permitted = thread::capabilities(None)?.permitted & kept;
    thread::set_capabilities(
        None,
        CapabilitySets { effective: permitted, permitted, inheritable: CapabilitySet::empty() },
    )
}
