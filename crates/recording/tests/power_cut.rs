//! A power cut while parts are completed and removed: the file system is shut down at random moments without writing
//! what it has in memory. The recording opens, and has every row of the complete parts. Also a file system that accepts
//! no more data in the middle of a part, because of an error or a quota: the recording opens, and every row is in it or
//! counted. Needs root, a loop device and `BROKERSCOPE_LIVE_TESTS=1`; without the variable it prints that it did not
//! run.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step panics and fails the test")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
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

/// Writes rows until a part is complete, and for `time` after that. Returns the number of the oldest part that is still
/// a stream, and the number of rows written.
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

/// Makes a file system in an image and mounts it; returns the image and the mount point.
fn make(kind: &str, options: &str, directory: &Path) -> (PathBuf, PathBuf) {
    let (image, mount) = (directory.join("image"), directory.join("mount"));
    fs::create_dir(&mount).unwrap();
    File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
    run(&format!("mkfs.{kind}"), &["-q".as_ref(), &image]);
    run("mount", &["-o".as_ref(), options.as_ref(), &image, &mount]);
    (image, mount)
}

fn is_asked_for() -> bool {
    let is_set = std::env::var_os("BROKERSCOPE_LIVE_TESTS").is_some_and(|value| value == "1");
    if !is_set {
        eprintln!("NOT RUN: needs root, a loop device and BROKERSCOPE_LIVE_TESTS=1");
    }
    is_set
}

fn cut(kind: &str, time: Duration) {
    let directory = tempfile::tempdir().unwrap();
    let (image, mount) = make(kind, "loop", directory.path());
    let recording = mount.join("recording");
    let (oldest_stream, rows) = record(&recording, time);
    // The thread that completes parts ends soon: everything that it does fails now.
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
fn complete_parts_and_manifest_survive_a_power_cut() {
    if !is_asked_for() {
        return;
    }
    for ms in [0, 300, 1_100] {
        for kind in ["ext4", "xfs"] {
            cut(kind, Duration::from_millis(ms));
        }
    }
}

/// Writes rows to a file system that stops accepting them in the middle of a part.
struct RowRecorder {
    writer: Writer,
    dir: PathBuf,
    rows: u64,
}

impl RowRecorder {
    fn start(mount: &Path) -> Self {
        let dir = mount.join("recording");
        let writer = Writer::create(&dir, &Manifest::default(), WriterOptions::default()).unwrap();
        let mut recorder = Self { writer, dir, rows: 0 };
        recorder.write().unwrap();
        recorder
    }

    fn write(&mut self) -> Result<(), recording::Error> {
        for _ in 0..ROWS_OF_A_PART {
            self.writer.write(&row(self.rows)).unwrap();
            self.rows += 1;
        }
        let flushed = self.writer.flush();
        let updated = self.writer.update(&Manifest::default());
        flushed.and(updated)
    }

    /// Ends the recording and checks that every row is in it or was counted. Returns the counted rows, and whether it
    /// could be finished.
    fn finish(mut self) -> (u64, Result<(), recording::Error>) {
        let lost: u64 = self.writer.take_losses().iter().map(|loss| loss.count).sum();
        let finished = self.writer.finish(&Manifest { ended_ns: Some(9), ..Manifest::default() });
        let recording = Recording::open(&self.dir).unwrap();
        assert_eq!(recording.manifest().ended_ns, finished.as_ref().ok().map(|()| 9));
        let read: Vec<_> = recording.events().map(Result::unwrap).collect();
        assert_eq!(read.len() as u64 + lost, self.rows);
        (lost, finished)
    }
}

#[test]
fn all_rows_lost_to_a_read_only_file_system_are_counted() {
    if !is_asked_for() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (_, mount) = make("ext4", "loop,errors=remount-ro", directory.path());
    let mut recorder = RowRecorder::start(&mount);
    let device = Command::new("findmnt").args(["-n", "-o", "SOURCE"]).arg(&mount).output().unwrap().stdout;
    let device = String::from_utf8(device).unwrap().trim().replace("/dev/", "");
    fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "an error of this test").unwrap();
    let error = recorder.write().unwrap_err();
    assert!(format!("{error:?}").contains("code: 30,"), "{error:?}");
    recorder.write().unwrap_err();
    let (lost, finished) = recorder.finish();
    run("umount", &[&mount]);
    assert_eq!((lost, finished.is_err()), (2 * ROWS_OF_A_PART, true));
}

#[test]
fn all_rows_lost_to_a_quota_are_counted() {
    if !is_asked_for() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (_, mount) = make("btrfs", "loop", directory.path());
    let btrfs = |arguments: &str, path: &Path| {
        run("btrfs", &arguments.split(' ').map(Path::new).chain([path]).collect::<Vec<_>>());
    };
    btrfs("quota enable", &mount);
    // Its number is 256. The directory from which its limit is changed is outside: inside, the change would fail too.
    let limited = mount.join("limited");
    btrfs("subvolume create", &limited);
    btrfs("quota rescan -w", &mount);
    let mut recorder = RowRecorder::start(&limited);
    btrfs("qgroup limit 1 0/256", &mount);
    let error = recorder.write().unwrap_err();
    assert!(format!("{error:?}").contains("code: 122,"), "{error:?}");
    recorder.write().unwrap_err();
    btrfs("qgroup limit none 0/256", &mount);
    recorder.write().unwrap();
    let (lost, finished) = recorder.finish();
    run("umount", &[&mount]);
    finished.unwrap();
    assert!((ROWS_OF_A_PART..=2 * ROWS_OF_A_PART).contains(&lost), "{lost} rows");
}
