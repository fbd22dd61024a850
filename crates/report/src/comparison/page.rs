//! A comparison as a page's data: the objects of the JSON output, as they are.

use serde::Serialize;

use super::{ComparisonReport, view};
use crate::fields::Fields;

/// Cells of a row of the heat map, at most.
const CELLS: usize = 256;

/// What the page shows of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct ComparisonData {
    configurations: Vec<Fields>,
    differences: Vec<Fields>,
    over_time: Vec<Fields>,
    summary: Fields,
}

impl ComparisonData {
    /// Of what was compared.
    pub fn of(compared: &ComparisonReport) -> Self {
        let comparison = &compared.comparison;
        let configurations = comparison.configurations.iter().enumerate();
        Self {
            configurations: configurations.map(|(at, of)| view::configuration(compared, at, of)).collect(),
            differences: comparison.differences.iter().map(|of| view::difference(compared, of)).collect(),
            over_time: view::rows(compared, &comparison.over_time(CELLS)),
            summary: view::summary(compared),
        }
    }
}
