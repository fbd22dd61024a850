//! A broker on this host as a source: a watch whose events are returned as they arrive.
//! Buffers are bounded; events that do not fit are dropped and counted.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use broker::Broker;
use diagnose::Config;
use model::{BrokerChange, BrokerState, Event, LossKind, Nanos, Pid, TlsCount, TlsTotals, TlsTraffic};
use report::tls::describe_tls;
use watch::{AlwaysOn, Jfr, Memory, Outcome, Packets, Watch, WatchSummary};

use super::{EventSource, Pause, Step};
use crate::gaps::Gaps;
use crate::recorder::always_on;
use crate::recorder::plan::{self, Plan};
use crate::{Error, Stop};

/// Events between two checks of the clock and of signals.
const MAX_BURST: usize = 1_000;

/// Reason why an always-on watch has no lock waits.
const NO_LOCK_WAITS: &str = "not recorded while always on: Flight Recorder costs the broker too much; --flight-recorder always starts it";

/// Options of a live watch.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// The broker's process; `None` for the only one on this host.
    pub pid: Option<Pid>,
    /// Its log dirs; empty for those of its configuration.
    pub log_dirs: Vec<PathBuf>,
    /// A network interface, or `any`; `None` captures no packets.
    pub interface: Option<String>,
    /// The ports to capture; empty for the broker's own.
    pub ports: Vec<u16>,
    /// Threshold of slow requests for an always-on watch, which costs very little.
    /// `None` for a full watch.
    pub always_on: Option<Nanos>,
    /// Share of the broker's CPU time above which parts are shed.
    /// Infinity sheds none; `None` does not measure the cost.
    pub max_cost: Option<f64>,
    /// The record header that holds a message's id.
    pub message_id: Option<String>,
    /// When to start Flight Recorder for lock waits; `None` does not contact the JVM.
    pub jvm: Option<Jfr>,
    /// Whether an agent in the JVM copies what TLS connections carry.
    pub see_tls: bool,
    /// Kafka's request log, as the source of requests that are not captured.
    pub request_log: Option<PathBuf>,
    /// The shortest wait for a Java monitor that the JVM's own probes report.
    /// `None` sets no such probes.
    pub min_lock_wait: Option<Nanos>,
    /// Samples a second on each CPU; 0 takes none.
    pub cpu_samples_hz: u32,
    /// Memory limits.
    pub memory: Memory,
    /// The longest wait for an event; a signal ends it.
    pub wait: Duration,
}

impl LiveOptions {
    /// When to start Flight Recorder: an always-on watch starts it only if the user asked for it.
    fn flight_recorder(&self) -> Jfr {
        match self.jvm {
            None => Jfr::Never,
            Some(Jfr::Auto) if self.always_on.is_some() => Jfr::Never,
            Some(jfr) => jfr,
        }
    }
}

/// Finds the broker with this process id, or the only one on this host.
///
/// # Errors
/// There is no broker, or there are several.
pub fn broker(pid: Option<Pid>) -> Result<Broker, Error> {
    Ok(match pid {
        Some(pid) => Broker::of_pid(pid)?,
        None => Broker::only()?,
    })
}

