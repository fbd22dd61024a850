//! The always-on source: sleeps until a request was slow, then reads the kernel's records around it. While nothing is slow, the
//! only cost is that of the BPF programs.
//!
//! Not observable: when a response's bytes left the broker after the calls that wrote them; what a request asked for; what
//! followers fetched.
//!
//! Once a second, it also reads the kernel's histograms of all requests.

mod convert;
mod latencies;
mod segments;
mod slow;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use probes::Facts;
use probes::always_on::{Hook, MAX_CHANGE_NS, Options, Plan, Purpose as Hooks, Session, SlowRequest};

use crate::cost::Part;
use crate::devices::Devices;
use crate::escalation::{Handover, Mode};
use crate::mounts::Mounts;
use crate::plan::{Outcome, Purpose};
use crate::source::{BrokerProcess, Feed, LossCount, Pace, Source, WatchSummary};
use crate::thread_names::ThreadNames;
use crate::watch::{KERNEL, REQUEST_LATENCIES, REQUESTS};
use convert::{Names, Report};
use latencies::LatencyReader;
use model::{LossKind, Pid};
use segments::Segments;
use slow::Topics;

/// How long after a slow request to wait for related records: waits and writes of others that it started.
const SETTLE_NS: u64 = 500_000_000;
/// Limit of slow requests that wait for that; beyond it, the oldest are delivered early.
const MAX_WAITING: usize = 10_000;
/// How long before the first slow request to read records: of what held a lock or the journal when it arrived.
const BEFORE_NS: u64 = 2_000_000_000;
/// During an escalation, records are read once they cover this much time.
const MAX_UNREAD_NS: u64 = 1_000_000_000;
/// The shortest sleep while slow requests wait.
const MIN_SLEEP: Duration = Duration::from_millis(20);
/// The longest sleep, and so the delay with which the broker's end is noticed.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// Reads the kernel's records of one broker process after another.
pub(crate) struct AlwaysOnSource {
    plan: Plan,
    options: Options,
    threads: ThreadNames,
    handover: Arc<Handover>,
    /// `None` while the broker is down.
    session: Option<BrokerSession>,
    /// Records that were overwritten before they were read.
    overwritten: u64,
    /// Seconds in which waits were not watched, because they cost too much.
    without_waits: u64,
}

/// The BPF programs attached to one process.
struct BrokerSession {
    pid: Pid,
    session: Session,
    names: Names,
    latencies: LatencyReader,
    waiting: Vec<SlowRequest>,
    /// Records that ended by then have been delivered.
    delivered_until_ns: u64,
    /// Shares requests and waits with the sources of an escalation.
    handover: Arc<Handover>,
    /// Start of the escalation.
    /// During an escalation, packets are captured too and records are read continuously.
    escalated_ns: Option<u64>,
}

