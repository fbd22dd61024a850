//! An overview as tables for people, 100 columns wide if names allow; as JSON lines; and as CSV, one line per group and
//! one per producer. Tables that are not wide leave out less important columns.

use std::io::{self, Write};
use std::net::SocketAddr;

use model::IntendedWait;

use super::{BatchFill, Client, Distribution, Group, GroupBy, GroupKey, Groups, Kind, Producer};
use crate::paint::{Role, paint};
use crate::quantity::{NONE, format_bytes, format_count, format_count_of};
use crate::requests::RequestSummary;
use crate::rows::{Cell, Column, Format, Report, Writer, write_union};
use crate::text_writer::{INDENT, TextWriter};

/// Rows of each table, unless it is wide.
const MAX_ROWS: usize = 10;
/// Longer names are shortened, so that rows fit a terminal; names of producers even more, because their sizes are long.
const MAX_NAME: usize = 30;
const MAX_PRODUCER_NAME: usize = 27;
/// Characters left of a client's id next to a long address.
const MIN_ID: usize = 8;
/// The API of a group's second row.
const ALONE: &str = "  alone";
const OTHERS: &str = "others";

/// Writes an overview; only JSON has a place for the summary.
pub fn write(out: impl Write, format: &Format, groups: &Groups, summary: &RequestSummary) -> io::Result<()> {
    match format {
        Format::Table(style) => Tables(TextWriter::new(out, style)).write(groups),
        Format::Json => write_json(out, groups, summary),
        Format::Csv => {
            let rows = groups.groups.iter().map(|group| GroupRow::of(groups, group)).collect::<Vec<_>>();
            write_union(out, (&GroupRows::DATA, &rows), (&Producers { wide: false }, &groups.producers))
        }
    }
}

fn write_json(mut out: impl Write, groups: &Groups, summary: &RequestSummary) -> io::Result<()> {
    let rows = groups.groups.iter().map(|group| GroupRow::of(groups, group)).collect::<Vec<_>>();
    Writer::new(&mut out, &GroupRows::DATA, &Format::Json).write_all(&rows)?;
    let mut writer = Writer::new(out, &Producers { wide: false }, &Format::Json);
    groups.producers.iter().try_for_each(|producer| writer.row(producer))?;
    writer.summary(summary)?;
    writer.finish()
}

/// Groups of one kind.
struct GroupRows {
    by: GroupBy,
    wide: bool,
}

/// A group with its latency on the wire. If `alone`, its latency without the time behind other requests.
struct GroupRow<'a> {
    groups: &'a Groups,
    kind: Kind,
    key: &'a GroupKey,
    group: &'a Group,
    alone: bool,
}

impl<'a> GroupRow<'a> {
    fn of(groups: &'a Groups, (kind, key, group): &'a (Kind, GroupKey, Group)) -> Self {
        Self { groups, kind: *kind, key, group, alone: false }
    }

    fn latency(&self) -> &'a Distribution {
        if self.alone { self.group.less_head_of_line() } else { &self.group.latency }
    }

    fn per_second(&self) -> Option<f64> {
        self.groups.per_second(self.group.requests)
    }

    fn client(&self) -> Option<&'a Client> {
        match self.key {
            GroupKey::Client(client) | GroupKey::Connection(client, ..) => Some(client),
            _ => None,
        }
    }

    fn api(&self) -> String {
        match self.kind.hold {
            _ if self.alone => ALONE.to_owned(),
            Some(hold) => format!("{} ({})", self.kind.api, hold.as_str().replace('-', " ")),
            None => self.kind.api.to_owned(),
        }
    }

    fn name(&self, wide: bool) -> String {
        let max = if wide { usize::MAX } else { MAX_NAME };
        match self.key {
            GroupKey::All => String::new(),
            GroupKey::Topic(Some(topic), _) => shorten(&crate::escape::escape(topic), max),
            // Topic names cannot contain a colon.
            GroupKey::Topic(None, Some(id)) => format!("id:{id}"),
            GroupKey::Topic(None, None) => NONE.to_owned(),
            GroupKey::Client(client) => format_client(client, None, max),
            GroupKey::Connection(client, port, _) => format_client(client, Some(*port), max),
            GroupKey::Others(_) => OTHERS.to_owned(),
        }
    }
}

