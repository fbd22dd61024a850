//! Commands to a HotSpot JVM (attach protocol), and the JVM's log of its pauses.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::{files, process};

/// Timeout of an order: a collection of a large heap, or a safepoint that takes long to reach.
const ORDER_TIMEOUT: Duration = Duration::from_secs(60);

/// The attach socket of a JVM in this mount namespace.
#[derive(Clone, Debug)]
pub struct Jvm {
    socket: PathBuf,
}

impl Jvm {
    /// Opens the socket. The first time, that takes a signal and a thread of the JVM, which is left to `jcmd`.
    pub fn attach(pid: u32) -> Result<Self> {
        process::output(Command::new("jcmd").arg(pid.to_string()).arg("VM.version"))?;
        // AttachListener in HotSpot's attachListener_posix.cpp.
        let socket = Path::new("/tmp").join(format!(".java_pid{pid}"));
        if socket.exists() {
            Ok(Self { socket })
        } else {
            Err(Error::Unusable(format!("the JVM listens at no {}", socket.display())))
        }
    }

    /// Runs a diagnostic command, such as `GC.run`, and returns its output. Waits until it has been carried out.
    pub fn order(&self, order: &str) -> Result<String> {
        let doing = format!("have the JVM do {order}");
        let ask = || -> std::io::Result<String> {
            let mut stream = UnixStream::connect(&self.socket)?;
            stream.set_read_timeout(Some(ORDER_TIMEOUT))?;
            // The protocol's version, the command, its three arguments, each ended by a zero byte.
            stream.write_all(format!("1\0jcmd\0{order}\0\0\0").as_bytes())?;
            stream.shutdown(Shutdown::Write)?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let answer = ask().map_err(Error::system(&doing))?;
        match answer.split_once('\n') {
            Some(("0", output)) => Ok(output.to_owned()),
            _ => Err(Error::Tool { tool: order.to_owned(), output: answer.trim().to_owned() }),
        }
    }
}

/// The oldest Java that runs Kafka 4: it may be older than the compiler.
const RELEASE: &str = "17";

/// A class that a JVM loads as an agent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agent<'a> {
    pub(crate) class: &'static str,
    pub(crate) source: &'static str,
    /// Its entry in the manifest: `Premain-Class` for the command line, `Agent-Class` for a running JVM.
    pub(crate) entry: &'static str,
    /// The directory of the jars that it is compiled against.
    pub(crate) classpath: Option<&'a Path>,
}

impl Agent<'_> {
    /// Compiles it into a jar in a directory.
    pub(crate) fn compile(&self, directory: &Path) -> Result<PathBuf> {
        let class = self.class;
        let (source, manifest) = (directory.join(format!("{class}.java")), directory.join("manifest.txt"));
        files::write(&source, self.source)?;
        files::write(&manifest, format!("{}: {class}\n", self.entry))?;
        let (classes, jar) = (directory.join("classes"), directory.join(format!("{class}.jar")));
        let mut javac = Command::new("javac");
        javac.args(["--release", RELEASE]);
        if let Some(jars) = self.classpath {
            javac.arg("-cp").arg(jars.join("*"));
        }
        process::output(javac.arg("-d").arg(&classes).arg(source))?;
        let mut packing = Command::new("jar");
        packing.args(["--create", "--file"]).arg(&jar).arg("--manifest").arg(manifest);
        process::output(packing.arg("-C").arg(classes).arg("."))?;
        Ok(jar)
    }
}

/// Makes the jar of the agent that holds a partition's leadership lock. It holds the lock for a while
/// (`java/HoldLock.java`).
///
/// # Errors
/// It does not compile.
pub fn lock_holder(directory: &Path) -> Result<PathBuf> {
    let source = include_str!("../java/HoldLock.java");
    let agent = Agent { class: "HoldLock", source, entry: "Agent-Class", classpath: None };
    agent.compile(directory)
}

/// A time in which all threads of a JVM were stopped or stopping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// The operation that needed it, such as `G1CollectFull`.
    pub operation: String,
    /// When the threads were asked to stop, UTC nanoseconds; accurate to some milliseconds.
    pub start_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// The part of it until all threads had stopped, in nanoseconds.
    pub reaching_ns: i64,
}

