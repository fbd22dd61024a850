//! `export`: serves what is observed about a broker as metrics, until it is time to stop.

mod replay;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration as StdDuration;

use anyhow::Context as _;
use clap::Args;
use diagnose::Config;
use export::otlp::{self, Otlp};
use export::{BrokerInfo, Classifiers, Exporter, MetricsService, ProcessUsage, Server};
use model::FileKind;

use super::Run;
use crate::args::{Flags, From, Service, Speed};
use crate::failure::usage;
use crate::output;
use crate::watch_mode::WatchMode;

/// Memory that is not for events: code, the kernel's symbols, buffered stream data, or prefetched parts of a recording.
const FIXED_BYTES: u64 = 64 << 20;
/// Longest wait at the end for traces that are not yet sent.
const MAX_TRACE_WAIT: StdDuration = StdDuration::from_secs(5);
/// Number of topics with their own series.
const DEFAULT_TOPICS: u32 = 20;

/// `export`.
#[derive(Debug, Args)]
#[command(mut_arg("request_log", |flag| flag.conflicts_with("from")))]
#[command(after_help = "Needs root, except with --from. /metrics answers as Prometheus' text,
OpenMetrics or protobuf; /healthz says whether it runs, /readyz whether it
watches a broker with all sources that it started with.

Examples:
  brokerscope export
  brokerscope export --listen 10.0.0.1:9465 --slower-than 65ms
  brokerscope export --watch full
  brokerscope export --otlp http://127.0.0.1:4318
  brokerscope export --from DIR --speed 60")]
pub(crate) struct Export {
    /// Listen on this address. Anyone who can connect to it can read topic and client names.
    #[arg(long, help_heading = "Output", value_name = "ADDRESS", default_value = "127.0.0.1:9465")]
    listen: SocketAddr,
    /// Export separate series for this many topics, those with the most bytes; 20 unless given.
    /// Needs --watch full.
    #[arg(long, help_heading = "Output", value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000))]
    top_topics: Option<u32>,
    /// Send slow requests as traces to this collector too (OTLP/HTTP, `http://HOST:4318`).
    /// No TLS: use a local collector that forwards over TLS.
    #[arg(long, help_heading = "Output", value_name = "URL")]
    otlp: Option<otlp::Endpoint>,
    /// Send at most this many traces per second, those of the slowest requests.
    #[arg(long, help_heading = "Output", value_name = "N", default_value_t = 10, requires = "otlp", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    otlp_traces: u32,
    /// Have the kernel measure the run time of the BPF programs (live), which itself costs up to two clock readings per
    /// run.
    #[arg(long, conflicts_with = "from")]
    measure_probes: bool,
    #[command(flatten)]
    mode: WatchMode,
    #[command(flatten)]
    from: From,
    #[command(flatten)]
    speed: Speed,
    #[command(flatten)]
    service: Service,
}

impl Run for Export {
    const FLAGS: Flags = Flags {
        hidden: &["message-id", "format", "utc", "wide"],
        refused: &["topic", "api"],
        refused_why: "the cause is often in another topic or API; filter by labels in queries",
        help: &[
            (
                "from",
                "Export a recording instead of the broker that runs here, and keep serving when it has been read",
            ),
            (
                "speed",
                "Replay the recording this many times as fast as it was recorded; without it, as fast as it can be read",
            ),
            ("slower-than", "Explain requests that took at least this long"),
            (
                "watch",
                "Watch in this mode (live). auto: always-on, or full with --see-tls, --request-log, --interface, --message-id or \
                 --top-topics and where the kernel lacks what always-on needs. always-on lacks topics, quota, batches, latencies of \
                 fetches, stages of quick requests, file operations and TLS connections; each verdict comes about 11 s \
                 after its request",
            ),
            (
                "for",
                "Stop after this time; without it, on Ctrl-C. A broker that is restarted meanwhile is followed",
            ),
            ("port", "Capture this port (repeatable); without it, the broker's own"),
            (
                "flight-recorder",
                "Record lock waits with JDK Flight Recorder in the broker's JVM (live): causes then come 3 s later",
            ),
        ],
        // Nothing that stalls the broker is on by default.
        defaults: &[("slower-than", "100ms"), ("flight-recorder", "never"), ("max-memory", "128MiB")],
        ..Flags::NONE
    };

    fn run(&self) -> anyhow::Result<()> {
        let server = Server::bind(self.listen)?;
        if !self.listen.ip().is_loopback() {
            tracing::warn!(
                "{}: anyone who can connect to this address can read topic and client names: there is no authentication",
                self.listen
            );
        }
        if let Some(directory) = &self.from.from {
            if let Some(flag) = self.mode.explicit_flag() {
                return usage(format!("{flag} is for live input; a recording is exported as it was made"));
            }
            return replay::run(self, directory, server);
        }
        #[cfg(feature = "live")]
        return live::run(self, server);
        #[cfg(not(feature = "live"))]
        return crate::args::cannot_watch();
    }
}

