//! Lines of brokers from 2.0 to 4.1 and their entries.
//! The lines are in every layout, whole, cut, damaged and in any pieces.

use std::convert::Infallible;

use model::{LogEntry, LogKind, Nanos};
use proptest::prelude::*;

use super::input::LONGEST_LINE;
use super::{Counts, LogItem, LogScanner, Patterns, Zone};
use kafka_lines::LINES;

mod kafka_lines;

const REQUEST: &str = r#"[2024-05-19 15:04:47,458] DEBUG Completed request:{"isForwarded":false,"requestHeader":{"requestApiKey":0,"requestApiVersion":12,"correlationId":7,"clientId":"a","requestApiKeyName":"PRODUCE"},"request":{"topicData":[{"name":"orders","partitionData":[]}]},"response":{},"connection":"127.0.0.1:9092-10.0.0.7:60670-0-1","totalTimeMs":6.25,"requestQueueTimeMs":0.5,"localTimeMs":4.0,"remoteTimeMs":0.125,"throttleTimeMs":0,"responseQueueTimeMs":0.625,"sendTimeMs":1.0,"securityProtocol":"PLAINTEXT"} (kafka.request.logger)"#;
const AT: Nanos = Nanos(1_716_131_087_458_000_000);

/// Entries of a log, including one for each line about a request.
pub(super) fn scan_log(pieces: &[&[u8]], patterns: &str) -> (Vec<LogEntry>, Counts) {
    let mut scan = LogScanner::new(Zone::utc(), None, Patterns::parse(patterns).unwrap());
    let mut entries = Vec::new();
    let mut take = |item: LogItem<'_>| {
        entries.push(match item {
            LogItem::Entry(entry) => entry,
            LogItem::Request(request) => LogEntry {
                at: request.at,
                kind: LogKind::Request,
                pattern: None,
                level: None,
                topic_partition: None,
                length: Some(request.times.total),
                count: None,
                offset: None,
                before_bytes: None,
                after_bytes: None,
                text: request.api.into(),
            },
        });
        Ok::<_, Infallible>(())
    };
    for piece in pieces {
        let Ok(()) = scan.feed(piece, &mut take);
    }
    let Ok(()) = scan.finish(&mut take);
    (entries, scan.counts())
}

fn only(line: &str) -> Option<LogEntry> {
    let (mut entries, _) = scan_log(&[line.as_bytes(), b"\n"], "");
    assert!(entries.len() <= 1, "{line}");
    entries.pop()
}

/// A line in Kafka's own layout.
fn format_line(message: &str) -> String {
    format!("[2024-05-19 15:04:47,458] INFO {message} (kafka.log.Log)")
}

#[test]
fn reads_every_message_of_every_version() {
    for line in LINES {
        let entry = only(&format_line(line.text)).unwrap_or_else(|| panic!("no entry: {}", line.text));
        let partition = entry.topic_partition.as_ref().map(ToString::to_string);
        assert_eq!((entry.kind, entry.level, entry.at), (line.kind, Some("INFO"), Some(AT)), "{}", line.text);
        assert_eq!(partition.as_deref(), line.partition, "{}", line.text);
        assert_eq!(entry.length, line.ms.map(Nanos::from_millis), "{}", line.text);
        let numbers = (entry.count, entry.offset, entry.before_bytes.zip(entry.after_bytes));
        assert_eq!(numbers, (line.count, line.offset, line.bytes), "{}", line.text);
        assert_eq!(&*entry.text, line.text);
    }
}

#[test]
fn every_log_kind_has_a_test_line() {
    for kind in LogKind::ALL {
        let elsewhere = [LogKind::Request, LogKind::Pattern, LogKind::GcPause, LogKind::Safepoint];
        assert!(elsewhere.contains(&kind) || LINES.iter().any(|line| line.kind == kind), "{kind}");
    }
}

#[test]
fn every_layout_yields_the_same_entry() {
    for line in LINES {
        let expected = only(&format_line(line.text)).unwrap();
        let escaped = line.text.replace('"', "\\\"");
        for layout in [
            format!(
                "\x1b[36m[2024-05-19 15:04:47,458]\x1b[0m \x1b[32mINFO\x1b[0m {} (kafka.log.Log)",
                line.text
            ),
            format!("2024-05-19T15:04:47.470Z stdout F {}", format_line(line.text)),
            format!("May 19 15:04:47 host kafka[7]: {}\r", format_line(line.text)),
            format!("[2024-05-19T15:04:47,458+0000] INFO [kafka-scheduler-3] {} (kafka.log.Log)", line.text)
                .replace("[kafka-scheduler-3] ", ""),
            format!("2024-05-19 17:04:47.458+02:00 [main] INFO  kafka.log.Log - {}", line.text),
            format!(
                r#"{{"@timestamp":"2024-05-19T15:04:47.458Z","log.level":"INFO","message":"{escaped}"}}"#
            ),
            format!(
                r#"{{"instant":{{"epochSecond":1716131087,"nanoOfSecond":458000000}},"level":"INFO","loggerName":"kafka.log.Log","message":"{escaped}"}}"#
            ),
            format!(
                r#"{{"log":"{} \n","stream":"stdout","time":"2024-05-19T15:04:47.459757986Z"}}"#,
                format_line(&escaped)
            ),
        ] {
            assert_eq!(only(&layout).as_ref(), Some(&expected), "{layout}");
        }
    }
}