/// A cell that is empty in a group's second row.
fn first_row_only<'a>(row: &GroupRow<'_>, text: impl FnOnce() -> String) -> Cell<'a> {
    Cell::Escaped(if row.alone { String::new() } else { text() })
}

impl Report for GroupRows {
    type Row<'a> = GroupRow<'a>;
    const TYPE: &'static str = "requests-summary-group";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<GroupRows>;
        let (by, wide) = (self.by, self.wide);
        let text = |heading, of: fn(&GroupRow<'_>) -> String| {
            Col::number(heading, 0, "", move |row| first_row_only(row, || of(row)))
        };
        let bytes = |heading, of: fn(&Group) -> u64| {
            Col::number(heading, 8, "", move |row| first_row_only(row, || format_bytes(of(row.group))))
        };
        let latency = |heading, of: fn(&Distribution) -> Option<u64>| {
            Col::number(heading, 0, "", move |row| {
                of(row.latency()).map(|ns| ns as f64 / 1e6).map(three_digits).into()
            })
        };
        let name = |heading| Col::text(heading, 0, "", move |row| first_row_only(row, || row.name(wide)));
        let mut columns = match by {
            GroupBy::Api => Vec::new(),
            GroupBy::Topic => vec![name("TOPIC")],
            GroupBy::Client | GroupBy::Connection => vec![name("CLIENT")],
        };
        if wide && by == GroupBy::Connection {
            let broker = |row: &GroupRow<'_>| match row.key {
                GroupKey::Connection(.., broker) => broker.to_string(),
                _ => NONE.to_owned(),
            };
            columns.push(Col::text("BROKER", 0, "", move |row| first_row_only(row, || broker(row))));
        }
        columns.push(Col::text("API", 7, "", |row| row.api().into()));
        columns.push(text("REQUESTS", |row| row.group.requests.to_string()));
        if wide || by == GroupBy::Api {
            columns.push(text("REQ/S", |row| row.per_second().map_or_else(|| NONE.to_owned(), three_digits)));
        }
        columns.push(text("ERRORS", |row| row.group.errors.to_string()));
        columns.push(latency("P50", |latency| latency.quantile(0.5)));
        if wide || by == GroupBy::Api {
            columns.push(latency("P90", |latency| latency.quantile(0.9)));
        }
        columns.push(latency("P99", |latency| latency.quantile(0.99)));
        columns.push(latency("P999", |latency| latency.quantile(0.999)));
        columns.push(latency("MAX", Distribution::max));
        columns.push(latency("MEAN", |latency| latency.mean().map(|ns| ns as u64)).wide().place(0));
        match by {
            GroupBy::Topic => columns.push(bytes("BYTES", |group| group.record_bytes)),
            GroupBy::Client | GroupBy::Connection if !wide => {
                columns.push(bytes("BYTES", |group| group.request_bytes + group.response_bytes));
            }
            _ => columns.extend([
                bytes("IN", |group| group.request_bytes),
                bytes("OUT", |group| group.response_bytes),
            ]),
        }
        columns.extend(group_data());
        columns
    }
}

impl GroupRows {
    /// Columns for programs, the same for every group.
    const DATA: Self = Self { by: GroupBy::Api, wide: false };
}

