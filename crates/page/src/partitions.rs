//! Requests and bytes of each partition, over time. Holds a bounded number of partitions.

use std::sync::Arc;

use model::Nanos;
use model::row_summary::{PartitionColumns, RequestColumns};
use serde::Serialize;

use super::grid::{COARSE, Cells, Grid, Merge, Sums, highest, rows, total};
use report::bounded_map::BoundedMap;

/// Limits on the partitions counted separately, and on those shown.
const MAX: usize = 2_000;
const MAX_SHOWN: usize = 300;

/// The partitions.
pub(super) struct Partitions {
    by_partition: BoundedMap<(Arc<str>, i32), (), Cells<Sums<4>>>,
    slower_than: Nanos,
}

/// One partition.
#[derive(Clone, Debug, Serialize)]
pub struct PartitionData {
    /// Its topic, or the topic's id; `None` for the sum of all other partitions.
    pub topic: Option<String>,
    /// Its number.
    pub partition: i32,
    /// By [`COARSE`] bucket of arrival: the bucket, requests, slow requests, bytes, and in microseconds their total latency and
    /// the longest.
    pub cells: Vec<Vec<i64>>,
}

impl Partitions {
    pub(super) fn new(slower_than: Nanos) -> Self {
        Self { by_partition: BoundedMap::new(MAX), slower_than }
    }

    pub(super) fn request(&mut self, grid: &Grid, request: &RequestColumns) {
        let Some(latency) = request.latency_less_wait() else { return };
        let latency = latency.at_least_zero();
        // A fetch names every partition it wants; those that returned nothing did not take its time.
        for partition in request.partitions.iter().filter(|partition| partition.bytes > 0) {
            let cells = self.by_partition.of((name(partition), partition.partition), ());
            cells.at(grid, request.arrival).merge(Sums {
                sums: [1, i64::from(latency >= self.slower_than), partition.bytes.into(), latency.0],
                longest: latency.0,
            });
        }
    }

    /// The partitions with the most slow requests, then the most time, first.
    pub(super) fn finish(self, grid: &Grid) -> Vec<PartitionData> {
        let partitions = self.by_partition.into_groups().map(|(who, (), cells)| {
            let cells = cells.finish(grid, COARSE);
            let (topic, partition) =
                who.map_or((None, -1), |(topic, number)| (Some(topic.to_string()), number));
            let rank = (total(&cells, 1), total(&cells, 3));
            (rank, PartitionData { topic, partition, cells: rows(&cells, 3) })
        });
        highest(partitions, |data| (data.topic.clone(), data.partition), MAX_SHOWN)
    }
}

fn name(partition: &PartitionColumns) -> Arc<str> {
    let id = || partition.topic_id.map_or_else(|| "?".to_owned(), |id| id.to_string()).into();
    partition.topic.clone().unwrap_or_else(id)
}
