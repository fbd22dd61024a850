//! Starts the sources of a watch, returns their events and stops them.
//! Reports what could not be started and why: a watch with one source is still useful.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use broker::metadata_log::MetadataLog;
use model::clock::ClockPair;
use model::{ClockOffset, Event, Pid};
use probes::arrivals;
use probes::jvm::JvmOptions;
use probes::profile::Sampler;
use probes::thread_times::ThreadLister;
use probes::{Facts, Plan};

use crate::always_on::{self, AlwaysOnSource};
use crate::cost::{CostSource, Costs, Part};
use crate::cpu_samples::CpuSampleSource;
use crate::escalation::{EscalationSource, Handover, Mode, Share};
use crate::health::{Sources, Status};
use crate::host::HostSource;
use crate::jvm::{Jfr, JvmError, JvmSource};
use crate::jvm_probes::{self, JvmProbeSource};
use crate::kernel::KernelSource;
use crate::memory::Memory;
use crate::network::{self, CaptureOpener};
use crate::packets::{Capture, PacketSource};
use crate::parser::{PARSE_JVM, Parser};
use crate::partitions::PartitionSource;
use crate::pause_merger::PauseMerger;
use crate::plan::{Outcome, Purpose, calls_outcome, jvm_purpose, outcome, purpose, recorder_outcome};
use crate::queue::{self, EventSink, Queue};
use crate::request_log::RequestLogSource;
use crate::source::{BrokerProcess, CurrentBroker, Feed, Running, Source, WatchSummary};
use crate::supervisor::{self, Attacher, Identity, Supervisor};
use crate::thread_names::ThreadNames;
use crate::tls::TlsSource;

/// Purposes in the plan that stand for a whole source.
pub(crate) const REQUESTS: &str = "requests";
pub(crate) const REQUEST_LATENCIES: &str = "request-latencies";
pub(crate) const KERNEL: &str = "file-writes";
const HOST: &str = "host-samples";
const CPU: &str = "cpu-samples";
const REPLICAS: &str = "replicas";
const ACCEPT_QUEUE: &str = "accept-queue";
const THREAD_NAMES: &str = "thread-names";
const JVM: &str = "monitor-waits";
const LOCK_WAITS: &str = "lock-waits";
const HANDLER_CALLS: &str = "handler-calls";
const IO_URING: &str = "io-uring";
/// Requests on TLS listeners.
const TLS: &str = "tls-requests";
/// When the bytes of requests on TLS listeners arrived.
pub const TLS_ARRIVALS: &str = "tls-arrivals";
const ESCALATION: &str = "escalation";

/// Seconds between less urgent readings in an always-on watch.
/// They explain no request or are not needed soon. The verdicts are ten seconds late anyway.
const ALWAYS_ON_INTERVAL: u64 = 5;

/// Timeout for the JVM's first response. If the JVM responds later, it is still used.
const JVM_TIMEOUT: Duration = Duration::from_secs(10);

/// Options of a watch.
#[derive(Clone, Debug)]
pub struct Options {
    /// The broker's process at the start.
    pub pid: Pid,
    /// Its node id, to recognize it after a restart.
    pub node_id: Option<i32>,
    /// Its log dirs, to name files and topics and to recognize it after a restart.
    pub log_dirs: Vec<PathBuf>,
    /// Log dirs that replace the broker's own for the names of files.
    pub named_dirs: Option<Vec<PathBuf>>,
    /// Its ports.
    pub ports: Vec<u16>,
    /// Ports that replace the broker's own.
    pub named_ports: Option<Vec<u16>>,
    /// What to capture; `None` captures no packets.
    pub packets: Option<Packets>,
    /// Kafka's request log, as the source of requests that are not captured.
    pub request_log: Option<PathBuf>,
    /// Makes the watch always on: kernel records of requests and appends, and only the probes on rare events.
    pub always_on: Option<AlwaysOn>,
    /// Whether to run the probes.
    pub kernel: bool,
    /// CPU samples a second on each CPU; `None` takes none.
    /// An always-on watch takes them while requests are slow.
    pub cpu_samples_hz: Option<u32>,
    /// Whether to sample the host each second.
    pub host: bool,
    /// Whether to query the broker's JVM.
    pub jvm: bool,
    /// Whether to start Flight Recorder, if the JVM is queried.
    pub jfr: Jfr,
    /// The program that is run with [`crate::PARSE_PACKETS`] to parse packets.
    pub parser: PathBuf,
    /// Limits of the buffers.
    pub memory: Memory,
    /// Share of the broker's CPU time above which parts are shed.
    /// Infinity sheds none; `None` does not measure the cost.
    pub max_cost: Option<f64>,
}

