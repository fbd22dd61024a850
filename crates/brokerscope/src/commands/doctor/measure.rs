//! `doctor --measure`: what the BPF programs of each plan cost a request on this host. This process stands in for a broker: it
//! reads requests as Kafka does (the size, then the rest), appends them to a file and responds. A second process sends them.
//! Does not measure what `record` or `export` cost beside the programs. Not fuzzed: the bytes are from the second process.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use probes::{Facts, Plan, Probes, ProgramCost, Target, always_on};
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
    let programs = costs.into_iter().filter(|cost| cost.run_count > 0).map(|cost| ProgramFacts {
        runs_per_request: per_request(cost.run_count),
        ns_per_request: per_request(cost.run_time_ns),
        program: cost.program,
    });
    PlanCost { plan: plan.to_owned(), programs: programs.collect(), missing }
}

fn always_on(facts: &Facts) -> anyhow::Result<Vec<ProgramCost>> {
    let load = Load::prepare()?;
    let options =
        always_on::Options { ports: vec![load.port()?], measure: true, ..always_on::Options::default() };
    let session = always_on::Session::attach(&always_on::Plan::choose(facts), std::process::id(), &options)?;
    let before = session.overhead();
    load.run(&mut || thread::sleep(POLL_INTERVAL))?;
    Ok(since(before, session.overhead()))
}

fn full(facts: &Facts) -> anyhow::Result<Vec<ProgramCost>> {
    let load = Load::prepare()?;
    let target = Target { pid: std::process::id(), stacks: true };
    let options = probes::Options { measure: true, ..probes::Options::default() };
    let mut probes = Probes::attach_with(&Plan::choose(facts), &target, &options)?;
    let before = probes.overhead();
    let mut polled = Ok(());
    load.run(&mut || {
        if polled.is_ok() {
            polled = probes.poll(POLL_INTERVAL, &mut drop);
        }
    })?;
    polled?;
    Ok(since(before, probes.overhead()))
}

/// What each program cost since an earlier reading.
fn since(before: Vec<ProgramCost>, now: Vec<ProgramCost>) -> Vec<ProgramCost> {
    let both = before.into_iter().zip(now);
    both.map(|(before, now)| ProgramCost {
        run_time_ns: now.run_time_ns.saturating_sub(before.run_time_ns),
        run_count: now.run_count.saturating_sub(before.run_count),
        ..now
    })
    .collect()
}

/// A stand-in for a broker.
struct Load {
    listener: TcpListener,
    file: File,
}

impl Load {
    fn prepare() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listening on 127.0.0.1")?;
        let path = std::env::temp_dir().join(format!("brokerscope-measure-{}", std::process::id()));
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
