//! Loads the agent (`agent/`, in Java) into a JVM. It copies the plaintext of the broker's TLS connections to a ring in
//! memory that both processes have open. Does not read the ring, and does not know what is in it.
//!
//! No file stays: the jar is removed once it is loaded, and the ring's file once both have it open.
//!
//! Fuzzed by: attach.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::fs::{OFlags, fstatfs};

use crate::attach::{Bounds, Client};
use crate::machine::TemporaryFile;
use crate::{Error, Machine};

/// Built from `agent/src` by `agent/build`.
const JAR: &[u8] = include_bytes!("../../../agent/brokerscope-agent.jar");
/// Loading transforms a class, which stops all threads.
const BOUNDS: Bounds = Bounds { bytes: 4 << 10, time: Duration::from_secs(20) };

/// `TMPFS_MAGIC` (`linux/magic.h`).
const TMPFS: u64 = 0x0102_1994;

/// Loads the agent and returns the file that it copies into; `prepare` makes a ring of that file first. The calling
/// thread should be the JVM's user ([`crate::act_as`]); `number` distinguishes the rings of several recorders.
///
/// # Errors
/// The JVM takes no agent, or sees no file system in memory. The ring says whether the agent works.
pub fn load(
    client: &Client,
    number: u32,
    prepare: impl FnOnce(&File) -> io::Result<()>,
) -> Result<File, Error> {
    let machine = client.machine();
    check(machine)?;
    let system = |what| move |source| Error::System { pid: machine.pid, what, source };
    let name = format!(".brokerscope-{number}");
    let made = TemporaryFile::create(machine, "root/dev/shm", &name, OFlags::EXCL | OFlags::RDWR);
    let (ring, file) = made.map_err(system("make a file in /dev/shm"))?;
    if !is_tmpfs(&file).map_err(system("ask for the file system of /dev/shm"))? {
        return Err(Error::NoTmpfs(machine.pid));
    }
    prepare(&file).map_err(system("write into /dev/shm"))?;
    let jar = write_jar(machine).map_err(system("write its agent's jar"))?;
    client.load_agent(&format!("/tmp/{}", jar.name), &format!("/dev/shm/{}", ring.name), BOUNDS)?;
    Ok(file)
}

/// Checks whether a JVM takes an agent, as far as can be seen from outside.
///
/// # Errors
/// The reason why it does not.
pub fn check(machine: &Machine) -> Result<(), Error> {
    machine.check_takes_agents()?;
    let directory = foreign::open_directory(&machine.path("root/dev/shm"));
    let has_memory = directory.is_ok_and(|directory| is_tmpfs(&directory).unwrap_or(false));
    if has_memory { Ok(()) } else { Err(Error::NoTmpfs(machine.pid)) }
}

#[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "the type differs between architectures")]
fn is_tmpfs(of: impl AsFd) -> io::Result<bool> {
    Ok(fstatfs(of)?.f_type as u64 == TMPFS)
}

fn write_jar(machine: &Machine) -> io::Result<TemporaryFile> {
    let (guard, mut file) = TemporaryFile::create(machine, "root/tmp", &jar_name(), OFlags::EXCL)?;
    file.write_all(JAR)?;
    Ok(guard)
}

/// The jar's name.
/// It is the same for each start, because the JVM does not add a known path to its class path again; another version
/// has another name, because the JVM would not find its classes in a jar that it knows already.
fn jar_name() -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(JAR);
    format!(".brokerscope-agent-{:016x}.jar", hasher.finish())
}
