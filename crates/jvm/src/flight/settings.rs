//! What a recording is to hold, in a file that the JVM reads when it starts one: written where it can, and gone when
//! dropped. Does not start it.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, unlinkat};

use crate::{Error, Machine};

/// Waits for locks with their stacks, from a millisecond on, and every stop of the threads. An event that is not named
/// is off.
const EVENTS: &[(&str, &str)] = &[
    ("jdk.JavaMonitorEnter", "1 ms"),
    ("jdk.ThreadPark", "1 ms"),
    ("jdk.GarbageCollection", "0 ms"),
    ("jdk.GCPhasePause", "0 ms"),
    ("jdk.SafepointBegin", "0 ms"),
    ("jdk.SafepointEnd", "0 ms"),
    ("jdk.SafepointStateSynchronization", "0 ms"),
    ("jdk.ExecuteVMOperation", "0 ms"),
];
const WITH_STACK: [&str; 2] = ["jdk.JavaMonitorEnter", "jdk.ThreadPark"];

/// The file.
pub(super) struct Settings {
    directory: OwnedFd,
    name: String,
}

impl Settings {
    /// Writes it into the JVM's `/tmp`.
    pub(super) fn write(machine: &Machine, recorder: u32) -> Result<Self, Error> {
        let written = Self::put(machine, format!("brokerscope-{recorder}.jfc"));
        written.map_err(|source| Error::System {
            pid: machine.pid,
            what: "write Flight Recorder's settings",
            source,
        })
    }

    fn put(machine: &Machine, name: String) -> io::Result<Self> {
        let place = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, machine.path("root/tmp"), place, Mode::empty())?;
        // One that another left, of the same process id: it is its user's, as this one is.
        let _ = unlinkat(&directory, name.as_str(), AtFlags::empty());
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&directory, name.as_str(), flags, Mode::RUSR | Mode::WUSR)?;
        let settings = Self { directory, name };
        File::from(file).write_all(text().as_bytes())?;
        Ok(settings)
    }

    /// Its path as the JVM sees it.
    pub(super) fn as_seen(&self) -> String {
        format!("/tmp/{}", self.name)
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        let _ = unlinkat(&self.directory, self.name.as_str(), AtFlags::empty());
    }
}

fn text() -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<configuration version=\"2.0\" label=\"brokerscope\" \
         description=\"Waits for locks, and stops\" provider=\"brokerscope\">\n",
    );
    for (event, threshold) in EVENTS {
        let stack = WITH_STACK.contains(event);
        let settings = [
            ("enabled", "true"),
            ("threshold", threshold),
            ("stackTrace", if stack { "true" } else { "false" }),
        ];
        let settings = settings.map(|(name, value)| format!("<setting name=\"{name}\">{value}</setting>"));
        text.extend(["  <event name=\"", event, "\">", &settings.concat(), "</event>\n"]);
    }
    text + "</configuration>\n"
}
