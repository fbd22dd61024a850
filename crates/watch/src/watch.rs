//! Starts the sources of a watch, hands out their events, stops them. Says what could not be started and
//! why: a watch with one source is still a watch.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use capture::live::LiveConfig;
use capture::{Analyzer, Counters};
use model::clock::ClockPair;
use model::{ClockOffset, Event, Pid};
use probes::jvm::JvmOptions;
use probes::profile::Sampler;
use probes::{Facts, Plan};

use crate::host::HostSource;
use crate::identity::Identity;
use crate::jvm::{Jfr, JvmSource};
use crate::jvm_probes::{self, JvmProbeSource};
use crate::keeper::{Attacher, Current, Keeper, Kept, Subject};
use crate::memory::Memory;
use crate::network;
use crate::packets::PacketSource;
use crate::plan::{Outcome, Purpose, jvm_purpose, purpose, waits_seen};
use crate::queue::{self, EventSink, Queue, Sender};
use crate::samples::SampleSource;
use crate::stops::Stops;
use crate::thread_names::ThreadNames;
use crate::topic_names::TopicNames;

/// What the plan calls the whole of each source.
const REQUESTS: &str = "requests";
const KERNEL: &str = "file-writes";
const HOST: &str = "host-samples";
const CPU: &str = "cpu-samples";
const ACCEPT_QUEUE: &str = "accept-queue";
const THREAD_NAMES: &str = "thread-names";
const JVM: &str = "monitor-waits";
const LOCK_WAITS: &str = "lock-waits";
const IO_URING: &str = "io-uring";

/// How long the first answer is waited for. Whoever answers later is asked on.
const JVM_PATIENCE: Duration = Duration::from_secs(10);

/// What to watch.
#[derive(Clone, Debug)]
pub struct Options {
    /// The broker's process, to begin with.
    pub pid: Pid,
    /// Its id, to know it again after a restart.
    pub node_id: Option<i32>,
    /// Its log dirs, to name files and topics and to know it again.
    pub log_dirs: Vec<PathBuf>,
    /// Log dirs to take instead of the broker's own for the names of files.
    pub named_dirs: Option<Vec<PathBuf>>,
    /// What to capture; none leaves the wire out.
    pub packets: Option<Packets>,
    /// Whether to run the probes.
    pub kernel: bool,
    /// Whether to sample the host each second.
    pub host: bool,
    /// Whether to ask the broker's JVM.
    pub jvm: bool,
    /// Whether to have it record waits for locks, where it is asked.
    pub jfr: Jfr,
    /// How much memory the buffers take.
    pub memory: Memory,
}

/// What to capture.
#[derive(Clone, Debug)]
pub struct Packets {
    /// A network interface, or `any`.
    pub interface: String,
    /// The broker's ports.
    pub ports: Vec<u16>,
    /// The record header to report as message id.
    pub message_id_header: Option<Vec<u8>>,
}

/// A running watch.
pub struct Watch {
    queue: Queue,
    sender: Sender,
    stop_packets: Arc<AtomicBool>,
    stop_keeper: Arc<AtomicBool>,
    offset: ClockOffset,
    started: ClockPair,
    plan: Vec<Purpose>,
    packets: Option<JoinHandle<Result<Counters, capture::Error>>>,
    keeper: Option<JoinHandle<Kept>>,
    host: Option<JoinHandle<()>>,
    samples: Option<JoinHandle<()>>,
    jvm: Option<JoinHandle<Vec<String>>>,
    jvm_version: Option<String>,
    threads: ThreadNames,
    jvm_probes: Option<JoinHandle<()>>,
    stops: Stops,
    current: Current,
    sees_files: bool,
}

/// What a watch knew when it ended.
#[derive(Debug)]
pub struct WatchSummary {
    /// What was counted on the wire.
    pub packets: Option<Result<Counters, capture::Error>>,
    /// What kept the probes from running to the end.
    pub kernel: Option<probes::Error>,
    /// What went wrong when the broker was restarted.
    pub trouble: Vec<String>,
    /// Events dropped because nobody read them in time.
    pub dropped: u64,
    /// How many of them no [`Event::Loss`] has told of.
    pub unreported: u64,
}