/// Options of an always-on watch.
#[derive(Clone, Debug)]
pub struct AlwaysOn {
    /// Requests that take at least this long are slow; records are only read around slow requests.
    pub threshold: Duration,
}

/// What to capture.
#[derive(Clone, Debug)]
pub struct Packets {
    /// A network interface, or `any`.
    pub interface: String,
    /// The record header to report as a message's id.
    pub message_id_header: Option<Vec<u8>>,
    /// Whether to have an agent in the broker's JVM copy what TLS connections carry.
    pub see_tls: bool,
}

impl Options {
    /// The broker's process at the start.
    fn process(&self) -> BrokerProcess {
        BrokerProcess {
            pid: self.pid,
            log_dirs: self.named_log_dirs().to_vec(),
            ports: self.ports().to_vec(),
        }
    }

    /// How to capture packets.
    fn capture(&self, packets: &Packets) -> Capture {
        Capture {
            interface: packets.interface.clone(),
            message_id_header: packets.message_id_header.clone(),
            ring_bytes: self.memory.capture_ring_bytes,
            memory_bytes: self.connection_bytes(),
            opener: CaptureOpener::of(self.pid),
            parser: self.parser.clone(),
            tls_is_read: Arc::default(),
        }
    }

    /// A parser process's memory for connections.
    /// It is halved if there is a second process for TLS.
    fn connection_bytes(&self) -> usize {
        let sees_tls = self.packets.as_ref().is_some_and(|packets| packets.see_tls);
        self.memory.connection_bytes / if sees_tls { 2 } else { 1 }
    }

    fn ports(&self) -> &[u16] {
        self.named_ports.as_ref().unwrap_or(&self.ports)
    }

    /// The log dirs for the names of files.
    fn named_log_dirs(&self) -> &[PathBuf] {
        self.named_dirs.as_ref().unwrap_or(&self.log_dirs)
    }
}

/// A running watch.
pub struct Watch {
    queue: Queue,
    feed: Feed,
    started: ClockPair,
    plan: Vec<Purpose>,
    /// All sources except the probes.
    sources: Vec<Running>,
    supervisor: Option<Running>,
    escalation: Option<Running>,
    jvm_version: Option<String>,
    threads: ThreadNames,
    pauses: PauseMerger,
    has_packets: bool,
    sees_files: bool,
    /// Purposes of the probes.
    probe_purposes: Vec<String>,
}

impl Watch {
    /// Starts all sources that can be started.
    pub fn start(options: &Options) -> Self {
        let (sender, queue) = queue::queue(options.memory.queue_events);
        let started = crate::now();
        let clock = ClockOffset::at(started);
        let mut watch = Self {
            queue,
            feed: Feed {
                sender,
                clock,
                current: CurrentBroker::default(),
                stop: Arc::default(),
                costs: Costs::default(),
                sources: Sources::default(),
                status: Status::default(),
            },
            started,
            plan: Vec::new(),
            sources: Vec::new(),
            supervisor: None,
            jvm_version: None,
            threads: ThreadNames::default(),
            pauses: PauseMerger::default(),
            has_packets: false,
            sees_files: false,
            escalation: None,
            probe_purposes: Vec::new(),
        };
        let handover = Arc::<Handover>::default();
        watch.start_jvm(options);
        watch.start_supervisor(options, &handover);
        watch.start_host(options);
        watch.start_partitions(options);
        match &options.always_on {
            None => {
                let tls_is_read = Arc::default();
                watch.start_packets(options, &tls_is_read);
                watch.start_request_log(options, &tls_is_read);
                watch.sample_cpu(options);
            }
            Some(always_on) => {
                watch.start_always_on(options, always_on, &handover);
                watch.start_escalation(options, &handover);
            }
        }
        if let Some(max) = options.max_cost {
            watch.feed.costs.offer(Part::Probes, &watch.probe_purposes);
            watch.run("cost", CostSource::new(max));
        }
        watch
    }

