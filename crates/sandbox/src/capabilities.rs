//! Drops capabilities. Root without any reads what its user may read; another user's private file needs one.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::Access;

/// Maximum number of files to test.
const MAX_FILES: usize = 10_000;

/// Drops all but the capability that reading or writing these files needs; returns its name.
pub(crate) fn drop(access: &Access) -> io::Result<String> {
    rustix::thread::set_no_new_privs(true)?;
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    // Sets the saved ids too, so that the process cannot switch back.
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)?;
    // Fails without CAP_SETPCAP, which does not matter: with no_new_privs no program can gain a capability.
    for capability in CapabilitySet::all() {
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    // Kernels before 4.3 have no ambient set.
    let _ = rustix::thread::clear_ambient_capability_set();
    let held = rustix::thread::capabilities(None)?.permitted;
    // Tests access without any capability.
    set(held, CapabilitySet::empty())?;
    let retained = needed(access, held);
    set(retained, retained)?;
    Ok(name(retained).to_owned())
}

/// Returns the needed ones of the held capabilities. The one that permits writes permits reads too.
fn needed(access: &Access, held: CapabilitySet) -> CapabilitySet {
    if access.writes.iter().any(|path| is_of_another(path)) {
        return held & CapabilitySet::DAC_OVERRIDE;
    }
    // Docker grants containers only the second one.
    let readers = [CapabilitySet::DAC_READ_SEARCH, CapabilitySet::DAC_OVERRIDE];
    let reader = readers.into_iter().find(|one| held.contains(*one));
    let is_needed = |_: &CapabilitySet| access.everywhere || is_any_refused(access);
    reader.filter(is_needed).unwrap_or(CapabilitySet::empty())
}

fn set(permitted: CapabilitySet, effective: CapabilitySet) -> io::Result<()> {
    let sets = CapabilitySets { effective, permitted, inheritable: CapabilitySet::empty() };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

fn name(capability: CapabilitySet) -> &'static str {
    match capability {
        CapabilitySet::DAC_READ_SEARCH => "CAP_DAC_READ_SEARCH",
        CapabilitySet::DAC_OVERRIDE => "CAP_DAC_OVERRIDE",
        _ => "none",
    }
}

fn is_any_refused(access: &Access) -> bool {
    let mut left = MAX_FILES;
    access.reads.iter().any(|path| is_refused(path, fs::metadata(path), &mut left))
}

/// Whether a file, or one below a directory, cannot be read. Assumes so if there are too many to test.
fn is_refused(path: &Path, found: io::Result<Metadata>, left: &mut usize) -> bool {
    *left = left.saturating_sub(1);
    match found {
        _ if *left == 0 => true,
        Ok(found) if found.is_dir() => match fs::read_dir(path) {
            // Links inside lead to files that were not named.
            Ok(entries) => entries.flatten().any(|entry| is_refused(&entry.path(), entry.metadata(), left)),
            Err(error) => error.kind() == ErrorKind::PermissionDenied,
        },
        Ok(found) if found.is_file() => {
            File::open(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
        }
        // Opening a pipe may affect its writer.
        Ok(found) => found.uid() != own_user() && !found.is_symlink(),
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
}

fn is_of_another(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) => found.is_dir() && found.uid() != own_user(),
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}
