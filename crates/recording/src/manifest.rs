//! `manifest.json`: the facts about a recording besides its events. Does not collect them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use model::clock::ClockPair;
use serde::{Deserialize, Serialize};

use crate::{Directory, Error};

/// The manifest's `format`.
pub const FORMAT: &str = "brokerscope-recording";
/// The version of the format that this build writes and reads.
pub const VERSION: u32 = 2;

/// The manifest's file in a recording's directory.
pub const MANIFEST: &str = "manifest.json";
/// Its file while it is being written.
const TEMPORARY: &str = "manifest.json.tmp";
/// The manifest as it was when the recording began: it is certainly on the disk, a later one may not be yet.
const START: &str = "manifest.json.start";
/// A manifest holds settings, not data: a larger one is not ours.
const MAX_BYTES: u64 = 16 << 20;

/// A recording's manifest. Written when the recording starts, and again, complete, when it ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// Always [`FORMAT`].
    pub format: String,
    /// Always [`VERSION`].
    pub version: u32,
    /// The program that wrote it, with its version.
    #[serde(default = "String::new")]
    pub written_by: String,
    /// When the recording started, UTC nanoseconds.
    pub started_ns: i64,
    /// When it ended; none while it runs, and after a kill.
    pub ended_ns: Option<i64>,
    /// The machine.
    pub host: Host,
    /// The watched broker.
    pub broker: Option<Broker>,
    /// The relation of the clocks.
    pub clock: Clock,
    /// How each purpose is served, or why it cannot be: (purpose, outcome).
    pub plan: Vec<(String, String)>,
    /// Health of the plan's sources when this was written, by purpose.
    pub sources: BTreeMap<String, SourceHealth>,
    /// Totals of what was lost, by kind.
    pub losses: BTreeMap<String, u64>,
    /// Rows written so far, by table; tables without rows are left out.
    pub rows: BTreeMap<String, u64>,
    /// Options the recorder was started with, and what else is worth knowing later.
    pub settings: BTreeMap<String, String>,
}

impl Default for Manifest {
    fn default() -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            written_by: format!("brokerscope {}", env!("CARGO_PKG_VERSION")),
            started_ns: 0,
            ended_ns: None,
            host: Host::default(),
            broker: None,
            clock: Clock::default(),
            plan: Vec::new(),
            sources: BTreeMap::new(),
            losses: BTreeMap::new(),
            rows: BTreeMap::new(),
            settings: BTreeMap::new(),
        }
    }
}

/// The machine a recording was made on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// The kernel's release (`uname -r`).
    pub kernel: String,
    /// Its architecture (`uname -m`).
    pub machine: String,
    /// CPUs that were online.
    pub cpus: u32,
}

/// The broker a recording is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Broker {
    /// Its process when the recording began.
    pub pid: u32,
    /// Its processes, one after the other, if restarts were watched.
    pub processes: Vec<BrokerProcess>,
    /// `node.id` or `broker.id`.
    pub node_id: Option<i32>,
    /// Its log dirs, as the host sees them.
    pub log_dirs: Vec<PathBuf>,
    /// The device of each log dir, in the same order, by major and minor number: the numbers that file operations
    /// carry. Empty if they were not looked up.
    pub log_dir_devices: Vec<Option<(u32, u32)>>,
    /// Its listeners (`PLAINTEXT://0.0.0.0:9092`).
    pub listeners: Vec<String>,
    /// The properties that rules and pages use; properties that are not listed may be secrets.
    pub properties: BTreeMap<String, String>,
    /// The same settings as the broker reported them when the recording began; those that are missing have Kafka's
    /// default. None if it was not asked, or did not answer.
    pub settings_in_force: Option<BTreeMap<String, String>>,
    /// Its Java virtual machine.
    pub jvm: Option<Jvm>,
}

/// One process of a broker: a broker that was restarted while it was recorded has had several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BrokerProcess {
    /// Its id.
    pub pid: u32,
    /// When the watch began, UTC nanoseconds.
    pub watched_ns: i64,
    /// When its end was noticed; none if it ran on.
    pub gone_ns: Option<i64>,
}

