//! A power cut while parts are completed and removed: the file system is shut down without writing what it has in memory, at
//! random moments. The recording opens, and has every row of the parts that were complete. Needs root, a loop device and
//! `BROKERSCOPE_LIVE_TESTS=1`; without the variable it says loudly that it did not run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use model::{Event, Loss, LossKind, Nanos};
use recording::{Manifest, Recording, Writer, WriterOptions};

const IMAGE_BYTES: u64 = 512 << 20;
const ROWS_OF_A_PART: u64 = 500;

fn run(program: &str, arguments: &[&Path]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

fn row(n: u64) -> Event {
    let at = Nanos(i64::try_from(n).unwrap());
    Event::Loss(Loss { start: at, end: at, kind: LossKind::EventsDropped, count: n, detail: "".into() })
}

/// Writes rows until parts are complete, and for so long after that; the number of the part before which there are no streams any more, and rows written.
fn record(dir: &Path, time: Duration) -> (u64, u64) {
    let options = WriterOptions { rotate_rows: ROWS_OF_A_PART, ..WriterOptions::default() };
    let mut writer =
        Writer::create(dir, &Manifest { started_ns: 7, ..Manifest::default() }, options).unwrap();
    let (mut rows, mut end) = (0, None::<Instant>);
    while end.is_none_or(|end| Instant::now() < end) {
        for _ in 0..ROWS_OF_A_PART {
            writer.write(&row(rows)).unwrap();
            rows += 1;
        }
        writer.flush().unwrap();
        writer.update(&Manifest { started_ns: 7, rows: writer.rows(), ..Manifest::default() }).unwrap();
        if end.is_none() && !dir.join("losses/part-00001.arrows").exists() {
            end = Some(Instant::now() + time);
        }
        // There is no hurry: the disk is small.
        std::thread::sleep(Duration::from_millis(2));
    }
    let number = |name: &str| name.strip_prefix("part-")?.strip_suffix(".arrows")?.parse().ok();
    let names = fs::read_dir(dir.join("losses")).unwrap().map(|entry| entry.unwrap().file_name());
    let oldest: u64 = names.filter_map(|name| number(name.to_str()?)).min().unwrap();
    // From here on nothing reaches the disk: not even what a file system would write when it is unmounted.
    run("xfs_io", &["-x".as_ref(), "-c".as_ref(), "shutdown".as_ref(), dir.parent().unwrap()]);
    (oldest, rows)
}

fn cut(kind: &str, time: Duration) {
    let directory = tempfile::tempdir().unwrap();
    let (image, mount) = (directory.path().join("image"), directory.path().join("mount"));
    fs::create_dir(&mount).unwrap();
    File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
    run(&format!("mkfs.{kind}"), &["-q".as_ref(), &image]);
    run("mount", &["-o".as_ref(), "loop".as_ref(), &image, &mount]);
    let recording = mount.join("recording");
    let (oldest_stream, rows) = record(&recording, time);
    // The thread that completes parts ends soon: all that it does fails now.
    while !Command::new("umount").arg("-q").arg(&mount).status().unwrap().success() {
        std::thread::sleep(Duration::from_millis(100));
    }
    run("mount", &["-o".as_ref(), "loop".as_ref(), &image, &mount]);
    let opened = Recording::open(&recording).map(|recording| {
        let rows: Vec<_> = recording.events().filter_map(Result::ok).collect();
        (recording.manifest().started_ns, rows)
    });
    run("umount", &[&mount]);
    let (started_ns, read) = opened.unwrap();
    let complete = (oldest_stream - 1) * ROWS_OF_A_PART;
    let there = (0..).zip(&read).take_while(|(n, event)| **event == row(*n)).count() as u64;
    eprintln!(
        "{kind}: cut after {time:?}: {there} of {rows} rows are there; {complete} were in complete parts"
    );
    assert!(complete > 0, "no stream was removed yet");
    assert_eq!(started_ns, 7);
    assert!(there >= complete, "{there} of {complete}");
}

#[test]
fn complete_parts_and_a_manifest_outlive_a_power_cut() {
    if std::env::var_os("BROKERSCOPE_LIVE_TESTS").is_none_or(|value| value != "1") {
        eprintln!("NOT RUN: needs root, a loop device and BROKERSCOPE_LIVE_TESTS=1");
        return;
    }
    for ms in [0, 300, 1_100] {
        for kind in ["ext4", "xfs"] {
            cut(kind, Duration::from_millis(ms));
        }
    }
}
