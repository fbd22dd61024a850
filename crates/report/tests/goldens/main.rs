//! Every output against its golden file. `BLESS=1 cargo test -p report` rewrites the files; a missing
//! one fails. The events are built in `sample`; expected output is never typed by hand.

// clippy.toml allows these in test functions; a test crate contains only tests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod blocked;
mod comparison;
mod fleet;
mod locks;
mod logs;
mod sample;

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;

use model::{Cause, FileKind, FileOp, FileOpKind, LossKind, Nanos, Request, Verdict};
use report::doctor::{self, Examination};
use report::explanation::{
    Conclusion, ExplanationReport, ExplanationText, Lag, RequestText, TopVerdicts, Verdicts, describe_chain,
};
use report::file_ops::{FileOpRow, FileOpSummary, FileOpWriter, FileOps, TopFileOps};
use report::files::{FileTotals, Files, GroupBy as FilesBy, Interval, Sort, Traffic};
use report::kernel::KernelCalls;
use report::requests::overview::{self, Group, GroupBy, GroupKey, Groups, Kind, Overview};
use report::requests::{RequestWriter, TopRequests};
use report::segments::SegmentWriter;
use report::{Format, Sink, Style, Writer, Zone, escape, files};

const JSON: Format = Format::Json;
const CSV: Format = Format::Csv;

fn table(wide: bool) -> Format {
    Format::Table(look(wide))
}

fn look(wide: bool) -> Style {
    Style { zone: Zone::utc(), wide, lookahead: 100, ..Style::default() }
}

fn golden(name: &str, write: impl FnOnce(&mut Vec<u8>)) {
    let mut out = Vec::new();
    write(&mut out);
    let shown = String::from_utf8(out).unwrap();
    for line in shown.lines() {
        assert!(!line.contains(escape::is_unsafe), "{name}: would steer a terminal: {line:?}");
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/expected").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &shown).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_else(|error| {
        panic!("{}: {error}; BLESS=1 cargo test -p report writes it", file.display())
    });
    assert!(shown == expected, "{name} differs; BLESS=1 cargo test -p report accepts:\n{shown}");
}

