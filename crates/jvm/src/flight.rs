//! A Flight Recorder recording in a JVM that runs, of what `jfr` reads and nothing else: starts it, renews it, stops
//! it. Does not read it.
//!
//! A recording ends by itself after five minutes and is renewed before, so that one whose owner was killed does not go on.
//! Recordings of others stay as they are; what all of them ask for together is what the JVM records.
//!
//! Fuzzed by: attach.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;

use crate::attach::{Bounds, Client};
use crate::jfr::METHODS;
use crate::machine::TemporaryFile;
use crate::{Error, Machine};

/// How long a recording goes on that nobody renews.
const LENGTH: Duration = Duration::from_secs(300);
/// Recordings are renewed this early.
const EARLY: Duration = Duration::from_secs(60);
/// The first start in a JVM loads its recorder: 0.4 s to 3 s at a broker.
const BOUNDS: Bounds = Bounds { bytes: 64 << 10, time: Duration::from_secs(20) };
/// Open files that are looked through for the chunk being written: a broker has two a segment.
const MAX_FILES: usize = 1_000_000;
/// Of a JDK's `release`.
const MAX_RELEASE_BYTES: u64 = 64 << 10;

/// Where a first start costs little. Before, it instruments some classes of the JDK (`JDKEvents.addInstrumentation`) and
/// has the JVM throw all its compiled code away (`VM_RedefineClasses::flush_dependent_code`): JDK 17 stopped a broker at
/// 4,000 requests/s for 25 ms (on a busy machine 246 ms), and its producers waited 142 ms on average for the five seconds
/// after. JDK 25 stopped one for 0.1 ms.
const CHEAP_SINCE: u32 = 25;

/// Where a JVM can trace methods of classes that it has loaded (JEP 520). It redefines these classes: JDK 25 stopped a broker
/// for 27 to 93 ms twice at the start and once at the end, and not when a recording is renewed.
const METHOD_TRACE_SINCE: u32 = 25;

/// A recording that runs.
#[derive(Debug)]
pub struct Flight {
    recorder: u32,
    has_calls: bool,
    number: u32,
    folder: PathBuf,
}

/// Why starting one would hold the broker up, if it would; `version` is the answer to `VM.version`.
pub fn start_cost(machine: &Machine, version: &str) -> Option<String> {
    costs_of(machine, feature(version))
}

/// The same of a JVM that was not asked: `library` is its `libjvm.so`, by which its release is found.
pub fn start_cost_of_library(machine: &Machine, library: &Path) -> Option<String> {
    costs_of(machine, release(library))
}

/// Why the calls of request handlers cannot be recorded, if they cannot; `version` is the answer to `VM.version`.
///
/// # Errors
/// The reason.
pub fn check_handler_calls(version: &str) -> Result<(), String> {
    can_trace(feature(version))
}

/// The same of a JVM that was not asked: `library` is its `libjvm.so`, by which its release is found.
///
/// # Errors
/// The reason.
pub fn check_handler_calls_of_library(library: &Path) -> Result<(), String> {
    can_trace(release(library))
}

fn can_trace(number: Option<u32>) -> Result<(), String> {
    let which = match number {
        Some(number) if number >= METHOD_TRACE_SINCE => return Ok(()),
        Some(number) => format!("JDK {number} cannot trace methods"),
        None => "whether this JVM can trace methods is unknown".to_owned(),
    };
    Err(format!("{which}, as JDK {METHOD_TRACE_SINCE} or newer can (JEP 520)"))
}

fn costs_of(machine: &Machine, number: Option<u32>) -> Option<String> {
    let cheap = number.is_some_and(|number| number >= CHEAP_SINCE) || has_started(machine);
    let which = number.map_or_else(|| "this JVM".to_owned(), |number| format!("JDK {number}"));
    (!cheap).then(|| {
        format!(
            "starting Flight Recorder in {which} pauses the broker once for 25 ms or more, and the JVM recompiles all \
             its code; `--flight-recorder always` starts it anyway"
        )
    })
}