#[test]
fn jvm_lines_with_a_duration_yield_entries() {
    let decorated = "[2024-05-19T15:04:47.458+0000][info][gc      ] ";
    for (line, kind, ns) in [
        (
            "GC(12) Pause Young (Normal) (G1 Evacuation Pause) 123M->45M(512M) 12.345ms",
            LogKind::GcPause,
            12_345_000,
        ),
        ("GC(3) Y: Pause Mark Start (Major) 0.025ms", LogKind::GcPause, 25_000),
        (
            "Safepoint \"G1PauseRemark\", Time since last: 31045877 ns, Reaching safepoint: 4277374 ns, At safepoint: 23165200 ns, Total: 32660156 ns",
            LogKind::Safepoint,
            32_660_156,
        ),
        (
            "Total time for which application threads were stopped: 0.0123 seconds, Stopping threads took: 0.0001 seconds",
            LogKind::Safepoint,
            12_300_000,
        ),
    ] {
        let entry = only(&format!("{decorated}{line}")).unwrap();
        assert_eq!((entry.kind, entry.length, entry.at), (kind, Some(Nanos(ns)), Some(AT)), "{line}");
        assert_eq!(&*entry.text, line);
    }
}

#[test]
fn lookalike_lines_yield_no_entries() {
    for line in [
        "",
        "INFO Rolled new log segment",
        "INFO Rolled new log segment at offset 5 in a while",
        "INFO The Pause took its time",
        "INFO Loaded with logs in 5 dirs",
        "INFO Skipping recovery of 5 logs from /d since clean shutdown file was found",
        "INFO Reading producer snapshot at offset 5",
        "INFO state file size changed from 9 to 5",
        "INFO 5 segments removed by cleanup from tier partition state file, state file size changed from 9 to",
        "INFO The server starts at leader epoch 3",
        "INFO 99999999999999999999 segments removed by cleanup from tier partition state file for topicIdPartition a:t-0, state file size changed from 99999999999999999999 to 5",
        "INFO the write took long",
        "INFO [ReplicaFetcherManager on broker 1] shutting down",
        "INFO [ControllerServer id=1] shutting down",
        "\tat Rolled new log segment at offset 5 in 3 ms.",
        "Caused by: java.io.IOException: fsync took 12 ms",
    ] {
        assert_eq!(only(line), None, "{line}");
    }
}

#[test]
fn reads_whole_lines_of_a_damaged_log_of_mixed_layouts() {
    let roll = format_line("[LocalLog partition=t-0, dir=/d] Rolled new log segment at offset 5 in 3 ms.");
    let log = [
        roll.as_bytes(),
        b"[2024-05-19 15:04:47,458] ERROR failed (kafka.Kafka)",
        b"java.io.IOException: x took 5 ms",
        b"\tat kafka.log.Log.roll(Log.scala:1)",
        b"\xff\xfe\x00 took 7 ms",
        b"{\"message\":\"x took 9 ms\"",
        b"15:04:47.458 [main] WARN kafka.Kafka - y took 1.5 seconds",
        REQUEST.as_bytes(),
        b"[2024-05-19 15:04:47,458] DEBUG Completed request:{\"requestHeader\":7}",
        b"",
    ]
    .join(&b'\n');
    let (entries, counts) = scan_log(&[&log], "");
    let lengths: Vec<_> = entries.iter().filter_map(|entry| Some(entry.length?.0 / 1_000)).collect();
    assert_eq!(lengths, [3_000, 5_000, 7_000, 9_000, 1_500_000, 6_250]);
    let expected = Counts { bytes: log.len() as u64, lines: 9, cut: 0, unreadable_requests: 1 };
    assert_eq!(counts, expected);
}

#[test]
fn shutdown_duration_is_measured_between_two_lines() {
    let log = "[2024-05-19 15:04:40,000] INFO [BrokerServer id=1] shutting down (kafka.server.BrokerServer)\n\
               [2024-05-19 15:04:45,000] INFO [ReplicaFetcherManager on broker 1] shutting down (kafka.server.X)\n\
               [2024-05-19 15:04:47,458] INFO [BrokerServer id=1] shut down completed (kafka.server.BrokerServer)\n\
               [2024-05-19 15:04:48,458] INFO [BrokerServer id=1] shut down completed (kafka.server.BrokerServer)\n";
    let (entries, _) = scan_log(&[log.as_bytes()], "");
    let lengths: Vec<_> = entries.iter().map(|entry| entry.length).collect();
    assert_eq!(lengths, [None, Some(Nanos::from_millis(7_458)), None]);
}