impl Watch {
    /// Starts whatever can be started.
    pub fn start(options: &Options) -> Self {
        let (sender, queue) = queue::queue(options.memory.queue_events);
        let started = crate::now();
        let mut watch = Self {
            queue,
            sender,
            stop_packets: Arc::default(),
            stop_keeper: Arc::default(),
            offset: ClockOffset::at(started),
            started,
            plan: Vec::new(),
            packets: None,
            keeper: None,
            host: None,
            samples: None,
            jvm: None,
            jvm_version: None,
            threads: ThreadNames::default(),
            jvm_probes: None,
            stops: Stops::default(),
            current: Current::default(),
            sees_files: false,
        };
        watch.start_jvm(options);
        watch.start_keeper(options);
        watch.start_host(options);
        watch.start_packets(options);
        watch
    }

    /// What is seen and what is not.
    pub fn plan(&self) -> &[Purpose] {
        &self.plan
    }

    /// The offset of the recording's clock, and the reading it was fixed at.
    pub fn clock(&self) -> (ClockOffset, ClockPair) {
        (self.offset, self.started)
    }

    /// What the broker's JVM calls itself, where it was asked.
    pub fn jvm_version(&self) -> Option<&str> {
        self.jvm_version.as_deref()
    }

    /// Whether any source runs.
    pub fn sees_anything(&self) -> bool {
        self.packets.is_some() || self.sees_files
    }

    /// Whether the broker's file operations are seen.
    pub fn sees_files(&self) -> bool {
        self.sees_files
    }

    /// From now on what is seen goes to a taker, in the threads that see it; what waits to be read goes there first.
    pub fn set_sink(&self, taker: Box<dyn EventSink>) {
        self.queue.set_sink(taker);
    }

    /// The next event, if one comes within the time and no taker has them.
    pub fn next(&self, timeout: Duration) -> Option<Event> {
        self.queue.next(timeout).ok().flatten()
    }

    /// Tells the sources to stop, hands out what they still deliver, and returns what they counted. The
    /// probes go first when a watch starts and last when it stops: every request seen has its writes seen.
    pub fn stop(self, rest: &mut dyn FnMut(Event)) -> WatchSummary {
        self.stop_with(&mut |event| event.into_iter().for_each(&mut *rest))
    }

    /// The same for who has other things to do: `rest` is called with nothing too, some hundred times a second.
    pub fn stop_with(self, rest: &mut dyn FnMut(Option<Event>)) -> WatchSummary {
        let Self { queue, sender, stop_packets, stop_keeper, packets, keeper, host, samples, jvm, .. } = self;
        let jvm_probes = self.jvm_probes;
        stop_packets.store(true, Ordering::Relaxed);
        for sleeper in [&host, &samples].into_iter().flatten() {
            sleeper.thread().unpark();
        }
        if let Some(jvm) = &jvm {
            jvm.thread().unpark();
        }
        let all_finished = || {
            finished(packets.as_ref())
                && finished(jvm.as_ref())
                && [&host, &samples, &jvm_probes].into_iter().all(|thread| finished(thread.as_ref()))
        };
        hand_out_until(&queue, rest, all_finished);
        self.stops.rest().into_iter().for_each(|pause| rest(Some(Event::JvmPause(Box::new(pause)))));
        stop_keeper.store(true, Ordering::Relaxed);
        if let Some(keeper) = &keeper {
            keeper.thread().unpark();
        }
        hand_out_until(&queue, rest, || finished(keeper.as_ref()));
        let Kept { kernel, mut trouble } = keeper.and_then(|thread| thread.join().ok()).unwrap_or_default();
        trouble.extend(jvm.and_then(|thread| thread.join().ok()).unwrap_or_default());
        WatchSummary {
            packets: packets.and_then(|thread| thread.join().ok()),
            kernel,
            trouble,
            dropped: sender.dropped(),
            unreported: sender.unreported(),
        }
    }

