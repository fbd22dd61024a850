//! A JVM whose threads contend, and who watches it. Does not measure.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::contender::{Contender, Waited};
use crate::kernel::watcher::Watcher;

const FLAG: &str = "DTraceMonitorProbes";

/// Who watches.
#[derive(Clone, Copy)]
pub(super) enum Watch<'a> {
    Nobody,
    /// `brokerscope record`, by that binary.
    Brokerscope(&'a Path),
    /// Programs that do nothing, on these of the probes for contended monitors.
    Empty(&'a [&'a str]),
}

/// The running JVM.
pub(super) struct Subject {
    contender: Contender,
    watcher: Option<Watcher>,
    directory: PathBuf,
}

impl Subject {
    /// Starts it, with the flag for its monitors' probes or without.
    pub(super) fn start(directory: &Path, flag: bool, watch: Watch<'_>) -> anyhow::Result<Self> {
        let sign = if flag { '+' } else { '-' };
        let contender = Contender::start(directory, &format!("-XX:{sign}{FLAG}"))?;
        let pid = contender.pid();
        let watcher = match watch {
            Watch::Nobody => None,
            Watch::Brokerscope(binary) => {
                Some(Watcher::brokerscope(binary, &directory.join("recording"), pid, &["--no-attach"])?)
            }
            Watch::Empty(probes) => Some(empty(directory, pid, probes)?),
        };
        Ok(Self { contender, watcher, directory: directory.to_owned() })
    }

    pub(super) fn run(&mut self, millis: u64) -> anyhow::Result<Waited> {
        self.contender.run(millis)
    }

    /// Ends it and who watches; where it was.
    pub(super) fn end(self) -> anyhow::Result<PathBuf> {
        self.watcher.map(Watcher::stop).transpose()?;
        Ok(self.directory)
    }
}

fn empty(directory: &Path, pid: u32, probes: &[&str]) -> anyhow::Result<Watcher> {
    let library = library(pid)?;
    let hooks =
        probes.iter().map(|probe| format!("usdt:{library}:hotspot:monitor__contended__{probe} {{ }}\n"));
    let script = format!("BEGIN {{ printf(\"ready\\n\"); }}\n{}", hooks.collect::<String>());
    Watcher::script(&directory.join("empty.bt"), &script, &["-p", &pid.to_string()])
}

/// The JVM's own library.
fn library(pid: u32) -> anyhow::Result<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let path = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    path.into_iter().find(|path| path.ends_with("/libjvm.so")).map(str::to_owned).context("no libjvm.so")
}
