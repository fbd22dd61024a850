//! Totals of files as a table, as JSON lines with a summary, and as CSV. The table has a heading: reads without
//! egress, bytes per minute, load of devices.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::FilePurpose::{self, DiskReads, Faults, Names, Opens, Reads, Sizes, Syncs, Transfers, Writes};
use super::egress::per_minute;
use super::{DeviceLoad, FileTotals, GroupBy, GroupKey, ReadsWithoutEgress, Traffic};
use crate::escape::escape;
use crate::json;
use crate::quantity::{format_bytes, format_count, format_count_of};
use crate::rows::{Cell, Column, Format, Report, Writer};

/// Devices in the heading: below a file system there may be a whole stack.
const MAX_DEVICES: usize = 4;

/// Writes at most `max` groups and, except in CSV, the totals of all.
pub fn write(mut out: impl Write, format: &Format, totals: &FileTotals, max: usize) -> io::Result<()> {
    let rows = totals.groups.iter().take(max).map(|(key, traffic)| FileRow { totals, key, traffic });
    let rows = rows.collect::<Vec<_>>();
    let report = FileGroups { by: totals.by, has_rated: totals.rated().is_some() };
    if let Format::Table(_) = format {
        write_heading(&mut out, totals)?;
    }
    Writer::new(&mut out, &report, &format.aligned()).write_all(&rows)?;
    match format {
        Format::Table(_) => write_rest(&mut out, totals, max)?,
        Format::Json => json::write_line(&mut out, &summary(totals))?,
        Format::Csv => {}
    }
    out.flush()
}

struct FileGroups {
    by: GroupBy,
    has_rated: bool,
}

struct FileRow<'a> {
    totals: &'a FileTotals,
    key: &'a GroupKey,
    traffic: &'a Traffic,
}

impl FileRow<'_> {
    fn name(&self) -> Cell<'_> {
        match self.key {
            GroupKey::File { file, .. } => (&**file).into(),
            GroupKey::Kind(kind) => (*kind).into(),
            GroupKey::Topic(topic) => topic.as_deref().into(),
            GroupKey::Partition(of) => of.as_ref().map(|(topic, number)| format!("{topic}-{number}")).into(),
            GroupKey::Others => "others".into(),
        }
    }

    fn device(&self) -> Cell<'_> {
        match self.key {
            GroupKey::File { device, .. } => (&**device).into(),
            _ => Cell::None,
        }
    }

    fn of_rated(&self) -> Option<f64> {
        let requests = self.totals.known_of_blocks(self.traffic.block_requests())?;
        self.totals.rated().map(|rated| requests as f64 / rated)
    }

    /// The part of a group's key with this name; [`Cell::None`] if its key has no such part.
    fn key(&self, name: &str) -> Cell<'_> {
        match (name, self.key) {
            ("file", GroupKey::File { file, .. }) => (&**file).into(),
            ("kind", GroupKey::File { kind, .. } | GroupKey::Kind(kind)) => (*kind).into(),
            ("topic", GroupKey::Topic(topic)) => topic.as_deref().into(),
            ("topic", GroupKey::File { of, .. } | GroupKey::Partition(of)) => {
                of.as_ref().map(|(topic, _)| &**topic).into()
            }
            ("partition", GroupKey::File { of, .. } | GroupKey::Partition(of)) => {
                of.as_ref().map(|(_, number)| *number).into()
            }
            _ => Cell::None,
        }
    }
}

