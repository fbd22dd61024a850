//! Restricts a thread before it parses untrusted bytes.
//! Takes from it, and from those that it starts, what it does not need: capabilities and the means to gain new ones,
//! files that were not named, the network, and dangerous system calls. A parser that a hostile file takes over then
//! holds nothing.
//!
//! The restrictions are independent: where a kernel lacks one, the others apply, and [`Status`] reports it. Does not
//! know commands: the caller names what is read and written.

#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod capabilities;
#[cfg(target_os = "linux")]
mod files;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Access beyond files that are already open, such as the standard streams.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Files, and directories with everything below them.
    reads: Vec<PathBuf>,
    /// Directories of files that may be replaced under the same name.
    replaced_in: Vec<PathBuf>,
    /// Directories in which everything may change, and devices.
    writes: Vec<PathBuf>,
    everywhere: bool,
    network: bool,
}

impl Access {
    /// Allows reading a file, or everything below a directory.
    #[must_use]
    pub fn read(mut self, path: impl Into<PathBuf>) -> Self {
        self.reads.push(path.into());
        self
    }

    /// Allows reading a file, and later files of the same name.
    #[must_use]
    pub fn read_by_name(mut self, path: &Path) -> Self {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        self.replaced_in.push(directory.unwrap_or(Path::new(".")).to_owned());
        self.read(path)
    }

    /// Allows reading files whose names are not known yet.
    #[must_use]
    pub fn read_everywhere(mut self) -> Self {
        self.everywhere = true;
        self
    }

    /// Allows reading and writing below a directory, or a device.
    #[must_use]
    pub fn write(mut self, path: impl Into<PathBuf>) -> Self {
        self.writes.push(path.into());
        self
    }

    /// Allows opening connections.
    /// Also allows reading the system files that name resolution and TLS need.
    #[must_use]
    pub fn use_network(mut self) -> Self {
        self.network = true;
        self
    }
}

/// Restrictions in force in a sandbox, or why they are not.
#[derive(Clone, Debug)]
pub struct Status {
    /// The capability that reading or writing the files needs, or `none`.
    pub capabilities: String,
    /// The version of landlock's ABI.
    pub landlock: Result<i32, String>,
    /// Whether system calls are refused.
    pub seccomp: Result<(), String>,
}

impl Status {
    /// Describes what the kernel offers.
    pub fn describe_features(&self) -> String {
        let landlock = match &self.landlock {
            Ok(version) => format!("landlock ABI {version}"),
            Err(why) => format!("no landlock ({why})"),
        };
        match &self.seccomp {
            Ok(()) => format!("{landlock}, seccomp"),
            Err(why) => format!("{landlock}, no seccomp ({why})"),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "capabilities {}, {}", self.capabilities, self.describe_features())
    }
}

/// Restricts this thread and those that it starts later.
/// Threads that already run are not restricted.
///
/// # Errors
/// Capabilities cannot be dropped.
#[cfg(target_os = "linux")]
pub fn enter(access: &Access) -> io::Result<Status> {
    // Rules hold descriptors of their files, and opening those takes the capabilities.
    let rules = files::rules(access);
    let capabilities = capabilities::drop(access)?;
    let landlock = rules.and_then(files::restrict);
    let seccomp = calls::refuse(access.network);
    Ok(Status { capabilities, landlock, seccomp })
}

/// Has no effect except on Linux.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn enter(_access: &Access) -> io::Result<Status> {
    let absent = || "only on Linux".to_owned();
    Ok(Status { capabilities: "as before".to_owned(), landlock: Err(absent()), seccomp: Err(absent()) })
}

/// Tests in a separate thread what this kernel offers.
///
/// # Errors
/// Like [`enter`]; also if the thread cannot be started.
pub fn survey() -> io::Result<Status> {
    let probe = std::thread::Builder::new().spawn(|| enter(&Access::default()))?;
    probe.join().unwrap_or_else(|_| Err(io::Error::other("the thread ended")))
}
