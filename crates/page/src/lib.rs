//! A recording as a page to view and share: one HTML file that needs no network.
//!
//! [`Collector`] takes events and verdicts once, as they arrive, and keeps a bounded amount of data: sums over time, and the
//! slowest requests in detail. [`Page`] is the result for one or several recordings; it is written as JSON, or as HTML
//! around the same JSON ([`html`]). The front end is built from `web/` and is in the repository, so that building
//! brokerscope does not need Node. [`flame_graph`] draws time by stack without the front end.
//!
//! Knows events, verdicts, and the data that `report` makes from advice and comparisons. Must not know how verdicts are
//! reached, where recordings are stored, or what the front end looks like: the types that both share are generated from the
//! structs here (`tests/typescript.rs`).

mod collector;
mod detail;
mod devices;
mod files;
pub mod flame_graph;
mod grid;
pub mod html;
mod latency;
pub mod markdown;
mod names;
mod partitions;
pub mod perfetto;
mod recent;
mod selection;
mod slow;
mod stacks;
mod story;
mod threads;

use std::collections::BTreeMap;

use model::Loss;
use serde::Serialize;

pub use collector::{Collector, SlowRequests, Traffic, Work};
use detail::{Detail, Span};
use devices::{CommitData, DeviceData, FigureData};
use files::FileData;
use grid::Grid;
use latency::LatencyData;
use partitions::PartitionData;
use report::advice::{AdviceData, AdviceReport};
use report::comparison::ComparisonData;
use report::explanation::Unobservable;
use slow::SlowData;
use stacks::FlameData;
use story::Story;
use threads::ThreadData;

/// The data's `format`. Its version changes when a field is dropped or changes its meaning.
pub const FORMAT: &str = "brokerscope-page";
/// See [`FORMAT`].
pub const VERSION: u32 = 4;

/// Everything a page shows.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// Always [`FORMAT`].
    pub format: &'static str,
    /// Always [`VERSION`].
    pub version: u32,
    /// The program that wrote it.
    pub written_by: String,
    /// The recordings.
    pub recordings: Vec<RecordingData>,
    /// The comparison; the field is absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<ComparisonData>,
}

impl Page {
    /// Creates a page of these recordings.
    pub fn of(recordings: Vec<RecordingData>) -> Self {
        let written_by = format!("brokerscope {}", env!("CARGO_PKG_VERSION"));
        Self { format: FORMAT, version: VERSION, written_by, recordings, comparison: None }
    }

    /// Creates a page with a comparison.
    pub fn comparing(comparison: ComparisonData) -> Self {
        Self { comparison: Some(comparison), ..Self::of(Vec::new()) }
    }
}

/// Facts about a recording besides its events.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RecordingInfo {
    /// Its name.
    pub name: String,
    /// Facts worth a line: the host, the broker, its settings.
    pub facts: Vec<(String, String)>,
    /// The plan: what was to be observed, and whether it was.
    pub plan: Vec<(String, String)>,
}

/// One recording. Times are nanoseconds after `origin_ns`; cells start with their bucket of time.
#[derive(Clone, Debug, Serialize)]
pub struct RecordingData {
    /// Facts about it.
    pub about: RecordingInfo,
    /// Start of the axis, UTC nanoseconds, as text: a JavaScript number cannot hold it.
    pub origin_ns: String,
    /// Time of the last event.
    pub end_ns: i64,
    /// Width of a bucket of time.
    pub bucket_ns: i64,
    /// Number of buckets.
    pub buckets: u32,
    /// Summary in sentences.
    pub story: Story,
    /// All requests.
    pub latency: LatencyData,
    /// Slow requests.
    pub slow: SlowData,
    /// What to change; the field is absent if no rules were evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<AdviceData>,
    /// Some slow requests in detail, the slowest first.
    pub requests: Vec<Detail>,
    /// Spans of these requests, each once: requests refer to them by number.
    pub spans: Vec<Span>,
    /// Buckets per cell of a partition or a file.
    pub coarse_buckets: i64,
    /// Topics × partitions.
    pub partitions: Vec<PartitionData>,
    /// Names of the states in threads' cells.
    pub thread_states: Vec<&'static str>,
    /// Threads.
    pub threads: Vec<ThreadData>,
    /// Block devices.
    pub devices: Vec<DeviceData>,
    /// Figures of the host.
    pub figures: Vec<FigureData>,
    /// The longest commits of journals.
    pub commits: Vec<CommitData>,
    /// Flame graphs.
    pub flames: FlameData,
    /// Files.
    pub files: Vec<FileData>,
    /// Losses.
    pub losses: Vec<LossData>,
    /// Totals of losses by kind.
    pub loss_totals: BTreeMap<&'static str, u64>,
    /// Joins of produce partitions with their writes.
    pub joins: [(&'static str, u64); 4],
    /// What could not be observed, and why.
    pub unobservable: Vec<Unobservable>,
    /// Further notes.
    pub notes: Vec<String>,
}

/// A loss.
#[derive(Clone, Debug, Serialize)]
pub struct LossData {
    /// Start of the interval of the loss.
    pub start_ns: i64,
    /// End of the interval.
    pub end_ns: i64,
    /// Its kind.
    pub kind: &'static str,
    /// Number of lost events.
    pub count: u64,
    /// Details.
    pub detail: String,
}

impl RecordingData {
    /// Adds the advice of rules.
    #[must_use]
    pub fn with_advice(self, report: &AdviceReport) -> Self {
        Self { advice: Some(AdviceData::of(report)), ..self }
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