/// Starts a watch on a broker.
///
/// # Errors
/// Nothing can be observed.
pub fn start_watch(broker: &Broker, options: &LiveOptions) -> Result<Watch, Error> {
    let interface = options.interface.as_ref();
    let always_on = options
        .always_on
        .map(|threshold| AlwaysOn { threshold: Duration::from_nanos(threshold.0.unsigned_abs()) });
    let packets = interface.map(|interface| Packets {
        interface: interface.clone(),
        message_id_header: options.message_id.clone().map(String::into_bytes),
        see_tls: options.see_tls,
    });
    let mut watch = Watch::start(&watch::Options {
        pid: broker.pid,
        node_id: broker.node_id,
        log_dirs: broker.log_dirs.clone(),
        named_dirs: (!options.log_dirs.is_empty()).then(|| options.log_dirs.clone()),
        ports: broker.ports(),
        named_ports: (!options.ports.is_empty()).then(|| options.ports.clone()),
        host: interface.is_some(),
        packets,
        request_log: options.request_log.clone(),
        always_on,
        kernel: true,
        cpu_samples_hz: (options.cpu_samples_hz > 0).then_some(options.cpu_samples_hz),
        jvm: options.jvm.is_some(),
        jfr: options.flight_recorder(),
        // This program, even if another one has replaced its file.
        parser: "/proc/self/exe".into(),
        memory: options.memory,
        max_cost: options.max_cost,
    });
    if !watch.sees_anything() {
        let missing = plan::missing(&plan::of_watch(watch.plan()));
        let mut reasons: Vec<_> = missing.into_iter().map(|missing| missing.why).collect();
        reasons.dedup();
        let (pid, reasons) = (broker.pid, reasons.join("; "));
        return Err(Error::input(format!(
            "broker {pid}: nothing can be observed: {reasons}; run `brokerscope doctor` for details"
        )));
    }
    let is_tls_read = options.see_tls || options.request_log.is_some();
    if let Some(why) = unread_listeners(broker).filter(|_| options.interface.is_some() && !is_tls_read) {
        watch.add_missing(plan::TLS, why);
    }
    if options.always_on.is_some() && options.flight_recorder() == Jfr::Never {
        watch.add_missing(plan::LOCK_WAITS, NO_LOCK_WAITS.to_owned());
    }
    for purpose in watch.plan() {
        let (Outcome::Active(how) | Outcome::Missing(how)) = &purpose.outcome;
        tracing::debug!("broker {}: {}: {how}", broker.pid, purpose.purpose);
    }
    if let Some(shortest) = options.min_lock_wait {
        watch.probe_jvm(broker.pid, Duration::from_nanos(shortest.0.unsigned_abs()));
    }
    Ok(watch)
}

/// The TLS listeners of a broker, which cannot be read, and why.
fn unread_listeners(broker: &Broker) -> Option<String> {
    let listeners = broker.tls_listeners().map(ToString::to_string).collect::<Vec<_>>();
    let why = "TLS connections are counted and not read: --see-tls reads them, and --request-log what Kafka logs of them";
    (!listeners.is_empty()).then(|| format!("{}: {why}", listeners.join(" ")))
}

/// Makes this process yield the CPU to all others if it has its cgroup to itself.
/// Logs at debug level why not.
pub fn lower_priority() {
    match watch::set_cgroup_idle() {
        Ok(group) => tracing::debug!("{} is idle (cpu.idle): all others come first", group.display()),
        Err(why) => tracing::debug!("the cgroup stays as it is, not idle: {why}"),
    }
}

/// Drops the capabilities that attaching needed and watching does not.
pub fn drop_privileges() {
    if let Err(error) = watch::drop_unneeded_capabilities() {
        tracing::warn!("cannot drop capabilities that are no longer needed: {error}");
    }
}

impl State {
    /// Starts to end a watch; does nothing if it is ending already.
    fn end(&mut self) {
        let watch = match std::mem::replace(self, Self::Ended) {
            Self::Watching(watch) => watch,
            ending => {
                *self = ending;
                return;
            }
        };
        let (sender, events) = sync_channel(MAX_BURST);
        let ending = std::thread::spawn(move || {
            // Without a receiver, the events are dropped.
            watch.stop(&mut |event| drop(sender.send(event)))
        });
        *self = Self::Ending(events, ending);
    }
}

/// After an error, the watch has not been ended yet: end its sources so that they detach from the broker.
impl Drop for Live {
    fn drop(&mut self) {
        self.end();
        if let State::Ending(events, thread) = std::mem::replace(&mut self.state, State::Ended) {
            drop(events);
            drop(thread.join());
        }
    }
}