/// The feature release of the JDK that a `lib/server/libjvm.so` lies in: each has a file that says it (JEP 223).
fn release(library: &Path) -> Option<u32> {
    let mut text = String::new();
    let file = foreign::open_named(&library.ancestors().nth(3)?.join("release")).ok()?;
    file.take(MAX_RELEASE_BYTES).read_to_string(&mut text).ok()?;
    let version = text.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The feature release in what `VM.version` says: its second line is `JDK 17.0.15`. The first has another number in JDK 8.
fn feature(version: &str) -> Option<u32> {
    let number = version.lines().find_map(|line| line.strip_prefix("JDK "))?;
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Whether anybody has had this JVM record before: its threads for that stay.
#[allow(clippy::disallowed_methods, reason = "/proc")]
fn has_started(machine: &Machine) -> bool {
    let tasks = fs::read_dir(machine.path("task")).into_iter().flatten().flatten();
    let mut comms = tasks.filter_map(|task| fs::read(task.path().join("comm")).ok());
    comms.any(|comm| comm.starts_with(b"JFR Record"))
}

impl Flight {
    /// Starts a recording. `recorder` tells recordings of several recorders apart; `has_calls` says whether the calls of request
    /// handlers are in it.
    ///
    /// # Errors
    /// What the JVM or the system refused.
    pub fn start(client: &Client, recorder: u32, has_calls: bool) -> Result<Self, Error> {
        let mut flight = Self { recorder, has_calls, number: 0, folder: PathBuf::new() };
        flight.begin(client)?;
        let found = folder(client.machine());
        let Some(folder) = found else {
            let _ = flight.end(client, flight.number);
            return Err(Error::NoChunk(client.machine().pid));
        };
        Ok(Self { folder, ..flight })
    }

    /// Where its chunks are, as this process sees it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How long after it was started or renewed it is to be renewed.
    pub const RENEW_AFTER: Duration = LENGTH.saturating_sub(EARLY);

    /// Has it go on: another takes its place before it ends.
    ///
    /// # Errors
    /// What the JVM or the system refused. It goes on for a while then.
    pub fn renew(&mut self, client: &Client) -> Result<(), Error> {
        let before = self.number;
        self.begin(client)?;
        self.end(client, before)
    }

    /// Ends it. Others that record in the same JVM go on.
    ///
    /// # Errors
    /// What the JVM refused: then it ends by itself.
    pub fn stop(&self, client: &Client) -> Result<(), Error> {
        self.end(client, self.number)
    }

    fn begin(&mut self, client: &Client) -> Result<(), Error> {
        let number = self.number + 1;
        let settings = write_settings(client.machine(), self.recorder, &text(self.has_calls))?;
        // Kept in the JVM's folder of chunks, bounded by age and size; a length makes newer ones want a file to write it
        // to in the end.
        let command = format!(
            "JFR.start name={} settings=/tmp/{} disk=true maxage=60s maxsize=64m duration={}s filename=/dev/null",
            self.name(number),
            settings.name,
            LENGTH.as_secs()
        );
        let said = client.jcmd(&command, BOUNDS)?;
        if !said.contains("Started recording") {
            return Err(Error::refused(client.machine().pid, &command, &said));
        }
        self.number = number;
        Ok(())
    }

    fn end(&self, client: &Client, number: u32) -> Result<(), Error> {
        client.jcmd(&format!("JFR.stop name={}", self.name(number)), BOUNDS).map(drop)
    }

    fn name(&self, number: u32) -> String {
        format!("brokerscope-{}-{number}", self.recorder)
    }
}

/// The JVM's folder of chunks (`2026_11_21_18_09_42_PID`, `Repository.createRepository`), from the one it has open.
fn folder(machine: &Machine) -> Option<PathBuf> {
    let ending = format!("_{}", machine.own_pid);
    let files = fs::read_dir(machine.path("fd")).ok()?.flatten().take(MAX_FILES);
    let is_chunk = |path: &PathBuf| {
        let parent = path
            .parent()
            .and_then(Path::file_name)
            .is_some_and(|name| name.to_string_lossy().ends_with(&ending));
        parent && path.extension().is_some_and(|ending| ending == "jfr")
    };
    let chunk = files.filter_map(|file| fs::read_link(file.path()).ok()).find(is_chunk)?;
    let folder = chunk.parent()?.strip_prefix("/").ok()?;
    Some(machine.path("root").join(folder))
}

// What a recording is to hold, in a file that the JVM reads when it starts one: written where it can, and gone when
// dropped. Does not start it.

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

/// Calls of the methods that serve a request, from this length on. A filter names each with its class.
const CALLS: (&str, &str) = ("jdk.MethodTrace", "10 ms");

/// Writes it into the JVM's `/tmp`.
fn write_settings(machine: &Machine, recorder: u32, text: &str) -> Result<TemporaryFile, Error> {
    let name = format!("brokerscope-{recorder}.jfc");
    // One that another left, of the same process id: it is its user's, as this one is.
    let written =
        TemporaryFile::create(machine, "root/tmp", &name, OFlags::EXCL).and_then(|(kept, mut file)| {
            file.write_all(text.as_bytes())?;
            Ok(kept)
        });
    let what = "write Flight Recorder's settings";
    written.map_err(|source| Error::System { pid: machine.pid, what, source })
}

fn text(has_calls: bool) -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<configuration version=\"2.0\" label=\"brokerscope\" \
         description=\"Waits for locks, and stops\" provider=\"brokerscope\">\n",
    );
    let methods = METHODS.map(|(class, name)| format!("{class}::{name}")).join(";");
    for (event, threshold) in EVENTS.iter().chain(has_calls.then_some(&CALLS)) {
        let stack = WITH_STACK.contains(event);
        let settings = [
            ("enabled", "true"),
            ("threshold", threshold),
            ("stackTrace", if stack { "true" } else { "false" }),
        ];
        let filter = (*event == CALLS.0).then_some(("filter", methods.as_str()));
        let settings = settings.into_iter().chain(filter);
        let settings = settings.map(|(name, value)| format!("<setting name=\"{name}\">{value}</setting>"));
        text.extend(["  <event name=\"", event, "\">", &settings.collect::<String>(), "</event>\n"]);
    }
    text + "</configuration>\n"
}