    /// The cost of the watch, and what was shed for it.
    pub fn costs(&self) -> Costs {
        self.feed.costs.clone()
    }

    /// Health of the sources in the plan.
    pub fn sources(&self) -> Sources {
        self.feed.sources.clone()
    }

    /// All purposes, with outcomes.
    pub fn plan(&self) -> &[Purpose] {
        &self.plan
    }

    /// The offset of the recording's clock, and the reading that it was derived from.
    pub fn clock(&self) -> (ClockOffset, ClockPair) {
        (self.feed.clock, self.started)
    }

    /// Name and version of the broker's JVM, if it was queried.
    pub fn jvm_version(&self) -> Option<&str> {
        self.jvm_version.as_deref()
    }

    /// Whether any requests or file operations are observed.
    pub fn sees_anything(&self) -> bool {
        self.has_packets || self.sees_files
    }

    /// Whether the broker's file operations are observed.
    pub fn sees_files(&self) -> bool {
        self.sees_files
    }

    /// Passes all further events to a sink, in the sources' threads; queued events go there first.
    pub fn set_sink(&self, sink: Box<dyn EventSink>) {
        self.queue.set_sink(sink);
    }

    /// Returns the next event, if there is one within the timeout and no sink is set.
    pub fn next(&self, timeout: Duration) -> Option<Event> {
        self.queue.next(timeout).ok().flatten()
    }