fn json_lines(out: &[u8]) -> Vec<serde_json::Value> {
    out.split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

fn requests(out: impl Write, format: &Format) {
    let mut to = RequestWriter::new(out, Vec::new(), format);
    for request in sample::requests() {
        to.request(&request).unwrap();
    }
    to.finish(&sample::request_summary()).unwrap();
}

#[test]
fn requests_in_every_format() {
    golden("requests.txt", |out| requests(out, &table(false)));
    golden("requests-wide.txt", |out| requests(out, &table(true)));
    golden("requests.jsonl", |out| requests(out, &JSON));
    golden("requests.csv", |out| requests(out, &CSV));
    golden("requests-summary.txt", |out| {
        let sentences = sample::request_summary().sentences();
        out.extend(sentences.iter().flat_map(|sentence| format!("{sentence}\n").into_bytes()));
    });
}

#[test]
fn request_object_has_every_documented_field() {
    let mut out = Vec::new();
    requests(&mut out, &JSON);
    let lines = json_lines(&out);
    for line in &lines[..lines.len() - 1] {
        for field in [
            "arrival_ns",
            "arrival_end_ns",
            "response_ns",
            "end_ns",
            "latency_ns",
            "head_of_line_ns",
            "data_ns",
            "api",
            "api_key",
            "api_version",
            "correlation_id",
            "client_id",
            "client",
            "broker",
            "request_bytes",
            "response_bytes",
            "acks",
            "transactional_id",
            "group_id",
            "min_bytes",
            "max_wait_ms",
            "throttle_ms",
            "error_code",
            "error",
            "partitions",
        ] {
            assert!(line.get(field).is_some(), "{field} is missing in {line}");
        }
        for partition in line["partitions"].as_array().unwrap() {
            for field in [
                "topic",
                "topic_id",
                "partition",
                "bytes",
                "records",
                "batch_crc",
                "fetch_offset",
                "base_offset",
                "error_code",
                "message_ids",
            ] {
                assert!(partition.get(field).is_some(), "{field} is missing in {partition}");
            }
        }
    }
    assert_eq!(lines.last().unwrap()["type"], "summary");
}

fn overview(most: usize, requests: &[Request]) -> Groups {
    let mut overview = Overview::new(most);
    for request in requests {
        overview.extend_span(request);
        overview.request(request, request.intended_wait());
    }
    overview.finish()
}

#[test]
fn overview_in_every_format() {
    let groups = overview(100, &sample::traffic());
    golden("overview.txt", |out| {
        overview::write(out, &table(false), &groups, &sample::request_summary()).unwrap();
    });
    golden("overview-wide.txt", |out| {
        overview::write(out, &table(true), &groups, &sample::request_summary()).unwrap();
    });
    golden("overview.jsonl", |out| overview::write(out, &JSON, &groups, &sample::request_summary()).unwrap());
    golden("overview.csv", |out| overview::write(out, &CSV, &groups, &sample::request_summary()).unwrap());
    let crowded = overview(1, &sample::traffic());
    golden("overview-crowded.txt", |out| {
        overview::write(out, &table(false), &crowded, &sample::request_summary()).unwrap();
    });
    let nothing = overview(1, &[]);
    golden("overview-nothing.txt", |out| {
        overview::write(out, &table(false), &nothing, &sample::request_summary()).unwrap();
    });
}

#[test]
fn overview_fits_100_columns() {
    let mut out = Vec::new();
    overview::write(&mut out, &table(false), &overview(100, &sample::traffic()), &sample::request_summary())
        .unwrap();
    for line in String::from_utf8(out).unwrap().lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn groups_contain_every_request() {
    let traffic = sample::traffic();
    for most in [1, 2, 100] {
        let groups = overview(most, &traffic);
        for by in [GroupBy::Api, GroupBy::Client, GroupBy::Connection] {
            let counted = groups.by(by).map(|(_, _, group)| group.requests).sum::<u64>();
            assert_eq!(counted, traffic.len() as u64, "{by:?} {most}");
        }
        let held = |(kind, ..): &&(Kind, GroupKey, Group)| kind.hold.is_some();
        let waits = groups.by(GroupBy::Api).filter(held).map(|(_, _, group)| group.requests).sum::<u64>();
        assert_eq!(waits, 900);
    }
}

#[test]
fn top_requests_are_the_slowest_up_to_the_limit() {
    let mut traffic = sample::traffic();
    let latency = |request: &Request| request.latency();
    for most in [1, 7, 10_000] {
        let mut out = Vec::new();
        let shared = SharedOutput::default();
        let mut top = TopRequests::new(most, RequestWriter::new(shared.clone(), Vec::new(), &JSON));
        for request in &traffic {
            top.request(request);
        }
        assert_eq!(
            top.unranked(),
            traffic.iter().filter(|request| latency(request).is_none()).count() as u64
        );
        top.finish(&sample::request_summary()).unwrap();
        out.extend(shared.0.borrow().iter());
        let mut rows = json_lines(&out);
        rows.pop();
        let found = rows.iter().map(|row| row["latency_ns"].as_i64().unwrap()).collect::<Vec<_>>();
        let mut expected = traffic.iter().filter_map(|request| Some(latency(request)?.0)).collect::<Vec<_>>();
        expected.sort_unstable_by(|a, b| b.cmp(a));
        expected.truncate(most);
        assert_eq!(found, expected);
        traffic.reverse();
    }
}

/// An output that outlives its owner.
#[derive(Clone, Default)]
struct SharedOutput(Rc<RefCell<Vec<u8>>>);

impl Write for SharedOutput {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn file_ops(mut to: impl Sink<FileOps>) {
    let ids = ["839584818".into(), "839584819".into()];
    for (op, reasons) in sample::file_ops() {
        let slow = op.latency() > Nanos::from_millis(100);
        to.row(&FileOpRow { op: &op, reasons: &reasons, message_ids: if slow { &ids } else { &[] } })
            .unwrap();
    }
    to.finish().unwrap();
}

#[test]
fn file_operations_in_every_format() {
    golden("io.txt", |out| file_ops(FileOpWriter::new(out, false, &table(false))));
    golden("io-wide.txt", |out| file_ops(FileOpWriter::new(out, false, &table(true))));
    golden("io-message-ids.txt", |out| file_ops(FileOpWriter::new(out, true, &table(false))));
    golden("io.jsonl", |out| file_ops(FileOpWriter::new(out, false, &JSON)));
    golden("io.csv", |out| file_ops(FileOpWriter::new(out, false, &CSV)));
}

#[test]
fn summary_of_file_operations_in_every_format() {
    fn summary(form: Format, out: &mut Vec<u8>) {
        file_ops(FileOpSummary::new(out, form));
    }
    golden("io-summary.txt", |out| summary(table(false), out));
    golden("io-summary-wide.txt", |out| summary(table(true), out));
    golden("io-summary.jsonl", |out| summary(JSON, out));
    golden("io-summary.csv", |out| summary(CSV, out));
}

#[test]
fn file_operation_has_every_documented_field_and_reasons_add_up() {
    let mut out = Vec::new();
    file_ops(FileOpWriter::new(&mut out, false, &JSON));
    for line in json_lines(&out) {
        for field in [
            "start_ns",
            "end_ns",
            "latency_ns",
            "op",
            "tid",
            "thread",
            "bytes",
            "offset",
            "file",
            "topic",
            "partition",
            "kind",
            "device",
            "fs",
            "reasons",
            "batch_crc",
            "base_offset",
        ] {
            assert!(line.get(field).is_some(), "{field} is missing in {line}");
        }
        let reasons = line["reasons"].as_object().unwrap();
        let total = reasons.values().map(|time| time.as_i64().unwrap()).sum::<i64>();
        assert_eq!(Some(total), line["latency_ns"].as_i64(), "{line}");
    }
}

#[test]
fn top_operations_are_the_slowest() {
    let shared = SharedOutput::default();
    file_ops(TopFileOps::new(2, Box::new(FileOpWriter::new(shared.clone(), false, &JSON))));
    let rows = json_lines(&shared.0.borrow());
    let found = rows.iter().map(|row| row["latency_ns"].as_i64().unwrap()).collect::<Vec<_>>();
    let mut all = sample::file_ops().iter().map(|(op, _)| op.latency().0).collect::<Vec<_>>();
    all.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(found, all[..2]);
}

fn calls(out: impl Write, format: &Format) {
    let mut to = Writer::new(out, &KernelCalls, format);
    for call in sample::calls() {
        to.row(&call).unwrap();
    }
    to.finish().unwrap();
}

#[test]
fn calls_of_kernel_functions_in_every_format() {
    golden("kernel.txt", |out| calls(out, &table(false)));
    golden("kernel-wide.txt", |out| calls(out, &table(true)));
    golden("kernel.jsonl", |out| calls(out, &JSON));
    golden("kernel.csv", |out| calls(out, &CSV));
}

fn totals(by: FilesBy, sort: Sort, room: usize) -> FileTotals {
    let mut files = Files::with_capacity(by, room);
    // Block requests before any operation named their inodes, and after.
    let (early, late) = sample::block_ios();
    for io in &early {
        files.block_io(io);
    }
    for (op, _) in &sample::file_ops() {
        files.file_op(op);
    }
    for io in &late {
        files.block_io(io);
    }
    files.finish(sort)
}

#[test]
fn files_in_every_format() {
    let all = || totals(FilesBy::File, Sort::Bytes, 100);
    golden("files.txt", |out| files::write(out, &table(false), &all(), 2).unwrap());
    golden("files-wide.txt", |out| files::write(out, &table(true), &all(), 100).unwrap());
    golden("files.jsonl", |out| files::write(out, &JSON, &all(), 100).unwrap());
    golden("files.csv", |out| files::write(out, &CSV, &all(), 100).unwrap());
    golden("files-crowded.txt", |out| {
        files::write(out, &table(false), &totals(FilesBy::File, Sort::Reads, 1), 9).unwrap();
    });
    golden("files-by-kind.txt", |out| {
        files::write(out, &table(false), &totals(FilesBy::Kind, Sort::Time, 9), 9).unwrap();
    });
    golden("files-by-topic.txt", |out| {
        files::write(out, &table(false), &totals(FilesBy::Topic, Sort::Time, 9), 9).unwrap();
    });
}

#[test]
fn reads_without_egress_are_reported_only_if_large_and_known() {
    let file_ops = sample::file_ops();
    let (op, _) = &file_ops[0];
    let read = |file: &str, kind: FileKind, op_kind: FileOpKind, bytes: u64, disk_bytes: u64| FileOp {
        op: op_kind,
        kind,
        file: file.into(),
        bytes: Some(bytes),
        disk_bytes: Some(disk_bytes),
        readahead_bytes: None,
        inode: bytes,
        batch: None,
        renamed_to: None,
        ..op.clone()
    };
    let totals = |tier_bytes: u64| {
        let mut files = Files::new(FilesBy::File);
        let state = "retriever-mutation-53/00000000000000000000.tierstate.mutable";
        files.file_op(&read(state, FileKind::TierState, FileOpKind::Read, tier_bytes, tier_bytes));
        let other = "retriever-mutation-7/00000000000000000000.tierstate.mutable";
        files.file_op(&read(other, FileKind::TierState, FileOpKind::Read, tier_bytes / 8, tier_bytes / 8));
        files.file_op(&read("t-0/0.log", FileKind::Log, FileOpKind::Sendfile, 50_000_000, 3_000_000));
        let (early, _) = sample::block_ios();
        for io in &early {
            files.block_io(io);
        }
        files.finish(Sort::Disk)
    };
    let span = Some(Nanos(60_000_000_000));
    let over = Interval { span, rated_iops: Some(40_000), ..Interval::default() };
    golden("files-unsent.txt", |out| {
        files::write(out, &table(false), &totals(720_000_000).over(over), 9).unwrap();
    });
    golden("files-unsent.jsonl", |out| files::write(out, &JSON, &totals(720_000_000).over(over), 9).unwrap());
    // Too little to matter; not all of it counted; no known interval.
    assert!(totals(1_000_000).over(over).reads_without_egress().is_none());
    assert!(totals(720_000_000).over(Interval { partial: true, ..over }).reads_without_egress().is_none());
    assert!(totals(720_000_000).over(Interval { span: None, ..over }).reads_without_egress().is_none());
    let mut sent = Files::new(FilesBy::Kind);
    sent.file_op(&read("t-0/0.log", FileKind::Log, FileOpKind::Sendfile, 900_000_000, 900_000_000));
    assert!(sent.finish(Sort::Disk).over(over).reads_without_egress().is_none());
    // A broker that encrypts sends by writing to connections, which was not observed.
    let mut encrypted = Files::new(FilesBy::Kind);
    encrypted.file_op(&read("t-0/0.log", FileKind::Log, FileOpKind::Read, 900_000_000, 900_000_000));
    assert!(encrypted.finish(Sort::Disk).over(over).reads_without_egress().is_none());
}

#[test]
fn extreme_values_do_not_panic() {
    let (op, _) = sample::file_ops().swap_remove(3);
    let huge = FileOp {
        bytes: Some(u64::MAX),
        disk_bytes: Some(u64::MAX),
        readahead_bytes: Some(u64::MAX),
        start: Nanos::MIN,
        end: Nanos::MAX,
        ..op
    };
    let mut files = Files::new(FilesBy::File);
    let mut summary = FileOpSummary::new(Vec::new(), JSON);
    for op in [&huge, &huge, &FileOp { end: Nanos::MIN, start: Nanos::MAX, ..huge.clone() }] {
        files.file_op(op);
        summary.row(&FileOpRow { op, reasons: &[], message_ids: &[] }).unwrap();
    }
    files::write(&mut Vec::new(), &table(true), &files.finish(Sort::Bytes), 9).unwrap();
    summary.finish().unwrap();
}

#[test]
fn totals_by_file_contain_all_traffic() {
    let ops = sample::file_ops();
    let (early, late) = sample::block_ios();
    for by in FilesBy::ALL {
        for room in [1, 2, 100] {
            let totals = totals(by, Sort::Block, room);
            let sum =
                |of: fn(&Traffic) -> u64| totals.groups.iter().map(|(_, traffic)| of(traffic)).sum::<u64>();
            let counted = sum(|traffic| {
                traffic.reads + traffic.writes + traffic.fsyncs + traffic.faults + traffic.others
            });
            assert_eq!(counted, ops.len() as u64);
            let blocks = |traffic: &Traffic| traffic.block_reads + traffic.block_writes;
            assert_eq!(sum(blocks) + blocks(&totals.unknown), (early.len() + late.len()) as u64);
            assert!(blocks(&totals.unknown) > 0 && sum(blocks) > 0);
        }
    }
}

fn segment(out: impl Write, format: &Format, records: bool) {
    let mut to = SegmentWriter::new(out, sample::segment_file(), records, format);
    for (batch, inside) in sample::segment() {
        to.batch(&batch).unwrap();
        for record in inside.iter().filter(|_| records) {
            to.record(record).unwrap();
        }
    }
    to.finish().unwrap();
}

#[test]
fn segment_in_every_format() {
    golden("segment.txt", |out| segment(out, &table(false), false));
    golden("segment-wide.txt", |out| segment(out, &table(true), false));
    golden("segment-records.txt", |out| segment(out, &table(false), true));
    golden("segment.jsonl", |out| segment(out, &JSON, true));
    golden("segment.csv", |out| segment(out, &CSV, false));
    golden("segment-records.csv", |out| segment(out, &CSV, true));
}

fn explanation(mut to: impl ExplanationReport) {
    for verdict in sample::verdicts() {
        to.verdict(verdict).unwrap();
    }
    to.finish(&sample::conclusion()).unwrap();
}

#[test]
fn explanation_in_every_format() {
    golden("explain.txt", |out| explanation(ExplanationText::new(out, &look(false))));
    golden("explain-wide.txt", |out| explanation(ExplanationText::new(out, &look(true))));
    golden("explain.jsonl", |out| explanation(Writer::new(out, &Verdicts, &JSON)));
    golden("explain-request.txt", |out| explanation(RequestText::new(out, &look(false), 9)));
    golden("explain-live.txt", |out| explanation(ExplanationText::streaming(out, &look(false))));
    golden("explain-top.txt", |out| {
        let all = ExplanationText::new(out, &look(false));
        explanation(TopVerdicts::new(2, Box::new(all)));
    });
    golden("explain.csv", |out| explanation(Writer::new(out, &Verdicts, &CSV)));
    golden("explain-quiet.txt", |out| {
        let mut quiet = ExplanationText::new(out, &look(false));
        quiet.finish(&Conclusion { slower_than: Nanos::from_millis(100), ..Conclusion::default() }).unwrap();
    });
    // Explained as they arrived: the summary shows the delay of verdicts.
    let [median, p99, longest] = [1_400, 1_900, 2_600].map(Nanos::from_millis);
    let live = Conclusion { lag: Some(Lag { median, p99, longest }), ..sample::conclusion() };
    golden("explain-live.jsonl", |out| {
        ExplanationReport::finish(&mut Writer::new(out, &Verdicts, &JSON), &live).unwrap();
    });
}

#[test]
fn memory_reclaim_is_named_direct_reclaim() {
    let reclaim = Verdict { chain: vec![Cause::MemoryReclaim], ..sample::own_write() };
    assert_eq!(describe_chain(&reclaim), "direct reclaim");
}

#[test]
fn verdict_object_has_every_documented_field() {
    let mut out = Vec::new();
    explanation(Writer::new(&mut out, &Verdicts, &JSON));
    let lines = json_lines(&out);
    let verdict = &lines[0];
    for field in ["request", "stages", "cause", "root", "confidence", "partition", "evidence", "advice"] {
        assert!(verdict.get(field).is_some(), "{field} is missing in {verdict}");
    }
    let stages = verdict["stages"].as_object().unwrap();
    let total: i64 = stages.values().map(|length| length.as_i64().unwrap()).sum();
    assert_eq!(total, verdict["request"]["latency_ns"].as_i64().unwrap());
    assert_eq!(stages.len(), 11);
    assert_eq!(lines.last().unwrap()["type"], "summary");
}

#[test]
fn short_explanation_has_an_example_of_each_chain() {
    let mut out = Vec::new();
    let mut text = ExplanationText::new(&mut out, &look(false));
    // Many requests that waited for the lock, all slower than the one whose write held it.
    let (own_write, waiting) = (sample::own_write(), sample::waiting());
    text.verdict(own_write).unwrap();
    for i in 0..500 {
        let mut verdict = waiting.clone();
        verdict.request.end = verdict.request.end.map(|end| end + Nanos::from_millis(1_000 + i));
        text.verdict(verdict).unwrap();
    }
    text.finish(&sample::conclusion()).unwrap();
    let shown = String::from_utf8(out).unwrap();
    let rows = shown
        .lines()
        .filter(|line| line.trim_end().ends_with("exact") || line.trim_end().ends_with("strong"))
        .collect::<Vec<_>>();
    assert_eq!(rows.len(), 8, "{shown}");
    assert_eq!(rows.iter().filter(|row| row.contains("own write")).count(), 1, "{shown}");
    assert!(rows[0].contains("log lock ← write of thread 4478"), "the slowest comes first:\n{shown}");
}

#[test]
fn number_of_requests_ahead_makes_no_separate_chain() {
    let mut out = Vec::new();
    let mut text = ExplanationText::new(&mut out, &look(false));
    for ahead in 1..100 {
        text.verdict(sample::behind(ahead)).unwrap();
    }
    text.verdict(sample::waiting()).unwrap();
    text.verdict(sample::own_write()).unwrap();
    text.finish(&sample::conclusion()).unwrap();
    let shown = String::from_utf8(out).unwrap();
    for chain in ["own write", "log lock ← write of thread 4478", "ahead on its connection ← log lock"] {
        assert!(shown.lines().any(|line| line.contains(chain) && !line.contains("In detail")), "{shown}");
    }
    let details = shown.lines().filter(|line| line.contains("In detail")).collect::<Vec<_>>();
    assert_eq!(details.len(), 2, "{shown}");
    assert!(details[0].contains("own write") && details[1].contains("log lock"), "{shown}");
}

#[test]
fn explanation_reports_losses_and_their_absence() {
    for (count, sentence) in [(0, "nothing was lost"), (3, "lost: 3 probe-events-dropped")] {
        let mut out = Vec::new();
        let mut conclusion = sample::conclusion();
        conclusion.summary.losses = vec![(LossKind::ProbeEventsDropped, count)];
        ExplanationText::new(&mut out, &look(false)).finish(&conclusion).unwrap();
        let shown = String::from_utf8(out).unwrap();
        assert!(shown.contains(sentence), "{shown}");
    }
}

#[test]
fn doctor_in_every_format() {
    let found = sample::examination();
    golden("doctor.txt", |out| doctor::write_text(out, &look(false), &found).unwrap());
    golden("doctor.json", |out| doctor::write_json(out, &found).unwrap());
    golden("doctor-nothing-missing.txt", |out| {
        let well = Examination { hooks: Vec::new(), remedies: Vec::new(), ..found.clone() };
        doctor::write_text(out, &look(false), &well).unwrap();
    });
}

#[test]
fn requests_table_uses_colour_if_allowed() {
    let mut out = Vec::new();
    requests(&mut out, &Format::Table(Style { colour: true, ..look(false) }));
    assert!(out.starts_with(b"\x1b[1m"));
}