fn group_data() -> Vec<Column<GroupRows>> {
    type Col = Column<GroupRows>;
    let mut columns = vec![
        Col::data("by", |row| row.key.by().as_str().into()),
        Col::data("others", |row| matches!(row.key, GroupKey::Others(_)).into()),
        Col::data("api", |row| row.kind.api.into()),
        Col::data("wait", |row| row.kind.hold.map(IntendedWait::as_str).into()),
        Col::data("topic", |row| match row.key {
            GroupKey::Topic(name, _) => name.as_deref().into(),
            _ => Cell::None,
        }),
        Col::data("topic_id", |row| match row.key {
            GroupKey::Topic(_, id) => id.map(Cell::display).into(),
            _ => Cell::None,
        }),
        Col::data("client_id", |row| row.client().and_then(|client| client.id.as_deref()).into()),
        Col::data("client_host", |row| row.client().map(|client| Cell::display(client.host)).into()),
        Col::data("client", |row| match row.key {
            GroupKey::Connection(client, port, _) => Cell::display(SocketAddr::new(client.host, *port)),
            _ => Cell::None,
        }),
        Col::data("broker", |row| match row.key {
            GroupKey::Connection(.., broker) => Cell::display(broker),
            _ => Cell::None,
        }),
        Col::data("requests", |row| row.group.requests.into()),
        Col::data("requests_per_s", |row| row.per_second().map(round).into()),
        Col::data("answered", |row| row.group.latency.count().into()),
        Col::data("unanswered", |row| row.group.unanswered.into()),
        Col::data("errors", |row| row.group.errors.into()),
        Col::data("request_bytes", |row| row.group.request_bytes.into()),
        Col::data("response_bytes", |row| row.group.response_bytes.into()),
        Col::data("record_bytes", |row| row.group.record_bytes.into()),
        Col::data("partitions", |row| row.group.partitions.into()),
    ];
    columns.extend(distribution("latency", "_ns", |row: &GroupRow<'_>| &row.group.latency));
    columns
        .extend(distribution("less_head_of_line", "_ns", |row: &GroupRow<'_>| row.group.less_head_of_line()));
    columns
}

/// Columns of a distribution, for programs.
fn distribution<R: Report>(
    name: &str,
    unit: &str,
    of: impl for<'a> Fn(&'a R::Row<'a>) -> &'a Distribution + Copy + 'static,
) -> Vec<Column<R>> {
    let named = |part: &str| format!("{name}_{part}{unit}");
    let mut columns = vec![Column::data(named("mean"), move |row| of(row).mean().map(round).into())];
    let shares = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];
    columns.extend(
        shares.map(|(part, share)| Column::data(named(part), move |row| of(row).quantile(share).into())),
    );
    columns
}

/// Producers and how full their batches are.
/// A column named after a quantity holds its mean, followed by its percentiles.
struct Producers {
    wide: bool,
}

impl Report for Producers {
    type Row<'a> = (Producer, BatchFill);
    const TYPE: &'static str = "requests-summary-producer";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<Producers>;
        let max = if self.wide { usize::MAX } else { MAX_PRODUCER_NAME };
        let mut columns = vec![
            Col::text("CLIENT", 0, "", move |(producer, _)| {
                let client = producer.client.as_ref();
                Cell::Escaped(
                    client.map_or_else(|| OTHERS.to_owned(), |client| format_client(client, None, max)),
                )
            }),
            Col::data("by", |_| "producer".into()),
            Col::data("others", |(producer, _)| producer.client.is_none().into()),
            Col::data("client_id", |(producer, _)| {
                producer.client.as_ref().and_then(|client| client.id.as_deref()).into()
            }),
            Col::data("client_host", |(producer, _)| {
                producer.client.as_ref().map(|client| Cell::display(client.host)).into()
            }),
            Col::number("PRODUCER", 0, "producer_id", |(producer, _)| producer.producer_id.into()),
            Col::number("REQUESTS", 0, "requests", |(_, fill)| fill.requests.into()).wide().place(0),
            Col::number("BATCHES", 0, "batches", |(_, fill)| fill.bytes.count().into()),
            Col::data("records", |(_, fill)| sum(&fill.records).into()),
            Col::data("record_bytes", |(_, fill)| sum(&fill.bytes).into()),
        ];
        let count =
            |number: f64| if number < 99.95 { format!("{number:.1}") } else { format!("{number:.0}") };
        let plain = |number: u64| number.to_string();
        columns.extend(spread("RECORDS", &[0.5], |(_, fill)| &fill.records, count, plain));
        let bytes = |bytes: f64| format_bytes(bytes.round() as u64);
        columns.extend(spread("BYTES", &[0.5, 1.0], |(_, fill)| &fill.bytes, bytes, format_bytes));
        columns.extend(spread("PARTS", &[], |(_, fill)| &fill.partitions, count, plain));
        columns.extend(distribution("batch_records", "", |(_, fill): &(Producer, BatchFill)| &fill.records));
        columns.extend(distribution("batch_bytes", "", |(_, fill): &(Producer, BatchFill)| &fill.bytes));
        columns.extend(distribution("request_partitions", "", |(_, fill): &(Producer, BatchFill)| {
            &fill.partitions
        }));
        columns
    }
}

/// Columns of a distribution, for tables: its mean and percentiles, most of them in wide tables only.
fn spread(
    heading: &'static str,
    narrow: &[f64],
    of: fn(&(Producer, BatchFill)) -> &Distribution,
    mean: fn(f64) -> String,
    show: fn(u64) -> String,
) -> Vec<Column<Producers>> {
    let mut columns = vec![Column::number(heading, 0, "", move |row| of(row).mean().map(mean).into())];
    for (heading, share) in [("P50", 0.5), ("P90", 0.9), ("P99", 0.99), ("MAX", 1.0)] {
        let column = Column::number(heading, 0, "", move |row| of(row).quantile(share).map(show).into());
        columns.push(if narrow.contains(&share) { column } else { column.wide().place(0) });
    }
    columns
}

fn sum(distribution: &Distribution) -> u64 {
    u64::try_from(distribution.sum()).unwrap_or(u64::MAX)
}

/// Rounds to three decimals.
fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Formats with three digits.
fn three_digits(value: f64) -> String {
    match value {
        _ if value < 9.995 => format!("{value:.2}"),
        _ if value < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

struct Tables<W>(TextWriter<W>);

impl<W: Write> Tables<W> {
    fn write(&mut self, groups: &Groups) -> io::Result<()> {
        let requests = groups.by(GroupBy::Api).map(|(_, _, group)| group.requests).sum();
        write!(self.0.out, "{}", format_count_of(requests, "request"))?;
        if let Some((rate, span)) = groups.per_second(requests).zip(groups.span) {
            write!(self.0.out, " in {span}, {} a second", three_digits(rate))?;
        }
        writeln!(self.0.out)?;
        GroupBy::ALL.into_iter().try_for_each(|by| self.groups(groups, by))?;
        self.producers(groups)?;
        self.legend(groups)?;
        self.0.out.flush()
    }

    /// Writes one table. Intended waits are harmless, so only the table of APIs shows them.
    fn groups(&mut self, groups: &Groups, by: GroupBy) -> io::Result<()> {
        let wide = self.0.style.wide;
        let is_shown =
            |(kind, ..): &&(Kind, GroupKey, Group)| wide || by == GroupBy::Api || kind.hold.is_none();
        let selected = groups.by(by).filter(is_shown).collect::<Vec<_>>();
        let max = if by == GroupBy::Api { usize::MAX } else { self.max_rows() };
        let title = match by {
            GroupBy::Api => "By API, latency in ms",
            GroupBy::Topic => "By topic, latency in ms and bytes of records",
            GroupBy::Client => "By client, latency in ms",
            GroupBy::Connection => "By connection, latency in ms",
        };
        let mut rows = Vec::new();
        for group in selected.iter().take(max) {
            let row = GroupRow::of(groups, group);
            let alone = GroupRow { alone: true, ..row };
            let differs = row.group.waited_in_line()
                && format_latencies(&row, by, wide) != format_latencies(&alone, by, wide);
            rows.push(row);
            rows.extend(differs.then_some(alone));
        }
        let has_others = selected.iter().any(|(_, key, _)| matches!(key, GroupKey::Others(_)));
        let max_if_others = has_others.then_some(groups.most);
        self.section(title, &GroupRows { by, wide }, &rows, selected.len().saturating_sub(max), max_if_others)
    }

    fn producers(&mut self, groups: &Groups) -> io::Result<()> {
        let (wide, max) = (self.0.style.wide, self.max_rows());
        let title = "Batches by producer: records and bytes per batch (mean, percentiles); mean partitions per request";
        let rows = groups.producers.get(..max).unwrap_or(&groups.producers);
        let more = groups.producers.len() - rows.len();
        let has_others = groups.producers.iter().any(|(producer, _)| producer.client.is_none());
        self.section(title, &Producers { wide }, rows, more, has_others.then_some(groups.most))
    }

    fn max_rows(&self) -> usize {
        if self.0.style.wide { usize::MAX } else { MAX_ROWS }
    }

    /// Writes a table with its title and how many more rows there are. Adds the limit on groups if it was exceeded.
    fn section<'r, R: Report>(
        &mut self,
        title: &str,
        report: &R,
        rows: &'r [R::Row<'r>],
        more: usize,
        max_if_others: Option<usize>,
    ) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        self.0.heading(title)?;
        self.0.table(report, rows)?;
        self.0.more(more)?;
        let Some(max) = max_if_others else { return Ok(()) };
        let max = format_count(max as u64);
        writeln!(
            self.0.out,
            "{:INDENT$}others: groups beyond the limit ({max} per API, twice that in total)",
            ""
        )
    }

    fn legend(&mut self, groups: &Groups) -> io::Result<()> {
        let any =
            |is: fn(&Kind, &Group) -> bool| groups.groups.iter().any(|(kind, _, group)| is(kind, group));
        let lines = [
            (
                any(|_, group| group.waited_in_line()),
                "alone: without the time behind an earlier request of the same connection",
            ),
            (
                any(|kind, _| kind.hold == Some(IntendedWait::LongPoll)),
                "long poll: the fetch waited for data and got none, or less than fetch.min.bytes",
            ),
            (
                any(|kind, _| kind.hold.is_none() && kind.api == model::api_key::name(model::api_key::FETCH)),
                "FETCH: returned data; the wait for it is left out where packets show when it was produced",
            ),
            (
                any(|kind, _| kind.hold == Some(IntendedWait::Rebalance)),
                "rebalance: the member waited for the others of its group",
            ),
        ];
        let lines = lines.into_iter().filter_map(|(is_shown, line)| is_shown.then_some(line));
        for (nth, line) in lines.enumerate() {
            let before = if nth == 0 { "\n" } else { "" };
            writeln!(self.0.out, "{before}{}", paint(self.0.style.colour, Role::Faint, line))?;
        }
        Ok(())
    }
}

/// The latencies that a row shows, formatted.
fn format_latencies(row: &GroupRow<'_>, by: GroupBy, wide: bool) -> Vec<String> {
    let shares = [0.5, 0.99, 0.999, 1.0].into_iter().chain((wide || by == GroupBy::Api).then_some(0.9));
    let mut latencies = shares.map(|share| row.latency().quantile(share)).collect::<Vec<_>>();
    latencies.push(row.latency().mean().filter(|_| wide).map(|ns| ns as u64));
    latencies.into_iter().flatten().map(|ns| three_digits(ns as f64 / 1e6)).collect()
}

/// `client-id@host`, with the port of a connection: the id is shortened if both do not fit.
/// Escaped.
fn format_client(client: &Client, port: Option<u16>, max: usize) -> String {
    let address =
        port.map_or_else(|| client.host.to_string(), |port| SocketAddr::new(client.host, port).to_string());
    match client.id.as_deref().filter(|id| !id.is_empty()) {
        Some(id) => {
            let room = max.saturating_sub(address.len() + 1).max(MIN_ID);
            format!("{}@{address}", shorten(&crate::escape::escape(id), room))
        }
        None => address,
    }
}

/// Cuts the middle out of a long name: names often differ only at their ends.
fn shorten(text: &str, max: usize) -> String {
    let length = text.chars().count();
    if length <= max {
        return text.to_owned();
    }
    let head = (max - 1) / 2;
    let tail = max - 1 - head;
    text.chars().take(head).chain(['…']).chain(text.chars().skip(length - tail)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Client, format_client, shorten, three_digits};

    #[test]
    fn milliseconds_have_three_digits() {
        for (ns, text) in [
            (0, "0.00"),
            (820_000, "0.82"),
            (9_994_000, "9.99"),
            (9_996_000, "10.0"),
            (99_960_000, "100"),
            (3_012_400_000_u64, "3012"),
        ] {
            assert_eq!(three_digits(ns as f64 / 1e6), text);
        }
    }

    #[test]
    fn long_names_are_shortened_in_the_middle() {
        let name = "payments-service-eu-west-producer-17";
        assert_eq!(shorten(name, 24), "payments-se…-producer-17");
        assert_eq!(shorten(name, usize::MAX), name);
        assert_eq!(shorten(&"ž".repeat(25), 24).chars().count(), 24);
    }

    #[test]
    fn addresses_are_not_shortened() {
        let client = Client { id: Some("payments-service-1".into()), host: [192, 168, 100, 200].into() };
        assert_eq!(format_client(&client, Some(41_234), 30), "pay…ce-1@192.168.100.200:41234");
        assert_eq!(format_client(&Client { id: None, ..client }, None, 30), "192.168.100.200");
    }
}
