//! Real experiments: FUSE, loop devices, mounts and a broker; nothing of them stays.
//!
//! Runs only with `BROKERSCOPE_LIVE_TESTS=1`, and then anything that is not permitted is a failure. It has a `main`,
//! because libtest would swallow the line that says it did not run, and because the cases compare the machine before
//! and after and so must run one at a time. Arguments that are not flags select cases by name.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test, though clippy takes it for a program"
)]

#[path = "live/machine.rs"]
mod machine;

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use lab::device::{DeviceOperation, DeviceOptions, Direction};
use lab::host::Cgroup;
use lab::net::{Limit, Network, Way};
use lab::volume::{Extent, FileSystem, Volume, VolumeOptions};
use lab::{Broker, BrokerOptions, Kafka, Site};
use machine::{Cache, DEMO, Machine};

const CASES: &[(&str, fn())] = &[
    ("only_writes_into_the_journal_are_held_back", only_writes_into_the_journal_are_held_back),
    ("a_dropped_site_leaves_nothing", a_dropped_site_leaves_nothing),
    ("a_device_whose_server_died_is_still_taken_down", a_device_whose_server_died_is_still_taken_down),
    ("networks_and_cgroups_go_with_their_site", networks_and_cgroups_go_with_their_site),
    ("a_broker_answers_and_logs_its_requests", a_broker_answers_and_logs_its_requests),
    ("a_demo_shows_the_explanation_and_leaves_nothing", a_demo_shows_the_explanation_and_leaves_nothing),
    ("an_interrupted_demo_leaves_nothing", an_interrupted_demo_leaves_nothing),
];

fn main() -> ExitCode {
    machine::run(CASES)
}

fn only_writes_into_the_journal_are_held_back() {
    let root = tempfile::tempdir().unwrap();
    let before = Machine::now();
    let site = Site::claim_in(root.path()).unwrap();
    let mut volume = volume(&site);
    let journal = volume.journal().to_vec();
    assert_eq!(
        first_bytes(volume.loop_device(), journal[0].offset),
        [0xc0, 0x3b, 0x39, 0x98],
        "jbd2's magic"
    );

    volume.inject_journal_delay(150, 300).unwrap();
    volume.device().trace().unwrap();
    write_and_sync(volume.directory());
    let (held, free): (Vec<DeviceOperation>, Vec<DeviceOperation>) =
        volume.device().trace().unwrap().into_iter().partition(|served| served.held_ms > 0);
    assert!(!held.is_empty(), "a commit writes into the journal");
    assert!(free.iter().any(|served| served.direction == Direction::Write), "data is written elsewhere");
    for served in &held {
        assert!(touches(&journal, served) && served.direction == Direction::Write, "{served:?}");
        assert!((150..=300).contains(&served.held_ms), "{served:?}");
    }
    for served in &free {
        assert!(!touches(&journal, served) || served.direction == Direction::Read, "{served:?}");
    }

    volume.device().clear().unwrap();
    write_and_sync(volume.directory());
    assert!(volume.device().trace().unwrap().iter().all(|served| served.held_ms == 0));
    drop(volume);
    drop(site);
    before.assert_unchanged();
}

fn a_dropped_site_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let before = Machine::now();
    let site = Site::claim_in(root.path()).unwrap();
    let volume = volume(&site);
    assert_ne!(before, Machine::now(), "what is compared can see a volume");
    // The site goes first: it is the safety net for everything that belongs to it.
    drop(site);
    drop(volume);
    before.assert_unchanged();
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "only the lock stays");
}

fn a_device_whose_server_died_is_still_taken_down() {
    let root = tempfile::tempdir().unwrap();
    let before = Machine::now();
    let site = Site::claim_in(root.path()).unwrap();
    let mut volume = volume(&site);
    let pid = volume.device().pid();
    assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
    drop(volume);
    drop(site);
    before.assert_unchanged();
}

fn networks_and_cgroups_go_with_their_site() {
    let root = tempfile::tempdir().unwrap();
    let before = Machine::now();
    let site = Site::claim_in(root.path()).unwrap();
    let network = Network::make(site.path(), 2).unwrap();
    assert_carries(&network);
    let group = Cgroup::make(site.path(), "cpu").unwrap();
    let name = format!("brokerscope-lab-{}", site.path().file_name().unwrap().to_string_lossy());
    let path = Path::new("/sys/fs/cgroup/cpu").join(name);
    assert_eq!(group.figure("cpu.stat", "nr_throttled").unwrap(), 0);
    let mut crowd = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    group.set("cpu.cfs_period_us", 100_000).unwrap();
    group.set("cpu.cfs_quota_us", 10_000).unwrap();
    group.put(crowd.id()).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while group.figure("cpu.stat", "nr_throttled").unwrap() == 0 {
        assert!(Instant::now() < end, "nobody is throttled");
        std::thread::sleep(Duration::from_millis(50));
    }
    crowd.kill().unwrap();
    crowd.wait().unwrap();
    assert_ne!(before, Machine::now(), "what is compared can see a network");
    // As after a killed lab: what belongs to the site is found without its handles.
    drop(site);
    assert!(!path.exists(), "the cgroup stays");
    drop((network, group));
    before.assert_unchanged();
}

