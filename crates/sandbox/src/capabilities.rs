//! Gives away capabilities. Root without any reads what its user may read; a file of another user that nobody else may read
//! takes one.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::Access;

/// Files that are tried at most, of all that are read.
const MAX_FILES: usize = 10_000;

/// Gives away all but the one that reading or writing these files takes; its name.
pub(crate) fn drop(access: &Access) -> io::Result<String> {
    rustix::thread::set_no_new_privs(true)?;
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    // Who acts as another user cannot be the one before again.
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)?;
    // Takes another capability, and matters no more where no program can gain any.
    for capability in CapabilitySet::all() {
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    // Kernels before 4.3 have no such set.
    let _ = rustix::thread::clear_ambient_capability_set();
    let held = rustix::thread::capabilities(None)?.permitted;
    // Tried as one who has none.
    set(held, CapabilitySet::empty())?;
    let kept = needed(access, held);
    set(kept, kept)?;
    Ok(name(kept).to_owned())
}

/// Which of those that are held it takes. Who may write where others may not reads there too.
fn needed(access: &Access, held: CapabilitySet) -> CapabilitySet {
    if access.writes.iter().any(|path| is_of_another(path)) {
        return held & CapabilitySet::DAC_OVERRIDE;
    }
    // Docker gives containers the other one only.
    let readers = [CapabilitySet::DAC_READ_SEARCH, CapabilitySet::DAC_OVERRIDE];
    let reader = readers.into_iter().find(|one| held.contains(*one));
    let is_needed = |_: &CapabilitySet| access.everywhere || is_any_refused(access);
    reader.filter(is_needed).unwrap_or(CapabilitySet::empty())
}

fn set(permitted: CapabilitySet, effective: CapabilitySet) -> io::Result<()> {
    let sets = CapabilitySets { effective, permitted, inheritable: CapabilitySet::empty() };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

fn name(kept: CapabilitySet) -> &'static str {
    match kept {
        CapabilitySet::DAC_READ_SEARCH => "CAP_DAC_READ_SEARCH",
        CapabilitySet::DAC_OVERRIDE => "CAP_DAC_OVERRIDE",
        _ => "none",
    }
}

fn is_any_refused(access: &Access) -> bool {
    let mut left = MAX_FILES;
    access.reads.iter().any(|path| is_refused(path, fs::metadata(path), &mut left))
}

/// Whether a file, or one below a directory, cannot be read. Where there are too many to try, one may be.
fn is_refused(path: &Path, found: io::Result<Metadata>, left: &mut usize) -> bool {
    *left = left.saturating_sub(1);
    match found {
        _ if *left == 0 => true,
        Ok(found) if found.is_dir() => match fs::read_dir(path) {
            // Links within lead to files that were not named.
            Ok(entries) => entries.flatten().any(|entry| is_refused(&entry.path(), entry.metadata(), left)),
            Err(error) => error.kind() == ErrorKind::PermissionDenied,
        },
        Ok(found) if found.is_file() => {
            File::open(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
        }
        // To open a pipe may mean something to its writer.
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
