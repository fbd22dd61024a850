//! A comparison in every form, of synthetic runs: three configurations, one of them with a hostile name.

use compare::{Comparison, Part, Run, Setup};
use model::{Cause, Nanos};
use page::{Page, html};
use report::Style;
use report::comparison::{
    ComparisonData, ComparisonReport, write_csv, write_json, write_markdown, write_text,
};

use crate::{golden, json_lines, look, sample};

const SLO: Nanos = Nanos::from_millis(65);
const SECONDS: i64 = 40;
const A_SECOND: i64 = 150;

/// A run with repeated stalls. Every `every` seconds, the requests of a quarter of a second take `stall_ms` longer.
/// Other variation is pseudorandom and repeatable.
fn run(name: &str, repetition: i64, every: i64, stall_ms: i64, cause: Cause) -> Run {
    let mut run = Run::new(name, SLO, Part::WHOLE);
    let mut chance = 7 + repetition as u64 * 1_000 + name.len() as u64;
    for n in 0..SECONDS * A_SECOND {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (second, of_second) = (n / A_SECOND, n % A_SECOND);
        let arrival = Nanos(1_000_000_000_000 + n * (1_000_000_000 / A_SECOND));
        let own = Nanos::from_micros(500 + (chance >> 33) as i64 % 3_000);
        let stalls = (second + repetition) % every == 0 && of_second < A_SECOND / 4;
        let latency = if stalls { own + Nanos::from_millis(stall_ms) } else { own };
        run.request(arrival, Some(latency), 1_024);
        if latency >= SLO {
            let mut verdict = sample::own_write();
            (verdict.request.arrival, verdict.request.end) = (arrival, Some(arrival + latency));
            verdict.cause = cause;
            run.verdict(&verdict);
        }
    }
    run
}

fn compared() -> ComparisonReport {
    let setup = |name: &str, note: Option<&str>, every, stall_ms, cause| {
        let runs = (1..=3).map(|it| run(&format!("{name}/{it}"), it, every, stall_ms, cause)).collect();
        Setup { name: name.to_owned(), note: note.map(str::to_owned), runs }
    };
    let setups = vec![
        setup("ext4", None, 4, 150, Cause::JournalCommit),
        setup(
            "</script>|`\u{1b}[2J and very long",
            Some("<b>one</b> of\u{202e} every"),
            4,
            150,
            Cause::JournalCommit,
        ),
        setup(
            "xfs",
            Some("more of the same in a sentence that is too long for a line of eighty columns"),
            20,
            80,
            Cause::SlowDevice,
        ),
    ];
    ComparisonReport {
        comparison: Comparison::of(SLO, setups),
        apis: vec!["PRODUCE".to_owned()],
        topics: vec!["orders".to_owned()],
        notes: vec!["ext4/1: lost 3 probe-events-dropped".to_owned()],
    }
}

#[test]
fn comparison_in_every_format() {
    let compared = compared();
    golden("compare.txt", |out| write_text(out, &look(false), &compared).unwrap());
    golden("compare.jsonl", |out| write_json(out, &compared).unwrap());
    golden("compare.csv", |out| write_csv(out, &compared).unwrap());
    golden("compare.md", |out| write_markdown(out, &compared).unwrap());
    golden("compare-page.json", |out| {
        html::write_json(out, &Page::comparing(ComparisonData::from(&compared))).unwrap();
    });
}

#[test]
fn comparison_fits_80_columns_and_uses_colour_only_if_allowed() {
    let compared = compared();
    let render = |colour: bool| {
        let mut out = Vec::new();
        write_text(&mut out, &Style { colour, ..look(false) }, &compared).unwrap();
        String::from_utf8(out).unwrap()
    };
    for line in render(false).lines() {
        assert!(line.chars().count() <= 80, "{line:?}");
    }
    assert!(!render(false).contains('\u{1b}'));
    assert!(render(true).contains("\u{1b}[32mlower, better\u{1b}[0m"));
}

#[test]
fn comparison_reports_differences_and_equal_figures() {
    let mut out = Vec::new();
    write_json(&mut out, &compared()).unwrap();
    let lines = json_lines(&out);
    let outcome = |configuration: &str, figure: &str| {
        let of = lines.iter().find(|line| {
            line["type"] == "difference"
                && line["configuration"].as_str().unwrap().starts_with(configuration)
                && line["figure"] == figure
        });
        of.unwrap()["outcome"].as_str().unwrap().to_owned()
    };
    for (figure, same, better) in [
        ("requests_per_s", "no-difference", "no-difference"),
        ("latency_p99_ns", "no-difference", "lower"),
        ("latency_max_ns", "untested", "untested"),
        ("slo_miss_ratio", "no-difference", "lower"),
    ] {
        assert_eq!(
            (outcome("</script>", figure).as_str(), outcome("xfs", figure).as_str()),
            (same, better),
            "{figure}"
        );
    }
    let last = lines.last().unwrap();
    assert_eq!((&last["type"], &last["base"]), (&"summary".into(), &"ext4".into()));
}
