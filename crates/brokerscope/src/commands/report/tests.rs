//! Pages of a recording that is read in parts. Names of recordings on a page.

// The same broker as in the tests of the selective read; here it is only recorded.
#[allow(dead_code)]
#[path = "../../../../analysis/src/selective_read/tests/broker.rs"]
mod broker;

use std::path::Path;

use analysis::comparison::ComparisonRuns;
use analysis::source::{self, ReadOptions};
use model::Nanos;
use page::{Page, RecordingInfo, html};
use report::Zone;

use super::{collect, names};
use broker::{Habits, record};

#[test]
fn recordings_are_named_by_distinct_path_suffixes() {
    let named = |dirs: &[&str]| names(&dirs.iter().map(Into::into).collect::<Vec<_>>());
    assert_eq!(named(&["/no/ext4/1"]), ["1"]);
    assert_eq!(named(&["/no/a", "/no/b"]), ["a", "b"]);
    assert_eq!(named(&["/no/ext4/1", "/no/xfs/1", "/no/xfs/2"]), ["ext4/1", "xfs/1", "xfs/2"]);
    assert_eq!(named(&["/no/a", "/no/a"]), ["/no/a", "/no/a"]);
}

/// Builds a page and the counts of a comparison. Reads all events, or parts of them on several threads.
fn render(directory: &Path, in_parts: bool) -> (String, String) {
    let slow = Nanos::from_millis(100);
    let options = ReadOptions {
        jfr: Vec::new(),
        pid: None,
        log_dirs: Vec::new(),
        topics: None,
        ports: Vec::new(),
        message_id: None,
        zone: Zone::utc(),
    };
    let mut source = source::open(&[directory.to_owned()], &options).unwrap();
    let runs = ComparisonRuns::new(slow, &["produce".to_owned()], &["orders".to_owned()]);
    let counter =
        runs.count("one", compare::Part { from: Nanos::from_millis(30_000), ..compare::Part::WHOLE });
    if in_parts {
        assert!(source.select(&source.config(slow)), "there is much to leave out");
    }
    let info = RecordingInfo::default();
    let (recording, _) = collect(&mut *source, in_parts, info, directory, slow, Some(&counter)).unwrap();
    let page = Page::of(vec![recording]);
    let mut json = Vec::new();
    html::write_json(&mut json, &page).unwrap();
    (String::from_utf8(json).unwrap(), format!("{:?}", counter.into_run()))
}

#[test]
fn parallel_parts_give_the_same_page_and_comparison() {
    let directory = tempfile::tempdir().unwrap();
    let recording = record(&directory.path().join("r"), Habits::alone(), 3);
    let (page, run) = render(recording.dir(), true);
    let (expected, expected_run) = render(recording.dir(), false);
    assert!(run == expected_run, "{run}\n{expected_run}");
    let differs = page.bytes().zip(expected.bytes()).position(|(one, other)| one != other);
    let near = |text: &str| {
        differs.map(|at| text.chars().skip(at.saturating_sub(200)).take(400).collect::<String>())
    };
    assert_eq!(near(&page), near(&expected));
    assert_eq!(page.len(), expected.len());
    assert!(page.contains("\"requests\":[{\"id\""), "some are shown in detail");
}
