//! A watch under attack: forged packets, blocking files, silent and slow clients, more connections than memory allows.
//! Each attack costs at most counted data: memory stays below the limit, and an honest client's requests have their
//! rows.
//!
//! Each attack lasts for `BROKERSCOPE_ATTACK_SECONDS`, 20 unless set; `make attack` sets ten minutes. Live tests need root and run
//! where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::float_cmp,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use e2e::gate;
use e2e::recorder::Recorder;
use e2e::traffic::directory;
use lab::client::{Connection, Request};
use lab::host::Cgroup;
use lab::kafka::{DEFAULT_VERSION, Kafka};
use lab::{Broker, BrokerOptions, Site};
use model::{Event, Table, api_key};
use recording::Recording;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

const TOPIC: &str = "attacked";
const CLIENT: &str = "honest-client";
/// Memory limit of the watch; its cgroup has some more.
const CEILING_MIB: i64 = 128;
const SPARE_MIB: i64 = 32;
/// Minimum share of an honest client's requests that have rows.
const MIN_SHARE: f64 = 0.999;
/// 1.4 MB, and rows of 84,000 partitions. If there are more than a recorder can read, packets are lost, and counted.
const FORGED_A_SECOND: u64 = 1_000;
/// 100,000 in ten minutes; in a shorter attack, as many as can be opened.
const CONNECTIONS_A_SECOND: u64 = 200;
const MAX_CONNECTIONS: u64 = 100_000;
/// Requests per second on all of them.
const ASKED_A_SECOND: u64 = 500;
/// Besides those for connections.
const DESCRIPTORS: u64 = 4_000;
const SILENT_CLIENTS: usize = 2_000;
const SLOW_CLIENTS: usize = 200;
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(2);

#[test]
fn forged_packets_and_blocking_files_cost_bounded_memory_and_few_rows() {
    let Some(_alone) = gate::live("forged_packets_and_blocking_files_cost_bounded_memory_and_few_rows")
    else {
        return;
    };
    let (kafka, directory) = (kafka(), directory("attacked-recorder"));
    let broker = broker(&kafka, &directory);
    plant(&broker.log_dir);
    let group = Group::make();
    let recording = directory.join("recording");
    let flags = ["--max-memory", &format!("{CEILING_MIB}MiB")];
    let recorder = Recorder::start_by_with(group.command(), &recording, broker.pid, &flags);
    let honest = HonestClient::start(broker.listener());
    let forged = attack_by("forged.py", &broker, &[FORGED_A_SECOND]);
    let (requests, peak_mib) = (honest.stop(), peak_mib(recorder.pid()));
    recorder.stop();
    let rows = rows_of(&recording, CLIENT, api_key::PRODUCE);
    println!("{forged} forged segments; {rows} rows of {requests} honest requests; {peak_mib} MiB at most");
    assert!(forged > FORGED_A_SECOND / 2 * attack_time().as_secs(), "{forged}");
    assert!(rows as f64 >= MIN_SHARE * requests as f64 && rows <= requests, "{rows} rows of {requests}");
    assert!(peak_mib <= CEILING_MIB, "{peak_mib} MiB");
    group.assert_served();
}

#[test]
fn records_requests_on_more_connections_than_fit_in_memory() {
    let Some(_alone) = gate::live("records_requests_on_more_connections_than_fit_in_memory") else { return };
    let (kafka, directory) = (kafka(), directory("attacked-connections"));
    let target_connections = (attack_time().as_secs() * CONNECTIONS_A_SECOND).min(MAX_CONNECTIONS);
    let connections = raise_open_files(target_connections + DESCRIPTORS) - DESCRIPTORS;
    let mut options = BrokerOptions::new(directory.join("broker"));
    options.jvm_arguments.push("-Xmx2g".to_owned());
    // With the default of 50, many clients retry after a second.
    options.properties.push(("socket.listen.backlog.size".to_owned(), "4096".to_owned()));
    let broker = Broker::start(&kafka, options).unwrap_or_else(|error| panic!("{error}"));
    let group = Group::make();
    let recording = directory.join("recording");
    let flags = ["--max-memory", &format!("{CEILING_MIB}MiB")];
    let recorder = Recorder::start_by_with(group.command(), &recording, broker.pid, &flags);
    let sent_requests = attack_by("connected.py", &broker, &[connections, ASKED_A_SECOND]);
    let peak_mib = peak_mib(recorder.pid());
    recorder.stop();
    let rows = rows_of(&recording, "one-of-many", api_key::API_VERSIONS) as u64;
    println!("{rows} rows of {sent_requests} requests on {connections} connections; {peak_mib} MiB at most");
    assert!(
        sent_requests > 100 && rows as f64 >= MIN_SHARE * sent_requests as f64 && rows <= sent_requests,
        "{rows} of {sent_requests}"
    );
    assert!(peak_mib <= CEILING_MIB, "{peak_mib} MiB");
    group.assert_served();
}

