//! State of tiered storage in one broker's partitions. Apache's broker keeps none, so an agent in its JVM does
//! (`java/TierState.java`): the broker's own process creates the files, reads them and cleans them up, and its own log
//! reports that.
//!
//! Gives the agent orders, and examines the files itself, so that the log can be checked against them.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::files;
use crate::jvm::Agent;
use crate::kafka::Kafka;
use crate::session::interrupt;
use crate::site::Site;

/// The topic that has a state: the case's own.
pub(super) const TOPIC: &str = "retriever-mutation";
/// Its partitions, each with a larger file than the one before. Fewer would not show that they were migrated one after
/// the other.
pub(super) const PARTITIONS: u32 = 6;
/// A state file, in its partition's directory.
pub(super) const FILE: &str = "00000000000000000000.tierstate.mutable";
/// The largest file's size divided by the page cache's capacity for a file. The cache holds a file that a cleanup has
/// reduced to a two-hundredth, and not the smallest one before a cleanup, which is a sixth of the largest.
const CAPACITY_PART: u64 = 30;
/// Size of an entry of a migrated file.
pub(super) const ENTRY_BYTES: u64 = 114;
/// Look-ups in the state per appended KiB: reads follow what is produced.
const LOOK_UPS_PER_KIB: u32 = 8;
const SOURCE: &str = include_str!("../../java/TierState.java");
/// Timeout for creating or cleaning up files.
const AGENT_TIMEOUT: Duration = Duration::from_secs(180);

/// An agent, ready to be loaded into a broker.
#[derive(Debug)]
pub(super) struct TierState {
    jar: PathBuf,
    /// Where it finds orders, and reports what is done.
    orders: PathBuf,
    log_dir: PathBuf,
    largest_bytes: u64,
}

/// Result of a cleanup, by the files themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CleanupResult {
    pub(super) before_bytes: u64,
    pub(super) after_bytes: u64,
}

impl TierState {
    /// Compiles the agent, for the broker of this log dir.
    pub(super) fn prepare(kafka: &Kafka, site: &Site, log_dir: &Path, largest_bytes: u64) -> Result<Self> {
        let agent = Agent {
            class: "TierState",
            source: SOURCE,
            entry: "Premain-Class",
            classpath: Some(&kafka.jars),
        };
        let (jar, orders) = (agent.compile(&site.directory("agent")?)?, site.directory("orders")?);
        Ok(Self { jar, orders, log_dir: log_dir.to_owned(), largest_bytes })
    }

    /// The arguments that load it into a JVM.
    pub(super) fn jvm_arguments(&self) -> Vec<String> {
        let setting = |name: &str, value: &dyn Display| format!("-Dlab.tier.{name}={value}");
        vec![
            format!("-javaagent:{}", self.jar.display()),
            setting("orders", &self.orders.display()),
            setting("log.dir", &self.log_dir.display()),
            setting("topic", &TOPIC),
            setting("partitions", &PARTITIONS),
            setting("largest.bytes", &self.largest_bytes),
            setting("lookups.per.kib", &LOOK_UPS_PER_KIB),
        ]
    }

    /// The state files.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        (0..PARTITIONS).map(|number| self.log_dir.join(format!("{TOPIC}-{number}")).join(FILE)).collect()
    }

    /// The page cache for one file: enough for any file after a cleanup, and for none before it.
    pub(super) fn capacity_bytes(&self) -> u64 {
        self.largest_bytes / CAPACITY_PART
    }

    /// Waits until the files are there and migrated, and look-ups have started.
    pub(super) fn wait_until_ready(&self) -> Result<()> {
        self.wait_for("ready")
    }

    /// Makes the broker clean up.
    pub(super) fn clean(&self) -> Result<CleanupResult> {
        let before_bytes = self.bytes()?;
        files::write(&self.orders.join("clean"), "")?;
        self.wait_for("cleaned")?;
        Ok(CleanupResult { before_bytes, after_bytes: self.bytes()? })
    }

    /// The size of all files together.
    pub(super) fn bytes(&self) -> Result<u64> {
        let size =
            |path: &PathBuf| fs::metadata(path).map(|about| about.len()).map_err(Error::io("look at", path));
        self.files().iter().map(size).sum()
    }

    fn wait_for(&self, state: &str) -> Result<()> {
        let (done, failed) = (self.orders.join(state), self.orders.join("failed"));
        let ready = || match fs::read_to_string(&failed) {
            Ok(why) => Err(Error::Tool { tool: "the agent in the broker".to_owned(), output: why }),
            Err(_) => Ok(done.exists().then_some(())),
        };
        let what = format!("the broker's work on its tier state (until it is {state})");
        interrupt().wait(AGENT_TIMEOUT, &what, ready)
    }
}

impl CleanupResult {
    /// Removed entries.
    pub(super) fn segments(&self) -> u64 {
        self.before_bytes.saturating_sub(self.after_bytes) / ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_the_log_dir_and_settings_to_the_agent() {
        let state = TierState {
            jar: "/a/tier-state.jar".into(),
            orders: "/o".into(),
            log_dir: "/data".into(),
            largest_bytes: 1 << 20,
        };
        let arguments = state.jvm_arguments();
        assert_eq!(arguments[0], "-javaagent:/a/tier-state.jar");
        assert!(arguments.contains(&"-Dlab.tier.log.dir=/data".to_owned()), "{arguments:?}");
        for argument in &arguments[1..] {
            let (name, value) = argument.strip_prefix("-Dlab.tier.").unwrap().split_once('=').unwrap();
            assert!(SOURCE.contains(&format!("setting(\"{name}\")")) && !value.is_empty(), "{argument}");
        }
        let files = state.files();
        assert_eq!(files.len(), PARTITIONS as usize);
        assert_eq!(files[5], Path::new("/data/retriever-mutation-5/00000000000000000000.tierstate.mutable"));
    }

    #[test]
    fn entry_size_matches_published_sizes() {
        let published = CleanupResult { before_bytes: 147_891_612, after_bytes: 601_218 };
        assert_eq!(published.segments(), 1_292_021);
        assert!(SOURCE.contains(&format!("int ENTRY_BYTES = {ENTRY_BYTES};")) && SOURCE.contains(FILE));
        assert!(SOURCE.contains("int LIVE_ONE_IN = 200;") && (7..100).contains(&CAPACITY_PART));
    }
}
