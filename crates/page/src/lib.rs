//! A recording as a page to look at and pass on: one HTML file that asks nothing of any network.
//!
//! [`Collector`] takes events and verdicts as they come, once, and keeps a bounded amount of them: sums over time, and the
//! slowest requests in detail. [`Page`] is what came of one or several recordings; it is written as JSON, or as HTML
//! around the same JSON ([`html`]). The front end is built from `web/` and is in the repository, so that building
//! brokerscope takes no Node. [`flame_graph`] draws time by stack by itself.
//!
//! Knows events, verdicts, and what `report` makes of advice and comparisons. Must not know how verdicts are reached, where
//! recordings lie, or what the front end looks like: the types that both share are generated from the structs here
//! (`tests/typescript.rs`).

mod collector;
mod detail;
mod devices;
mod files;
pub mod flame_graph;
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

/// What the data's `format` says, and its version: another one where a field is dropped or means something else.
pub const FORMAT: &str = "brokerscope-page";
/// See [`FORMAT`].
pub const VERSION: u32 = 3;

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
pub struct RecordingInfo {
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
    pub about: RecordingInfo,
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
    /// What to change; the field is not there where no rule was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<AdviceData>,
    /// Some of them in detail, the slowest first.
    pub requests: Vec<Detail>,
    /// Stretches of time in them, each once: requests name them by number.
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

impl RecordingData {
    /// The same with what rules say of it.
    #[must_use]
    pub fn advised(self, advised: &AdviceReport) -> Self {
        Self { advice: Some(AdviceData::of(advised)), ..self }
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