impl Export {
    fn exporter(&self, config: Config, info: BrokerInfo) -> anyhow::Result<Exporter> {
        let info = BrokerInfo {
            top_topics: self.top_topics.unwrap_or(DEFAULT_TOPICS) as usize,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..info
        };
        let otlp = self.otlp(&info)?;
        // The engine's configuration, with its events limited by the memory that it may take.
        let events =
            self.service.memory.max_memory.saturating_sub(FIXED_BYTES) / 2 / Config::EVENT_BYTES as u64;
        let config = Config { max_events: config.max_events.min(events as usize), ..config };
        let mut exporter = Exporter::new(config, info, Classifiers { role_of, kind_of });
        if let Some(otlp) = otlp {
            exporter.otlp = Some(otlp);
        }
        Ok(exporter)
    }

    /// Starts the sender of traces, if requested.
    fn otlp(&self, info: &BrokerInfo) -> anyhow::Result<Option<Otlp>> {
        let Some(endpoint) = self.otlp.clone() else { return Ok(None) };
        let resource = otlp::Resource {
            host: info.host.clone(),
            broker_id: info.node_id.map(|id| id.to_string()),
            version: info.version.clone(),
        };
        let options =
            otlp::Options { traces_per_second: self.otlp_traces as usize, ..otlp::Options::default() };
        Ok(Some(Otlp::start(endpoint, resource, options, drop_capabilities)?))
    }
}

/// Drops all capabilities of a thread that talks to untrusted peers.
/// If dropping fails, there are none.
fn drop_capabilities() {
    #[cfg(feature = "live")]
    let _ = watch::drop_all_capabilities();
}

/// Waits up to [`MAX_TRACE_WAIT`] for pending traces to be sent. Reports how many were not.
fn finish_traces(service: &MetricsService) {
    let Some(otlp) = service.feed(|exporter| exporter.otlp.take()) else { return };
    let counts = otlp.close(MAX_TRACE_WAIT);
    let lost = counts.dropped + counts.refused;
    if lost > 0 {
        tracing::warn!("the collector did not accept {lost} traces; it accepted {}", counts.sent);
    }
}

fn role_of(thread: &str) -> &'static str {
    jvm::Role::of(thread).as_str()
}

fn kind_of(path: &str) -> FileKind {
    broker::path::classify(path).0
}

/// Starts the server, and prints its URL. `usage` measures this process.
fn serve(
    server: Server,
    exporter: Exporter,
    usage: impl Fn() -> ProcessUsage + Send + Sync + 'static,
) -> anyhow::Result<Arc<MetricsService>> {
    let service = Arc::new(MetricsService::new(exporter, Box::new(usage)));
    let (address, shared) = (server.address, Arc::clone(&service));
    let answer = move || {
        drop_capabilities();
        server.serve(&shared);
    };
    std::thread::Builder::new().name("http".to_owned()).spawn(answer).context("cannot start a thread")?;
    // On standard output, because scripts that pass port 0 read it.
    let mut out = io::stdout().lock();
    writeln!(out, "http://{address}/metrics").and_then(|()| out.flush()).context(output::CANNOT_WRITE)?;
    Ok(service)
}

/// Exports the broker that runs here, until it is time to stop.
#[cfg(feature = "live")]
mod live {
    use std::collections::HashSet;
    use std::sync::Arc;

    use analysis::source::{self, Live, LiveOptions, Pause};
    use analysis::{EventSource as _, Step, Stop};
    use export::SourceHealth;
    use model::{Event, LossKind};
    use watch::{Costs, Health, Slice, Sources};

    use super::{
        Export, Exporter, MetricsService, ProcessUsage, Server, StdDuration, finish_traces, replay, serve,
    };
    use crate::commands::record::manifest;
    use crate::own_process::OwnProcess;
    use crate::watch_mode::Preference;

    /// Pause between two bursts: waking up for every batch costs more, and nobody scrapes more often than that.
    const PAUSE: StdDuration = StdDuration::from_millis(50);
    /// Like [`PAUSE`], for an always-on watch, which mostly has no events.
    const ALWAYS_ON_PAUSE: StdDuration = StdDuration::from_millis(250);
    /// Events fed at a time: a part of a [`Slice`].
    const EVENTS_AT_ONCE: usize = 32;
    /// Maximum number of consecutive bursts that did not drain the queue. The queue has room for several times as
    /// many.
    const MAX_PACED_BURSTS: usize = 8;
    /// Limit of the descriptions of losses that are logged.
    const MAX_LOGGED_LOSSES: usize = 32;
    const BROKER_GONE: &str = "the broker is gone; waiting for it to come back";

