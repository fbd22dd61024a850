//! A process in another network namespace, and a broker that moves to a new one. Needs root and `BROKERSCOPE_LIVE_TESTS=1`.
//! Without the variable, the tests print that they did not run; with it, anything missing is a failure.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use broker::Broker;
use lab::Site;
use lab::net::{Network, Place};
use lab::program::child_with;
use model::{Event, Loss, LossKind, Nanos};
use rustix::process::{Signal, kill_process};
use watch::{Jfr, Memory, Options, PARSE_PACKETS, Packets, Watch, read_host_facts};

const MTU_BYTES: u32 = 1_380;
/// Long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A process that is killed at the end of the test, even if it fails.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_enabled() -> bool {
    let is_enabled = std::env::var_os("BROKERSCOPE_LIVE_TESTS").is_some_and(|value| value == "1");
    if !is_enabled {
        eprintln!("NOT RUN: needs root and BROKERSCOPE_LIVE_TESTS=1");
    }
    is_enabled
}

#[test]
fn interfaces_come_from_the_brokers_namespace_not_its_sysfs() {
    if !is_enabled() {
        return;
    }
    let site = Site::claim().unwrap();
    let network = Network::make(site.path(), 1).unwrap();
    network.set_mtu(1, MTU_BYTES).unwrap();
    let mut command = network.host(1).unwrap().command("sleep");
    let guest = Guest(command.arg("60").stdin(Stdio::null()).spawn().unwrap());
    let pid = guest.0.id();
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while namespace(&pid.to_string()) == namespace("self") {
        assert!(Instant::now() < end, "nsenter has not entered");
        sleep(Duration::from_millis(10));
    }
    let found = read_host_facts(pid, &Err("this test has no broker".into())).interfaces.unwrap();
    let interfaces: Vec<_> = found.iter().map(|one| (&*one.name, one.mtu_bytes)).collect();
    assert_eq!(interfaces, [("uplink", MTU_BYTES)]);
}

/// Starts a process that looks like a broker, but serves nothing.
/// Its command line and mapped files are like a broker's.
fn stand_in(site: &Path, place: &Place, port: u16) -> Guest {
    let properties = site.join(format!("{port}.properties"));
    let log_dirs = site.join("data");
    fs::create_dir_all(&log_dirs).unwrap();
    let text = format!("node.id=1\nlog.dirs={}\nlisteners=PLAINTEXT://:{port}\n", log_dirs.display());
    fs::write(&properties, text).unwrap();
    let library = site.join("libjvm.so");
    if !library.exists() {
        fs::copy("/bin/bash", &library).unwrap();
    }
    let mut command = place.command("bash");
    command.args([
        "-c",
        "exec -a java \"$2\" -c 'while :; do read -t 60 <> <(:); done' kafka.Kafka \"$1\"",
        "bash",
    ]);
    let guest = Guest(command.args([&properties, &library]).stdin(Stdio::null()).spawn().unwrap());
    let end = Instant::now() + TIMEOUT;
    while Broker::of_pid(guest.0.id()).is_err() {
        assert!(Instant::now() < end, "no broker");
        sleep(Duration::from_millis(1));
    }
    guest
}

/// Exchanges an `ApiVersions` request of version 0 and its response, in a network.
fn exchange(place: &Place, port: u16) {
    let request = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
    let answer = [0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let talk = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let (server, _) = listener.accept().unwrap();
        for (mut from, mut to, bytes) in [(&client, &server, request), (&server, &client, answer)] {
            from.write_all(&bytes).unwrap();
            to.read_exact(&mut bytes.clone()).unwrap();
        }
    };
    place.within(talk).unwrap();
}

/// This process's packet parser, if there is one.
fn parser() -> Option<u32> {
    child_with(std::process::id(), PARSE_PACKETS)
}

