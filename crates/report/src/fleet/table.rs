//! Differences and figures for people.

use std::io::{self, Write};

use fleet::{Broker, Difference, Figure, Fleet, MIN_BROKERS, Reason, Unit};

use super::view::{advice, of_kind};
use crate::Style;
use crate::escape::escape;
use crate::quantity::{NONE, format_bytes, format_count, format_count_of, or_dash};
use crate::table::{Column, Table};

const COLUMNS: [Column; 8] = [
    Column::text("CLUSTER", 0),
    Column::text("BROKER", 0),
    Column::text("FIGURE", 0),
    Column::number("VALUE", 0),
    Column::number("MEDIAN", 0),
    Column::number("TIMES", 0),
    Column::number("SCORE", 0),
    Column::text("BECAUSE", 0),
];
/// How far below a row its files or partitions stand to the right.
const ITEMS_INDENT: usize = 4;
/// Files or partitions told of a part, unless all of them are asked for.
const ITEMS_SHOWN: usize = 2;

pub(super) fn differences(out: &mut impl Write, look: &Style, fleet: &Fleet, most: usize) -> io::Result<()> {
    heading(out, fleet)?;
    if !fleet.differences.is_empty() {
        writeln!(out)?;
        let mut table = Table::new(&mut *out, COLUMNS.to_vec(), usize::MAX).coloured(look.colour);
        let shown = fleet.differences.iter().take(most).collect::<Vec<_>>();
        for difference in &shown {
            table.measure(&cells(difference));
        }
        for difference in &shown {
            table.row(cells(difference))?;
            for reason in &difference.because {
                items(&mut table, look, difference.figure, reason)?;
            }
        }
        table.finish()?;
    }
    let more = fleet.differences.len().saturating_sub(most);
    if more > 0 {
        writeln!(out, "… and {} more (--top N tells more)", format_count(more as u64))?;
    }
    out.flush()
}

/// What there is to know in a sentence or two.
fn heading(out: &mut impl Write, fleet: &Fleet) -> io::Result<()> {
    for (cluster, brokers) in &fleet.too_small {
        let brokers = format_count_of(*brokers as u64, "broker");
        let cluster = escape(cluster);
        writeln!(out, "cluster {cluster}: {brokers}: of fewer than {MIN_BROKERS} nobody is the odd one")?;
    }
    let compared = fleet.brokers.iter().filter(|broker| !fleet.too_small.contains_key(&broker.name.cluster));
    let compared = format_count_of(compared.count() as u64, "broker");
    let Some(first) = fleet.differences.first() else {
        return writeln!(out, "{compared} compared: none differs from the others of its cluster");
    };
    let odd = fleet.differences.iter().map(|difference| &difference.name);
    let odd = odd.collect::<std::collections::BTreeSet<_>>().len();
    writeln!(out, "{compared} compared, {odd} odd: {}", sentence(first))?;
    advice(first).iter().try_for_each(|advice| writeln!(out, "to change: {advice}"))
}

fn sentence(difference: &Difference) -> String {
    let what = format!(
        "broker {} of {}: {} is {}, the median is {}",
        escape(&difference.name.broker),
        escape(&difference.name.cluster),
        difference.figure.as_str(),
        shown(difference.figure, difference.value),
        shown(difference.figure, difference.spread.median),
    );
    let Some(reason) = difference.because.first() else { return what };
    match reason.items.first() {
        Some(item) => format!("{what}; {}, most of it {}", because(reason), escape(&item.name)),
        None => format!("{what}; {}", because(reason)),
    }
}

fn because(reason: &Reason) -> String {
    format!("{:.0} % of the difference is {}", reason.share * 100.0, escape(&of_kind(reason)))
}

fn cells(difference: &Difference) -> Vec<String> {
    let figure = difference.figure;
    let reason = |reason: &Reason| format!("{} {:.0} %", escape(&of_kind(reason)), reason.share * 100.0);
    let because = difference.because.iter().map(reason).collect::<Vec<_>>();
    vec![
        escape(&difference.name.cluster).into_owned(),
        escape(&difference.name.broker).into_owned(),
        figure.as_str().to_owned(),
        shown(figure, difference.value),
        shown(figure, difference.spread.median),
        or_dash(difference.times().map(|times| format!("{times:.1}"))),
        format!("{:.1}", difference.score),
        if because.is_empty() { NONE.to_owned() } else { because.join(", ") },
    ]
}

fn items<W: Write>(table: &mut Table<W>, look: &Style, figure: Figure, reason: &Reason) -> io::Result<()> {
    let most = if look.wide { usize::MAX } else { ITEMS_SHOWN };
    for item in reason.items.iter().take(most) {
        table.note(ITEMS_INDENT, &format!("{}  {}", shown(figure, item.value), escape(&item.name)))?;
    }
    Ok(())
}

pub(super) fn figures(out: &mut impl Write, look: &Style, brokers: &[Broker]) -> io::Result<()> {
    let mut columns = vec![Column::text("CLUSTER", 0), Column::text("BROKER", 0)];
    columns.extend(Figure::ALL.map(|figure| Column::number(column(figure), 0)));
    let mut table = Table::new(&mut *out, columns, usize::MAX).coloured(look.colour);
    for broker in brokers {
        let mut cells =
            vec![escape(&broker.name.cluster).into_owned(), escape(&broker.name.broker).into_owned()];
        let value = |figure: Figure| broker.figures.get(&figure).map(|told| shown(figure, told.value));
        cells.extend(Figure::ALL.map(|figure| or_dash(value(figure))));
        table.row(cells)?;
    }
    table.finish()
}

fn column(figure: Figure) -> &'static str {
    match figure {
        Figure::DeviceReads => "DEVICE_READS",
        Figure::DeviceWrites => "DEVICE_WRITES",
        Figure::Reads => "READS",
        Figure::DiskReadBytes => "DISK_READ",
        Figure::SentBytes => "SENT",
        Figure::ProducedBytes => "PRODUCED",
        Figure::WriteTime => "WRITE",
        Figure::LongestWrite => "LONGEST",
        Figure::BatchBytes => "BATCH",
        Figure::PartitionsLed => "LED",
        Figure::SlowProduce => "SLOW_PRODUCE",
        Figure::SlowTime => "SLOW_TIME",
    }
}

/// A figure with its unit.
fn shown(figure: Figure, value: f64) -> String {
    let bytes = || format_bytes(value.round() as u64);
    match figure.unit() {
        Unit::PerSecond => format!("{}/s", number(value)),
        Unit::PerMinute => format!("{}/min", number(value)),
        Unit::Bytes => bytes(),
        Unit::BytesPerSecond => format!("{}/s", bytes()),
        Unit::Millis => format!("{} ms", number(value)),
        Unit::MillisPerMinute => format!("{} ms/min", number(value)),
        Unit::Count => number(value),
    }
}

/// Small numbers with what is behind the point.
fn number(value: f64) -> String {
    match value {
        small if small < 10.0 => format!("{small:.2}"),
        small if small < 100.0 => format!("{small:.1}"),
        large => format_count(large.round() as u64),
    }
}
