//! A process's JVM as `/proc` shows it: which one it is, whose it is, and whether it may be asked anything. Sends it
//! nothing. Not fuzzed: the kernel writes it, and of a command line only one option is looked for.

#![allow(clippy::disallowed_methods, reason = "/proc")]

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use model::Pid;
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::process::{getegid, geteuid};
use rustix::thread::{self, CapabilitySet, CapabilitySets, Gid, Uid};

use crate::Error;

/// Limit of a command line: class paths may be long.
const MAX_ARGUMENT_BYTES: u64 = 4 << 20;
/// Limit of the memory map: a broker maps two files a segment, with a line for each.
const MAX_MAP_BYTES: u64 = 64 << 20;
/// Limit of `/proc/PID/status`.
const MAX_STATUS_BYTES: u64 = 64 << 10;
/// The signal that makes `HotSpot` listen. It kills a process that does not handle it (`signal(7)`).
const SIGQUIT: u32 = 3;

/// The JVM of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The process.
    pub pid: Pid,
    /// Its id in its own pid namespace, which is the one that the JVM knows.
    pub own_pid: Pid,
    /// Its effective user and group.
    pub owner: Owner,
    /// The kind of JVM.
    pub kind: Kind,
    /// Whether it handles SIGQUIT; otherwise the signal would kill it.
    pub catches_sigquit: bool,
    /// Whether its command line or environment has `-XX:+DisableAttachMechanism`.
    pub attach_disabled: bool,
    /// Whether it has `-XX:-EnableDynamicAgentLoading`.
    pub agents_disabled: bool,
    dir: PathBuf,
}

/// The owner of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
}

/// The kinds of JVMs that are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `OpenJDK`'s, of any vendor.
    HotSpot,
    /// Eclipse's, IBM's.
    OpenJ9,
    /// No known JVM.
    None,
}

impl Kind {
    /// Its common name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HotSpot => "HotSpot",
            Self::OpenJ9 => "OpenJ9",
            Self::None => "no JVM",
        }
    }
}

impl Machine {
    /// The JVM of a process of this machine.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if there is no such process, or it is another user's.
    pub fn of(pid: Pid) -> Result<Self, Error> {
        Self::at(Path::new("/proc"), pid)
    }

    /// Like [`Machine::of`], with the caller's `/proc`.
    ///
    /// # Errors
    /// As [`Machine::of`].
    pub fn at(proc: &Path, pid: Pid) -> Result<Self, Error> {
        let dir = proc.join(pid.to_string());
        let read = |name: &str, most| {
            let path = dir.join(name);
            read_bounded(&path, most).map_err(|source| Error::Unreadable { pid, path, source })
        };
        let status =
            Status::parse(&String::from_utf8_lossy(&read("status", MAX_STATUS_BYTES)?)).ok_or_else(|| {
                Error::Unreadable { pid, path: dir.join("status"), source: io::ErrorKind::InvalidData.into() }
            })?;
        let arguments = read("cmdline", MAX_ARGUMENT_BYTES)?;
        // Another user's environment is not readable: then the command line must do.
        let environment = read("environ", MAX_ARGUMENT_BYTES).unwrap_or_default();
        Ok(Self {
            pid,
            own_pid: status.own_pid,
            owner: status.owner,
            kind: kind(&dir.join("maps")).map_err(|source| Error::Unreadable {
                pid,
                path: dir.join("maps"),
                source,
            })?,
            catches_sigquit: status.caught & (1 << (SIGQUIT - 1)) != 0,
            attach_disabled: flag(&environment, &arguments, b"DisableAttachMechanism") == Some(true),
            agents_disabled: flag(&environment, &arguments, b"EnableDynamicAgentLoading") == Some(false),
            dir,
        })
    }

    /// Checks whether the JVM can be attached to.
    ///
    /// # Errors
    /// [`Error::NoJvm`], [`Error::OpenJ9`], [`Error::Disabled`].
    pub fn check_attachable(&self) -> Result<(), Error> {
        let pid = self.pid;
        match self.kind {
            Kind::None => Err(Error::NoJvm(pid)),
            Kind::OpenJ9 => Err(Error::OpenJ9(pid)),
            Kind::HotSpot if self.attach_disabled => Err(Error::Disabled(pid)),
            Kind::HotSpot => Ok(()),
        }
    }

