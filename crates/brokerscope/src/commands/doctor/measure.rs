//! `doctor --measure`: what the BPF programs of each plan cost a request on this host. This process stands in for a broker: it
//! reads requests as Kafka does (the size, then the rest), appends them to a file and responds. A second process sends them.
//! The programs run for every process of the host, so what they cost while no request is sent is subtracted.
//! Does not measure what `record` or `export` cost beside the programs. Not fuzzed: the bytes are from the second process.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use probes::{Event, Facts, Plan, Probes, ProgramCost, Target, always_on};
use report::doctor::{PlanCost, ProgramFacts};

/// The argument that makes the program call [`send_requests`].
pub(crate) const SEND_REQUESTS: &str = "send-requests";

const REQUESTS: u32 = 10_000;
/// As far apart as those of a busy broker: programs that run rarely find cold caches.
const INTERVAL: Duration = Duration::from_micros(200);
/// Bytes of a request after its size, and of a response with its size.
const REQUEST_BYTES: usize = 100;
const RESPONSE_BYTES: usize = 60;
/// Bytes that the appends reach before the file begins again.
const FILE_BYTES: u64 = 1 << 20;
/// Timeout of one read: the other process may have died.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long the programs are measured without requests.
const IDLE_TIME: Duration = Duration::from_secs(1);
/// Share of the requests that must have been followed, so that their cost is that of a broker's.
const MIN_FOLLOWED: u64 = REQUESTS as u64 * 9 / 10;

/// Measures each plan that this host supports.
pub(super) fn measure() -> Vec<PlanCost> {
    let facts = Facts::survey();
    let plans = [("always-on", always_on(&facts)), ("full", full(&facts))];
    plans.into_iter().map(|(plan, costs)| plan_cost(plan, costs)).collect()
}

fn plan_cost(plan: &str, costs: anyhow::Result<Vec<ProgramCost>>) -> PlanCost {
    let (costs, missing) = match costs {
        Ok(costs) => (costs, None),
        Err(error) => (Vec::new(), Some(format!("{error:#}"))),
    };
    let per_request = |count: u64| count as f64 / f64::from(REQUESTS);
    let programs = costs.into_iter().filter(|cost| cost.run_count > 0 && cost.run_time_ns > 0).map(|cost| {
        ProgramFacts {
            runs_per_request: per_request(cost.run_count),
            ns_per_request: per_request(cost.run_time_ns),
            program: cost.program,
        }
    });
    PlanCost { plan: plan.to_owned(), programs: programs.collect(), missing }
}

fn always_on(facts: &Facts) -> anyhow::Result<Vec<ProgramCost>> {
    let load = Load::prepare()?;
    let options =
        always_on::Options { ports: vec![load.port()?], measure: true, ..always_on::Options::default() };
    let session = always_on::Session::attach(&always_on::Plan::choose(facts), std::process::id(), &options)?;
    let costs = cost_of(load, || session.overhead(), &mut |interval| {
        thread::sleep(interval);
        Ok(())
    })?;
    check_followed(session.histograms().map(|histogram| histogram.answered()).sum())?;
    Ok(costs)
}

fn full(facts: &Facts) -> anyhow::Result<Vec<ProgramCost>> {
    let load = Load::prepare()?;
    let target = Target { pid: std::process::id(), stacks: true };
    let options = probes::Options { measure: true, ..probes::Options::default() };
    let probes = RefCell::new(Probes::attach_with(&Plan::choose(facts), &target, &options)?);
    let mut appends = 0;
    let is_append = |event: &Event| matches!(event, Event::FileOp(op) if op.result == REQUEST_BYTES as i64);
    let costs = cost_of(load, || probes.borrow().overhead(), &mut |interval| {
        let mut count = |event: Event| appends += u64::from(is_append(&event));
        probes.borrow_mut().poll(interval, &mut count)
    })?;
    check_followed(appends)?;
    Ok(costs)
}

/// Checks how many requests the programs have followed.
fn check_followed(requests: u64) -> anyhow::Result<()> {
    ensure!(requests >= MIN_FOLLOWED, "the programs followed {requests} of {REQUESTS} requests");
    Ok(())
}