/// Asserts that packets reach the other host, up to a limit. Those that do not fit the limit are dropped.
fn assert_carries(network: &Network) {
    let address = SocketAddr::from((Network::address(2), 9));
    let receiver = network.host(2).unwrap().within(|| UdpSocket::bind(address)).unwrap().unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let sender = network.clients().within(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
    sender.send_to(b"through", address).unwrap();
    let mut read = [0; 16];
    assert_eq!(receiver.recv(&mut read).unwrap(), 7);
    let limit = Limit { rate_kbit: 100, burst_bytes: 2_000, queue_bytes: 4_000 };
    network.limit(2, Way::ToHost, limit).unwrap();
    for _ in 0..50 {
        sender.send_to(&[0; 1_000], address).unwrap();
    }
    assert!(network.dropped(2, Way::ToHost).unwrap() > 10);
    network.free(2, Way::ToHost).unwrap();
}

fn a_broker_answers_and_logs_its_requests() {
    let kafka = Kafka::prepare(lab::kafka::DEFAULT_VERSION).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut options = BrokerOptions::new(directory.path());
    options.request_log = true;
    let mut broker = Broker::start(&kafka, options).unwrap();
    broker.create_topics(&kafka, &[("one", 1), ("two", 2)]).unwrap();
    assert!(broker.runs());
    assert!(broker.create_topic(&kafka, "one", 1).unwrap_err().to_string().contains("already exists"));
    assert!(broker.log_dir.join("two-1").is_dir());
    let requests = fs::read_to_string(broker.request_log.as_ref().unwrap()).unwrap();
    assert!(requests.contains("\"requestApiKeyName\":\"CREATE_TOPICS\""), "{requests}");
    let pid = broker.pid;
    broker.stop();
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

fn a_demo_shows_the_explanation_and_leaves_nothing() {
    let cache = Cache::new();
    let before = Machine::now();
    let stand_in =
        cache.stand_in("case $1 in record) mkdir \"$3\"; sleep 3;; explain) echo \"because of $2\";; esac");
    let directory = cache.path().join("kept");
    let answer = cache.lab(&["demo", "--seconds", "3", "--seed", "1"]);
    let output =
        { answer }.arg("--keep").arg(&directory).arg("--brokerscope").arg(stand_in).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("because of {}\n", directory.display()));
    assert!(stderr.contains("injected") && stderr.contains("--seed 1"), "{stderr}");
    assert!(directory.is_dir());
    before.assert_unchanged();
    cache.assert_no_sites();
}

fn an_interrupted_demo_leaves_nothing() {
    let cache = Cache::new();
    let before = Machine::now();
    let mut demo = cache.recording(&DEMO);
    assert_ne!(before, Machine::now(), "what is compared can see a demo");
    assert!(Command::new("kill").args(["-INT", &demo.id().to_string()]).status().unwrap().success());
    assert!(!demo.wait().unwrap().success());
    before.assert_unchanged();
    cache.assert_no_sites();
}

fn volume(site: &Site) -> Volume {
    let device = DeviceOptions { size_bytes: 512 << 20, seed: 1 };
    let options = VolumeOptions { device, file_system: FileSystem::Ext4, mount_options: String::new() };
    Volume::prepare(site, &options).unwrap()
}

fn write_and_sync(directory: &Path) {
    for number in 0..20 {
        fs::write(directory.join(format!("file-{number}")), vec![number; 64 << 10]).unwrap();
    }
    assert!(Command::new("sync").arg("--file-system").arg(directory).status().unwrap().success());
}

fn touches(journal: &[Extent], served: &DeviceOperation) -> bool {
    journal.iter().any(|extent| {
        served.offset < extent.offset + extent.length && extent.offset < served.offset + served.length
    })
}

fn first_bytes(device: &Path, offset: u64) -> [u8; 4] {
    use std::os::unix::fs::FileExt;
    let mut bytes = [0; 4];
    fs::File::open(device).unwrap().read_exact_at(&mut bytes, offset).unwrap();
    bytes
}
