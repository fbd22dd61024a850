//! Keeps probes attached to the broker across restarts: notices the end of its process, detaches the probes, finds the new
//! process and attaches probes to it. Does not read the probes' events.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use broker::Broker;
use model::{BrokerChange, BrokerState, Event};
use probes::{LoadedProbes, Plan, Probes, Target};

use crate::escalation::Share;
use crate::kernel::{KernelSource, Names};
use crate::outages::Publisher;
use crate::process::Process;
use crate::source::{BrokerProcess, Feed, Running, Source as _, WatchSummary};
use crate::thread_names::ThreadNames;

/// How often to check whether the broker runs.
const INTERVAL: Duration = Duration::from_millis(500);

/// The name of the supervisor's thread.
pub(crate) const THREAD: &str = "supervisor";

/// Follows a broker from process to process.
pub(crate) struct Supervisor {
    pub(crate) identity: Identity,
    /// Log dirs that the user named, which replace the broker's own.
    pub(crate) named_dirs: Option<Vec<PathBuf>>,
    /// Ports that the user named, which replace the broker's own.
    pub(crate) named_ports: Option<Vec<u16>>,
    pub(crate) attacher: Attacher,
    pub(crate) stop: Arc<AtomicBool>,
}

/// Attaches probes to a process.
pub(crate) struct Attacher {
    /// `None` if kernel probes are not requested or not possible.
    pub(crate) plan: Option<Plan>,
    pub(crate) threads: ThreadNames,
    /// Size of the probes' ring buffer.
    pub(crate) ring_bytes: u32,
    pub(crate) feed: Feed,
    pub(crate) share: Share,
}

impl Supervisor {
    /// Follows the broker until a stop is requested, then detaches the probes.
    pub(crate) fn run(mut self, broker: BrokerProcess, probes: Option<Running>) -> WatchSummary {
        let (mut summary, mut publisher) = (WatchSummary::default(), Publisher::default());
        self.announce(&broker, BrokerState::Watched);
        let mut watched = Some((Process::of(broker.pid), broker, probes));
        while !self.stop.load(Ordering::Relaxed) {
            watched = match watched {
                Some((process, broker, probes)) if process.is_gone() => {
                    if let Some(error) = probes.and_then(end) {
                        let pid = broker.pid;
                        summary.trouble.push(format!("the probes on broker {pid} ended early: {error}"));
                    }
                    self.announce(&broker, BrokerState::Gone);
                    None
                }
                Some(still) => Some(still),
                None => self.find(&mut summary.trouble),
            };
            publisher.update(&self.attacher.feed.sources);
            std::thread::park_timeout(INTERVAL);
        }
        summary.kernel = watched.and_then(|(_, _, probes)| probes).and_then(end);
        summary
    }

    fn find(&mut self, trouble: &mut Vec<String>) -> Option<(Process, BrokerProcess, Option<Running>)> {
        let found = self.identity.find()?;
        let process = Process::of(found.pid);
        let ports = self.named_ports.clone().unwrap_or_else(|| found.ports());
        let log_dirs = self.named_dirs.clone().unwrap_or(found.log_dirs);
        let broker = BrokerProcess { pid: found.pid, log_dirs, ports };
        // Set this before the probes are loaded, which takes seconds, so that other sources follow the broker meanwhile.
        self.attacher.feed.current.set(Some(broker.clone()));
        let probes = self.attacher.attach(&broker).unwrap_or_else(|error| {
            let pid = broker.pid;
            let why = format!("no probes on broker {pid}, which replaced it: {error}");
            let feed = &self.attacher.feed;
            feed.sources.status(KernelSource::NAME).set_down(Some(why.clone()), feed.now());
            trouble.push(why);
            None
        });
        self.announce(&broker, BrokerState::Watched);
        Some((process, broker, probes))
    }

    fn announce(&self, broker: &BrokerProcess, state: BrokerState) {
        let feed = &self.attacher.feed;
        feed.current.set((state == BrokerState::Watched).then(|| broker.clone()));
        feed.sender.send(Event::BrokerChange(BrokerChange { at: feed.now(), pid: broker.pid, state }));
    }
}

