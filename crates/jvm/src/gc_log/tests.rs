//! Logs that JVMs wrote, and invented ones.

use model::{JvmPause, JvmPauseKind, Nanos};
use proptest::prelude::*;

use super::{Error, GcLog};

const KAFKA_17: &[u8] = include_bytes!("../../tests/gc_logs/kafka-17-g1.log");
const KAFKA_25: &[u8] = include_bytes!("../../tests/gc_logs/kafka-25-g1-safepoint.log");
const SERIAL: &[u8] = include_bytes!("../../tests/gc_logs/17-serial-uptime.log");
const ALL: [&[u8]; 7] = [
    KAFKA_17,
    KAFKA_25,
    SERIAL,
    include_bytes!("../../tests/gc_logs/17-zgc.log"),
    include_bytes!("../../tests/gc_logs/25-zgc-uptime.log"),
    include_bytes!("../../tests/gc_logs/17-shenandoah.log"),
    include_bytes!("../../tests/gc_logs/25-shenandoah.log"),
];
/// 2026-11-21 18:00:00 UTC.
const START: Nanos = Nanos(1_795_284_000_000_000_000);

fn all(text: &[u8], start: Option<Nanos>) -> Result<Vec<JvmPause>, Error> {
    GcLog::new(text, start).collect()
}

fn read(text: &[u8]) -> Vec<JvmPause> {
    all(text, Some(START)).unwrap()
}

/// The pause in a log of one line.
fn one(line: &str) -> JvmPause {
    let mut pauses = read(format!("{line}\n").as_bytes());
    assert_eq!(pauses.len(), 1, "{line}: {pauses:?}");
    pauses.remove(0)
}

fn names(pause: &JvmPause) -> (JvmPauseKind, &str, &str, Option<u32>) {
    (pause.kind, &pause.operation, &pause.cause, pause.gc_id)
}

#[test]
fn reads_every_collector_pause_of_kafkas_gc_log() {
    let pauses = read(KAFKA_17);
    assert_eq!(pauses.len(), 7);
    let g1 = "G1 Evacuation Pause";
    assert_eq!(names(&pauses[0]), (JvmPauseKind::Gc, "Pause Young (Normal)", g1, Some(0)));
    // 2026-11-21T18:29:32.003
    assert_eq!(pauses[0].end, START + Nanos(1_772_003_000_000));
    assert_eq!(pauses[0].length(), Nanos(9_336_000));
    assert_eq!(pauses[0].time_to_safepoint, None);
    assert_eq!(
        names(&pauses[2]),
        (JvmPauseKind::Gc, "Pause Young (Concurrent Start)", "Metadata GC Threshold", Some(2))
    );
    assert_eq!(names(&pauses[3]), (JvmPauseKind::Gc, "Pause Remark", "", Some(3)));
}

#[test]
fn safepoint_has_its_time_to_safepoint() {
    let pauses = read(KAFKA_25);
    let remark = pauses.iter().find(|pause| &*pause.operation == "G1PauseRemark").unwrap();
    assert_eq!(remark.kind, JvmPauseKind::Safepoint);
    assert_eq!((remark.length(), remark.time_to_safepoint), (Nanos(24_770_256), Some(Nanos(5_895_839))));
    // 2026-11-21T18:28:33.183
    assert_eq!(remark.end, START + Nanos(1_713_183_000_000));
    let (collections, safepoints): (Vec<_>, Vec<_>) =
        pauses.iter().partition(|pause| pause.kind == JvmPauseKind::Gc);
    assert_eq!((collections.len(), safepoints.len()), (9, 9));
    // Each collection is within its safepoint, except for the millisecond that stamps are truncated to.
    let slack = Nanos::from_millis(1);
    for (collection, safepoint) in collections.iter().zip(safepoints) {
        assert!(collection.start + slack >= safepoint.start && collection.end <= safepoint.end + slack);
    }
}

#[test]
fn parses_the_pauses_of_every_collector() {
    for (line, operation, cause, length) in [
        (
            "[0.577s][info][gc] GC(0) Pause Young (Allocation Failure) 100M->98M(365M) 196.792ms",
            "Pause Young",
            "Allocation Failure",
            196_792_000,
        ),
        (
            "[0.5s][info][gc] GC(0) Pause Full (System.gc()) 394M->394M(580M) 265.136ms",
            "Pause Full",
            "System.gc()",
            265_136_000,
        ),
        (
            "[0.5s][info][gc] GC(0) Pause Young (Mixed) (G1 Evacuation Pause) (Evacuation Failure: Allocation) 2M->1M(9M) 38.9ms",
            "Pause Young (Mixed)",
            "(G1 Evacuation Pause) (Evacuation Failure: Allocation)",
            38_900_000,
        ),
        (
            "[0.5s][info][gc] GC(0) Pause Init Mark (unload classes) 0.104ms",
            "Pause Init Mark (unload classes)",
            "",
            104_000,
        ),
        (
            "[0.5s][info][gc,phases] GC(0) Y: Pause Mark Start (Major) 0.025ms",
            "Y: Pause Mark Start (Major)",
            "",
            25_000,
        ),
        ("[0.5s][info][gc,phases] GC(0) Pause Relocate Start 0.011ms", "Pause Relocate Start", "", 11_000),
    ] {
        let pause = one(line);
        assert_eq!(names(&pause), (JvmPauseKind::Gc, operation, cause, Some(0)), "{line}");
        assert_eq!(pause.length(), Nanos(length), "{line}");
    }
    let counts = ALL.map(|text| read(text).len());
    assert_eq!(counts, [7, 18, 15, 4, 11, 4, 4]);
}

