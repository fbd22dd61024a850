//! `export`: what is seen of a broker as metrics, for as long as it is let.

#[cfg(feature = "live")]
mod live;
mod own;
mod replay;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use diagnose::Config;
use export::otlp::{self, Otlp};
use export::{BrokerInfo, Classifiers, Exporter, MetricsService, Server};
use model::FileKind;

use crate::cli::Export;
use crate::failure::Usage;
use crate::options::Filter;
use crate::output;
use own::OwnProcess;

/// Events taken at once: whoever asks meanwhile waits for them.
const BURST: usize = 1_000;
/// What is not for events: code, the kernel's symbols, pieces of streams, or of a recording that is read ahead.
const FIXED_BYTES: u64 = 64 << 20;
/// At the end, traces that are not sent yet are waited for so long.
const LAST_TRACES: Duration = Duration::from_secs(5);
/// An event in the engine's window and its allocations, generously.
const EVENT_BYTES: u64 = 400;

/// Exports until it is time to stop.
pub(crate) fn run(args: &Export) -> anyhow::Result<()> {
    refuse_filters(&args.filter)?;
    let server = Server::bind(args.listen)?;
    if !args.listen.ip().is_loopback() {
        output::warn(&format!(
            "{}: whoever reaches this address can read the names of topics and clients; it asks nobody who he is",
            args.listen
        ));
    }
    match &args.from {
        Some(dir) => replay::run(args, dir, server),
        None => live(args, server),
    }
}

#[cfg(feature = "live")]
fn live(args: &Export, server: Server) -> anyhow::Result<()> {
    live::run(args, server)
}

#[cfg(not(feature = "live"))]
fn live(_args: &Export, _server: Server) -> anyhow::Result<()> {
    Err(crate::options::cannot_watch().into())
}

/// A request is slow because of what others did.
fn refuse_filters(filter: &Filter) -> anyhow::Result<()> {
    let given = [("--topic", !filter.topics.is_empty()), ("--api", !filter.apis.is_empty())];
    match given.iter().find(|(_, given)| *given) {
        Some((flag, _)) => {
            let what = "what slowed a request is often another's; choose by labels when you ask";
            Err(Usage(format!("export takes no {flag}: {what}")).into())
        }
        None => Ok(()),
    }
}

/// As the engine is configured otherwise, within the memory that it may take.
fn bounded(args: &Export, config: Config) -> Config {
    let events = args.max_memory.saturating_sub(FIXED_BYTES) / 2 / EVENT_BYTES;
    Config { max_events: config.max_events.min(events as usize), ..config }
}

fn exporter(args: &Export, config: Config, about: BrokerInfo) -> anyhow::Result<Exporter> {
    let about = BrokerInfo {
        top_topics: args.top_topics as usize,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..about
    };
    let otlp = otlp(args, &about)?;
    let mut exporter = Exporter::new(bounded(args, config), about, Classifiers { role_of, kind_of });
    if let Some(otlp) = otlp {
        exporter.send_traces(otlp);
    }
    Ok(exporter)
}

/// What sends slow requests as traces, where that is asked for.
fn otlp(args: &Export, about: &BrokerInfo) -> anyhow::Result<Option<Otlp>> {
    let Some(endpoint) = args.otlp.clone() else { return Ok(None) };
    let source = otlp::Resource {
        host: about.host.clone(),
        broker_id: about.node_id.map(|id| id.to_string()),
        version: about.version.clone(),
    };
    let options = otlp::Options { traces_per_second: args.otlp_traces as usize, ..otlp::Options::default() };
    Ok(Some(Otlp::start(endpoint, source, options, give_rights_away)?))
}

/// For a thread that talks with strangers. Where there is nothing to give away, nothing is to be feared of them.
fn give_rights_away() {
    #[cfg(feature = "live")]
    let _ = watch::drop_all_capabilities();
}

/// Waits a while until what is left was sent, and says what was not.
fn finish_traces(site: &MetricsService) {
    let Some(otlp) = site.feed(Exporter::take_traces) else { return };
    let counts = otlp.close(LAST_TRACES);
    let lost = counts.dropped + counts.refused;
    if lost > 0 {
        output::warn(&format!("{lost} traces were not taken by the collector, {} were", counts.sent));
    }
}

fn role_of(thread: &str) -> &'static str {
    jvm::Role::of(thread).as_str()
}

fn kind_of(path: &str) -> FileKind {
    broker::path::classify(path).0
}

/// Begins to answer, and says where. `measured` says whether the kernel measures BPF programs.
fn serve(server: Server, exporter: Exporter, measured: bool) -> anyhow::Result<Arc<MetricsService>> {
    let own = OwnProcess::new(measured);
    let site = Arc::new(MetricsService::new(exporter, Box::new(move || own.read())));
    let (address, shared) = (server.address(), Arc::clone(&site));
    let answer = move || {
        give_rights_away();
        server.serve(&shared);
    };
    std::thread::Builder::new().name("http".to_owned()).spawn(answer).context("cannot start a thread")?;
    say_where(address)?;
    Ok(site)
}

/// On standard output: scripts that chose port 0 read it.
fn say_where(address: SocketAddr) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "http://{address}/metrics").and_then(|()| out.flush()).context(output::CANNOT_WRITE)
}
