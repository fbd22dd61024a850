//! Slow requests, each with its cause and where its time went.

use model::{Cause, Confidence, Nanos, Stage, Verdict};
use report::explanation::brief;
use report::quantity::{NONE, format_bytes, or_dash};

use crate::clip::{clip, clip_middle};
use crate::item::{Cell, Column, Item, Rank, RowKey, bar, cell};
use crate::palette::Tone;
use crate::state::State;
use crate::state::about::BrokerInfo;
use crate::state::slow::SlowRequest;

pub(crate) const LATENCY: usize = 1;

pub(crate) const COLUMNS: [Column; 11] = [
    Column::text("TIME", 12),
    Column::number("LATENCY", 8),
    Column::text("CAUSE", 16).growing(1, 28),
    Column::text("STAGES", 13).growing(3, 40),
    Column::text("PARTITION", 12).growing(2, 40),
    Column::text("CLIENT", 12).growing(2, 32),
    Column::text("API", 8).growing(1, 18).spare(1),
    Column::text("WAITED FOR", 24).growing(4, 60).spare(2),
    Column::text("SURE", 6).spare(3),
    Column::text("ADDRESS", 21).spare(4),
    Column::number("BYTES", 9).spare(5),
];

pub(crate) fn items(state: &State) -> Vec<Box<dyn Item + '_>> {
    state.slow.iter().map(|told| Box::new(told) as Box<dyn Item + '_>).collect()
}

impl Item for &SlowRequest {
    fn key(&self) -> RowKey {
        RowKey::Request(self.number)
    }

    fn rank(&self, column: usize) -> Rank {
        let Verdict { request, cause, stages, confidence, .. } = &self.verdict;
        match column {
            0 => Rank::Number(request.last_seen().0),
            1 => Rank::Number(self.latency().0),
            2 => Rank::Text(cause.to_string()),
            3 => Rank::Number(stages.longest() as i64),
            4 => Rank::Text(partition(&self.verdict)),
            5 => Rank::Text(client(&self.verdict)),
            6 => Rank::Text(request.api.to_owned()),
            7 => Rank::Text(brief(&self.verdict)),
            8 => Rank::Number(*confidence as i64),
            9 => Rank::Text(request.client.to_string()),
            _ => Rank::Number(request.request_bytes.into()),
        }
    }

    fn cell(&self, column: usize, width: usize, about: &BrokerInfo) -> Cell {
        let Verdict { request, cause, confidence, .. } = &self.verdict;
        match column {
            0 => cell(or_dash(request.end.map(|end| about.zone.time_of_day(end))), Tone::Plain),
            1 => cell(or_dash(request.latency()), Tone::Bad),
            2 => cell(clip(cause.as_str(), width), of_cause(*cause)),
            3 => stages(&self.verdict, width),
            4 => cell(clip_middle(&partition(&self.verdict), width), Tone::Plain),
            5 => cell(clip_middle(&client(&self.verdict), width), Tone::Plain),
            6 => cell(clip(request.api, width), Tone::Plain),
            7 => cell(clip(&waited_for(&self.verdict), width), Tone::Plain),
            8 => cell(confidence.to_string(), of_confidence(*confidence)),
            9 => cell(clip(&request.client.to_string(), width), Tone::Plain),
            _ => cell(format_bytes(request.request_bytes.into()), Tone::Plain),
        }
    }

    fn words(&self) -> String {
        let Verdict { request, cause, root, .. } = &self.verdict;
        let api = request.api;
        let (partition, client) = (partition(&self.verdict), client(&self.verdict));
        format!("{cause} {root} {partition} {} {client} {api} {}", request.client, request.correlation_id)
    }
}

/// The one that the time was lost on, or the first; of what names none, the API.
fn partition(verdict: &Verdict) -> String {
    let named = verdict.partition.as_ref().map(ToString::to_string);
    let first = || {
        let first = verdict.request.partitions.first()?;
        Some(format!("{}-{}", first.topic.as_deref().unwrap_or(NONE), first.partition))
    };
    named.or_else(first).unwrap_or_else(|| verdict.request.api.to_lowercase())
}

/// What it calls itself, or where it is.
fn client(verdict: &Verdict) -> String {
    let id = verdict.request.client_id.as_deref().filter(|id| !id.is_empty());
    id.map_or_else(|| verdict.request.client.to_string(), str::to_owned)
}

fn waited_for(verdict: &Verdict) -> String {
    if verdict.cause == Cause::Unobserved { "nothing that was seen".to_owned() } else { brief(verdict) }
}

pub(crate) fn of_cause(cause: Cause) -> Tone {
    if cause == Cause::Unobserved { Tone::Faint } else { Tone::Name }
}

fn of_confidence(confidence: Confidence) -> Tone {
    match confidence {
        Confidence::Exact => Tone::Good,
        Confidence::Strong => Tone::Plain,
        Confidence::Weak => Tone::Faint,
    }
}

/// The letter of a stage in bars.
pub(crate) fn letter(stage: Stage) -> char {
    match stage {
        Stage::NetworkIn => 'I',
        Stage::HeadOfLine => 'B',
        Stage::Receive => 'R',
        Stage::Queue => 'Q',
        Stage::Handler => 'H',
        Stage::Lock => 'L',
        Stage::Append => 'A',
        Stage::Remote => 'F',
        Stage::Respond => 'S',
        Stage::NetworkOut => 'O',
        Stage::Unobserved => '·',
    }
}

/// In the order in which a request goes through them.
fn stages(verdict: &Verdict, width: usize) -> Cell {
    let part = |stage: Stage, length: Nanos| (letter(stage), Tone::Stage(stage), length.0 as f64);
    let parts = verdict.stages.iter().map(|(stage, length)| part(stage, length)).collect::<Vec<_>>();
    bar(&parts, verdict.stages.total().0 as f64, width)
}