/// A running watch on a broker.
pub struct Live {
    state: State,
    /// The broker, as of the start of the watch.
    pub broker: Broker,
    /// The plan: each purpose, with how it is served or why not.
    plan: Vec<(String, String)>,
    options: LiveOptions,
    /// The cost of watching.
    pub costs: watch::Costs,
    /// Health of the plan's sources.
    pub sources: watch::Sources,
    /// Number of shed purposes that the plan already marks as missing.
    shed: usize,
    sees_files: bool,
    /// When to end; `None` if only [`Live::end`] ends the watch.
    stop: Option<Stop>,
    /// Events taken since the last pause.
    burst: usize,
    /// TLS traffic so far.
    tls: TlsTotals,
    /// Summary after the end: dropped events, and sources that ended early.
    pub ended: Option<WatchSummary>,
}

enum State {
    Watching(Box<Watch>),
    /// The sources are ending; a thread delivers their last events.
    Ending(Receiver<Event>, JoinHandle<WatchSummary>),
    Ended,
}

impl Live {
    /// Finds the broker and watches it until it is time to stop; `duration` counts from the start of the watch.
    ///
    /// # Errors
    /// There is no such broker, or nothing of it can be observed.
    pub fn start(options: LiveOptions, stop: Option<Stop>, duration: Option<Nanos>) -> Result<Self, Error> {
        let broker = broker(options.pid)?;
        let watch = start_watch(&broker, &options)?;
        drop_privileges();
        if let Some(stop) = &stop {
            stop.wake_by_signals(watch.waker())?;
        }
        Ok(Self {
            plan: plan::of_watch(watch.plan()),
            costs: watch.costs(),
            sources: watch.sources(),
            shed: 0,
            sees_files: watch.sees_files(),
            state: State::Watching(Box::new(watch)),
            broker,
            options,
            stop: stop.map(|stop| stop.within(duration)),
            burst: 0,
            tls: TlsTotals::default(),
            ended: None,
        })
    }

    /// Reports why each of several alternative purposes is missing; empty if one of them is served.
    pub fn unseen(&self, means: &[&str]) -> Vec<String> {
        if means.iter().any(|purpose| plan::sees(&self.plan, purpose)) {
            return Vec::new();
        }
        let missing =
            plan::missing(&self.plan).into_iter().filter(|missing| means.contains(&missing.what.as_str()));
        missing.map(|missing| format!("not seen: {}: {}", missing.what, missing.why)).collect()
    }

    fn wait(&self) -> Duration {
        let left = self.stop.as_ref().and_then(Stop::time_left);
        left.map_or(self.options.wait, |left| left.min(self.options.wait))
    }

    /// Ends the watch; [`EventSource::next`] returns the remaining events.
    pub fn end(&mut self) {
        self.state.end();
    }

    /// Whether the watch is ending or has ended.
    pub fn is_ending(&self) -> bool {
        !matches!(self.state, State::Watching(_))
    }
}

/// Logs a change of the broker's process, except the start of the first one.
pub fn announce(change: &BrokerChange, first: Pid) {
    let pid = change.pid;
    match change.state {
        BrokerState::Gone => tracing::info!("broker {pid} is gone; waiting for it to come back"),
        BrokerState::Watched if pid != first => tracing::info!("the broker is back: watching {pid}"),
        BrokerState::Watched => {}
        BrokerState::Escalated => {
            tracing::info!("requests to broker {pid} are slow: probes and packets are watched for a while");
        }
        BrokerState::AlwaysOn => tracing::info!("broker {pid}: only what is always on is watched again"),
    }
}

/// Adds TLS traffic, and warns about the first of each listener.
pub fn announce_tls(totals: &mut TlsTotals, traffic: &TlsTraffic) {
    if totals.take(traffic) {
        let count = TlsCount { connections: traffic.connections, bytes: traffic.bytes };
        tracing::warn!(
            "{} so far; no verdict knows of their requests",
            describe_tls(traffic.listener, count)
        );
    }
}

