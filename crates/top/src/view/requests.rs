//! Slow requests, each with its cause and a breakdown of its time.

use model::{Cause, Confidence, Nanos, Stage, Verdict};
use report::explanation::describe_chain;
use report::quantity::{NONE, format_bytes, or_dash};

use super::{Table, rows};
use crate::clip::{clip, clip_middle};
use crate::item::{Cell, Column, Item, Rank, RowKey, bar, cell, columns, plain};
use crate::palette::{Tone, stage_style};
use crate::state::BrokerInfo;
use crate::state::slow::SlowRequest;

pub(crate) const ALL: Table =
    Table { grouping: None, columns: &COLUMNS, sorted_by: "LATENCY", items: |state| rows(state.slow.iter()) };

columns! { COLUMNS for &SlowRequest, |row, width, about| {
    key: RowKey::Request(row.number),
    words: {
        let Verdict { request, cause, root, .. } = &row.verdict;
        let (partition, client) = (partition(&row.verdict), client(&row.verdict));
        let (address, api, number) = (request.client, request.api, request.correlation_id);
        format!("{cause} {root} {partition} {address} {client} {api} {number}")
    },
    Column::text("TIME", 12) =>
        row.verdict.request.last_seen(),
        plain(or_dash(row.verdict.request.end.map(|end| about.zone.time_of_day(end))));
    Column::number("LATENCY", 8) =>
        row.latency(), cell(or_dash(row.verdict.request.latency()), Tone::Bad);
    Column::text("CAUSE", 16).growing(1, 28) =>
        row.verdict.cause.as_str(), cell(clip(row.verdict.cause.as_str(), width), cause_tone(row.verdict.cause));
    Column::text("STAGES", 13).growing(3, 40) =>
        row.verdict.stages.longest() as i64, stages(&row.verdict, width);
    Column::text("PARTITION", 12).growing(2, 40) =>
        partition(&row.verdict), plain(clip_middle(&partition(&row.verdict), width));
    Column::text("CLIENT", 12).growing(2, 32) =>
        client(&row.verdict), plain(clip_middle(&client(&row.verdict), width));
    Column::text("API", 8).growing(1, 18).spare(1) =>
        row.verdict.request.api, plain(clip(row.verdict.request.api, width));
    Column::text("WAITED FOR", 24).growing(4, 60).spare(2) =>
        describe_chain(&row.verdict), plain(clip(&waited_for(&row.verdict), width));
    Column::text("CONFIDENCE", 10).spare(3) =>
        row.verdict.confidence as i64, cell(row.verdict.confidence.to_string(), confidence_tone(row.verdict.confidence));
    Column::text("ADDRESS", 21).spare(4) =>
        row.verdict.request.client.to_string(), plain(clip(&row.verdict.request.client.to_string(), width));
    Column::number("BYTES", 9).spare(5) =>
        u64::from(row.verdict.request.request_bytes), plain(format_bytes(row.verdict.request.request_bytes.into()));
} }

/// The partition on which the time was lost, or the first; without one, the API.
fn partition(verdict: &Verdict) -> String {
    let named = verdict.partition.as_ref().map(ToString::to_string);
    let first = || {
        let first = verdict.request.partitions.first()?;
        Some(format!("{}-{}", first.topic.as_deref().unwrap_or(NONE), first.partition))
    };
    named.or_else(first).unwrap_or_else(|| verdict.request.api.to_lowercase())
}

/// The client's id, or its address.
fn client(verdict: &Verdict) -> String {
    let id = verdict.request.client_id.as_deref().filter(|id| !id.is_empty());
    id.map_or_else(|| verdict.request.client.to_string(), str::to_owned)
}

fn waited_for(verdict: &Verdict) -> String {
    if verdict.cause == Cause::Unobserved { "not observed".to_owned() } else { describe_chain(verdict) }
}

pub(crate) fn cause_tone(cause: Cause) -> Tone {
    if cause == Cause::Unobserved { Tone::Faint } else { Tone::Name }
}

fn confidence_tone(confidence: Confidence) -> Tone {
    match confidence {
        Confidence::Exact => Tone::Good,
        Confidence::Strong => Tone::Plain,
        Confidence::Weak => Tone::Faint,
    }
}

/// Stages in the order in which a request goes through them.
fn stages(verdict: &Verdict, width: usize) -> Cell {
    let part = |stage: Stage, length: Nanos| (stage_style(stage).0, Tone::Stage(stage), length.0 as f64);
    let parts = verdict.stages.iter().map(|(stage, length)| part(stage, length)).collect::<Vec<_>>();
    bar(&parts, verdict.stages.total().0 as f64, width)
}
