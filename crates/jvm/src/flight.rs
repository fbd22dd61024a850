//! Starts, renews and stops a Flight Recorder recording in a running JVM. The recording has only the events that `jfr`
//! reads. Does not read it.
//!
//! A recording ends by itself after five minutes and is renewed before, so that it does not continue after its owner
//! was killed. Recordings of others are not changed; the JVM records the events that any of them requests.
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

/// The length of a recording that is not renewed.
const LENGTH: Duration = Duration::from_secs(300);
/// Recordings are renewed this long before their end.
const EARLY: Duration = Duration::from_secs(60);
/// The first start in a JVM loads Flight Recorder: 0.4 s to 3 s in a broker.
const BOUNDS: Bounds = Bounds { bytes: 64 << 10, time: Duration::from_secs(20) };
/// Limit of open files that are searched for the current chunk: a broker has two a segment.
const MAX_FILES: usize = 1_000_000;
/// Limit of a JDK's `release` file.
const MAX_RELEASE_BYTES: u64 = 64 << 10;

/// The first release in which a first start costs little.
/// Before, it instruments some classes of the JDK (`JDKEvents.addInstrumentation`) and makes the JVM discard all its
/// compiled code (`VM_RedefineClasses::flush_dependent_code`): JDK 17 stopped a broker at 4,000 requests/s for 25 ms
/// (on a busy machine 246 ms), and its producers waited 142 ms on average for the five seconds after. JDK 25 stopped
/// one for 0.1 ms.
const CHEAP_SINCE: u32 = 25;

/// The first release in which a JVM can trace methods of loaded classes (JEP 520).
/// It redefines these classes: JDK 25 stopped a broker for 27 to 93 ms twice at the start and once at the end, but not
/// at a renewal.
const METHOD_TRACE_SINCE: u32 = 25;

/// A running recording.
#[derive(Debug)]
pub struct Flight {
    recorder: u32,
    has_calls: bool,
    number: u32,
    folder: PathBuf,
}

/// Describes how a start would pause the broker, if it would; `version` is the answer to `VM.version`.
pub fn start_cost(machine: &Machine, version: &str) -> Option<String> {
    costs_of(machine, feature(version))
}

/// Like [`start_cost`], for a JVM that was not queried.
/// `library` is its `libjvm.so`, which leads to its release.
pub fn start_cost_of_library(machine: &Machine, library: &Path) -> Option<String> {
    costs_of(machine, release(library))
}

/// Checks whether calls of request handlers can be recorded; `version` is the answer to `VM.version`.
///
/// # Errors
/// The reason why not.
pub fn check_handler_calls(version: &str) -> Result<(), String> {
    can_trace(feature(version))
}

/// Like [`check_handler_calls`], for a JVM that was not queried.
/// `library` is its `libjvm.so`, which leads to its release.
///
/// # Errors
/// The reason why not.
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

/// The feature release of the JDK that contains a `lib/server/libjvm.so`. Read from the JDK's file `release` (JEP 223).
fn release(library: &Path) -> Option<u32> {
    let mut text = String::new();
    let file = foreign::open_named(&library.ancestors().nth(3)?.join("release")).ok()?;
    file.take(MAX_RELEASE_BYTES).read_to_string(&mut text).ok()?;
    let version = text.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The feature release in the answer to `VM.version`: its second line is `JDK 17.0.15`.
/// The first line has another number in JDK 8.
fn feature(version: &str) -> Option<u32> {
    let number = version.lines().find_map(|line| line.strip_prefix("JDK "))?;
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Whether this JVM has recorded before: the recorder's threads stay.
#[allow(clippy::disallowed_methods, reason = "/proc")]
fn has_started(machine: &Machine) -> bool {
    let tasks = fs::read_dir(machine.path("task")).into_iter().flatten().flatten();
    let mut comms = tasks.filter_map(|task| fs::read(task.path().join("comm")).ok());
    comms.any(|comm| comm.starts_with(b"JFR Record"))
}

impl Flight {
    /// Starts a recording.
    /// `recorder` distinguishes recordings of several recorders; `has_calls` adds the calls of request handlers.
    ///
    /// # Errors
    /// The JVM or the system refused.
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

    /// The folder of its chunks, as this process sees it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The time from a start or renewal to the next renewal.
    pub const RENEW_AFTER: Duration = LENGTH.saturating_sub(EARLY);

    /// Continues it: starts another recording before it ends.
    ///
    /// # Errors
    /// The JVM or the system refused. The recording then continues for a while.
    pub fn renew(&mut self, client: &Client) -> Result<(), Error> {
        let before = self.number;
        self.begin(client)?;
        self.end(client, before)
    }

    /// Ends it. Other recordings in the same JVM continue.
    ///
    /// # Errors
    /// The JVM refused: then the recording ends by itself.
    pub fn stop(&self, client: &Client) -> Result<(), Error> {
        self.end(client, self.number)
    }

    fn begin(&mut self, client: &Client) -> Result<(), Error> {
        let number = self.number + 1;
        let settings = write_settings(client.machine(), self.recorder, &text(self.has_calls))?;
        // The data stays in the JVM's folder of chunks, bounded by age and size; with a duration, newer JVMs require a
        // file to write to at the end.
        let command = format!(
            "JFR.start name={} settings=/tmp/{} disk=true maxage=60s maxsize=64m duration={}s filename=/dev/null",
            self.name(number),
            settings.name,
            LENGTH.as_secs()
        );
        let answer = client.jcmd(&command, BOUNDS)?;
        if !answer.contains("Started recording") {
            return Err(Error::refused(client.machine().pid, &command, &answer));
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

/// The JVM's folder of chunks, from the chunk that it has open. `Repository.createRepository` names it, as in
/// `2026_11_21_18_09_42_PID`.
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

// The settings of a recording, in a file that the JVM reads at the start: written where the JVM can read it, and
// removed when dropped. Does not start the recording.

/// Waits for locks from 1 ms on, with stacks, and every pause of the threads. An event that is not named is off.
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

/// Calls of the methods that serve a request, from this length on.
/// A filter names each method with its class.
const CALLS: (&str, &str) = ("jdk.MethodTrace", "10 ms");

/// Writes the settings into the JVM's `/tmp`.
fn write_settings(machine: &Machine, recorder: u32, text: &str) -> Result<TemporaryFile, Error> {
    let name = format!("brokerscope-{recorder}.jfc");
    // `EXCL` replaces a file that another process with this id left: it belongs to the same user.
    let written =
        TemporaryFile::create(machine, "root/tmp", &name, OFlags::EXCL).and_then(|(guard, mut file)| {
            file.write_all(text.as_bytes())?;
            Ok(guard)
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
    fn reads_the_jdk_release_file_next_to_the_library() {
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
    fn settings_contain_method_trace_only_on_request() {
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
    fn refuses_method_tracing_before_jdk_25() {
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
    fn parses_the_feature_release_from_vm_version() {
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