#[test]
fn silent_and_slow_clients_do_not_block_a_scraper() {
    let Some(_alone) = gate::live("silent_and_slow_clients_do_not_block_a_scraper") else { return };
    let (kafka, directory) = (kafka(), directory("attacked-exporter"));
    let broker = broker(&kafka, &directory);
    let group = Group::make();
    let mut command = group.command();
    command.args(["export", "--listen", "127.0.0.1:0", "--pid", &broker.pid.to_string()]);
    command.args(["--max-memory", &format!("{CEILING_MIB}MiB"), "--max-cost", "none"]);
    let mut exporter = Exporter::start(command);
    let mut client = Connection::open(broker.listener(), CLIENT).unwrap();
    await_counting(&exporter, &mut client);
    let before = exporter.scrape().unwrap();
    let attackers = Attackers::start(exporter.address);
    let (mut sent, mut scrapes, end) = (0, 0, Instant::now() + attack_time());
    while Instant::now() < end {
        for _ in 0..20 {
            client.order(&Request::produce(TOPIC, 0, 1, &[b"counted"])).unwrap();
            sent += 1;
        }
        exporter.scrape().unwrap_or_else(|error| panic!("scrape {scrapes}: {error}"));
        scrapes += 1;
        sleep(Duration::from_millis(200));
    }
    attackers.stop();
    let peak_mib = peak_mib(exporter.child.id());
    sleep(Duration::from_secs(3));
    let counted = exporter.scrape().unwrap() - before;
    println!("{scrapes} scrapes; {counted} of {sent} requests counted; {peak_mib} MiB at most");
    assert_eq!(counted, f64::from(sent));
    assert!(peak_mib <= CEILING_MIB, "{peak_mib} MiB");
    exporter.stop();
    group.assert_served();
}

fn attack_time() -> Duration {
    let seconds = std::env::var("BROKERSCOPE_ATTACK_SECONDS").ok();
    Duration::from_secs(seconds.map_or(20, |seconds| seconds.parse().unwrap()))
}

fn kafka() -> Kafka {
    Kafka::prepare(DEFAULT_VERSION).unwrap_or_else(|error| panic!("{error}"))
}

fn broker(kafka: &Kafka, directory: &Path) -> Broker {
    let broker = Broker::start(kafka, BrokerOptions::new(directory.join("broker")));
    let broker = broker.unwrap_or_else(|error| panic!("{error}"));
    broker.create_topic(kafka, TOPIC, 1).unwrap_or_else(|error| panic!("{error}"));
    broker
}

/// Creates directories like those of partitions, with pipes and endless files. Nobody writes to the pipes.
fn plant(log_dir: &Path) {
    for (number, file) in ["partition.metadata", "00000000000000000000.log"].into_iter().enumerate() {
        let [blocking, endless] =
            ["blocking", "endless"].map(|topic| log_dir.join(format!("{topic}-{number}")));
        fs::create_dir(&blocking).unwrap();
        assert!(Command::new("mkfifo").arg(blocking.join(file)).status().unwrap().success());
        fs::create_dir(&endless).unwrap();
        symlink("/dev/zero", endless.join(file)).unwrap();
    }
}

/// A cgroup with a memory limit; removed with its site.
struct Group {
    cgroup: Cgroup,
    _site: Site,
}

impl Group {
    fn make() -> Self {
        let site = Site::claim().unwrap();
        let cgroup = Cgroup::make(site.path(), "memory").unwrap();
        cgroup.set("memory.limit_in_bytes", (CEILING_MIB + SPARE_MIB) << 20).unwrap();
        Self { cgroup, _site: site }
    }

    fn command(&self) -> Command {
        let words = self.cgroup.entering();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(e2e::brokerscope::binary().unwrap());
        command
    }

    /// Checks that nothing in it was killed for lack of memory.
    fn assert_served(&self) {
        assert_eq!(self.cgroup.figure("memory.oom_control", "oom_kill").unwrap(), 0);
    }
}

/// Peak memory of a process.
fn peak_mib(pid: u32) -> i64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<i64>().unwrap() / 1024
}