/// Purposes that these programs serve, by the names of a full watch.
pub(crate) fn purposes(plan: &Plan) -> Vec<Purpose> {
    let means = |purposes: &[Hooks]| {
        let hooks = plan.used().filter(|hook| purposes.contains(&hook.purpose)).map(Hook::describe);
        let hooks = hooks.collect::<Vec<_>>();
        (!hooks.is_empty()).then(|| hooks.join(", "))
    };
    let active = |purpose: &str, what: &str, hooks: &[Hooks]| {
        let outcome = Outcome::Active(format!("{what}: {}", means(hooks)?));
        Some(Purpose { purpose: purpose.to_owned(), outcome })
    };
    let files = [Hooks::Ext4Appends, Hooks::XfsAppends, Hooks::BtrfsAppends];
    let waits = "waits of 1 ms or longer that are no sleep";
    [
        active(
            REQUESTS,
            "from the first byte in the socket to the last that the broker writes",
            &[Hooks::Requests],
        ),
        active(REQUEST_LATENCIES, "histograms of all requests, once a second", &[Hooks::Requests]),
        active(KERNEL, "appends around slow requests", &files),
        active(probes::Purpose::OffCpu.as_str(), waits, &[Hooks::Waits]),
        active(probes::Purpose::ProcessStops.as_str(), "by signals and freezers", &[Hooks::Waits]),
        active(probes::Purpose::KernelStacks.as_str(), waits, &[Hooks::Waits]),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl AlwaysOnSource {
    /// Attaches the programs to a broker.
    pub(crate) fn attach(
        pid: Pid,
        log_dirs: &[PathBuf],
        ports: &[u16],
        threshold: Duration,
        (threads, handover): (&ThreadNames, &Arc<Handover>),
    ) -> Result<Self, probes::Error> {
        let plan = Plan::choose(&Facts::survey());
        let options = Options { ports: ports.to_vec(), threshold, ..Options::default() };
        let session = BrokerSession::attach(pid, log_dirs, &plan, &options, (threads, handover))?;
        let plan = session.session.plan().clone();
        let (threads, handover) = (threads.clone(), Arc::clone(handover));
        let session = Some(session);
        Ok(Self { plan, options, threads, handover, session, overwritten: 0, without_waits: 0 })
    }

    /// Detaches the programs for waits, also for future processes of the broker.
    fn shed_waits(&mut self, why: &str) {
        if let Some(session) = self.session.as_mut().filter(|one| one.session.plan().uses(Hooks::Waits)) {
            session.session.detach(Hooks::Waits, why);
            self.plan = session.session.plan().clone();
        }
    }

    /// The attached programs.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }
}

impl BrokerSession {
    fn attach(
        pid: Pid,
        log_dirs: &[PathBuf],
        plan: &Plan,
        options: &Options,
        (threads, handover): (&ThreadNames, &Arc<Handover>),
    ) -> Result<Self, probes::Error> {
        let session = Session::attach(plan, pid, options)?;
        let names = Names {
            pid,
            threads: threads.reader(),
            comms: HashMap::default(),
            devices: Devices::new(Mounts::of(pid)),
            segments: Segments::new(log_dirs),
            topics: Topics::of(log_dirs),
            nameless: HashSet::default(),
        };
        let latencies = LatencyReader::new(crate::now().monotonic_ns);
        let (waiting, handover) = (Vec::new(), Arc::clone(handover));
        Ok(Self {
            pid,
            session,
            names,
            latencies,
            waiting,
            delivered_until_ns: 0,
            handover,
            escalated_ns: None,
        })
    }

    /// Sleeps until a request was slow or an earlier slow one is due.
    fn wait(&mut self, timeout: Duration) -> Result<(), probes::Error> {
        let sleep = self.waiting.first().map_or(timeout, |first| {
            // Packets are read later than records of the same time.
            let settle_ns = if self.escalated_ns.is_some() { 3 * SETTLE_NS } else { SETTLE_NS };
            let due_ns = first.request.last_ns + settle_ns + MAX_CHANGE_NS;
            let now_ns = crate::now().monotonic_ns;
            timeout.min(Duration::from_nanos(due_ns.saturating_sub(now_ns)).max(MIN_SLEEP))
        });
        let slow = self.session.wait(sleep)?;
        self.handover.add_slow(slow.len() as u64);
        self.waiting.extend(slow);
        self.waiting.sort_by_key(|slow| slow.request.last_ns);
        Ok(())
    }

    /// Delivers the records around slow requests that have settled.
    /// At the end, delivers those around all slow requests. Returns how many records were overwritten before they were
    /// read.
    fn deliver(&mut self, feed: &Feed, is_ending: bool) -> u64 {
        let now_ns = crate::now().monotonic_ns;
        // While packets are captured: for requests that ended before this, it is known whether packets showed them.
        let known_ns = self.handover.known_until_ns().filter(|_| !is_ending);
        let settled_ns = if is_ending { now_ns } else { now_ns.saturating_sub(MAX_CHANGE_NS) };
        let until_ns = known_ns.map_or(settled_ns, |known| known.min(settled_ns));
        let escalated_ns = self.escalated_ns;
        self.escalated_ns = known_ns.map(|_| escalated_ns.unwrap_or(now_ns));
        let is_due = |slow: &SlowRequest| is_ending || slow.request.last_ns + SETTLE_NS <= until_ns;
        let excess = self.waiting.len().saturating_sub(MAX_WAITING);
        let due = self.waiting.partition_point(is_due).max(excess);
        let slow: Vec<SlowRequest> = self.waiting.drain(..due).collect();
        let first_ns = slow.iter().map(|slow| slow.request.arrival_ns.saturating_sub(BEFORE_NS)).min();
        // The requests that packets showed are remembered for some seconds only, so no record may wait longer.
        let unread_ns = escalated_ns.map(|since| since.max(self.delivered_until_ns + 1));
        let is_old = |unread: &u64| known_ns.is_none() || unread + MAX_UNREAD_NS <= until_ns;
        let Some(first_ns) = first_ns.into_iter().chain(unread_ns.filter(is_old)).min() else { return 0 };
        // Records that ended by then are complete and final, so each is delivered once.
        let interval = self.session.interval(first_ns, until_ns);
        let report = Report {
            records: &interval.records,
            fresh_ns: self.delivered_until_ns + 1..=until_ns,
            slow: &slow,
            waiting: &self.waiting,
        };
        let session = &self.session;
        let mut events = self.names.events(&report, |number| session.connection(number), feed.clock);
        events.retain(|event| self.handover.is_of(Mode::AlwaysOn, event));
        feed.sender.send_all(events);
        self.delivered_until_ns = self.delivered_until_ns.max(until_ns);
        interval.overwritten
    }

    /// Delivers counts and latencies of all requests since the last call.
    fn deliver_latencies(&mut self, feed: &Feed) {
        let now_ns = crate::now().monotonic_ns;
        feed.sender.send_all(self.latencies.read(self.session.histograms(), now_ns, feed.clock));
    }

    /// Delivers the rest. Returns how many records were overwritten before they were read.
    fn finish(&mut self, feed: &Feed) -> u64 {
        self.deliver_latencies(feed);
        self.deliver(feed, true)
    }
}

impl Source for AlwaysOnSource {
    type Error = probes::Error;

    const NAME: &'static str = "always-on";
    const PACE: Pace = Pace::Blocking(MAX_SLEEP);

    fn is_up(&self) -> bool {
        self.session.is_some()
    }

    fn poll(&mut self, feed: &Feed, timeout: Duration) -> Result<(), probes::Error> {
        let Some(session) = &mut self.session else { return Ok(()) };
        session.wait(timeout)?;
        self.overwritten += session.deliver(feed, false);
        Ok(())
    }

    /// Follows the broker to its current process. The programs of a new process count from 0.
    fn check(&mut self, feed: &Feed) -> Result<bool, probes::Error> {
        if feed.costs.is_shed(Part::Waits) {
            self.shed_waits(&feed.costs.why_shed());
            // During an escalation, its probes see the waits.
            self.without_waits += u64::from(!feed.costs.is_escalated());
        }
        let broker = feed.current.get();
        let pid = broker.as_ref().map(|broker| broker.pid);
        if pid == self.session.as_ref().map(|session| session.pid) {
            self.session.iter_mut().for_each(|session| session.deliver_latencies(feed));
            return Ok(false);
        }
        let ended = self.session.take();
        let counts_again = ended.is_some();
        if let Some(mut session) = ended {
            self.overwritten = session.finish(feed);
        }
        if let Some(BrokerProcess { pid, log_dirs, ports }) = broker {
            self.options.ports = ports;
            let shared = (&self.threads, &self.handover);
            self.session = Some(BrokerSession::attach(pid, &log_dirs, &self.plan, &self.options, shared)?);
        }
        Ok(counts_again)
    }

    fn losses(&self) -> Vec<LossCount> {
        let lost = self.session.as_ref().map(|session| session.session.losses()).unwrap_or_default();
        let unreported = lost.over_limit + lost.ring_full + lost.undecodable;
        let (dropped, undecodable) = (LossKind::ProbeEventsDropped, LossKind::FramesUndecodable);
        // These losses last as long as such a connection, and do not put the verdicts on other requests in doubt.
        let uncounted = LossKind::RequestsUncounted;
        vec![
            (dropped, "records were overwritten before they were read", self.overwritten),
            (dropped, "more slow requests than are reported", unreported),
            (dropped, "the kernel skipped an always-on program", lost.skipped),
            (LossKind::SourceShed, "waits are not watched: they cost too much", self.without_waits),
            (LossKind::ProbeMapFull, "calls on connections that had no memory", lost.without_connection),
            (
                undecodable,
                "frames that are none of Kafka's: requests behind them are not counted",
                lost.bad_frames,
            ),
            (undecodable, "requests whose answers could not be followed", lost.given_up),
            (uncounted, "requests for whose API and listener there was no histogram", lost.without_histogram),
            (uncounted, "reads of connections that are older or encrypted", lost.unsynchronised_reads),
        ]
    }

    fn finish(&mut self, feed: &Feed) -> Result<(), probes::Error> {
        if let Some(session) = &mut self.session {
            self.overwritten += session.finish(feed);
        }
        Ok(())
    }

    fn summarize(self, ended: Result<(), probes::Error>) -> WatchSummary {
        WatchSummary { kernel: ended.err(), ..WatchSummary::default() }
    }
}