/// Exchanges requests until one is captured; returns the losses of packets until then.
fn losses_until_captured(watch: &Watch, place: &Place, port: u16) -> Vec<Loss> {
    let (mut losses, end) = (Vec::new(), Instant::now() + TIMEOUT);
    while Instant::now() < end {
        exchange(place, port);
        while let Some(event) = watch.next(Duration::from_millis(50)) {
            match event {
                Event::Request(request) if request.broker.port() == port => {
                    // Requests of other exchanges are still under way.
                    while watch.next(Duration::from_millis(300)).is_some() {}
                    return losses;
                }
                Event::Loss(loss) if loss.kind == LossKind::SourceDown => losses.push(loss),
                _ => {}
            }
        }
    }
    panic!("no request on port {port} was seen; losses: {losses:?}");
}

fn now(watch: &Watch) -> Nanos {
    watch.clock().0.from_monotonic(watch::now().monotonic_ns)
}

/// Whether the losses cover a time, without gaps of more than a second.
fn cover(losses: &[Loss], (start, end): (Nanos, Nanos)) -> bool {
    losses.first().is_some_and(|first| first.start <= start)
        && losses.last().is_some_and(|last| last.end >= end)
        && losses.windows(2).all(|two| two[1].start - two[0].end < Nanos::from_millis(1_000))
}

#[test]
fn capture_resumes_after_a_namespace_change_or_interface_outage() {
    if !is_enabled() {
        return;
    }
    let site = Site::claim().unwrap();
    let network = Network::make(site.path(), 2).unwrap();
    let (first, second) = (network.host(1).unwrap(), network.host(2).unwrap());
    let guest = stand_in(site.path(), &first, 19_092);
    let pid = guest.0.id();
    let watch = Watch::start(&Options {
        pid,
        node_id: Some(1),
        log_dirs: vec![site.path().join("data")],
        named_dirs: None,
        ports: vec![19_092],
        named_ports: None,
        packets: Some(Packets { interface: "lo".to_owned(), message_id_header: None, see_tls: false }),
        request_log: None,
        always_on: None,
        kernel: false,
        cpu_samples_hz: None,
        host: false,
        jvm: false,
        jfr: Jfr::Never,
        parser: lab::program::brokerscope().unwrap(),
        memory: Memory::default(),
        max_cost: None,
    });
    assert!(losses_until_captured(&watch, &first, 19_092).is_empty());

    let down = now(&watch);
    let ip = |state| first.command("ip").args(["link", "set", "dev", "lo", state]).status().unwrap();
    assert!(ip("down").success());
    sleep(Duration::from_millis(2_500));
    let requests = watch.sources().health().into_iter().find(|health| health.purpose == "requests").unwrap();
    assert!(requests.down.is_some_and(|why| why.contains("Network is down")));
    assert!(ip("up").success());
    let up = now(&watch);
    let losses = losses_until_captured(&watch, &first, 19_092);
    assert!(cover(&losses, (down, up)), "{down:?} to {up:?}: {losses:?}");
    assert!(losses[0].detail.contains("Network is down"), "{losses:?}");

    drop(guest);
    let _guest = stand_in(site.path(), &second, 19_093);
    let began = now(&watch);
    let losses = losses_until_captured(&watch, &second, 19_093);
    assert!(cover(&losses, (began, began)), "{began:?}: {losses:?}");
    let took = losses.last().unwrap().end - began;
    println!("captured again {took:?} after the broker was there");
    assert!(took < Nanos::from_millis(4_000), "captured again after {took:?}");

    let began = now(&watch);
    let killed = parser().unwrap();
    kill_process(rustix::process::Pid::from_raw(killed as i32).unwrap(), Signal::KILL).unwrap();
    while parser().is_none_or(|parser| parser == killed) {
        assert!(now(&watch) - began < Nanos::from_millis(4_000), "nothing takes its place");
        sleep(Duration::from_millis(1));
    }
    let losses = losses_until_captured(&watch, &second, 19_093);
    assert!(cover(&losses, (began, began)), "{began:?}: {losses:?}");
    assert!(losses[0].detail.contains("signal: 9"), "{losses:?}");
    assert!(losses.last().unwrap().end - began < Nanos::from_millis(4_000), "{losses:?}");
    assert!(watch.stop(&mut drop).packets.unwrap().is_ok());
}