impl Report for FileGroups {
    type Row<'a> = FileRow<'a>;
    const TYPE: &'static str = "files";

    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the methods are not general over the row's lifetime"
    )]
    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<FileGroups>;
        type Of = fn(&Traffic) -> u64;
        let count = |heading, field: &'static str, watched: &'static [FilePurpose], of: Of| {
            let known = move |row: &FileRow<'_>| row.totals.known(watched, of(row.traffic));
            Col::number(heading, 0, field, move |row| known(row).map(Cell::Count).into())
        };
        let bytes = |heading, width, field: &'static str, watched: &'static [FilePurpose], of: Of| {
            let known = move |row: &FileRow<'_>| row.totals.known(watched, of(row.traffic));
            Col::number(heading, width, field, move |row| known(row).map(Cell::Bytes).into())
        };
        let blocks = |heading, field: &'static str, of: Of| {
            let known = move |row: &FileRow<'_>| row.totals.known_of_blocks(of(row.traffic));
            Col::number(heading, 0, field, move |row| known(row).map(Cell::Count).into())
        };
        let block_bytes = |heading, width, field: &'static str, of: Of| {
            let known = move |row: &FileRow<'_>| row.totals.known_of_blocks(of(row.traffic));
            Col::number(heading, width, field, move |row| known(row).map(Cell::Bytes).into())
        };
        let name = match self.by {
            GroupBy::File => "FILE",
            GroupBy::Kind => "KIND",
            GroupBy::Topic => "TOPIC",
            GroupBy::Partition => "PARTITION",
        };
        let mut columns = vec![
            Col::data("by", |row| row.totals.by.as_str().into()),
            Col::data("others", |row| (*row.key == GroupKey::Others).into()),
            Col::data("file", |row| row.key("file")),
            Col::text("DEVICE", 0, "device", |row| row.device()).wide().place(103),
            Col::data("kind", |row| row.key("kind")),
            Col::data("topic", |row| row.key("topic")),
            Col::data("partition", |row| row.key("partition")),
            Col::number("READS", 7, "reads", |row| {
                row.totals.known(&[Reads, Transfers], row.traffic.reads).map(Cell::Count).into()
            }),
            bytes("READ", 9, "read_bytes", &[Reads, Transfers], |traffic| traffic.read_bytes).wide(),
            Col::number("DISK", 9, "disk_bytes", |row| row.traffic.disk_bytes.map(Cell::Bytes).into())
                .place(3),
            bytes("READAHEAD", 0, "readahead_bytes", &[DiskReads], |traffic| traffic.readahead_bytes)
                .wide()
                .place(102),
            count("FAULTS", "faults", &[Faults], |traffic| traffic.faults).wide().place(102),
            Col::number("WRITES", 7, "writes", |row| {
                row.totals.known(&[Writes], row.traffic.writes).map(Cell::Count).into()
            })
            .place(4),
            bytes("WRITTEN", 9, "written_bytes", &[Writes], |traffic| traffic.written_bytes).place(4),
            count("FSYNCS", "fsyncs", &[Syncs], |traffic| traffic.fsyncs).place(4),
            count("OTHERS", "other_ops", &[Sizes, Names, Opens], |traffic| traffic.others).wide().place(102),
            Col::number("ERRORS", 0, "errors", |row| Cell::Count(row.traffic.errors)).wide().place(102),
            blocks("BLOCK_IOS", "", Traffic::block_requests).place(5),
            block_bytes("BLOCK", 9, "", |traffic| traffic.block_read_bytes + traffic.block_written_bytes)
                .place(5),
            blocks("BLOCK_READS", "block_reads", |traffic| traffic.block_reads).wide().place(102),
            block_bytes("BLOCK_READ", 0, "block_read_bytes", |traffic| traffic.block_read_bytes)
                .wide()
                .place(102),
            blocks("BLOCK_WRITES", "block_writes", |traffic| traffic.block_writes).wide().place(102),
            block_bytes("BLOCK_WRITTEN", 0, "block_written_bytes", |traffic| traffic.block_written_bytes)
                .wide()
                .place(102),
            Col::number("TIME", 7, "time_ns", |row| Cell::Length(row.traffic.time)).place(6),
            Col::data("disk_reads", |row| row.totals.known(&[DiskReads], row.traffic.disk_reads).into()),
            Col::number("DISK_READS", 0, "", |row| {
                row.traffic.disk_bytes.map(|_| Cell::Count(row.traffic.disk_reads)).into()
            })
            .place(2),
            Col::number("CACHED", 9, "cached_bytes", |row| row.traffic.cached_bytes.map(Cell::Bytes).into())
                .place(1),
            bytes("SENT", 0, "sent_bytes", &[Transfers], |traffic| traffic.sent_bytes).wide().place(101),
            Col::data("of_rated_ratio", |row| row.of_rated().into()),
            Col::text(name, 0, "", |row| row.name()).place(104),
        ];
        if self.has_rated {
            let percent = |row: &FileRow<'_>| row.of_rated().map(|share| format!("{:.1} %", share * 100.0));
            columns.push(Col::number("OF_RATED", 0, "", move |row| percent(row).into()).place(7));
        }
        columns
    }
}

