//! A recording as a page to look at and pass on: one HTML file that asks nothing of any network.
//!
//! [`Collector`] takes events and verdicts as they come, once, and keeps a bounded amount of them: sums over time, and the
//! slowest requests in detail. [`Page`] is what came of one or several recordings; it is written as JSON, or as HTML
//! around the same JSON ([`html`]). The front end is built from `web/` and is in the repository, so that building
//! brokerscope takes no Node. Reaches no verdicts.

mod detail;
mod devices;
mod files;
mod grid;
pub mod html;
mod kept;
mod latency;
pub mod markdown;
mod names;
mod partitions;
pub mod perfetto;
mod recent;
mod slow;
mod stacks;
mod story;
mod threads;

use std::collections::BTreeMap;

use model::{Event, Loss, Nanos, Verdict};
use serde::Serialize;

use crate::comparison::page::ComparisonData;
use crate::explanation::{Conclusion, Unobservable};
use detail::{Detail, Draft, Pool, Span};
use devices::{Beneath, CommitData, DeviceData, FigureData};
use files::{FileData, TopFiles};
use grid::Grid;
use kept::Kept;
use latency::{Latency, LatencyData};
use partitions::{PartitionData, Partitions};
use recent::Recent;
use slow::{Slow, SlowData};
use stacks::{FlameData, Stacks};
use story::Story;
use threads::{ThreadData, Threads};

/// What the data's `format` says, and its version: another one where a field is dropped or means something else.
pub const FORMAT: &str = "brokerscope-page";
/// See [`FORMAT`].
pub const VERSION: u32 = 2;

/// Losses told one by one.
const MOST_LOSSES: usize = 1_000;

/// Everything a page shows.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// Always [`FORMAT`].
    pub format: &'static str,
    /// Always [`VERSION`].
    pub version: u32,
    /// The program that wrote it.
    pub written_by: String,
    /// What was recorded.
    pub recordings: Vec<RecordingData>,
    /// What was compared; the field is not there where nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<ComparisonData>,
}

impl Page {
    /// A page of these.
    pub fn of(recordings: Vec<RecordingData>) -> Self {
        let written_by = format!("brokerscope {}", env!("CARGO_PKG_VERSION"));
        Self { format: FORMAT, version: VERSION, written_by, recordings, comparison: None }
    }

    /// A page that compares.
    pub fn comparing(comparison: ComparisonData) -> Self {
        Self { comparison: Some(comparison), ..Self::of(Vec::new()) }
    }
}

/// What is known of a recording beside its events.
#[derive(Clone, Debug, Default, Serialize)]
pub struct About {
    /// What it is called.
    pub name: String,
    /// Facts worth a line: the host, the broker, its settings.
    pub facts: Vec<(String, String)>,
    /// What was to be seen, and how that went.
    pub plan: Vec<(String, String)>,
}

