//! Brokers that run on this machine, and how they are configured. Does not talk to them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::command_line::{self, CommandLine};
use crate::{Error, Listener, Processes, listener, properties};

/// A running broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Its process.
    pub pid: u32,
    /// `node.id`, `broker.id`, or what the broker generated for itself.
    pub node_id: Option<i32>,
    /// Its log dirs, where this process can read them; `metadata.log.dir` last, where it is another.
    pub log_dirs: Vec<PathBuf>,
    /// Its listeners, those for controllers included.
    pub listeners: Vec<Listener>,
    /// Its configuration as its file and its command line have it, secrets included: show none of it
    /// without thought.
    pub properties: BTreeMap<String, String>,
    /// Where that file is.
    pub properties_file: PathBuf,
}

/// The brokers that run here and can be read.
pub fn find() -> Vec<Broker> {
    Broker::all(&Processes::default()).into_iter().filter_map(Result::ok).collect()
}

impl Broker {
    /// The broker that a process of this machine is.
    ///
    /// # Errors
    /// [`Error::NoProcess`], [`Error::NotABroker`], [`Error::NoProperties`], or what cannot be read.
    pub fn of_pid(pid: u32) -> Result<Self, Error> {
        Self::of(&Processes::default(), pid)
    }

    /// The one broker that runs on this machine.
    ///
    /// # Errors
    /// [`Error::NoneRuns`], [`Error::SeveralRun`], or what cannot be read of the one.
    pub fn only() -> Result<Self, Error> {
        Self::only_of(&Processes::default())
    }

    /// [`Broker::of_pid`] on a `/proc` of the caller's.
    ///
    /// # Errors
    /// The same.
    pub fn of(processes: &Processes, pid: u32) -> Result<Self, Error> {
        if !processes.exists(pid) {
            return Err(Error::NoProcess { pid });
        }
        let cmdline = processes.cmdline(pid).map_err(unreadable(processes, pid, "cmdline"))?;
        let command_line = command_line::parse(&cmdline).ok_or(Error::NotABroker { pid })?;
        Self::configured(processes, pid, command_line)
    }

    /// [`Broker::only`] on a `/proc` of the caller's.
    ///
    /// # Errors
    /// The same.
    pub fn only_of(processes: &Processes) -> Result<Self, Error> {
        match &pids(processes)[..] {
            [] => Err(Error::NoneRuns),
            [pid] => Self::of(processes, *pid),
            several => Err(Error::SeveralRun { pids: several.to_vec() }),
        }
    }

    /// Every broker of a `/proc`, or why it could not be read.
    pub fn all(processes: &Processes) -> Vec<Result<Self, Error>> {
        pids(processes).into_iter().map(|pid| Self::of(processes, pid)).collect()
    }

    /// The ports on which clients are served.
    pub fn client_ports(&self) -> Vec<u16> {
        let clients = self.listeners.iter().filter(|listener| !listener.controller && listener.port != 0);
        clients.map(|listener| listener.port).collect()
    }

    fn configured(processes: &Processes, pid: u32, command_line: CommandLine) -> Result<Self, Error> {
        let resolve = |named: &Path| processes.resolve(pid, named).map_err(unreadable(processes, pid, "cwd"));
        let properties_file = resolve(&command_line.properties.ok_or(Error::NoProperties { pid })?)?;
        let mut properties = properties::read(&properties_file)?;
        properties.extend(command_line.overrides);
        let log_dirs = log_dirs(&properties).iter().map(|dir| resolve(dir)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            pid,
            node_id: node_id(&properties, &log_dirs),
            log_dirs,
            listeners: listener::of(&properties),
            properties,
            properties_file,
        })
    }
}

/// The processes that are brokers by their command lines, which everybody may read, whether or not their configurations can
/// be.
pub fn pids(processes: &Processes) -> Vec<u32> {
    let is_broker =
        |pid: &u32| processes.cmdline(*pid).ok().and_then(|cmdline| command_line::parse(&cmdline)).is_some();
    processes.pids().into_iter().filter(is_broker).collect()
}

fn unreadable(processes: &Processes, pid: u32, name: &str) -> impl FnOnce(io::Error) -> Error {
    let path = processes.path(pid, name);
    move |source| Error::Process { pid, path, source }
}

/// `log.dirs`, else `log.dir`, else Kafka's default; then `metadata.log.dir`, if it is none of them.
fn log_dirs(properties: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let listed = |key: &str| {
        let value = properties.get(key).map_or("", String::as_str);
        value.split(',').map(str::trim).filter(|dir| !dir.is_empty()).map(PathBuf::from).collect::<Vec<_>>()
    };
    let mut dirs = listed("log.dirs");
    if dirs.is_empty() {
        dirs = listed("log.dir");
    }
    if dirs.is_empty() {
        dirs.push(PathBuf::from("/tmp/kafka-logs"));
    }
    for dir in listed("metadata.log.dir") {
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    dirs
}

/// The configured id; where there is none (or -1), the one that the broker keeps in its log dirs.
fn node_id(properties: &BTreeMap<String, String>, log_dirs: &[PathBuf]) -> Option<i32> {
    configured_id(properties).or_else(|| {
        let stored = |dir: &PathBuf| properties::read(&dir.join("meta.properties")).ok();
        log_dirs.iter().filter_map(stored).find_map(|stored| configured_id(&stored))
    })
}

fn configured_id(properties: &BTreeMap<String, String>) -> Option<i32> {
    let id = |key: &str| properties.get(key)?.trim().parse().ok().filter(|id| *id >= 0);
    id("node.id").or_else(|| id("broker.id"))
}