fn sum(totals: &FileTotals, of: fn(&Traffic) -> u64) -> u64 {
    totals.kinds.values().map(of).sum()
}

/// Bytes that reads got from devices, if known.
fn from_device(totals: &FileTotals) -> Option<u64> {
    totals.known(&[Reads, Transfers], sum(totals, Traffic::from_device))
}

/// Bytes that reads found in the page cache; unknown if no read reported them and none could have.
fn from_cache(totals: &FileTotals) -> Option<u64> {
    totals.known(&[DiskReads], sum(totals, |traffic| traffic.cached_bytes.unwrap_or(0)))
}

fn written(totals: &FileTotals) -> Option<u64> {
    totals.known(&[Writes], sum(totals, |traffic| traffic.written_bytes))
}

/// Describes the bytes moved per minute, and what was not watched.
fn describe_rates(totals: &FileTotals, seconds: f64) -> String {
    let rate = |bytes| format_rate(per_minute(bytes, seconds));
    let (disk, cached) = (from_device(totals).map(rate), from_cache(totals).map(rate));
    let reads = match (disk, cached) {
        (Some(disk), Some(cached)) => {
            Some(format!("reads {disk} from disk and {cached} from the page cache"))
        }
        (Some(disk), None) => Some(format!("reads {disk} from disk")),
        (None, Some(cached)) => Some(format!("reads {cached} from the page cache")),
        (None, None) => None,
    };
    let unwatched = reads.is_none().then(|| "reads were not watched".to_owned());
    let writes = written(totals).map(|bytes| format!("writes {}", rate(bytes)));
    let sent = totals.sent_bytes.map(|bytes| format!("sends {}", rate(bytes)));
    let moved = reads.into_iter().chain(writes).collect::<Vec<_>>().join(", ");
    let moved = Some(moved).filter(|moved| !moved.is_empty());
    [moved, sent, unwatched].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn write_heading(out: &mut impl Write, totals: &FileTotals) -> io::Result<()> {
    let Some((span, seconds)) = totals.interval.span.zip(totals.seconds()) else { return Ok(()) };
    if let Some(finding) = totals.reads_without_egress() {
        writeln!(out, "{}", describe(&finding))?;
        finding.advice().iter().try_for_each(|advice| writeln!(out, "to change: {advice}"))?;
    }
    if !totals.interval.partial {
        writeln!(out, "over {span}: {}", describe_rates(totals, seconds))?;
    }
    let loads = totals.loads.iter().take(MAX_DEVICES);
    loads
        .into_iter()
        .try_for_each(|load| writeln!(out, "{}", describe_load(load, totals.interval.rated_iops)))?;
    writeln!(out)
}

fn write_rest(out: &mut impl Write, totals: &FileTotals, max: usize) -> io::Result<()> {
    let more = totals.groups.len().saturating_sub(max);
    if more > 0 {
        writeln!(out, "… and {} more (--top N shows more)", format_count(more as u64))?;
    }
    if totals.groups.iter().any(|(key, _)| *key == GroupKey::Others) {
        writeln!(out, "others: groups beyond the limit")?;
    }
    let unknown = &totals.unknown;
    if unknown.block_requests() == 0 {
        return Ok(());
    }
    let requests = format_count_of(unknown.block_requests(), "block request");
    let (read, written) = (format_bytes(unknown.block_read_bytes), format_bytes(unknown.block_written_bytes));
    writeln!(
        out,
        "in addition, {requests} of no known file (journals, metadata, other programs): {read} read, {written} written"
    )
}

/// Describes the finding in one sentence.
fn describe(finding: &ReadsWithoutEgress) -> String {
    let rate = |bytes| format_rate(per_minute(bytes, finding.seconds));
    let what = format!(
        "reads without egress: reads {} from disk, sends {} of it; {:.0} % of the rest is {} files",
        rate(finding.read_bytes),
        rate(finding.sent_bytes),
        finding.share * 100.0,
        finding.kind
    );
    match &finding.file {
        None => what,
        Some((file, 0)) => format!("{what}, most of it {}", escape(file)),
        Some((file, others)) => {
            let others = format_count_of(*others as u64, "file");
            format!("{what}, most of it {} (and {others} more)", escape(file))
        }
    }
}

fn describe_load(load: &DeviceLoad, rated_iops: Option<u64>) -> String {
    let whole = |number: f64| format_count(number.round() as u64);
    let mean = load.mean_iops.zip(load.mean_reads).map(|(mean, reads)| {
        format!("{} requests/s on average, {} of them reads; ", whole(mean), whole(reads))
    });
    let of_rated = rated_iops.map(|rated| {
        let share = load.busiest_iops * 100.0 / rated as f64;
        format!(", {share:.0} % of the rated {}", whole(rated as f64))
    });
    format!(
        "{}: {}{} in the busiest second{}",
        escape(&load.device),
        mean.unwrap_or_default(),
        whole(load.busiest_iops),
        of_rated.unwrap_or_default()
    )
}

/// Bytes per minute, in decimal units.
fn format_rate(bytes_per_minute: f64) -> String {
    const UNITS: [(&str, f64); 3] = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let fits = UNITS.into_iter().find(|(_, size)| bytes_per_minute >= *size);
    let (unit, size) = fits.unwrap_or(("B", 1.0));
    let value = bytes_per_minute / size;
    if value >= 10.0 || size <= 1.0 {
        format!("{value:.0} {unit}/min")
    } else {
        format!("{value:.1} {unit}/min")
    }
}

/// The totals, and what they are compared with.
fn summary(totals: &FileTotals) -> Value {
    let rated = totals.interval.rated_iops;
    let finding = totals.reads_without_egress().map(|finding| {
        json!({
            "text": describe(&finding),
            "read_bytes": finding.read_bytes,
            "sent_bytes": finding.sent_bytes,
            "kind": finding.kind,
            "share": finding.share,
            "file": finding.file.as_ref().map(|(file, _)| &**file),
            "advice": finding.advice(),
        })
    });
    let device = |load: &DeviceLoad| {
        json!({
            "device": &*load.device,
            "mean_iops": load.mean_iops,
            "mean_read_iops": load.mean_reads,
            "busiest_iops": load.busiest_iops,
            "busiest_of_rated_ratio": rated.map(|rated| load.busiest_iops / rated as f64),
        })
    };
    json!({
        "type": "summary",
        "span_ns": totals.interval.span.map(|span| span.0),
        "partial": totals.interval.partial,
        "from_device_bytes": from_device(totals),
        "from_cache_bytes": from_cache(totals),
        "to_files_bytes": written(totals),
        "to_connections_bytes": totals.sent_bytes,
        "unknown_block_requests": totals.unknown.block_requests(),
        "rated_iops": rated,
        "devices": totals.loads.iter().map(device).collect::<Vec<_>>(),
        "reads_without_egress": finding,
    })
}

#[cfg(test)]
mod tests {
    use super::format_rate;

    #[test]
    fn formats_rates() {
        for (bytes, text) in [
            (0.0, "0 B/min"),
            (999.0, "999 B/min"),
            (3_040_000.0, "3.0 MB/min"),
            (812e6, "812 MB/min"),
            (2.5e9, "2.5 GB/min"),
        ] {
            assert_eq!(format_rate(bytes), text);
        }
    }
}