    /// Checks whether an agent can be loaded into the JVM.
    ///
    /// # Errors
    /// As [`Machine::check_attachable`], or [`Error::AgentsDisabled`].
    pub fn check_takes_agents(&self) -> Result<(), Error> {
        self.check_attachable()?;
        if self.agents_disabled { Err(Error::AgentsDisabled(self.pid)) } else { Ok(()) }
    }

    /// A file or link of the process.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The same process, read again.
    pub(crate) fn again(&self) -> Result<Self, Error> {
        Self::at(self.dir.parent().unwrap_or(Path::new("/proc")), self.pid)
    }
}

/// A file where the JVM can read it. Removed when dropped, even if the process has ended meanwhile.
pub(crate) struct TemporaryFile {
    directory: OwnedFd,
    pub(crate) name: String,
}

impl TemporaryFile {
    /// Creates it in one of the process's directories.
    /// With `EXCL` the file is new: an existing one is removed first.
    pub(crate) fn create(
        machine: &Machine,
        place: &str,
        name: &str,
        flags: OFlags,
    ) -> io::Result<(Self, File)> {
        let directory = foreign::open_directory(&machine.path(place))?;
        if flags.contains(OFlags::EXCL) {
            let _ = unlinkat(&directory, name, AtFlags::empty());
        }
        // Opening a pipe of that name would wait for a reader.
        let never = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let access = if flags.contains(OFlags::RDWR) { OFlags::empty() } else { OFlags::WRONLY };
        let flags = flags | OFlags::CREATE | access | never;
        let file = openat(&directory, name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok((Self { directory, name: name.to_owned() }, File::from(file)))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = unlinkat(&self.directory, self.name.as_str(), AtFlags::empty());
    }
}

/// Fields of `/proc/PID/status` (`proc_pid_status(5)`).
struct Status {
    owner: Owner,
    own_pid: Pid,
    caught: u64,
}

impl Status {
    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(str::split_whitespace)
        };
        // Real, effective, saved, of the file system.
        let effective = |name: &str| field(name)?.nth(1)?.parse().ok();
        Some(Self {
            owner: Owner { uid: effective("Uid")?, gid: effective("Gid")? },
            // From the outermost namespace inwards; kernels without pid namespaces do not have this field.
            own_pid: field("NSpid").or_else(|| field("Pid"))?.next_back()?.parse().ok()?,
            caught: u64::from_str_radix(field("SigCgt")?.next()?, 16).ok()?,
        })
    }
}

/// The kind of JVM, by its mapped libraries.
/// `OpenJ9` has a `libjvm.so` too, besides its own library.
fn kind(maps: &Path) -> io::Result<Kind> {
    let mut lines = BufReader::new(File::open(maps)?.take(MAX_MAP_BYTES));
    let mut line = Vec::new();
    let mut kind = Kind::None;
    while lines.read_until(b'\n', &mut line)? > 0 {
        let path = line.trim_ascii_end();
        let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        if file.starts_with(b"libj9vm") {
            return Ok(Kind::OpenJ9);
        }
        if file == b"libjvm.so" {
            kind = Kind::HotSpot;
        }
        line.clear();
    }
    Ok(kind)
}

/// Whether a flag is on or off, if it is set.
/// The last one counts, and the command line comes after `JAVA_TOOL_OPTIONS` and `JDK_JAVA_OPTIONS`.
fn flag(environment: &[u8], arguments: &[u8], name: &[u8]) -> Option<bool> {
    let options = environment.split(|byte| *byte == 0).filter(|variable| {
        [&b"JAVA_TOOL_OPTIONS="[..], b"JDK_JAVA_OPTIONS="].iter().any(|name| variable.starts_with(name))
    });
    let words = options.flat_map(|options| options.split(|byte| matches!(byte, b' ' | b'=')));
    let words = words.chain(arguments.split(|byte| *byte == 0));
    let value = |word: &[u8]| {
        let (sign, rest) = word.strip_prefix(b"-XX:")?.split_first()?;
        (rest == name && matches!(sign, b'+' | b'-')).then_some(*sign == b'+')
    };
    words.filter_map(value).next_back()
}