/// What each program cost for all requests. Calls `meanwhile` with the time that it may take.
fn cost_of(
    load: Load,
    overhead: impl Fn() -> Vec<ProgramCost>,
    meanwhile: &mut dyn FnMut(Duration) -> Result<(), probes::Error>,
) -> anyhow::Result<Vec<ProgramCost>> {
    let (start, before) = (Instant::now(), overhead());
    while start.elapsed() < IDLE_TIME {
        meanwhile(POLL_INTERVAL)?;
    }
    let (begun, idle) = (Instant::now(), overhead());
    let mut served = Ok(());
    load.run(&mut || {
        if served.is_ok() {
            served = meanwhile(POLL_INTERVAL);
        }
    })?;
    served?;
    let (elapsed, after) = (begun.elapsed(), overhead());
    let ratio = elapsed.as_secs_f64() / (begun - start).as_secs_f64();
    let costs = since(idle.clone(), after).into_iter().zip(since(before, idle));
    let costs: Vec<_> = costs.map(|(loaded, idle)| without(loaded, &idle, ratio)).collect();
    let is_measured = costs.iter().any(|cost| cost.run_count > 0);
    ensure!(is_measured, "the kernel does not measure BPF programs: it needs CAP_SYS_ADMIN and Linux 5.8");
    Ok(costs)
}

/// Subtracts what a program cost in an idle time, of which the loaded time is this multiple.
fn without(loaded: ProgramCost, idle: &ProgramCost, ratio: f64) -> ProgramCost {
    let scaled = |count: u64| (count as f64 * ratio) as u64;
    ProgramCost {
        run_time_ns: loaded.run_time_ns.saturating_sub(scaled(idle.run_time_ns)),
        run_count: loaded.run_count.saturating_sub(scaled(idle.run_count)),
        ..loaded
    }
}

/// What each program cost since an earlier reading.
fn since(before: Vec<ProgramCost>, now: Vec<ProgramCost>) -> Vec<ProgramCost> {
    let both = before.into_iter().zip(now);
    both.map(|(before, now)| without(now, &before, 1.0)).collect()
}

/// A stand-in for a broker.
struct Load {
    listener: TcpListener,
    file: File,
}

impl Load {
    fn prepare() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listening on 127.0.0.1")?;
        // `/tmp` is often in memory, where an append costs nothing.
        let directory = std::env::var_os("TMPDIR").map_or_else(|| "/var/tmp".into(), PathBuf::from);
        let path = directory.join(format!("brokerscope-measure-{}", std::process::id()));
        let file = File::create_new(&path).with_context(|| path.display().to_string())?;
        fs::remove_file(&path).with_context(|| path.display().to_string())?;
        Ok(Self { listener, file })
    }

    fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Serves all requests; calls `meanwhile` until they are served.
    fn run(self, meanwhile: &mut dyn FnMut()) -> anyhow::Result<()> {
        let client = TcpStream::connect(self.listener.local_addr()?)?;
        let server = self.listener.accept()?.0;
        server.set_read_timeout(Some(READ_TIMEOUT))?;
        for end in [&client, &server] {
            end.set_nodelay(true)?;
        }
        let mut sender = start_sender(client)?;
        let serving = thread::spawn(move || serve(server, self.file));
        while !serving.is_finished() {
            meanwhile();
        }
        let result = serving.join().map_err(|_| anyhow::anyhow!("the thread that serves panicked"))?;
        if result.is_err() {
            let _ = sender.kill();
        }
        let status = sender.wait()?;
        result.with_context(|| format!("serving requests; their sender: {status}"))
    }
}

fn start_sender(client: TcpStream) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("the path of this program")?;
    let mut sender = Command::new(program);
    sender.arg(SEND_REQUESTS).stdin(OwnedFd::from(client)).stdout(Stdio::null());
    sender.spawn().context("starting the sender of requests")
}

/// Sends requests through a connected socket, one at a time.
pub(crate) fn send_requests(socket: OwnedFd) -> io::Result<()> {
    let mut broker = TcpStream::from(socket);
    let mut request = [0; 4 + REQUEST_BYTES];
    request[..4].copy_from_slice(&(REQUEST_BYTES as u32).to_be_bytes());
    let mut response = [0; RESPONSE_BYTES];
    let start = Instant::now();
    for id in 0..REQUESTS {
        thread::sleep((INTERVAL * id).saturating_sub(start.elapsed()));
        // After the API's key and version, which are 0.
        request[8..12].copy_from_slice(&id.to_be_bytes());
        broker.write_all(&request)?;
        broker.read_exact(&mut response)?;
    }
    Ok(())
}

fn serve(mut client: TcpStream, mut file: File) -> io::Result<()> {
    let (mut size, mut request) = ([0; 4], [0; REQUEST_BYTES]);
    let mut response = [0; RESPONSE_BYTES];
    response[..4].copy_from_slice(&(RESPONSE_BYTES as u32 - 4).to_be_bytes());
    let mut written = 0;
    for _ in 0..REQUESTS {
        client.read_exact(&mut size)?;
        client.read_exact(&mut request)?;
        file.write_all(&request)?;
        written += REQUEST_BYTES as u64;
        if written >= FILE_BYTES {
            io::Seek::rewind(&mut file)?;
            written = 0;
        }
        response[4..8].copy_from_slice(&request[4..8]);
        client.write_all(&response)?;
    }
    Ok(())
}
