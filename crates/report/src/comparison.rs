//! Configurations side by side: did the change help? Computes nothing.

mod figures;
mod heat;
mod markdown;
mod rows;
mod text;

use compare::Comparison;

pub use markdown::write_markdown;
pub use rows::{ComparisonData, write_csv, write_json};
pub use text::write_text;

/// A comparison with its scope and notes.
#[derive(Clone, Debug)]
pub struct ComparisonReport {
    /// The figures.
    pub comparison: Comparison,
    /// Kafka's names for the APIs whose requests were compared.
    pub apis: Vec<String>,
    /// Requested topics; empty for all.
    pub topics: Vec<String>,
    /// Further notes.
    pub notes: Vec<String>,
}

impl ComparisonReport {
    /// Name of the configuration that the others are compared with.
    fn base(&self) -> &str {
        self.comparison.configurations.first().map_or("", |base| base.name.as_str())
    }

    /// Describes the compared requests.
    fn describe_requests(&self) -> String {
        let apis = self.apis.join(", ");
        match self.topics.as_slice() {
            [] => format!("{apis} requests"),
            [topic] => format!("{apis} requests for {topic}"),
            topics => format!("{apis} requests for {}", topics.join(", ")),
        }
    }

    /// Caveats on the intervals.
    fn cautions(&self) -> Vec<String> {
        let configurations = &self.comparison.configurations;
        let mut cautions = Vec::new();
        let once = configurations.iter().filter(|one| one.runs.len() < 2).count();
        if once > 0 && configurations.len() > 1 {
            let of = if once == configurations.len() { "each configuration" } else { "some configurations" };
            cautions.push(format!(
                "{of} ran once: intervals cover variation within a run, not between runs of the same configuration"
            ));
        }
        let tested = self.comparison.differences.iter().filter(|one| one.interval.is_some()).count();
        if tested >= MANY {
            cautions.push(format!(
                "{tested} differences were tested: about {} would appear by chance if all configurations were equal",
                (tested as f64 * (1.0 - compare::CONFIDENCE)).round()
            ));
        }
        cautions
    }
}

/// From this many tests on, a caveat says that one in twenty differs by chance.
const MANY: usize = 20;