#[cfg(test)]
mod tests {
    use super::{check_handler_calls, feature, release, text};
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_release_of_a_jdk_is_beside_its_library() {
        let home = tempfile::tempdir().unwrap();
        let library = home.path().join("lib/server/libjvm.so");
        assert_eq!(release(&library), None);
        for (text, number) in [
            ("IMPLEMENTOR=\"Debian\"\nJAVA_VERSION=\"17.0.15\"\n", Some(17)),
            ("JAVA_VERSION=\"25\"\n", Some(25)),
            ("JAVA_VERSION=\"x\"\n", None),
        ] {
            fs::write(home.path().join("release"), text).unwrap();
            assert_eq!(release(&library), number, "{text}");
        }
        assert_eq!(release(Path::new("libjvm.so")), None);
    }

    #[test]
    fn methods_are_traced_only_where_that_is_asked_for() {
        assert!(!text(false).contains("MethodTrace"));
        let traced = text(true);
        let line = traced.lines().find(|line| line.contains("jdk.MethodTrace")).unwrap();
        let filter = "<setting name=\"filter\">kafka.server.KafkaApis::handle;kafka.server.ControllerApis::handle</setting>";
        assert!(
            line.contains(filter) && line.contains("<setting name=\"threshold\">10 ms</setting>"),
            "{line}"
        );
        assert_eq!(traced.matches("\"filter\"").count(), 1, "{traced}");
        assert_eq!(traced.lines().count(), text(false).lines().count() + 1);
    }

    #[test]
    fn an_older_jdk_cannot_trace_methods() {
        assert_eq!(
            check_handler_calls("OpenJDK 64-Bit Server VM version 25.0.3+9-LTS\nJDK 25.0.3\n"),
            Ok(())
        );
        let why =
            check_handler_calls("OpenJDK 64-Bit Server VM version 17.0.15+6\nJDK 17.0.15\n").unwrap_err();
        assert!(why.contains("JDK 17 cannot trace methods") && why.contains("JDK 25 or newer"), "{why}");
        assert!(check_handler_calls("").unwrap_err().contains("is unknown"));
    }

    #[test]
    fn the_feature_release_is_read_off_the_version() {
        for (version, number) in [
            ("OpenJDK 64-Bit Server VM version 17.0.15+6-Debian-1deb12u1\nJDK 17.0.15\n", Some(17)),
            ("OpenJDK 64-Bit Server VM version 25.0.3+9-LTS\nJDK 25.0.3\n", Some(25)),
            ("OpenJDK 64-Bit Server VM version 25+36\nJDK 25\n", Some(25)),
            ("OpenJDK 64-Bit Server VM version 25.392-b08\nJDK 8.0_392\n", Some(8)),
            ("", None),
        ] {
            assert_eq!(feature(version), number, "{version}");
        }
    }
}
