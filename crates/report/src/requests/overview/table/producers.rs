//! The rows of producers. Does not sort.

use super::rows::{client_shown, shortened};
use crate::numbers::{NONE, or_none, size};
use crate::requests::overview::spread::Spread;
use crate::requests::overview::{BatchFill, Producer};
use crate::table::Column;

const NARROW: [&str; 8] = ["BATCHES", "RECORDS", "P50", "MAX", "BYTES", "P50", "MAX", "PARTITIONS"];
const WIDE: [&str; 17] = [
    "REQUESTS",
    "BATCHES",
    "RECORDS",
    "P50",
    "P90",
    "P99",
    "MAX",
    "BYTES",
    "P50",
    "P90",
    "P99",
    "MAX",
    "PARTITIONS",
    "P50",
    "P90",
    "P99",
    "MAX",
];

/// The columns named after a quantity hold its mean; the percentiles after it are its own.
pub(super) fn columns(wide: bool) -> Vec<Column> {
    let headings: &[&'static str] = if wide { &WIDE } else { &NARROW };
    let mut columns = vec![Column::text("CLIENT", 0), Column::number("PRODUCER", 0)];
    columns.extend(headings.iter().map(|heading| Column::number(heading, 0)));
    columns
}

pub(super) fn cells((producer, fill): &(Producer, BatchFill), wide: bool) -> Vec<String> {
    let client = producer.client.as_ref();
    let client =
        client.map_or_else(|| "others".to_owned(), |client| shortened(&client_shown(client, None), wide));
    let mut cells = vec![client, or_none(producer.producer_id)];
    if wide {
        cells.push(fill.requests.to_string());
    }
    cells.push(fill.bytes.count().to_string());
    cells.extend(spread(&fill.records, wide, mean_count, |records| records.to_string()));
    cells.extend(spread(&fill.bytes, wide, |bytes| size(bytes.round() as u64), size));
    let partitions = spread(&fill.partitions, wide, mean_count, |partitions| partitions.to_string());
    cells.extend(partitions.into_iter().take(if wide { usize::MAX } else { 1 }));
    cells
}

/// The mean, then percentiles and the maximum.
fn spread(
    spread: &Spread,
    wide: bool,
    mean: impl Fn(f64) -> String,
    show: impl Fn(u64) -> String,
) -> Vec<String> {
    let shares: &[f64] = if wide { &[0.5, 0.9, 0.99] } else { &[0.5] };
    let quantiles = shares.iter().map(|share| spread.quantile(*share)).chain([spread.max()]);
    let quantiles = quantiles.map(|value| value.map_or_else(|| NONE.to_owned(), &show));
    [spread.mean().map_or_else(|| NONE.to_owned(), mean)].into_iter().chain(quantiles).collect()
}

/// 1.4 records a batch are not 1.
fn mean_count(mean: f64) -> String {
    if mean < 99.95 { format!("{mean:.1}") } else { format!("{mean:.0}") }
}
