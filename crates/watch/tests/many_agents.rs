//! The TLS agent in a real broker's JVM: loaded and stopped a thousand times, together with another version, and paused.
//! Needs root, a JDK and `BROKERSCOPE_LIVE_TESTS=1`; without the variable, the tests print that they did not run.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use capture::plaintext::{AgentState, Piece, PlaintextRing, RingLosses};
use jvm::attach::Client;
use jvm::{Machine, agent};
use lab::broker::{make_keystore, tls_client_properties};
use lab::kafka::{DEFAULT_VERSION, Kafka};
use lab::{Broker, BrokerOptions};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

const TIMES: u32 = 1_000;
/// Agents after which the JVM has made its one-time allocations.
const WARM_UP: u32 = 100;
/// Growth per agent that is accepted: the JVM never frees an agent's `JPLISAgent` (3 KB), and only part of the memory of a
/// class's older versions (metaspace); the broker's own heap and caches grow too.
const MAX_KEPT_BYTES: usize = 100 << 10;
const RING_BYTES: u32 = 1 << 20;
const NONCE: u64 = 7;
const TIMEOUT: Duration = Duration::from_secs(20);

#[test]
fn thousand_agents_leave_no_resources_in_the_broker() {
    let Some(site) = Site::start() else { return };
    let mut before = None;
    for time in 1..=TIMES {
        let mut agent = Reader::load(&site.broker);
        agent.await_bytes();
        agent.stop();
        if time == WARM_UP {
            before = Some(Traces::of(&site.broker));
        }
        if time % WARM_UP == 0 {
            println!("{time}: {:?}", Traces::of(&site.broker));
        }
    }
    let (before, after) = (before.unwrap(), Traces::of(&site.broker));
    println!("before {before:?}\nafter  {after:?}");
    assert!(after.descriptors <= before.descriptors + 5, "{before:?}, {after:?}");
    assert!(after.threads <= before.threads + 2, "{before:?}, {after:?}");
    assert!(after.classes <= before.classes + 20, "{before:?}, {after:?}");
    assert_eq!(after.rings, 0, "rings are mapped");
    let leaked_bytes =
        after.resident_bytes.saturating_sub(before.resident_bytes) / (TIMES - WARM_UP) as usize;
    println!("{leaked_bytes} bytes are kept of each");
    assert!(leaked_bytes < MAX_KEPT_BYTES, "{before:?}, {after:?}");
}

#[test]
fn two_agent_versions_do_not_disturb_each_other() {
    let Some(site) = Site::start() else { return };
    let mut other = Reader::load_other(&site);
    let mut ours = Reader::load(&site.broker);
    for reader in [&mut other, &mut ours] {
        reader.await_bytes();
    }
    ours.stop();
    other.await_bytes();
    let mut ours = Reader::load(&site.broker);
    other.stop();
    ours.await_bytes();
    ours.stop();
}

#[test]
fn paused_agent_copies_nothing() {
    let Some(site) = Site::start() else { return };
    let mut agent = Reader::load(&site.broker);
    agent.await_bytes();
    agent.ring.pause(true).unwrap();
    let end = Instant::now() + TIMEOUT;
    // The agent checks five times a second.
    while agent.bytes_within(Duration::from_secs(1)) > 0 {
        assert!(Instant::now() < end, "it copies on");
    }
    let before = agent.connections.len();
    agent.ring.pause(false).unwrap();
    agent.await_bytes();
    assert!(agent.connections.len() > before, "what passed meanwhile is not missed");
    agent.stop();
}

/// A broker with a TLS producer, 200 requests a second.
struct Site {
    broker: Broker,
    load: Child,
    directory: TempDir,
}

impl Site {
    fn start() -> Option<Self> {
        if std::env::var_os("BROKERSCOPE_LIVE_TESTS").is_none_or(|value| value != "1") {
            eprintln!("NOT RUN: needs root, a JDK and BROKERSCOPE_LIVE_TESTS=1");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let kafka = Kafka::prepare(DEFAULT_VERSION).unwrap();
        let keystore = make_keystore(directory.path()).unwrap();
        let mut options = BrokerOptions::new(directory.path().join("broker"));
        options.keystore = Some(keystore.clone());
        let broker = Broker::start(&kafka, options).unwrap();
        broker.create_topic(&kafka, "agents", 1).unwrap();
        let properties = directory.path().join("client.properties");
        fs::write(&properties, tls_client_properties(&keystore)).unwrap();
        let mut command = kafka.tool("org.apache.kafka.tools.ProducerPerformance");
        command.args(["--topic", "agents", "--num-records", "10000000", "--record-size", "100"]);
        command.args(["--throughput", "200", "--producer.config"]).arg(properties);
        let bootstrap = format!("bootstrap.servers={}", broker.clients_bootstrap());
        command.args(["--producer-props", &bootstrap, "linger.ms=0"]);
        let load = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        Some(Self { broker, load, directory })
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Both fail if the producer has ended, which is fine.
        let _ = self.load.kill();
        let _ = self.load.wait();
    }
}

/// Reads an agent's ring.
struct Reader {
    ring: PlaintextRing,
    connections: BTreeSet<u64>,
}

impl Reader {
    fn load(broker: &Broker) -> Self {
        let machine = Machine::of(broker.pid).unwrap();
        let client = Client::of(&machine).unwrap();
        let prepare = |file: &File| PlaintextRing::create(file, RING_BYTES, NONCE);
        Self::of(agent::load(&client, std::process::id(), prepare).unwrap())
    }