/// A broker's Java virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Jvm {
    /// Its version as it prints it.
    pub version: String,
    /// The options on its command line.
    pub options: Vec<String>,
}

/// Health of the source that serves a purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceHealth {
    /// The time of its newest event, UTC nanoseconds; none if there was none.
    pub last_event_ns: Option<i64>,
    /// When it went down; none if it was up. Earlier outages are losses (`source-down`).
    pub down_since_ns: Option<i64>,
    /// Why it went down.
    pub down: Option<String>,
}

/// The relation of the recording's clock to the machine's clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    /// Offset added to `CLOCK_MONOTONIC` to get every time in the recording.
    pub offset_ns: i64,
    /// Simultaneous readings of both clocks along the way.
    pub pairs: Vec<ClockPair>,
}

/// Format and version. Can be read even if a later version changes everything else.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

impl Manifest {
    /// Reads a recording directory's manifest.
    /// After a power cut the file may have its name without its bytes: then reads the one that the recording began
    /// with.
    pub(crate) fn read(dir: &Path) -> Result<Self, Error> {
        Self::read_file(MANIFEST, dir).or_else(|error| match error {
            Error::Manifest { .. } => Self::read_file(START, dir).map_err(|_| error),
            _ => Err(error),
        })
    }

    fn read_file(name: &str, dir: &Path) -> Result<Self, Error> {
        let path = dir.join(name);
        let text = read_bounded(&path, dir)?;
        let damaged = |why: String| Error::Manifest { path: path.clone(), why };
        let head: Head = serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))?;
        if head.format != FORMAT {
            return Err(damaged(format!("its format is {:?}, not {FORMAT:?}", head.format)));
        }
        if head.version != VERSION {
            return Err(Error::Version { path, found: head.version, known: VERSION });
        }
        serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))
    }

    /// Writes it beside the old one and renames it; returns its size. A kill leaves one or the other whole.
    pub(crate) fn write(&self, directory: &Directory) -> Result<u64, Error> {
        self.write_as(MANIFEST, directory, false)
    }

    /// Writes the manifest of a new recording, so that it survives a power cut; returns its size.
    pub(crate) fn write_start(&self, directory: &Directory) -> Result<u64, Error> {
        self.write_as(START, directory, true)?;
        let bytes = self.write_as(MANIFEST, directory, true)?;
        directory.sync_folder("")?;
        Ok(bytes)
    }

    /// Writes the manifest of an ended recording.
    pub(crate) fn write_end(&self, directory: &Directory) -> Result<(), Error> {
        self.write_as(MANIFEST, directory, true)?;
        directory.sync_folder("")?;
        directory.remove(START)
    }

    fn write_as(&self, name: &str, directory: &Directory, is_synced: bool) -> Result<u64, Error> {
        let path = directory.path().join(name);
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|e| Error::Manifest { path: path.clone(), why: e.to_string() })?;
        text.push(b'\n');
        let mut file = directory.create_temporary(TEMPORARY)?;
        file.write_all(&text).map_err(Error::io("write", path))?;
        if is_synced {
            directory.sync_file(&file, TEMPORARY)?;
        }
        directory.rename(TEMPORARY, name)?;
        Ok(text.len() as u64)
    }

    /// The file's modification time and length. They differ between a running recording and an ended one.
    pub(crate) fn version_in(dir: &Path) -> Option<(SystemTime, u64)> {
        let metadata = fs::metadata(dir.join(MANIFEST)).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    }
}

fn read_bounded(path: &Path, dir: &Path) -> Result<Vec<u8>, Error> {
    let file = File::open(path).map_err(|source| match source.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory if dir.exists() => {
            Error::NotARecording { path: dir.to_owned() }
        }
        _ => Error::Io { action: "read", path: path.to_owned(), source },
    })?;
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(Error::io("read", path))?;
    if text.len() as u64 > MAX_BYTES {
        let why = format!("it is larger than {} MiB", MAX_BYTES >> 20);
        return Err(Error::Manifest { path: path.to_owned(), why });
    }
    Ok(text)
}