#[test]
fn patterns_add_entries_to_the_known_ones() {
    let line = format_line("[LocalLog partition=t-0, dir=/d] Rolled new log segment at offset 5 in 3 ms.");
    let log = format!("{line}\n[2024-05-19 15:04:47,458] INFO nothing\nthe disk stalled for 12 s\n");
    let (entries, _) = scan_log(
        &[log.as_bytes()],
        "rolled ms offset (?<offset>\\d+) in (?<value>\\d+)\nstalled s for (?<value>\\d+)",
    );
    let names: Vec<_> =
        entries.iter().map(|entry| (entry.name(), entry.length.map(|length| length.0 / 1_000_000))).collect();
    assert_eq!(names, [("rolled", Some(3)), ("segment-roll", Some(3)), ("stalled", Some(12_000))]);
    assert_eq!((entries[0].offset, entries[2].at), (Some(5), None));
}

#[test]
fn ignores_a_number_at_the_end_of_an_unfinished_line() {
    let line = "[2024-05-19 15:04:47,458] INFO tier partition state file format migration complete for topicIdPartition a:t-0, state file size changed from 508509470 to 591531390";
    for cut in 0..line.len() {
        let (entries, counts) = scan_log(&[&line.as_bytes()[..cut]], "");
        assert!(entries.is_empty(), "{}", &line[..cut]);
        assert_eq!(counts.lines, u64::from(cut > 0));
    }
    assert_eq!(scan_log(&[line.as_bytes(), b"\n"], "").0.len(), 1);
    assert_eq!(scan_log(&[line.as_bytes(), b" (kafka.tier.state.FileTierPartitionState)"], "").0.len(), 1);
}

#[test]
fn truncated_lines_do_not_panic() {
    for line in LINES {
        let line = format_line(line.text);
        for cut in 0..line.len() {
            let _ = scan_log(&[&line.as_bytes()[..cut], b"\n"], "");
        }
    }
}

#[test]
fn overlong_line_is_cut_at_the_same_byte_for_any_piece_size() {
    let roll = format_line("[LocalLog partition=t-0, dir=/d] Rolled new log segment at offset 5 in 3 ms.");
    let padded = |before: usize, text: &str, behind: usize| {
        [vec![b'x'; before], text.as_bytes().to_vec(), vec![b'x'; behind], b"\n".to_vec()].concat()
    };
    let short = " took 7 ms ";
    for (line, expected, cut) in [
        (padded(0, &roll, 3 << 20), 1, 1),
        (padded(0, &format!("{roll} "), LONGEST_LINE), 1, 1),
        (padded(LONGEST_LINE, &roll, 0), 0, 0),
        (padded(LONGEST_LINE - short.len(), short, 0), 1, 0),
        // The number's unit lies beyond the part that is kept.
        (padded(LONGEST_LINE - short.len() + 3, short, 0), 0, 1),
    ] {
        let log = [&line[..], roll.as_bytes(), b"\n"].concat();
        let whole = scan_log(&[&log], "");
        assert_eq!((whole.0.len(), whole.1.cut), (expected + 1, cut));
        for piece in [4_096, 300_000, LONGEST_LINE, LONGEST_LINE + 1] {
            assert_eq!(scan_log(&log.chunks(piece).collect::<Vec<_>>(), ""), whole, "{piece}");
        }
    }
}

fn any_line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..60),
        (0..LINES.len()).prop_map(|nth| format_line(LINES[nth].text).into_bytes()),
        (0..LINES.len()).prop_map(|nth| LINES[nth].text.as_bytes().to_vec()),
        Just(REQUEST.as_bytes().to_vec()),
        (0..LINES.len(), 0..200_usize, any::<u8>()).prop_map(|(nth, at, byte)| {
            let mut line = format_line(LINES[nth].text).into_bytes();
            let at = at % line.len();
            line[at] = byte;
            line
        }),
    ]
}

proptest! {
    #[test]
    fn entries_do_not_depend_on_the_pieces(
        lines in proptest::collection::vec(any_line(), 0..12),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..9),
        with_patterns: bool,
        has_line_end: bool,
    ) {
        let mut log = lines.join(&b'\n');
        log.extend(has_line_end.then_some(b'\n'));
        let patterns = if with_patterns { "any ms ([a-z]+) (?<value>\\d+) ?ms" } else { "" };
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(log.len() + 1)).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut rest = &log[..];
        for cut in cuts.iter().rev() {
            let (before, piece) = rest.split_at(*cut);
            pieces.push(piece);
            rest = before;
        }
        pieces.push(rest);
        pieces.reverse();
        prop_assert_eq!(scan_log(&pieces, patterns), scan_log(&[&log], patterns));
    }

    #[test]
    fn patterns_hide_no_known_entries(lines in proptest::collection::vec(any_line(), 0..12)) {
        let log = lines.join(&b'\n');
        let known = scan_log(&[&log], "").0;
        let with_pattern = scan_log(&[&log], "never - \\x00never").0;
        prop_assert_eq!(with_pattern, known);
    }

    #[test]
    fn any_bytes_are_read(bytes: Vec<u8>) {
        let _ = scan_log(&[&bytes], "a count (?<value>.*)");
    }
}
