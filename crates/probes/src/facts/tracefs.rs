//! Reads the tracepoints' formats: from a mounted tracefs, else from a private mount that no other process
//! sees and that ends with the survey. The host's mounts stay as they are.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::{Format, needed_tracepoints};

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// How tracefs could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tracefs {
    /// It is mounted there.
    Mounted(PathBuf),
    /// It is not mounted where this process can read it; a private mount served.
    Private,
    /// It cannot be read; why.
    Missing(String),
}

/// Where tracefs is, and the tracepoints of interest that exist.
pub(super) fn survey() -> (Tracefs, BTreeMap<String, Format>) {
    if let Some(place) =
        PLACES.into_iter().map(Path::new).find(|place| fs::read_dir(place.join("events")).is_ok())
    {
        return (Tracefs::Mounted(place.to_owned()), read_formats(place));
    }
    match mount_privately() {
        Ok(mount) => {
            let place = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
            (Tracefs::Private, read_formats(&place))
        }
        Err(error) => (
            Tracefs::Missing(format!(
                "not mounted where this user may read it, and a private mount failed: {error}"
            )),
            BTreeMap::new(),
        ),
    }
}

fn read_formats(tracefs: &Path) -> BTreeMap<String, Format> {
    let formats = needed_tracepoints().filter_map(|name| {
        let text = fs::read_to_string(tracefs.join("events").join(name).join("format")).ok()?;
        Some((name.to_owned(), Format::parse(&text)?))
    });
    formats.collect()
}

/// include/uapi/linux/mount.h
const FSOPEN_CLOEXEC: libc::c_long = 1;
const FSCONFIG_CMD_CREATE: libc::c_long = 6;
const FSMOUNT_CLOEXEC: libc::c_long = 1;

/// A detached mount (Linux 5.2): it is in no directory and goes away with the file descriptor.
fn mount_privately() -> io::Result<OwnedFd> {
    let nothing = std::ptr::null::<libc::c_char>();
    // SAFETY: fsopen reads a NUL-terminated string that outlives the call.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), FSOPEN_CLOEXEC) })?;
    // SAFETY: this command of fsconfig takes neither key nor value.
    checked(unsafe {
        libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, nothing, nothing, 0)
    })?;
    // SAFETY: fsmount takes numbers only.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, 0) })
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = checked(result)?;
    // SAFETY: the kernel has just returned this descriptor and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