fn read_bounded(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The threads of a process, each with its id in its own pid namespace.
/// Threads that end meanwhile are left out.
pub(crate) fn own_tids(dir: &Path) -> Vec<(model::Tid, model::Tid)> {
    let tasks = fs::read_dir(dir.join("task")).into_iter().flatten().flatten();
    let both = |task: fs::DirEntry| {
        let tid = task.file_name().to_str()?.parse().ok()?;
        let status = read_bounded(&task.path().join("status"), MAX_STATUS_BYTES).ok()?;
        Some((tid, Status::parse(&String::from_utf8_lossy(&status))?.own_pid))
    };
    tasks.filter_map(both).collect()
}

// Acts as the owner of the process. On Linux, credentials belong to a thread, so only the calling thread changes.

/// Makes the calling thread the JVM's user from now on. It has no capability except the one to inspect processes in
/// other namespaces (`/proc/PID/root`), and no way to change the user again.
///
/// A JVM answers only the same effective user and group (`HotSpot`'s `attachListener_posix.cpp`), and its files are
/// closed to others; and what a thread is not allowed to do, a bug in it cannot do either. The real and saved user
/// stay, so that the broker's user may not signal this process.
///
/// # Errors
/// [`Error::NotOwner`] if this process is not allowed to.
pub fn act_as(machine: &Machine) -> Result<(), Error> {
    let owner = machine.owner;
    let not_owner = |_| Error::NotOwner { pid: machine.pid, uid: owner.uid };
    if (geteuid().as_raw(), getegid().as_raw()) != (owner.uid, owner.gid) {
        thread::set_thread_groups(&[]).map_err(not_owner)?;
        thread::set_thread_res_gid(None, Gid::from_raw(owner.gid), None).map_err(not_owner)?;
        thread::set_thread_res_uid(None, Uid::from_raw(owner.uid), None).map_err(not_owner)?;
    }
    // If these fail, nothing is lost.
    let _ = thread::set_no_new_privs(true);
    let _ = keep_only(CapabilitySet::SYS_PTRACE);
    Ok(())
}

/// Checks whether [`act_as`] will succeed, by this thread's rights.
///
/// # Errors
/// [`Error::NotOwner`] if it will not.
pub fn may_act_as(machine: &Machine) -> Result<(), Error> {
    let owner = machine.owner;
    let is_owner = (geteuid().as_raw(), getegid().as_raw()) == (owner.uid, owner.gid);
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    let held = thread::capabilities(None).is_ok_and(|held| held.effective.contains(needed));
    if is_owner || held { Ok(()) } else { Err(Error::NotOwner { pid: machine.pid, uid: owner.uid }) }
}

fn keep_only(capabilities: CapabilitySet) -> rustix::io::Result<()> {
    let permitted = thread::capabilities(None)?.permitted & capabilities;
    thread::set_capabilities(
        None,
        CapabilitySets { effective: permitted, permitted, inheritable: CapabilitySet::empty() },
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{Kind, Machine, Owner, flag};
    use crate::Error;

    const STATUS: &str = "Name:\tjava\nUmask:\t0022\nPid:\t4711\nUid:\t0\t1001\t1001\t1001\nGid:\t0\t1002\t1002\t1002\n\
        NSpid:\t4711\t33\t7\nSigIgn:\t0000000000000000\nSigCgt:\t0000000181005ccf\n";
    const HOTSPOT: &str = "7f0000000000-7f0000001000 r-xp 00000000 08:01 1 /opt/a dir/lib/server/libjvm.so\n";

    fn machine(status: &str, maps: &str, arguments: &str) -> Result<Machine, Error> {
        let proc = tempfile::tempdir().unwrap();
        let dir = proc.path().join("4711");
        fs::create_dir(&dir).unwrap();
        for (name, text) in [("status", status), ("maps", maps), ("cmdline", arguments)] {
            fs::write(dir.join(name), text).unwrap();
        }
        Machine::at(proc.path(), 4711)
    }

    #[test]
    fn reads_a_jvm_from_proc() {
        let read = machine(STATUS, HOTSPOT, "java\0kafka.Kafka\0").unwrap();
        assert_eq!((read.own_pid, read.owner, read.kind), (7, Owner { uid: 1001, gid: 1002 }, Kind::HotSpot));
        assert!(read.catches_sigquit && !read.attach_disabled);
        assert!(read.check_attachable().is_ok() && read.check_takes_agents().is_ok());
    }

    #[test]
    fn bit_two_of_sigcgt_means_that_the_jvm_catches_sigquit() {
        for (mask, catches) in
            [("0000000181005ccf", true), ("4", true), ("0000000181005ccb", false), ("0", false)]
        {
            let status = STATUS.replace("0000000181005ccf", mask);
            assert_eq!(machine(&status, HOTSPOT, "").unwrap().catches_sigquit, catches, "{mask}");
        }
        for status in ["", "Pid:\t1\n", &STATUS.replace("SigCgt", "Sig"), &STATUS.replace("5ccf", "xyz")] {
            assert!(matches!(machine(status, HOTSPOT, ""), Err(Error::Unreadable { .. })), "{status}");
        }
    }

    #[test]
    fn refuses_unattachable_processes_with_a_one_line_reason() {
        let open_j9 = format!("{HOTSPOT}7f00-7f01 r-xp 0 08:01 2 /opt/j9/lib/default/libj9vm29.so\n");
        for (maps, arguments, expected) in [
            (open_j9.as_str(), "java\0", "OpenJ9"),
            ("7f00-7f01 r-xp 0 08:01 2 /usr/bin/python3\n", "", "is not a HotSpot"),
            (HOTSPOT, "java\0-XX:+DisableAttachMechanism\0", "-XX:+DisableAttachMechanism"),
        ] {
            let message =
                machine(STATUS, maps, arguments).unwrap().check_attachable().unwrap_err().to_string();
            assert!(message.contains(expected) && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn jvm_without_dynamic_agents_is_attachable() {
        let read = machine(STATUS, HOTSPOT, "java\0-XX:-EnableDynamicAgentLoading\0").unwrap();
        assert!(read.check_attachable().is_ok());
        let message = read.check_takes_agents().unwrap_err().to_string();
        assert!(message.contains("-XX:-EnableDynamicAgentLoading"), "{message}");
        let read = machine(STATUS, HOTSPOT, "java\0-XX:+EnableDynamicAgentLoading\0").unwrap();
        assert!(read.check_takes_agents().is_ok());
    }

    #[test]
    fn last_flag_wins_and_command_line_overrides_environment() {
        const ON: &str = "-XX:+DisableAttachMechanism";
        const OFF: &str = "-XX:-DisableAttachMechanism";
        let tool = |flag: &str| format!("A=b\0JAVA_TOOL_OPTIONS={flag} -Xmx1g\0");
        for (environment, arguments, expected) in [
            (String::new(), String::new(), false),
            (String::new(), format!("java\0{ON}\0"), true),
            (String::new(), format!("java\0{ON}\0{OFF}\0"), false),
            (tool(ON), "java\0".to_owned(), true),
            (tool(ON), format!("java\0{OFF}\0"), false),
            (format!("OTHER={ON}\0"), "java\0".to_owned(), false),
        ] {
            let on = flag(environment.as_bytes(), arguments.as_bytes(), b"DisableAttachMechanism");
            assert_eq!(on.unwrap_or(false), expected, "{environment} {arguments}");
            assert_eq!(flag(environment.as_bytes(), arguments.as_bytes(), b"Enable"), None);
        }
    }

    #[test]
    fn test_process_is_not_a_jvm() {
        let read = Machine::of(std::process::id()).unwrap();
        assert_eq!((read.kind, read.own_pid), (Kind::None, std::process::id()));
        assert!(!read.catches_sigquit);
        assert!(Machine::at(Path::new("/nowhere"), 1).is_err());
    }
}