/// One recording. Times are nanoseconds after `origin_ns`; cells begin with their bucket of time.
#[derive(Clone, Debug, Serialize)]
pub struct RecordingData {
    /// What is known of it.
    pub about: About,
    /// The axis' beginning, UTC nanoseconds, as text: a JavaScript number would not hold it.
    pub origin_ns: String,
    /// When the last event was.
    pub end_ns: i64,
    /// The width of a bucket of time, and how many there are.
    pub bucket_ns: i64,
    /// How many buckets.
    pub buckets: u32,
    /// In sentences.
    pub story: Story,
    /// All requests.
    pub latency: LatencyData,
    /// The slow ones.
    pub slow: SlowData,
    /// Some of them in detail, the slowest first.
    pub requests: Vec<Detail>,
    /// Stretches of time that those tell of, each once: they name them by number.
    pub spans: Vec<Span>,
    /// Buckets in one cell of a partition or a file.
    pub coarse_buckets: i64,
    /// Topics × partitions.
    pub partitions: Vec<PartitionData>,
    /// What a thread's cells count.
    pub thread_states: Vec<&'static str>,
    /// Threads.
    pub threads: Vec<ThreadData>,
    /// Block devices.
    pub devices: Vec<DeviceData>,
    /// The host.
    pub figures: Vec<FigureData>,
    /// The longest commits of journals.
    pub commits: Vec<CommitData>,
    /// Flame graphs.
    pub flames: FlameData,
    /// Files.
    pub files: Vec<FileData>,
    /// What was lost.
    pub losses: Vec<LossData>,
    /// Totals of it.
    pub loss_totals: BTreeMap<&'static str, u64>,
    /// How produce partitions found their writes.
    pub joins: [(&'static str, u64); 4],
    /// What could not be observed, and why.
    pub unobservable: Vec<Unobservable>,
    /// What else is to be known.
    pub notes: Vec<String>,
}

/// Something lost.
#[derive(Clone, Debug, Serialize)]
pub struct LossData {
    /// Between when it was lost.
    pub start_ns: i64,
    /// And when.
    pub end_ns: i64,
    /// What.
    pub kind: &'static str,
    /// How many.
    pub count: u64,
    /// More about it.
    pub detail: String,
}

/// Takes what was seen and concluded. Feed it each event before the engine, and each verdict when it is reached.
pub struct Collector {
    grid: Option<Grid>,
    origin: Option<Nanos>,
    slower_than: Nanos,
    latency: Latency,
    slow: Slow,
    kept: Kept,
    recent: Recent,
    partitions: Partitions,
    threads: Threads,
    beneath: Beneath,
    stacks: Stacks,
    files: TopFiles,
    losses: Vec<Loss>,
}

impl Collector {
    /// One that has seen nothing. The axis begins at `origin`, or with the first event.
    pub fn new(origin: Option<Nanos>, slower_than: Nanos) -> Self {
        Self {
            grid: None,
            origin,
            slower_than,
            latency: Latency::default(),
            slow: Slow::new(),
            kept: Kept::default(),
            recent: Recent::new(slower_than),
            partitions: Partitions::new(slower_than),
            threads: Threads::new(),
            beneath: Beneath::new(),
            stacks: Stacks::default(),
            files: TopFiles::new(),
            losses: Vec::new(),
        }
    }

    /// Takes an event.
    pub fn event(&mut self, event: &Event) {
        let grid = self.grid.get_or_insert_with(|| Grid::new(self.origin.unwrap_or_else(|| began(event))));
        grid.reach(event.time());
        match event {
            Event::Request(request) => {
                self.latency.request(grid, request);
                self.partitions.request(grid, request);
            }
            Event::FileOp(op) => self.files.op(grid, op),
            Event::BlockIo(io) => self.beneath.block_io(grid, io),
            Event::JournalCommit(commit) => self.beneath.commit(commit),
            Event::HostSample(sample) => self.beneath.sample(grid, sample),
            Event::Loss(loss) if self.losses.len() < MOST_LOSSES => self.losses.push(loss.clone()),
            _ => {}
        }
        self.threads.event(grid, event);
        self.stacks.event(grid, event);
        self.recent.event(event);
    }

    /// Takes a verdict.
    pub fn verdict(&mut self, verdict: &Verdict) {
        let grid = self.grid.get_or_insert_with(|| Grid::new(verdict.request.arrival));
        self.slow.verdict(grid, verdict);
        self.kept.offer(verdict, || Draft::of(verdict, &self.recent));
    }

    /// Puts together what came of it.
    pub fn finish(self, about: About, conclusion: &Conclusion) -> RecordingData {
        let grid = self.grid.unwrap_or_else(|| Grid::new(self.origin.unwrap_or_default()));
        let summary = &conclusion.summary;
        let latency = self.latency.finish(&grid);
        let slow = self.slow.finish(&grid, summary, self.slower_than);
        let (devices, figures, commits) = self.beneath.finish(&grid);
        let joins = &summary.joins;
        let mut pool = Pool::default();
        let drafts = self.kept.finish(slow.by_root.iter().map(|root| &*root.root));
        let requests = drafts.into_iter().map(|draft| draft.told(&grid, &mut pool)).collect();
        RecordingData {
            about,
            origin_ns: grid.origin().0.to_string(),
            end_ns: grid.since(grid.end()),
            bucket_ns: grid.width(),
            buckets: grid.buckets(),
            story: story::tell(summary, &slow, &latency),
            latency,
            slow,
            requests,
            spans: pool.into_spans(),
            coarse_buckets: grid::COARSE,
            partitions: self.partitions.finish(&grid),
            thread_states: threads::STATES.to_vec(),
            threads: self.threads.finish(&grid),
            devices,
            figures,
            commits,
            flames: self.stacks.finish(&grid),
            files: self.files.finish(&grid),
            losses: self.losses.iter().map(|loss| LossData::of(&grid, loss)).collect(),
            loss_totals: summary.losses.iter().map(|&(kind, count)| (kind.as_str(), count)).collect(),
            joins: [
                ("by CRC", joins.by_crc),
                ("by base offset", joins.by_base_offset),
                ("not found", joins.unjoined),
                ("not written", joins.not_written),
            ],
            unobservable: conclusion.unobservable.clone(),
            notes: conclusion.notes.clone(),
        }
    }
}

impl LossData {
    fn of(grid: &Grid, loss: &Loss) -> Self {
        Self {
            start_ns: grid.since(loss.start),
            end_ns: grid.since(loss.end),
            kind: loss.kind.as_str(),
            count: loss.count,
            detail: loss.detail.to_string(),
        }
    }
}

/// When what an event tells of began.
fn began(event: &Event) -> Nanos {
    match event {
        Event::Request(request) => request.arrival,
        _ => recent::span(event).map_or(event.time(), |(start, _)| start),
    }
}