/// Raises the file descriptor limit of this process and its children. Returns the limit: in a container, root may not
/// raise it.
fn raise_open_files(target: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: Some(target), maximum: limit.maximum.map(|most| most.max(target)) };
    match (setrlimit(Resource::Nofile, raised), limit.maximum) {
        (Err(_), Some(most)) => most.min(target),
        _ => target,
    }
}

/// Runs a script of `attacks` against a broker for the duration of an attack. Passes it further arguments, and returns
/// the number that it prints.
fn attack_by(script: &str, broker: &Broker, further: &[u64]) -> u64 {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("attacks").join(script);
    let arguments = [&[u64::from(broker.port), attack_time().as_secs()][..], further].concat();
    let mut attacker = Command::new("python3");
    attacker.arg(script).args(arguments.iter().map(u64::to_string)).stdout(Stdio::piped());
    let output = attacker.spawn().unwrap().wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// Number of a client's requests in a recording.
fn rows_of(recording: &Path, client: &str, api_key: i16) -> usize {
    let events = Recording::open(recording).unwrap().events_of(&[Table::Requests]);
    let is_of = |event: &Event| match event {
        Event::Request(request) => request.client_id.as_deref() == Some(client) && request.api_key == api_key,
        _ => false,
    };
    events.filter(|event| is_of(event.as_ref().unwrap())).count()
}

/// A client that sends one produce request after the other, and counts them.
struct HonestClient {
    stopped: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl HonestClient {
    fn start(broker: SocketAddr) -> Self {
        let stopped = Arc::<AtomicBool>::default();
        let stop = Arc::clone(&stopped);
        let mut connection = Connection::open(broker, CLIENT).unwrap();
        let thread = spawn(move || {
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                connection.order(&Request::produce(TOPIC, 0, 1, &[b"counted"])).unwrap();
                sent += 1;
                sleep(Duration::from_millis(2));
            }
            sent
        });
        Self { stopped, thread }
    }

    fn stop(self) -> usize {
        self.stopped.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// A running exporter; killed when dropped.
struct Exporter {
    child: Child,
    address: SocketAddr,
}

impl Exporter {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics"));
        Self { child, address: address.unwrap().parse().unwrap() }
    }

    /// Scrapes the number of produce requests counted.
    fn scrape(&self) -> std::io::Result<f64> {
        let mut stream = TcpStream::connect_timeout(&self.address, SCRAPE_TIMEOUT)?;
        stream.set_read_timeout(Some(SCRAPE_TIMEOUT))?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let counted =
            answer.lines().find_map(|line| line.strip_prefix("brokerscope_requests_total{api=\"PRODUCE\"} "));
        let whole = answer.starts_with("HTTP/1.1 200 ");
        whole
            .then(|| counted.map_or(0.0, |count| count.parse().unwrap()))
            .ok_or(std::io::ErrorKind::InvalidData.into())
    }

    fn stop(&mut self) {
        e2e::tcpdump::signal(&self.child, Signal::INT);
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends requests until the exporter counts them; from then on it counts each one.
fn await_counting(exporter: &Exporter, client: &mut Connection) {
    let end = Instant::now() + Duration::from_secs(60);
    while exporter.scrape().unwrap() == 0.0 {
        assert!(Instant::now() < end, "no request is counted");
        client.order(&Request::produce(TOPIC, 0, 1, &[b"first"])).unwrap();
        sleep(Duration::from_millis(200));
    }
    // Waits until the requests are counted.
    sleep(Duration::from_secs(3));
}

/// Clients that attack the metrics port. Some send nothing, and some send requests and hardly read. They reconnect when
/// they are disconnected.
struct Attackers {
    stopped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Attackers {
    fn start(address: SocketAddr) -> Self {
        let stopped = Arc::<AtomicBool>::default();
        let threads =
            [(SILENT_CLIENTS, &b""[..]), (SLOW_CLIENTS, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")].map(
                |(count, request)| {
                    let stop = Arc::clone(&stopped);
                    spawn(move || attack(address, count, request, &stop))
                },
            );
        Self { stopped, threads: threads.into() }
    }

    fn stop(self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

fn attack(address: SocketAddr, count: usize, request: &[u8], stop: &AtomicBool) {
    let mut clients: Vec<TcpStream> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        clients.retain_mut(is_open);
        while clients.len() < count {
            let Ok(mut client) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) else {
                break;
            };
            client.set_nonblocking(true).unwrap();
            if client.write_all(request).is_ok() {
                clients.push(client);
            }
        }
        sleep(Duration::from_millis(100));
    }
}

/// Whether the other side keeps the connection open; reads a byte if there is one.
fn is_open(client: &mut TcpStream) -> bool {
    match client.read(&mut [0]) {
        Ok(count) => count > 0,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}
