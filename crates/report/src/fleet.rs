//! Differences between brokers and every broker's figures. For people and programs. Does not compare.

use std::collections::BTreeSet;
use std::io::{self, Write};

use fleet::{Broker, Difference, Figure, Fleet, MIN_BROKERS, PartKind, Reason, Unit};
use serde_json::{Value, json};

use crate::escape::escape;
use crate::files::egress::advice_of_kind;
use crate::json;
use crate::quantity::{NONE, format_bytes, format_count, format_count_of};
use crate::rows::{Cell, Column, Format, Report, Writer};

/// Indentation of the files or partitions below a row.
const ITEMS_INDENT: usize = 4;
/// Files or partitions shown per part, unless the table is wide.
const MAX_ITEMS: usize = 2;

/// Writes at most `max` differences and, except in CSV, a summary of all brokers.
pub fn write_differences(mut out: impl Write, format: &Format, fleet: &Fleet, max: usize) -> io::Result<()> {
    let top = fleet.differences.iter().take(max);
    match format {
        Format::Table(style) => {
            let max_items = if style.wide { usize::MAX } else { MAX_ITEMS };
            write_table(out, &format.aligned(), fleet, max, max_items)
        }
        Format::Json => {
            Writer::new(&mut out, &Differences, format).write_all(top)?;
            json::write_line(&mut out, &summary(fleet))?;
            out.flush()
        }
        Format::Csv => Writer::new(out, &Differences, format).write_all(top),
    }
}

/// Writes the figures of every broker.
pub fn write_figures(out: impl Write, format: &Format, brokers: &[Broker]) -> io::Result<()> {
    Writer::new(out, &Figures, &format.aligned()).write_all(brokers)
}

struct Differences;

impl Report for Differences {
    type Row<'a> = Difference;
    const TYPE: &'static str = "difference";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<Differences>;
        let value = |of: &Difference, value| format_value(of.figure, value);
        vec![
            Col::text("CLUSTER", 0, "cluster", |of| of.name.cluster.as_str().into()),
            Col::text("BROKER", 0, "broker", |of| of.name.broker.as_str().into()),
            Col::text("FIGURE", 0, "figure", |of| of.figure.as_str().into()),
            Col::number("VALUE", 0, "", move |of| value(of, of.value).into()),
            Col::number("MEDIAN", 0, "", move |of| value(of, of.spread.median).into()),
            Col::number("TIMES", 0, "", |of| of.times().map(|times| format!("{times:.1}")).into()),
            Col::number("SCORE", 0, "", |of| format!("{:.1}", of.score).into()),
            Col::text("BECAUSE", 0, "", |of| {
                let reason =
                    |reason: &Reason| format!("{} {:.0} %", describe_part(reason), reason.share * 100.0);
                let because = of.because.iter().map(reason).collect::<Vec<_>>();
                if because.is_empty() { NONE.into() } else { because.join(", ").into() }
            }),
            Col::data("value", |of| of.value.into()),
            Col::data("median", |of| of.spread.median.into()),
            Col::data("mad", |of| of.spread.mad.into()),
            Col::data("times", |of| of.times().into()),
            Col::data("score", |of| of.score.into()),
            Col::data("brokers", |of| of.brokers.into()),
            Col::data("because", |of| Cell::Value(of.because.iter().map(reason).collect())),
            Col::data("advice", |of| Cell::List(advice(of).into_iter().map(Into::into).collect())),
        ]
    }
}

fn reason(reason: &Reason) -> Value {
    let items = reason.items.iter().map(|item| json!({"name": &*item.name, "value": item.value}));
    json!({
        "kind": reason.kind.as_str(),
        "part": &*reason.part,
        "value": reason.value,
        "median": reason.median,
        "share": reason.share,
        "items": items.collect::<Value>(),
    })
}

/// Advice on a difference, if there is any: on kinds of files that this broker reads more than others.
fn advice(difference: &Difference) -> Vec<&'static str> {
    let figures = [Figure::DeviceReads, Figure::Reads, Figure::DiskReadBytes];
    let more = difference.value > difference.spread.median && figures.contains(&difference.figure);
    let kinds = difference.because.iter().filter(|reason| more && reason.kind == PartKind::FileKind);
    kinds.flat_map(|reason| advice_of_kind(&reason.part)).copied().collect()
}

struct Figures;

impl Report for Figures {
    type Row<'a> = Broker;
    const TYPE: &'static str = "broker";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<Figures>;
        let mut columns = vec![
            Col::text("CLUSTER", 0, "cluster", |broker| broker.name.cluster.as_str().into()),
            Col::text("BROKER", 0, "broker", |broker| broker.name.broker.as_str().into()),
            Col::data("seconds", |broker| broker.seconds.into()),
        ];
        let value = |broker: &Broker, figure| broker.figures.get(&figure).map(|figure| figure.value);
        for figure in Figure::ALL {
            columns.push(Col::data(figure.as_str(), move |broker| value(broker, figure).into()));
            columns.push(Col::number(heading(figure), 0, "", move |broker| {
                value(broker, figure).map(|value| format_value(figure, value)).into()
            }));
        }
        columns
    }
}