    /// Asks the JVM before the probes see the first of its threads.
    fn start_jvm(&mut self, options: &Options) {
        if !options.jvm {
            return;
        }
        let (pid, (sender, first)) = (options.pid, mpsc::sync_channel(1));
        let source = JvmSource {
            jfr: options.jfr,
            names: self.threads.clone(),
            offset: self.offset,
            stops: self.stops.clone(),
            sender: self.sender.clone(),
            current: self.current.clone(),
            stop: Arc::clone(&self.stop_packets),
        };
        let run = move || {
            // It becomes the broker's user, and gives away more than the others do; where there is no JVM, only this.
            let _ = crate::privileges::keep_setuid_capabilities();
            source.run(pid, &sender)
        };
        match named("jvm").spawn(run) {
            Ok(thread) => self.jvm = Some(thread),
            Err(error) => return self.missing(THREAD_NAMES, &error),
        }
        let (names, waits) = match first.recv_timeout(JVM_PATIENCE) {
            Ok(Ok(begun)) => {
                self.jvm_version = Some(begun.version);
                (
                    Outcome::Active("the JVM's attach protocol, Thread.print".to_owned()),
                    waits_seen(begun.records),
                )
            }
            Ok(Err(error)) => (Outcome::Missing(error.to_string()), Outcome::Missing(error.to_string())),
            Err(_) => {
                let late = format!("JVM {pid} has not answered yet; it is seen from when it does");
                (Outcome::Missing(late.clone()), Outcome::Missing(late))
            }
        };
        self.plan.push(Purpose { purpose: THREAD_NAMES.to_owned(), outcome: names });
        if options.jfr != Jfr::Never {
            self.plan.push(Purpose { purpose: LOCK_WAITS.to_owned(), outcome: waits });
        }
    }

    fn start_keeper(&mut self, options: &Options) {
        let plan = options.kernel.then(|| Plan::choose(&Facts::survey()));
        let mut attacher = Attacher {
            plan,
            offset: self.offset,
            threads: self.threads.clone(),
            ring_bytes: options.memory.probe_ring_bytes,
            sender: self.sender.clone(),
        };
        let log_dirs = options.named_dirs.as_ref().unwrap_or(&options.log_dirs);
        let subject = Subject { pid: options.pid, log_dirs: log_dirs.clone() };
        let probes = attacher.attach(&subject).unwrap_or_else(|error| {
            self.missing(KERNEL, error.as_ref());
            // What is refused now is refused later.
            attacher.plan = None;
            None
        });
        if let (Some(plan), Some(_)) = (&attacher.plan, &probes) {
            self.plan.extend(plan.hooks.iter().map(purpose));
            self.sees_files = true;
            if let Some(why) = crate::io_uring::warning(options.pid) {
                self.plan.push(Purpose { purpose: IO_URING.to_owned(), outcome: Outcome::Missing(why) });
            }
        }
        let identity = Identity::of(options.node_id, &options.log_dirs);
        let stop = Arc::clone(&self.stop_keeper);
        let current = self.current.clone();
        let keeper = Keeper::new(identity, options.named_dirs.clone(), attacher, current, stop);
        match spawn("keeper", move || keeper.run(subject, probes)) {
            Ok(thread) => self.keeper = Some(thread),
            Err(error) => {
                self.sees_files = false;
                self.missing(KERNEL, &error);
            }
        }
    }

    fn start_host(&mut self, options: &Options) {
        if !options.host {
            return;
        }
        let source = HostSource {
            offset: self.offset,
            current: self.current.clone(),
            threads: self.threads.reader(),
            sender: self.sender.clone(),
            stop: Arc::clone(&self.stop_packets),
        };
        let run = move || {
            HostSource::prepare();
            stepped_back(move || source.run());
        };
        match named("host").spawn(run) {
            Ok(thread) => {
                self.host = Some(thread);
                let outcome = Outcome::Active("/proc, /sys, cgroup files, once a second".to_owned());
                self.plan.push(Purpose { purpose: HOST.to_owned(), outcome });
                let outcome = Outcome::Active("/proc/PID/net/netstat, once a second".to_owned());
                self.plan.push(Purpose { purpose: ACCEPT_QUEUE.to_owned(), outcome });
            }
            Err(error) => self.missing(HOST, &error),
        }
    }

    /// Also samples what the broker runs, so many times a second on each CPU.
    pub fn sample_cpu(&mut self, pid: Pid, hz: u32) {
        let sampler = match Sampler::attach(pid, hz, false) {
            Ok(sampler) => sampler,
            Err(error) => return self.missing(CPU, &error),
        };
        let source = SampleSource {
            hz,
            offset: self.offset,
            current: self.current.clone(),
            threads: self.threads.reader(),
            sender: self.sender.clone(),
            stop: Arc::clone(&self.stop_packets),
        };
        match spawn_in_step("samples", move || source.run(pid, sampler)) {
            Ok(thread) => {
                self.samples = Some(thread);
                let outcome = Outcome::Active(format!("a sampling clock at {hz} Hz, bpf_get_stack"));
                self.plan.push(Purpose { purpose: CPU.to_owned(), outcome });
            }
            Err(error) => self.missing(CPU, &error),
        }
    }