    pub(super) fn run(args: &Export, server: Server) -> anyhow::Result<()> {
        let stop = Stop::after(None)?;
        source::lower_priority();
        // The kernel measures as long as this is held, also programs that are loaded after a restart. The capability
        // for it is dropped once the watch has started.
        let measuring = if args.measure_probes { probes::overhead::count_run_time() } else { None };
        let [tls, request_log, interface, message_id] = args.service.full_flags();
        let topics = ("--top-topics", args.top_topics.is_some_and(|count| count > 0));
        let only_full = [tls, request_log, interface, message_id, topics];
        let always_on = args.mode.choose(Preference::AlwaysOn, &only_full, args.service.scope.slow)?;
        let max_cost = args.mode.max_cost(always_on);
        let options = LiveOptions {
            wait: StdDuration::ZERO,
            always_on,
            max_cost: Some(max_cost),
            ..args.service.live_options()
        };
        let mut live = Live::start(options, Some(stop), args.service.length.duration)?;
        if args.measure_probes && measuring.is_none() {
            tracing::warn!(
                "the kernel does not measure BPF programs: that needs CAP_SYS_ADMIN and Linux 5.8 or newer"
            );
        }
        let info = replay::info(&manifest::of_live(&live.broker, live.plan()));
        let exporter = args.exporter(live.config(args.service.scope.slow.slower_than), info)?;
        let own = OwnProcess::new();
        let own = if measuring.is_some() { own.with_programs() } else { own };
        let (costs, mut shed) = (live.costs.clone(), 0);
        let max_cost = Some(max_cost).filter(|max| max.is_finite());
        let sources = live.sources.clone();
        let usage = move || ProcessUsage {
            max_cost,
            sources: health(&sources, &costs),
            ..with_cost(own.usage(), &costs)
        };
        let service = serve(server, exporter, usage)?;
        let pid = live.broker.pid;
        tracing::info!("exporting metrics of broker {pid}{}", args.service.length.until());
        // If the kernel refuses, the watch works all the same.
        let _ = watch::set_sched_batch();
        let rest = if always_on.is_some() { ALWAYS_ON_PAUSE } else { PAUSE };
        let (mut burst, mut bursts) = (Vec::new(), 0);
        let mut losses = LossLog::default();
        loop {
            match live.next() {
                // It does not matter how long a scrape waits for the last events.
                Step::Event(event) if live.is_ending() => service.feed(|exporter| exporter.push(event)),
                Step::Event(event) => {
                    losses.add(&event);
                    burst.push(event);
                }
                Step::Pause(pause) => {
                    bursts = if pause.drained { 0 } else { bursts + 1 };
                    feed_burst(&service, &mut burst, pause, bursts > MAX_PACED_BURSTS);
                    for purpose in live.costs.shed_after(shed) {
                        service.feed(|exporter| exporter.end_source(&purpose.purpose));
                        shed += 1;
                    }
                    if pause.drained {
                        std::thread::sleep(rest);
                    }
                }
                Step::End => break,
            }
        }
        service.feed(Exporter::finish);
        finish_traces(&service);
        live.gaps(args.service.scope.slow.slower_than).notes.iter().for_each(|note| tracing::warn!("{note}"));
        Ok(())
    }

    /// Logs what is lost, because metrics have only the kind.
    #[derive(Default)]
    struct LossLog(HashSet<(LossKind, Arc<str>)>);

    impl LossLog {
        /// Logs a loss if none had the same description before.
        fn add(&mut self, event: &Event) {
            let Event::Loss(loss) = event else { return };
            if self.0.len() < MAX_LOGGED_LOSSES && self.0.insert((loss.kind, Arc::clone(&loss.detail))) {
                tracing::warn!("lost: {}: {}", loss.kind.as_str(), loss.detail);
            }
        }
    }

    /// Health of all sources that were not shed.
    fn health(sources: &Sources, costs: &Costs) -> Vec<SourceHealth> {
        let shed = costs.shed_after(0);
        let is_in_use = |one: &Health| shed.iter().all(|shed| shed.purpose != one.purpose);
        let in_use = sources.health().into_iter().filter(is_in_use);
        in_use
            .map(|Health { purpose, down, last_event, .. }| SourceHealth { purpose, down, last_event })
            .collect()
    }

    fn with_cost(usage: ProcessUsage, costs: &Costs) -> ProcessUsage {
        let cost = costs.cost();
        let cost_of_programs = cost.and_then(|cost| cost.programs);
        ProcessUsage { cost_of_programs, cost_of_process: cost.map(|cost| cost.process), ..usage }
    }

    /// Feeds the events of a burst, with a rest after each [`Slice`]. Does not rest if the queue fills up. A scrape
    /// waits for some of the events.
    fn feed_burst(service: &MetricsService, burst: &mut Vec<Event>, pause: Pause, is_filling: bool) {
        let mut slice = Slice::new(Slice::SHORT);
        let mut events = burst.drain(..);
        while events.len() > 0 {
            service.feed(|exporter| {
                events.by_ref().take(EVENTS_AT_ONCE).for_each(|event| exporter.push(event));
            });
            slice.rest_if_over(|| is_filling);
        }
        let is_watched = service.feed(|exporter| {
            if pause.drained {
                exporter.tick(pause.now);
            }
            exporter.is_watched()
        });
        service.set_ready(if is_watched { Ok(()) } else { Err(BROKER_GONE.to_owned()) });
    }
}
