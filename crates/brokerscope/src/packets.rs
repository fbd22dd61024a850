//! Packets to requests: feeds a capture to the analyzer and hands on what comes out. Does not decode.

use anyhow::bail;
use capture::{Analyzer, Captures, Config, Counters};
#[cfg(feature = "live")]
use capture::{Live, LiveConfig};
use model::Request;
use report::requests::RequestSummary;

use crate::failure::Usage;
use crate::filter::same_api;
use crate::options::{Filter, Target};
use crate::stop::Stop;
use crate::topics;

/// What takes the requests.
pub(crate) type Sink<'s> = dyn FnMut(Request) -> anyhow::Result<()> + 's;

/// An analyzer for what the user wants to see, with the topic names that this machine knows.
pub(crate) fn analyzer(filter: &Filter, target: &Target) -> anyhow::Result<Analyzer> {
    check_apis(filter)?;
    Ok(Analyzer::new(Config {
        ports: filter.ports.clone(),
        message_id_header: filter.message_id.clone().map(String::into_bytes),
        topics: topics::names(target)?,
        ..Config::default()
    }))
}

/// A misspelt API would silently show nothing.
pub(crate) fn check_apis(filter: &Filter) -> anyhow::Result<()> {
    let known = |wanted: &str| wire::ApiKey::known().any(|api| same_api(wanted, api.name()));
    match filter.apis.iter().find(|wanted| !known(wanted)) {
        Some(wanted) => {
            Err(Usage(format!("--api {wanted}: Kafka has no such API; try produce, fetch, metadata")).into())
        }
        None => Ok(()),
    }
}

/// Reads captures to their end, or until it is time to stop.
pub(crate) fn read_files(
    captures: &mut Captures,
    analyzer: &mut Analyzer,
    stop: &Stop,
    sink: &mut Sink<'_>,
) -> anyhow::Result<()> {
    let mut found = Vec::new();
    while !stop.asked() {
        let Some(packet) = captures.next() else { break };
        analyzer.packet(&packet, &mut |request| found.push(*request));
        found.drain(..).try_for_each(&mut *sink)?;
    }
    finish(analyzer, sink)
}

/// What to capture of an interface: by default whole packets, since Kafka's frames begin anywhere in them.
#[cfg(feature = "live")]
pub(crate) fn live_config(interface: &str, filter: &Filter, snaplen: Option<u32>) -> LiveConfig {
    let config = LiveConfig::default();
    LiveConfig {
        interface: interface.to_owned(),
        ports: filter.ports.clone(),
        snaplen: snaplen.unwrap_or(config.snaplen),
        ..config
    }
}

/// Reads an interface until it is time to stop. Returns how many packets the kernel dropped.
#[cfg(feature = "live")]
pub(crate) fn read_live(
    config: &LiveConfig,
    analyzer: &mut Analyzer,
    stop: &Stop,
    sink: &mut Sink<'_>,
) -> anyhow::Result<u64> {
    const WAIT: std::time::Duration = std::time::Duration::from_millis(100);

    let mut live = Live::open(config)?;
    let mut found = Vec::new();
    loop {
        // What passed before it was time to stop is handed over within this wait.
        let is_last = stop.asked();
        live.next_packets(WAIT, &mut |packet| analyzer.packet(packet, &mut |request| found.push(*request)))?;
        found.drain(..).try_for_each(&mut *sink)?;
        if is_last {
            break;
        }
    }
    finish(analyzer, sink)?;
    Ok(live.drops()?)
}

fn finish(analyzer: &mut Analyzer, sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let mut found = Vec::new();
    analyzer.finish(&mut |request| found.push(*request));
    found.into_iter().try_for_each(sink)
}

/// What the capture counted, as reports show it.
pub(crate) fn summary(counters: &Counters, shown: u64, notes: Vec<String>) -> RequestSummary {
    RequestSummary {
        requests: counters.requests_by_api.values().sum(),
        shown,
        requests_by_api: counters.requests_by_api.iter().map(|(&api, &n)| (api.to_owned(), n)).collect(),
        unanswered: counters.unanswered,
        unmatched_responses: counters.unmatched_responses,
        packets: counters.packets,
        bytes: counters.bytes,
        connections: counters.connections,
        gaps: counters.gaps,
        gap_bytes: counters.gap_bytes,
        retransmitted_bytes: counters.retransmitted_bytes,
        out_of_order_segments: counters.out_of_order_segments,
        keep_alives: counters.keep_alives,
        reassembly_overflows: counters.reassembly_overflows,
        stray_segments: counters.stray_segments,
        undecodable_frames: counters.undecodable_frames,
        resyncs: counters.resyncs,
        skipped_bytes: counters.skipped_bytes,
        sasl_tokens: counters.sasl_tokens,
        tls_connections: counters.tls_connections,
        other_connections: counters.other_connections,
        one_sided_connections: counters.one_sided_connections,
        evicted_connections: counters.evicted_connections,
        kernel_drops: counters.kernel_drops,
        not_tcp: counters.not_tcp,
        other_ports: counters.other_ports,
        fragments: counters.fragments,
        malformed_packets: counters.malformed_packets,
        truncated_packets: counters.truncated_packets,
        notes,
    }
}

/// What was wrong with the capture files themselves. Where a pipe `was_stopped` by the user, its end says nothing.
pub(crate) fn notes(captures: &Captures, was_stopped: bool) -> Vec<String> {
    let mut sentences = Vec::new();
    for (name, notes) in captures.notes() {
        let name = if name == "-" { "the capture" } else { name };
        if notes.is_empty {
            sentences.push(format!("{name} is empty"));
        }
        if notes.cut_records > 0 && !was_stopped {
            sentences.push(format!("{name} ends in the middle of a packet"));
        }
        if notes.damaged_records > 0 {
            sentences.push(format!("{} damaged records in {name} were left out", notes.damaged_records));
        }
    }
    if !captures.faults().is_empty() {
        sentences.push(format!("{} captures were not read to their end", captures.faults().len()));
    }
    sentences
}

/// Fails if a capture could not be read to its end, for when everything else was shown.
pub(crate) fn check(captures: &Captures) -> anyhow::Result<()> {
    let Some((first, others)) = captures.faults().split_first() else { return Ok(()) };
    if others.is_empty() {
        bail!("{first}");
    }
    bail!("{first} (and {} more)", others.len())
}
