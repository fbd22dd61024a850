//! The rows of producers. Does not sort.

use super::rows::client_shown;
use crate::distribution::Distribution;
use crate::quantity::{NONE, format_bytes, or_dash};
use crate::requests::overview::{BatchFill, Producer};
use crate::table::Column;

const NARROW: [&str; 7] = ["BATCHES", "RECORDS", "P50", "BYTES", "P50", "MAX", "PARTS"];
const WIDE: [&str; 17] = [
    "REQUESTS", "BATCHES", "RECORDS", "P50", "P90", "P99", "MAX", "BYTES", "P50", "P90", "P99", "MAX",
    "PARTS", "P50", "P90", "P99", "MAX",
];
/// Sizes are long: names have less room than elsewhere.
const LONGEST_NAME: usize = 27;

/// The columns named after a quantity hold its mean; the percentiles after it are its own.
pub(super) fn columns(wide: bool) -> Vec<Column> {
    let headings: &[&'static str] = if wide { &WIDE } else { &NARROW };
    let mut columns = vec![Column::text("CLIENT", 0), Column::number("PRODUCER", 0)];
    columns.extend(headings.iter().map(|heading| Column::number(heading, 0)));
    columns
}

pub(super) fn cells((producer, fill): &(Producer, BatchFill), wide: bool) -> Vec<String> {
    let longest = if wide { usize::MAX } else { LONGEST_NAME };
    let client = producer.client.as_ref();
    let client = client.map_or_else(|| "others".to_owned(), |client| client_shown(client, None, longest));
    let mut cells = vec![client, or_dash(producer.producer_id)];
    if wide {
        cells.push(fill.requests.to_string());
    }
    cells.push(fill.bytes.count().to_string());
    cells.push(mean(&fill.records, count));
    cells.extend(percentiles(&fill.records, if wide { &ALL } else { &[0.5] }, |records| records.to_string()));
    cells.push(mean(&fill.bytes, |bytes| format_bytes(bytes.round() as u64)));
    cells.extend(percentiles(&fill.bytes, if wide { &ALL } else { &[0.5, 1.0] }, format_bytes));
    cells.push(mean(&fill.partitions, count));
    cells.extend(percentiles(&fill.partitions, if wide { &ALL } else { &[] }, |parts| parts.to_string()));
    cells
}

/// The last is the maximum.
const ALL: [f64; 4] = [0.5, 0.9, 0.99, 1.0];

fn percentiles(spread: &Distribution, shares: &[f64], show: impl Fn(u64) -> String) -> Vec<String> {
    let values = shares.iter().map(|share| spread.quantile(*share));
    values.map(|value| value.map_or_else(|| NONE.to_owned(), &show)).collect()
}

fn mean(spread: &Distribution, show: impl Fn(f64) -> String) -> String {
    spread.mean().map_or_else(|| NONE.to_owned(), show)
}

/// 1.4 records a batch are not 1.
fn count(mean: f64) -> String {
    if mean < 99.95 { format!("{mean:.1}") } else { format!("{mean:.0}") }
}