impl Pause {
    /// Its length, in nanoseconds.
    pub fn length_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Whether garbage was collected in it (`VM_OPS_DO` in HotSpot's vmOperation.hpp: `G1CollectForAllocation`,
    /// `ParallelGCFailedAllocation`, `GenCollectFull`, `SerialGCCollect`, `G1PauseRemark`, ...).
    pub fn is_collection(&self) -> bool {
        ["Collect", "GC", "G1", "ZMark", "XMark", "Shenandoah"]
            .iter()
            .any(|part| self.operation.contains(part))
    }

    /// Whether most of it passed before all threads had stopped.
    pub fn was_long_to_reach(&self) -> bool {
        self.reaching_ns.saturating_mul(2) > self.length_ns()
    }
}

/// The JVM argument that writes pauses to `log`.
pub fn pauses_argument(log: &Path) -> String {
    format!("-Xlog:safepoint:file={}:timemillis:filecount=0", log.display())
}

/// Reads the pauses in a log.
pub fn pauses(log: &Path) -> Result<Vec<Pause>> {
    Ok(files::read(log)?.lines().filter_map(parse).collect())
}

/// Parses `[1700000000123ms] Safepoint "G1CollectFull", Time since last: 9 ns, Reaching safepoint: 5 ns, At safepoint:
/// 7 ns, Total: 12 ns` (`SafepointTracing` in HotSpot's safepoint.cpp); later versions report a cleanup in between.
fn parse(line: &str) -> Option<Pause> {
    let (stamp, rest) = line.strip_prefix('[')?.split_once("ms]")?;
    let end_ns = stamp.trim().parse::<i64>().ok()?.checked_mul(1_000_000)?;
    let (operation, figures) = rest.trim_start().strip_prefix("Safepoint \"")?.split_once('"')?;
    let figure = |name: &str| {
        let after = figures.split_once(name)?.1;
        after.trim_start().split(' ').next()?.parse::<i64>().ok()
    };
    let (reaching_ns, total) = (figure("Reaching safepoint:")?, figure("Total:")?);
    Some(Pause {
        operation: operation.to_owned(),
        start_ns: end_ns.saturating_sub(total),
        end_ns,
        reaching_ns,
    })
}

#[cfg(test)]
mod pauses_tests {
    use super::*;

    #[test]
    fn parses_safepoint_lines_of_jdk_17_and_25() {
        let old = "[1700000000500ms] Safepoint \"G1CollectFull\", Time since last: 49962340 ns, Reaching safepoint: \
                   200000000 ns, At safepoint: 100000000 ns, Total: 300000000 ns";
        let new = "[1700000000500ms] Safepoint \"G1CollectFull\", Time since last: 4 ns, Reaching safepoint: 200000000 \
                   ns, Cleanup: 7 ns, At safepoint: 99999993 ns, Total: 300000000 ns, Threads: 1 runnable, 40 total";
        let expected = Pause {
            operation: "G1CollectFull".to_owned(),
            start_ns: 1_700_000_000_200_000_000,
            end_ns: 1_700_000_000_500_000_000,
            reaching_ns: 200_000_000,
        };
        assert_eq!(parse(old), Some(expected.clone()));
        assert_eq!(parse(new), Some(expected));
    }

    #[test]
    fn classifies_collections_by_name_and_late_safepoints_by_time() {
        let stop = |operation: &str, reaching_ns| Pause {
            operation: operation.to_owned(),
            start_ns: 0,
            end_ns: 100,
            reaching_ns,
        };
        for name in
            ["G1CollectForAllocation", "ParallelGCFailedAllocation", "GenCollectFull", "G1PauseRemark"]
        {
            assert!(stop(name, 0).is_collection(), "{name}");
        }
        for name in ["Cleanup", "PrintThreads", "ICBufferFull", "HandshakeAllThreads"] {
            assert!(!stop(name, 0).is_collection(), "{name}");
        }
        assert!(stop("Cleanup", 51).was_long_to_reach() && !stop("Cleanup", 50).was_long_to_reach());
    }

    #[test]
    fn skips_other_log_lines() {
        for line in
            ["", "[1ms] Application time: 1 seconds", "[xms] Safepoint \"a\"", "Safepoint \"a\", Total: 1"]
        {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