impl Attacher {
    /// Attaches probes to a process and starts to poll them; `None` without a plan.
    pub(crate) fn attach(
        &mut self,
        broker: &BrokerProcess,
    ) -> Result<Option<Running>, Box<dyn std::error::Error>> {
        let Some(loaded) = self.load(broker)? else { return Ok(None) };
        Ok(Some(self.start(loaded.attach()?, broker)?))
    }

    /// Loads the programs for a process; `None` without a plan.
    pub(crate) fn load(&self, broker: &BrokerProcess) -> Result<Option<LoadedProbes>, probes::Error> {
        let Some(plan) = &self.plan else { return Ok(None) };
        let target = Target { pid: broker.pid, stacks: true };
        let options = probes::Options {
            ring_bytes: self.ring_bytes,
            clock: self.feed.clock,
            ..probes::Options::default()
        };
        LoadedProbes::load(plan, &target, &options).map(Some)
    }

    /// Starts to poll probes. Takes over their plan, without the hooks that the kernel refused.
    pub(crate) fn start(&mut self, probes: Probes, broker: &BrokerProcess) -> std::io::Result<Running> {
        self.plan = Some(probes.plan().clone());
        let names = Names::new(broker.pid, &broker.log_dirs, self.threads.reader());
        let source = KernelSource { probes, names, share: self.share.clone() };
        Running::start(source, &self.feed.with_own_stop())
    }
}

/// Detaches the probes after they have delivered their remaining events.
/// Returns the error that ended them early, if any.
fn end(probes: Running) -> Option<probes::Error> {
    probes.stop();
    probes.join().kernel
}

/// Identity of a broker across processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    node_id: Option<i32>,
    dirs: Vec<Dir>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Dir {
    path: PathBuf,
    inode: Option<(u64, u64)>,
}

impl Identity {
    /// The identity of a broker, read while its process runs.
    pub(crate) fn of(node_id: Option<i32>, log_dirs: &[PathBuf]) -> Self {
        Self { node_id, dirs: log_dirs.iter().map(|path| Dir::at(path)).collect() }
    }

    /// Whether both are the same broker.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let same_id = self.node_id == other.node_id;
        self.dirs.iter().any(|ours| other.dirs.iter().any(|theirs| ours.is(theirs, same_id)))
    }

    /// Finds this broker's current process, if it runs.
    pub(crate) fn find(&self) -> Option<Broker> {
        broker::find().into_iter().find(|broker| self.is(&Self::of(broker.node_id, &broker.log_dirs)))
    }
}

impl Dir {
    fn at(path: &Path) -> Self {
        let inode = std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        Self { path: path.to_owned(), inode }
    }

    fn is(&self, other: &Self, same_id: bool) -> bool {
        match (self.inode, other.inode) {
            (Some(ours), Some(theirs)) if ours == theirs => true,
            _ => same_id && self.path == other.path,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::Identity;

    #[test]
    fn broker_is_identified_by_its_log_dirs() {
        let root = std::env::temp_dir().join(format!("brokerscope-identity-{}", std::process::id()));
        let (data, other, link) = (root.join("data"), root.join("other"), root.join("link"));
        fs::create_dir_all(&data).unwrap();
        fs::create_dir_all(&other).unwrap();
        std::os::unix::fs::symlink(&data, &link).unwrap();
        let of = |id, dir: &PathBuf| Identity::of(Some(id), std::slice::from_ref(dir));
        let first = of(1, &data);
        assert!(first.is(&of(1, &data)));
        assert!(first.is(&of(2, &link)), "the same directory under another name");
        assert!(!first.is(&of(1, &other)), "another directory is another broker's");
        // The directory was replaced, with another inode.
        fs::rename(&data, root.join("moved")).unwrap();
        fs::create_dir_all(&data).unwrap();
        let remade = (of(1, &data), of(2, &data));
        fs::remove_dir_all(&root).unwrap();
        assert!(first.is(&remade.0));
        assert!(!first.is(&remade.1));
    }
}
