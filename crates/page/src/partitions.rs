//! What each partition took of requests and bytes, over time. Holds a bounded number of partitions.

use std::sync::Arc;

use model::{Nanos, Partition, Request};
use serde::Serialize;

use super::grid::{COARSE, Cells, Grid, Merge};
use report::bounded_map::BoundedMap;

/// Partitions told apart, and those told.
const MOST: usize = 2_000;
const TOLD: usize = 300;

/// The partitions.
pub(super) struct Partitions {
    by_partition: BoundedMap<(Arc<str>, i32), (), Cells<Bucket>>,
    slower_than: Nanos,
}

#[derive(Clone, Debug, Default)]
struct Bucket {
    requests: i64,
    slow: i64,
    bytes: i64,
    time: i64,
    slowest: i64,
}

impl Merge for Bucket {
    fn merge(&mut self, other: Self) {
        self.requests.merge(other.requests);
        self.slow.merge(other.slow);
        self.bytes.merge(other.bytes);
        self.time.merge(other.time);
        self.slowest = self.slowest.max(other.slowest);
    }
}

/// One partition.
#[derive(Clone, Debug, Serialize)]
pub struct PartitionData {
    /// Its topic, or the topic's id; none for all partitions that are not told apart.
    pub topic: Option<String>,
    /// Its number.
    pub partition: i32,
    /// By [`COARSE`] bucket of arrival: the bucket, requests, slow ones, bytes, and their latencies in microseconds together and the
    /// longest of them.
    pub cells: Vec<[i64; 6]>,
}

impl Partitions {
    pub(super) fn new(slower_than: Nanos) -> Self {
        Self { by_partition: BoundedMap::new(MOST), slower_than }
    }

    pub(super) fn request(&mut self, grid: &Grid, request: &Request) {
        let Some(latency) = request.latency_less_wait() else { return };
        let latency = latency.at_least_zero();
        // A fetch names every partition it would like; those that brought nothing did not take its time.
        for partition in request.partitions.iter().filter(|partition| partition.bytes > 0) {
            let cells = self.by_partition.of((name(partition), partition.partition), ());
            cells.at(grid, request.arrival).merge(Bucket {
                requests: 1,
                slow: i64::from(latency >= self.slower_than),
                bytes: partition.bytes.into(),
                time: latency.0,
                slowest: latency.0,
            });
        }
    }

    /// Those with the most slow requests, then the most time, first.
    pub(super) fn finish(self, grid: &Grid) -> Vec<PartitionData> {
        let told = self.by_partition.into_groups().map(|(who, (), cells)| {
            let cells = cells.finish(grid, COARSE);
            let slow: i64 = cells.values().map(|bucket| bucket.slow).sum();
            let time: i64 = cells.values().map(|bucket| bucket.time).sum();
            let (topic, partition) =
                who.map_or((None, -1), |(topic, number)| (Some(topic.to_string()), number));
            ((slow, time), PartitionData { topic, partition, cells: cells.iter().map(numbers).collect() })
        });
        let mut told = told.collect::<Vec<_>>();
        told.sort_by(|(a, of_a), (b, of_b)| {
            let name = |data: &PartitionData| (data.topic.clone(), data.partition);
            b.cmp(a).then_with(|| name(of_a).cmp(&name(of_b)))
        });
        told.into_iter().take(TOLD).map(|(_, data)| data).collect()
    }
}

fn name(partition: &Partition) -> Arc<str> {
    let id = || partition.topic_id.map_or_else(|| "?".to_owned(), |id| id.to_string()).into();
    partition.topic.clone().unwrap_or_else(id)
}

fn numbers((&at, bucket): (&u32, &Bucket)) -> [i64; 6] {
    let Bucket { requests, slow, bytes, time, slowest } = *bucket;
    [at.into(), requests, slow, bytes, time / 1_000, slowest / 1_000]
}