impl EventSource for Live {
    fn next(&mut self) -> Step {
        if self.burst == 0 && self.stop.as_ref().is_some_and(Stop::should_stop) {
            self.end();
        }
        let event = match &self.state {
            State::Watching(watch) => {
                let wait = if self.burst == 0 { self.wait() } else { Duration::ZERO };
                let event = if self.burst < MAX_BURST { watch.next(wait) } else { None };
                let Some(event) = event else {
                    let drained = std::mem::take(&mut self.burst) < MAX_BURST;
                    let pause = Pause { now: now(watch), drained };
                    plan::note_shed(&mut self.plan, &self.costs, &mut self.shed);
                    return Step::Pause(pause);
                };
                self.burst += 1;
                Some(event)
            }
            State::Ending(events, _) => events.recv().ok(),
            State::Ended => None,
        };
        let Some(event) = event else {
            if let State::Ending(_, thread) = std::mem::replace(&mut self.state, State::Ended) {
                self.ended = Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            return Step::End;
        };
        match &event {
            Event::BrokerChange(change) => announce(change, self.broker.pid),
            Event::TlsTraffic(traffic) => announce_tls(&mut self.tls, traffic),
            _ => {}
        }
        Step::Event(event)
    }

    fn config(&self, slower_than: Nanos) -> Config {
        let live = Config { file_ops_observed: self.sees_files, ..Config::live(slower_than) };
        let live = if self.options.always_on.is_some() { always_on::with_disorder(live) } else { live };
        // Flight Recorder's events arrive later than those of all other sources.
        if self.options.flight_recorder() == Jfr::Never { live } else { live.with_jvm() }
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn gaps(&mut self, _slower_than: Nanos) -> Gaps {
        let losses = self.ended.iter().map(|ended| (LossKind::EventsDropped, ended.unreported)).collect();
        let mut notes = self.ended.as_ref().map(notes).unwrap_or_default();
        notes.extend(self.options.always_on.map(|_| always_on::LIMITS.to_owned()));
        Gaps { unobservable: plan::missing(&self.plan), losses, notes, ..Gaps::default() }
    }
}

/// The current time on the clock of the events.
fn now(watch: &Watch) -> Nanos {
    watch.clock().0.from_monotonic(watch::now().monotonic_ns)
}

fn notes(ended: &WatchSummary) -> Vec<String> {
    let kernel = ended.kernel.iter().map(|error| format!("the probes ended early: {error}"));
    let packets = ended.packets.iter().filter_map(|counted| counted.as_ref().err());
    let packets = packets.map(|error| format!("the capture ended early: {error}"));
    kernel.chain(packets).chain(ended.trouble.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use model::{BrokerChange, BrokerState, Event, Nanos};

    use super::{Jfr, LiveOptions, State, WatchSummary, sync_channel};

    #[test]
    fn always_on_watch_starts_flight_recorder_only_if_set_to_always() {
        let recorder = |jvm, always_on: Option<i64>| {
            let options = LiveOptions {
                pid: None,
                log_dirs: Vec::new(),
                interface: None,
                ports: Vec::new(),
                always_on: always_on.map(Nanos::from_millis),
                max_cost: None,
                message_id: None,
                jvm,
                see_tls: false,
                request_log: None,
                min_lock_wait: None,
                cpu_samples_hz: 0,
                memory: watch::Memory::default(),
                wait: std::time::Duration::ZERO,
            };
            options.flight_recorder()
        };
        assert_eq!(recorder(Some(Jfr::Auto), None), Jfr::Auto);
        assert_eq!(recorder(Some(Jfr::Auto), Some(100)), Jfr::Never);
        assert_eq!(recorder(Some(Jfr::Always), Some(100)), Jfr::Always);
        assert_eq!(recorder(None, Some(100)), Jfr::Never);
    }

    #[test]
    fn second_end_does_not_drop_the_last_events() {
        let (sender, events) = sync_channel(1);
        let thread = std::thread::spawn(move || {
            let change = BrokerChange { at: Nanos(1), pid: 7, state: BrokerState::Gone };
            drop(sender.send(Event::BrokerChange(change)));
            WatchSummary::default()
        });
        let mut state = State::Ending(events, thread);
        state.end();
        let State::Ending(events, thread) = state else { panic!("it still ends") };
        assert!(matches!(events.recv(), Ok(Event::BrokerChange(_))));
        assert!(thread.join().is_ok());
    }
}