fn heading(figure: Figure) -> &'static str {
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

fn write_table(
    mut out: impl Write,
    format: &Format,
    fleet: &Fleet,
    max: usize,
    max_items: usize,
) -> io::Result<()> {
    write_heading(&mut out, fleet)?;
    if !fleet.differences.is_empty() {
        writeln!(out)?;
        let mut table = Writer::new(&mut out, &Differences, format);
        fleet.differences.iter().take(max).for_each(|difference| table.measure(difference));
        for difference in fleet.differences.iter().take(max) {
            table.row(difference)?;
            for item in difference.because.iter().flat_map(|reason| reason.items.iter().take(max_items)) {
                let value = format_value(difference.figure, item.value);
                table.note(ITEMS_INDENT, &format!("{value}  {}", escape(&item.name)))?;
            }
        }
        table.finish()?;
    }
    let more = fleet.differences.len().saturating_sub(max);
    if more > 0 {
        writeln!(out, "… and {} more (--top N shows more)", format_count(more as u64))?;
    }
    out.flush()
}

/// Writes the summary, in a sentence or two.
fn write_heading(out: &mut impl Write, fleet: &Fleet) -> io::Result<()> {
    for (cluster, brokers) in &fleet.too_small {
        let brokers = format_count_of(*brokers as u64, "broker");
        let cluster = escape(cluster);
        writeln!(out, "cluster {cluster}: {brokers}, too few to compare: at least {MIN_BROKERS} needed")?;
    }
    let compared = fleet.brokers.iter().filter(|broker| !fleet.too_small.contains_key(&broker.name.cluster));
    let compared = compared.count();
    if compared == 0 {
        return writeln!(out, "nothing was compared");
    }
    let compared = format_count_of(compared as u64, "broker");
    let Some(first) = fleet.differences.first() else {
        return writeln!(out, "{compared} compared: none differs from the others of its cluster");
    };
    let odd = fleet.differences.iter().map(|difference| &difference.name).collect::<BTreeSet<_>>().len();
    writeln!(out, "{compared} compared, {odd} odd: {}", describe(first))?;
    advice(first).iter().try_for_each(|advice| writeln!(out, "to change: {advice}"))
}

fn describe(difference: &Difference) -> String {
    let what = format!(
        "broker {} of {}: {} is {}, the median is {}",
        escape(&difference.name.broker),
        escape(&difference.name.cluster),
        difference.figure.as_str(),
        format_value(difference.figure, difference.value),
        format_value(difference.figure, difference.spread.median),
    );
    let Some(reason) = difference.because.first() else { return what };
    let part = escape(&describe_part(reason)).into_owned();
    let because = format!("{:.0} % of the difference is {part}", reason.share * 100.0);
    match reason.items.first() {
        Some(item) => format!("{what}; {because}, most of it {}", escape(&item.name)),
        None => format!("{what}; {because}"),
    }
}

/// Describes a part in words.
fn describe_part(reason: &Reason) -> String {
    match reason.kind {
        PartKind::FileKind => format!("{} files", reason.part),
        PartKind::Topic => format!("topic {}", reason.part),
        PartKind::Cause | PartKind::None => reason.part.to_string(),
    }
}

/// A figure's value with its unit.
fn format_value(figure: Figure, value: f64) -> String {
    let bytes = || format_bytes(value.round() as u64);
    match figure.unit() {
        Unit::PerSecond => format!("{}/s", format_number(value)),
        Unit::PerMinute => format!("{}/min", format_number(value)),
        Unit::Bytes => bytes(),
        Unit::BytesPerSecond => format!("{}/s", bytes()),
        Unit::Millis => format!("{} ms", format_number(value)),
        Unit::MillisPerMinute => format!("{} ms/min", format_number(value)),
        Unit::Count => format_number(value),
    }
}

/// A number, with decimals if it is small.
fn format_number(value: f64) -> String {
    match value {
        small if small < 10.0 => format!("{small:.2}"),
        small if small < 100.0 => format!("{small:.1}"),
        large => format_count(large.round() as u64),
    }
}

fn summary(fleet: &Fleet) -> Value {
    let mut odd = fleet.differences.iter().map(|difference| &difference.name).collect::<Vec<_>>();
    odd.dedup();
    let odd = odd.iter().map(|name| json!({"cluster": name.cluster, "broker": name.broker}));
    json!({
        "type": "summary",
        "brokers": fleet.brokers.len(),
        "differences": fleet.differences.len(),
        "odd": odd.collect::<Value>(),
        "too_small": fleet.too_small.keys().collect::<Vec<_>>(),
    })
}