#[test]
fn parses_the_safepoints_of_jdk_8_and_11() {
    let jdk8 = one(
        "2024-05-19T15:04:47.458+0200: 12.345: Total time for which application threads were stopped: 0.0123000 seconds, Stopping threads took: 0.0001000 seconds",
    );
    assert_eq!(names(&jdk8), (JvmPauseKind::Safepoint, "", "", None));
    assert_eq!((jdk8.length(), jdk8.time_to_safepoint), (Nanos(12_300_000), Some(Nanos(100_000))));
    assert_eq!(jdk8.end, Nanos(1_716_123_887_458_000_000));
    let jdk11 = read(b"[12.000s][info][safepoint] Entering safepoint region: RevokeBias\n[12.010s][info][safepoint] Leaving safepoint region\n[12.010s][info][safepoint] Total time for which application threads were stopped: 0.0100000 seconds, Stopping threads took: 0.0001000 seconds\n");
    assert_eq!(names(&jdk11[0]), (JvmPauseKind::Safepoint, "RevokeBias", "", None));
    assert_eq!(jdk11[0].end, START + Nanos(12_010_000_000));
}

#[test]
fn uptimes_require_the_jvm_start_or_one_date() {
    let error = all(SERIAL, None).unwrap_err().to_string();
    assert!(error.starts_with("line 2: a pause has no date: log with the decoration time"), "{error}");
    let dated = [b"[2026-11-21T19:00:01.500+0100][1.500s][info][gc] Using G1\n".as_slice(), SERIAL].concat();
    assert_eq!(all(&dated, None).unwrap(), read(SERIAL));
    let millis = one("[1795284001500ms][gc] GC(0) Pause Remark 1M->1M(2M) 1.000ms");
    assert_eq!(millis.end, START + Nanos::from_millis(1_500));
    let uptime = one("[1500ms][gc] GC(0) Pause Remark 1M->1M(2M) 1.000ms");
    assert_eq!(uptime.end, millis.end);
    assert!(
        all(b"[1500ns][gc] GC(0) Pause Remark 1M->1M(2M) 1.000ms\n", Some(START)).is_err(),
        "since when is not said"
    );
}

#[test]
fn refuses_other_text_and_ignores_other_lines() {
    let error = all(b"hello\nworld\n", None).unwrap_err().to_string();
    assert!(error.starts_with("line 2: no GC log line up to the end"), "{error}");
    for line in [
        "[0.1s][gc,start] GC(0) Pause Young (Normal) (G1 Evacuation Pause)",
        "[0.1s][gc] GC(1) Concurrent Mark Cycle 12.345ms",
        "[0.1s][gc,phases] GC(0)   Evacuate Collection Set: 7.6ms",
        "[0.1s][gc] GC(0) Pause Remark 1M->1M(2M) 99999999999999999999ms",
        "[0.1s][gc] GC(0) Pause Remark 1M->1M(2M) -1.0ms",
        "[0.1s][safepoint] Safepoint \"X\", Time since last: 1 ns",
    ] {
        assert!(read(format!("{line}\n").as_bytes()).is_empty(), "{line}");
    }
}

#[test]
fn truncated_log_yields_the_pauses_before_the_cut() {
    for text in ALL {
        let whole = read(text);
        for end in (0..text.len()).step_by(11) {
            let Ok(pauses) = all(&text[..end], Some(START)) else { continue };
            assert_eq!(pauses, whole[..pauses.len()], "{end}");
        }
    }
}

proptest! {
    #[test]
    fn any_mixture_of_fragments_is_parsed_or_refused(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "[", "]", "[2024-05-19T15:04:47.458+0000]", "[12.345s]", "[99999999999999999999s]", "GC(", "1", ") ",
                "Pause Young (", "ä", "Safepoint \"", "\", ", "Total: ", "9223372036854775807", " ns", " (", "->", ".5ms",
                "Reaching safepoint: ", "\n", "\r\n", ": ", "Total time for which application threads were stopped: ", " seconds",
            ]),
            0..60,
        )
    ) {
        let _ = all(pieces.concat().as_bytes(), Some(START));
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = all(&bytes, Some(START));
    }
}