    /// Returns a function that ends a wait in [`Watch::next`] at once, from any thread.
    pub fn waker(&self) -> impl Fn() + Send + 'static {
        let sender = self.feed.sender.clone();
        move || sender.wake_reader()
    }

    /// Stops the sources and returns their summary.
    /// Passes their remaining events to `rest`. The probes start first and stop last, so that they observe the writes
    /// of every request.
    pub fn stop(self, rest: &mut dyn FnMut(Event)) -> WatchSummary {
        self.stop_with(&mut |event| event.into_iter().for_each(&mut *rest))
    }

    /// Like [`Watch::stop`], for a caller with other work: also calls `rest` with `None`, about a hundred times a second.
    pub fn stop_with(self, rest: &mut dyn FnMut(Option<Event>)) -> WatchSummary {
        let Self { queue, feed, sources, supervisor, escalation, pauses, .. } = self;
        let mut summary = WatchSummary::default();
        // First, so that its sources deliver before the always-on sources.
        stop_all(escalation.into_iter().collect(), &queue, rest, &mut summary);
        stop_all(sources, &queue, rest, &mut summary);
        pauses.rest().into_iter().for_each(|pause| rest(Some(pause.into())));
        stop_all(supervisor.into_iter().collect(), &queue, rest, &mut summary);
        (summary.dropped, summary.unreported) = (feed.sender.dropped(), feed.sender.unreported());
        summary
    }

    fn start_host(&mut self, options: &Options) {
        if !options.host {
            return;
        }
        let threads_every = if options.always_on.is_some() { ALWAYS_ON_INTERVAL } else { 1 };
        let lister = ThreadLister::load();
        let means = if lister.is_some() { "BPF iterator" } else { "/proc/PID/task" };
        if !self.run(HOST, HostSource::new(self.threads.reader(), lister, threads_every)) {
            return;
        }
        let interval = if threads_every > 1 { format!(", every {threads_every} s") } else { String::new() };
        self.active(HOST, format!("/proc, /sys, cgroup files, once a second; threads: {means}{interval}"));
        self.active(ACCEPT_QUEUE, "/proc/PID/net/netstat, once a second".to_owned());
        self.feed.costs.offer(Part::Host, &[HOST, ACCEPT_QUEUE]);
        self.feed.sources.serve(HostSource::NAME, &[HOST, ACCEPT_QUEUE]);
    }

    /// Queries the JVM, before the probes see the first of its threads.
    fn start_jvm(&mut self, options: &Options) {
        if !options.jvm {
            return;
        }
        match Parser::start(&options.parser, PARSE_JVM) {
            Ok(parser) => self.start_jvm_with(parser, options),
            Err(error) => self.jvm_missing(&JvmError::from(error).to_string(), options),
        }
    }

    fn start_jvm_with(&mut self, parser: Parser, options: &Options) {
        let (first, answer) = mpsc::sync_channel(1);
        let source = JvmSource {
            jfr: options.jfr,
            names: self.threads.clone(),
            pauses: self.pauses.clone(),
            pid: options.pid,
            first,
            parser,
            session: None,
            trouble: Vec::new(),
            damaged: 0,
        };
        if !self.spawn(THREAD_NAMES, source) {
            return;
        }
        let why = match answer.recv_timeout(JVM_TIMEOUT) {
            Ok(Ok(answer)) => {
                self.jvm_version = Some(answer.version);
                self.active(THREAD_NAMES, "the JVM's attach protocol, Thread.print".to_owned());
                let mut purposes = vec![THREAD_NAMES];
                purposes.extend(answer.records.is_ok().then_some(LOCK_WAITS));
                purposes.extend(matches!(answer.calls, Some(Ok(()))).then_some(HANDLER_CALLS));
                self.feed.sources.serve(JvmSource::NAME, &purposes);
                if options.jfr != Jfr::Never {
                    self.add(LOCK_WAITS, recorder_outcome(answer.records));
                }
                if let Some(calls) = answer.calls {
                    self.add(HANDLER_CALLS, calls_outcome(calls));
                }
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("JVM {} has not answered yet; its data starts when it does", options.pid),
        };
        self.jvm_missing(&why, options);
    }

    fn jvm_missing(&mut self, why: &str, options: &Options) {
        self.add_missing(THREAD_NAMES, why.to_owned());
        if options.jfr != Jfr::Never {
            self.add_missing(LOCK_WAITS, why.to_owned());
        }
        if options.jfr == Jfr::Handlers {
            self.add_missing(HANDLER_CALLS, why.to_owned());
        }
    }

    fn attacher(&self, options: &Options, plan: fn(&Facts) -> Plan, share: Share) -> Attacher {
        Attacher {
            plan: options.kernel.then(|| plan(&Facts::survey())),
            threads: self.threads.clone(),
            ring_bytes: options.memory.probe_ring_bytes,
            feed: self.feed.clone(),
            share,
        }
    }

    fn start_supervisor(&mut self, options: &Options, handover: &Arc<Handover>) {
        let mut attacher = match options.always_on {
            Some(_) => {
                self.attacher(options, Plan::choose_rare, Share(Some((Mode::AlwaysOn, Arc::clone(handover)))))
            }
            None => self.attacher(options, Plan::choose, Share::default()),
        };
        let broker = options.process();
        let probes = attacher.attach(&broker).unwrap_or_else(|error| {
            self.missing(KERNEL, error.as_ref());
            // What is refused now will be refused later.
            attacher.plan = None;
            None
        });
        if let (Some(plan), Some(_)) = (&attacher.plan, &probes) {
            self.plan.extend(plan.hooks.iter().map(purpose));
            self.probe_purposes.extend(plan.used().map(|hook| hook.purpose.as_str().to_owned()));
            self.feed.sources.serve(KernelSource::NAME, &self.probe_purposes);
            self.sees_files = true;
            if let Some(why) = crate::io_uring::warning(options.pid) {
                self.add(IO_URING, Outcome::Missing(why));
            }
        }
        let identity = Identity::of(options.node_id, &options.log_dirs);
        let feed = self.feed.with_own_stop();
        let named_dirs = options.named_dirs.clone();
        let named_ports = options.named_ports.clone();
        let supervisor =
            Supervisor { identity, named_dirs, named_ports, attacher, stop: Arc::clone(&feed.stop) };
        match Running::spawn(supervisor::THREAD, &feed, move || supervisor.run(broker, probes)) {
            Ok(running) => self.supervisor = Some(running),
            Err(error) => {
                self.sees_files = false;
                self.missing(KERNEL, &error);
            }
        }
    }

    /// Starts CPU samples, which show what threads do while they do not wait; they cost time at every tick.
    fn sample_cpu(&mut self, options: &Options) {
        let (pid, Some(hz)) = (options.pid, options.cpu_samples_hz) else { return };
        let sampler = match Sampler::attach(pid, hz, self.feed.clock) {
            Ok(sampler) => Some(sampler),
            Err(error) => return self.missing(CPU, &error),
        };
        let threads = self.threads.reader();
        if self.run(CPU, CpuSampleSource { hz, threads, pid, sampler, failed_polls: 0 }) {
            self.active(CPU, format!("perf samples of the CPU clock at {hz} Hz, bpf_get_stack"));
            self.feed.costs.offer(Part::CpuSamples, &[CPU]);
        }
    }

    /// Also attaches the JVM's own probes, if it has them.
    /// They report pauses, and monitor waits of at least `min_wait`. They cost nothing in a JVM that was started
    /// without their flag.
    pub fn probe_jvm(&mut self, pid: Pid, min_wait: Duration) {
        let options = JvmOptions { min_wait, clock: self.feed.clock, ..JvmOptions::default() };
        let (plan, probes) = jvm_probes::attach(pid, &options);
        let mut purposes = plan.hooks.iter().map(jvm_purpose).collect::<Vec<_>>();
        // Report purposes that are missing for the same reason once.
        purposes.dedup_by(|next, first| {
            matches!(next.outcome, Outcome::Missing(_)) && next.outcome == first.outcome
        });
        self.plan.extend(purposes);
        let Ok(probes) = probes else { return };
        let (threads, pauses) = (self.threads.reader(), self.pauses.clone());
        let purposes: Vec<_> = plan.used().map(|hook| hook.purpose.as_str()).collect();
        if self.spawn(JVM, JvmProbeSource { options, threads, pauses, pid, probes: Some(probes), tries: 0 }) {
            self.feed.sources.serve(JvmProbeSource::NAME, &purposes);
        }
    }

    /// Adds a missing purpose to the plan, with the reason.
    pub fn add_missing(&mut self, purpose: &str, why: String) {
        self.add(purpose, Outcome::Missing(why));
    }

    /// Starts the source of replica counts, before the first request: whether a partition has followers decides what a
    /// request waited for.
    fn start_partitions(&mut self, options: &Options) {
        let log_dirs = options.log_dirs.clone();
        let log = MetadataLog::new(options.node_id);
        if !MetadataLog::is_in(&log_dirs) {
            let why = "the broker has no readable __cluster_metadata-0 (a KRaft broker's copy of the metadata log): until a \
                       client asks for metadata, a wait for followers whose fetches are not seen stays unobserved";
            return self.add(REPLICAS, Outcome::Missing(why.to_owned()));
        }
        let seconds = if options.always_on.is_some() { ALWAYS_ON_INTERVAL } else { 1 };
        let interval = Duration::from_secs(seconds);
        if self.run(REPLICAS, PartitionSource { log, log_dirs, waiting: Vec::new(), interval }) {
            self.active(REPLICAS, format!("__cluster_metadata-0 in the log dirs, every {seconds} s"));
        }
    }

    /// Starts the agent that copies what TLS connections carry.
    /// While it does, `is_read` keeps their packets from being counted as unread.
    fn start_tls(&mut self, options: &Options, packets: &Packets, is_read: &Arc<AtomicBool>) {
        let (first, answer) = mpsc::sync_channel(1);
        let header = packets.message_id_header.clone();
        let source = TlsSource::new(
            options.process(),
            (options.parser.clone(), options.connection_bytes(), header),
            Arc::clone(is_read),
            first,
            self.attach_arrivals(options),
        );
        if !self.run(TLS, source) {
            return;
        }
        match answer.recv_timeout(JVM_TIMEOUT) {
            Ok(Ok(())) => {
                self.has_packets = true;
                self.active(TLS, "an agent in the JVM, from when it was loaded on".to_owned());
            }
            Ok(Err(why)) => self.add(TLS, Outcome::Missing(why)),
            Err(_) => {
                let why = format!("JVM {} has not loaded the agent yet", options.pid);
                self.add(TLS, Outcome::Missing(why));
            }
        }
    }

    /// Attaches the programs that show when the bytes of TLS requests arrived.
    fn attach_arrivals(&mut self, options: &Options) -> Option<arrivals::Session> {
        if !options.kernel {
            return None;
        }
        let plan = arrivals::Plan::choose(&Facts::survey());
        let outcome = outcome(&plan.state, plan.describe());
        if let Outcome::Missing(_) = outcome {
            self.add(TLS_ARRIVALS, outcome);
            return None;
        }
        match arrivals::Session::attach(&plan, options.ports()) {
            Ok(session) => {
                self.add(TLS_ARRIVALS, outcome);
                self.feed.sources.serve(TlsSource::NAME, &[TLS_ARRIVALS]);
                Some(session)
            }
            Err(error) => {
                self.missing(TLS_ARRIVALS, &error);
                None
            }
        }
    }

    /// Starts to read Kafka's request log; requests of plaintext connections only if no packets are captured.
    fn start_request_log(&mut self, options: &Options, tls_is_read: &Arc<AtomicBool>) {
        let Some(path) = &options.request_log else { return };
        let only_tls = self.has_packets;
        let purpose = if only_tls { TLS } else { REQUESTS };
        let files = (path.clone(), options.parser.clone());
        let opened = RequestLogSource::open(files, only_tls, options.process(), Arc::clone(tls_is_read));
        let source = match opened {
            Ok(source) => source,
            Err(error) => {
                let why = format!("{}: {error}", path.display());
                return self.add(purpose, Outcome::Missing(why));
            }
        };
        if self.run(purpose, source) {
            self.has_packets = true;
            self.active(purpose, format!("Kafka's request log, {}", path.display()));
        }
    }

    fn start_packets(&mut self, options: &Options, tls_is_read: &Arc<AtomicBool>) {
        let Some(packets) = &options.packets else { return };
        let capture = Capture { tls_is_read: Arc::clone(tls_is_read), ..options.capture(packets) };
        let source = PacketSource::open(capture, &options.process(), Share::default());
        let source = match source {
            Ok(source) => source,
            Err(error) => return self.missing(REQUESTS, &error),
        };
        self.has_packets = self.run(REQUESTS, source);
        if self.has_packets {
            let whose = if network::shares_network(options.pid) { "" } else { " of the broker's network" };
            self.active(REQUESTS, format!("packets on {}{whose}", packets.interface));
        }
        if packets.see_tls {
            self.start_tls(options, packets, tls_is_read);
        }
    }

    fn start_always_on(&mut self, options: &Options, always_on: &AlwaysOn, handover: &Arc<Handover>) {
        let (log_dirs, shared) = (options.named_log_dirs(), (&self.threads, handover));
        let source =
            AlwaysOnSource::attach(options.pid, log_dirs, options.ports(), always_on.threshold, shared);
        let source = match source {
            Ok(source) => source,
            Err(error) => return self.missing(REQUESTS, &error),
        };
        // They observe less than a full watch does for these purposes, but the purposes still count as served.
        let served = always_on::purposes(source.plan());
        self.has_packets = self.run(REQUESTS, source);
        if self.has_packets {
            self.plan.retain(|purpose| served.iter().all(|served| served.purpose != purpose.purpose));
            let purposes: Vec<_> = served.iter().map(|served| &served.purpose).collect();
            self.feed.sources.serve(AlwaysOnSource::NAME, &purposes);
            self.plan.extend(served);
            let waits = [probes::Purpose::OffCpu, probes::Purpose::KernelStacks].map(probes::Purpose::as_str);
            self.feed.costs.offer(Part::Waits, &waits);
        }
    }

    /// Loads the programs that an escalation attaches while requests are slow.
    fn start_escalation(&mut self, options: &Options, handover: &Arc<Handover>) {
        if !self.has_packets {
            return;
        }
        let share = Share(Some((Mode::Full, Arc::clone(handover))));
        let mut attacher = self.attacher(options, Plan::choose, share);
        // Sources that end with an escalation are not sources of the watch.
        attacher.feed.sources = Sources::default();
        let loaded = attacher.load(&options.process());
        let loaded = loaded.unwrap_or_else(|error| {
            self.missing(ESCALATION, &error);
            attacher.plan = None;
            None
        });
        let capture = options.packets.as_ref().and_then(|packets| self.try_capture(options, packets));
        let mut means = Vec::new();
        means.extend(
            loaded.as_ref().map(|loaded| format!("{} kinds of probes", loaded.plan().used().count())),
        );
        means.extend(capture.as_ref().map(|_| "packets".to_owned()));
        if means.is_empty() {
            return;
        }
        means.extend(options.cpu_samples_hz.map(|hz| format!("samples of the CPU clock at {hz} Hz")));
        let (process, hz) = (options.process(), options.cpu_samples_hz);
        let source = EscalationSource::new(process, Arc::clone(handover), attacher, loaded, capture, hz);
        match Running::start(source, &self.feed.with_own_stop()) {
            Ok(running) => self.escalation = Some(running),
            Err(error) => return self.missing(ESCALATION, &error),
        }
        self.feed.sources.serve(EscalationSource::NAME, &[ESCALATION]);
        self.active(ESCALATION, format!("while requests are slow: {}", means.join(", ")));
    }

    /// How to capture while requests are slow, if that is possible.
    fn try_capture(&mut self, options: &Options, packets: &Packets) -> Option<Capture> {
        let capture = options.capture(packets);
        let smallest = Capture { ring_bytes: 0, ..capture.clone() };
        match smallest.open(&options.process()) {
            Ok(_) => Some(capture),
            Err(error) => {
                self.missing(ESCALATION, &error);
                None
            }
        }
    }

    /// Starts a source that serves a purpose. Returns whether it runs.
    fn run<S: Source>(&mut self, purpose: &str, source: S) -> bool {
        self.spawn(purpose, source) && {
            self.feed.sources.serve(S::NAME, &[purpose]);
            true
        }
    }

    /// Starts a source. Returns whether it runs.
    fn spawn<S: Source>(&mut self, purpose: &str, source: S) -> bool {
        match Running::start(source, &self.feed) {
            Ok(running) => {
                self.sources.push(running);
                true
            }
            Err(error) => {
                self.missing(purpose, &error);
                false
            }
        }
    }

    fn active(&mut self, purpose: &str, by: String) {
        self.add(purpose, Outcome::Active(by));
    }

    fn missing(&mut self, purpose: &str, error: &dyn std::error::Error) {
        self.add(purpose, Outcome::Missing(error.to_string()));
    }

    fn add(&mut self, purpose: &str, outcome: Outcome) {
        self.plan.push(Purpose { purpose: purpose.to_owned(), outcome });
    }
}

/// Stops sources, and passes on events until all of theirs have been read.
/// Other sources still deliver, so the queue may not become empty: at most its capacity is read after the sources have
/// ended.
fn stop_all(
    sources: Vec<Running>,
    queue: &Queue,
    rest: &mut dyn FnMut(Option<Event>),
    summary: &mut WatchSummary,
) {
    sources.iter().for_each(Running::stop);
    while !sources.iter().all(Running::has_ended) {
        rest(queue.next(Duration::from_millis(10)).ok().flatten());
    }
    for _ in 0..queue.capacity() {
        let Ok(Some(event)) = queue.next(Duration::ZERO) else { break };
        rest(Some(event));
    }
    for source in sources {
        summary.add(source.join());
    }
}