    /// Also has the JVM's own probes tell of its monitors and of its stops, where it has them: waits of at least
    /// this length. They cost a JVM nothing that was started without the flag for them.
    pub fn probe_jvm(&mut self, pid: Pid, min_wait: Duration) {
        let options = JvmOptions { min_wait, ..JvmOptions::default() };
        let (plan, probes) = jvm_probes::attach(pid, &options);
        let mut purposes = plan.hooks.iter().map(jvm_purpose).collect::<Vec<_>>();
        // What lacks the same is said once.
        purposes.dedup_by(|next, first| {
            matches!(next.outcome, Outcome::Missing(_)) && next.outcome == first.outcome
        });
        self.plan.extend(purposes);
        let Ok(probes) = probes else { return };
        let source = JvmProbeSource {
            options,
            offset: self.offset,
            current: self.current.clone(),
            threads: self.threads.reader(),
            stops: self.stops.clone(),
            sender: self.sender.clone(),
            stop: Arc::clone(&self.stop_packets),
        };
        match spawn_in_step("jvm-probes", move || source.run(pid, probes)) {
            Ok(thread) => self.jvm_probes = Some(thread),
            Err(error) => self.missing(JVM, &error),
        }
    }

    fn start_packets(&mut self, options: &Options) {
        let Some(packets) = &options.packets else { return };
        let log_dirs = options.named_dirs.as_ref().unwrap_or(&options.log_dirs);
        let config = LiveConfig {
            interface: packets.interface.clone(),
            ports: packets.ports.clone(),
            ring_bytes: options.memory.capture_ring_bytes,
            ..LiveConfig::default()
        };
        match network::open(options.pid, &config) {
            Ok(live) => {
                let source = PacketSource {
                    live,
                    analyzer: Analyzer::new(capture::Config {
                        ports: packets.ports.clone(),
                        message_id_header: packets.message_id_header.clone(),
                        topics: broker::topic_ids::scan(log_dirs),
                        ..capture::Config::default()
                    }),
                    topics: TopicNames::default(),
                    offset: self.offset,
                    current: self.current.clone(),
                    sender: self.sender.clone(),
                    stop: Arc::clone(&self.stop_packets),
                };
                match spawn("packets", move || source.run()) {
                    Ok(thread) => {
                        self.packets = Some(thread);
                        let whose = if network::shares_network(options.pid) {
                            ""
                        } else {
                            " of the broker's network"
                        };
                        let outcome = Outcome::Active(format!("packets on {}{whose}", packets.interface));
                        self.plan.push(Purpose { purpose: REQUESTS.to_owned(), outcome });
                    }
                    Err(error) => self.missing(REQUESTS, &error),
                }
            }
            Err(error) => self.missing(REQUESTS, &error),
        }
    }

    fn missing(&mut self, purpose: &str, error: &dyn std::error::Error) {
        self.plan.push(Purpose { purpose: purpose.to_owned(), outcome: Outcome::Missing(error.to_string()) });
    }
}

/// Hands out events until a source has ended and what it delivered is out. Other sources go on delivering
/// meanwhile, so the queue need not run dry: what is in it when the source ends is at most its capacity.
fn hand_out_until(queue: &Queue, rest: &mut dyn FnMut(Option<Event>), ended: impl Fn() -> bool) {
    while !ended() {
        rest(queue.next(Duration::from_millis(10)).ok().flatten());
    }
    for _ in 0..queue.capacity() {
        let Ok(Some(event)) = queue.next(Duration::ZERO) else { return };
        rest(Some(event));
    }
}

fn finished<T>(thread: Option<&JoinHandle<T>>) -> bool {
    thread.is_none_or(JoinHandle::is_finished)
}

/// A thread that steps back behind the broker's.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    named(name).spawn(move || stepped_back(run))
}

/// Runs behind the broker's threads, with what watching takes and no more.
fn stepped_back<T>(run: impl FnOnce() -> T) -> T {
    // What could not be given away does no harm to the watch, and whoever is not let step back does as much.
    let _ = crate::privileges::drop_unneeded_capabilities(None);
    let _ = probes::set_sched_batch();
    run()
}

/// A thread that keeps its place: one that reads maps of programs by system calls, during which none runs on its CPU.
fn spawn_in_step<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    named(name).spawn(move || {
        // What could not be given away does no harm to the watch.
        let _ = crate::privileges::drop_unneeded_capabilities(None);
        run()
    })
}

fn named(name: &str) -> std::thread::Builder {
    std::thread::Builder::new().name(format!("brokerscope-{name}").chars().take(15).collect())
}
