//! Takes from a thread, and from those that it starts, what it does not need to parse bytes that others wrote: capabilities
//! and the means to come by new ones, files that nobody named, the network, and dangerous system calls. A parser that a
//! hostile file takes over then holds nothing.
//!
//! Each restriction is by itself: where a kernel lacks one, the others are there, and [`Status`] says so. Does not know
//! commands: the caller says what is read and written.

#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod capabilities;
#[cfg(target_os = "linux")]
mod files;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What is read and written beyond files that are open already, as the standard streams.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Files, and directories with all below them.
    reads: Vec<PathBuf>,
    /// Directories of files that take the place of those read.
    replaced_in: Vec<PathBuf>,
    /// Directories in which everything may change, and devices.
    writes: Vec<PathBuf>,
    everywhere: bool,
    network: bool,
}

impl Access {
    /// Reads a file, or all below a directory.
    #[must_use]
    pub fn read(mut self, path: impl Into<PathBuf>) -> Self {
        self.reads.push(path.into());
        self
    }

    /// Reads a file, and those that take its name later.
    #[must_use]
    pub fn read_by_name(mut self, path: &Path) -> Self {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        self.replaced_in.push(directory.unwrap_or(Path::new(".")).to_owned());
        self.read(path)
    }

    /// Reads files whose names are not known yet.
    #[must_use]
    pub fn read_everywhere(mut self) -> Self {
        self.everywhere = true;
        self
    }

    /// Reads and writes below a directory, or a device.
    #[must_use]
    pub fn write(mut self, path: impl Into<PathBuf>) -> Self {
        self.writes.push(path.into());
        self
    }

    /// Opens connections, and reads what name resolution and TLS need of the system's files.
    #[must_use]
    pub fn use_network(mut self) -> Self {
        self.network = true;
        self
    }
}

/// What holds in a sandbox, or why not.
#[derive(Clone, Debug)]
pub struct Status {
    /// The capability that is left where files cannot be read or written without, or `none`.
    pub capabilities: String,
    /// The version of landlock's interface.
    pub landlock: Result<i32, String>,
    /// System calls are refused.
    pub seccomp: Result<(), String>,
}

impl Status {
    /// What the kernel has for it.
    pub fn offered(&self) -> String {
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
        write!(f, "capabilities {}, {}", self.capabilities, self.offered())
    }
}

/// Restricts this thread and those that it will start; threads that run already are not.
///
/// # Errors
/// Capabilities cannot be given away.
#[cfg(target_os = "linux")]
pub fn enter(access: &Access) -> io::Result<Status> {
    // Rules name files by descriptors, which takes the capabilities to open them.
    let rules = files::rules(access);
    let capabilities = capabilities::drop(access)?;
    let landlock = rules.and_then(files::restrict);
    let seccomp = calls::refuse(access.network);
    Ok(Status { capabilities, landlock, seccomp })
}

/// There is none but on Linux.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn enter(_access: &Access) -> io::Result<Status> {
    let absent = || "only on Linux".to_owned();
    Ok(Status { capabilities: "as before".to_owned(), landlock: Err(absent()), seccomp: Err(absent()) })
}

/// What this kernel offers: tried in a thread for that.
///
/// # Errors
/// As [`enter`], or there is no thread.
pub fn survey() -> io::Result<Status> {
    let tried = std::thread::Builder::new().spawn(|| enter(&Access::default()))?;
    tried.join().unwrap_or_else(|_| Err(io::Error::other("the thread ended")))
}