    /// Loads an agent that is built from different sources.
    fn load_other(site: &Site) -> Self {
        let directory = site.directory.path().join("agent");
        let sources = directory.join("src/brokerscope/agent");
        fs::create_dir_all(&sources).unwrap();
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agent");
        for name in ["Agent", "Patch", "Ring", "Tap"].map(|name| format!("{name}.java")) {
            let text = fs::read_to_string(own.join("src/brokerscope/agent").join(&name)).unwrap();
            fs::write(sources.join(name), text + "// Another version.\n").unwrap();
        }
        fs::copy(own.join("build"), directory.join("build")).unwrap();
        let jar = site.directory.path().join("other.jar");
        assert!(Command::new(directory.join("build")).arg(&jar).status().unwrap().success());
        let path = format!("/dev/shm/.other-agent-{}", std::process::id());
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        PlaintextRing::create(&file, RING_BYTES, NONCE).unwrap();
        let message = jcmd(&site.broker, &["JVMTI.agent_load", jar.to_str().unwrap(), &path]);
        fs::remove_file(path).unwrap();
        assert!(message.contains("return code: 0"), "{message}");
        Self::of(file)
    }

    fn of(file: File) -> Self {
        let ring = PlaintextRing::new(file, RING_BYTES, NONCE, now_ns);
        assert_eq!(ring.state().unwrap(), AgentState::Copies);
        Self { ring, connections: BTreeSet::new() }
    }

    /// Counts the bytes that are copied within a time.
    fn bytes_within(&mut self, time: Duration) -> usize {
        let (end, mut bytes) = (Instant::now() + time, 0);
        while Instant::now() < end {
            sleep(Duration::from_millis(5));
            let mut add = |piece: &Piece<'_>| {
                bytes += piece.bytes.len();
                self.connections.insert(piece.connection);
            };
            self.ring.read(&mut add).unwrap();
        }
        bytes
    }

    fn await_bytes(&mut self) {
        let end = Instant::now() + TIMEOUT;
        while self.bytes_within(Duration::from_millis(10)) == 0 {
            assert!(Instant::now() < end, "nothing is copied");
        }
    }

    fn stop(mut self) {
        self.ring.stop().unwrap();
        let end = Instant::now() + TIMEOUT;
        while self.ring.state().unwrap() != AgentState::Ended {
            assert!(Instant::now() < end, "the agent does not stop");
            self.bytes_within(Duration::from_millis(10));
        }
        assert_eq!(self.ring.dropped().unwrap(), RingLosses::default());
    }
}

/// Resources that an agent could leave in a process.
#[derive(Debug)]
#[allow(dead_code, reason = "printed")]
struct Traces {
    descriptors: usize,
    threads: usize,
    classes: usize,
    rings: usize,
    resident_bytes: usize,
}

impl Traces {
    /// Counts the resources after a GC.
    fn of(broker: &Broker) -> Self {
        jcmd(broker, &["GC.run"]);
        let process = Path::new("/proc").join(broker.pid.to_string());
        let count = |what: &str| fs::read_dir(process.join(what)).unwrap().count();
        let maps = fs::read_to_string(process.join("maps")).unwrap();
        let status = fs::read_to_string(process.join("status")).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let metaspace = jcmd(broker, &["VM.metaspace"]);
        let loaded = metaspace.lines().find_map(|line| line.strip_prefix("Total Usage - ")).unwrap();
        let number = |text: &str| text.parse::<usize>().unwrap();
        Self {
            descriptors: count("fd"),
            threads: count("task"),
            classes: number(loaded.split_whitespace().nth(2).unwrap()),
            rings: maps.lines().filter(|line| line.contains("/dev/shm/")).count(),
            resident_bytes: number(resident.trim_end_matches("kB").trim()) << 10,
        }
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn jcmd(broker: &Broker, question: &[&str]) -> String {
    output(Command::new("jcmd").arg(broker.pid.to_string()).args(question))
}

fn output(command: &mut Command) -> String {
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}
