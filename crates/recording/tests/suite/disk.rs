//! A full disk, and limits on what a recording takes of a disk: rows that are not recorded are counted, and the rest
//! can be read.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use model::{Event, Loss, LossKind};
use recording::{DiskLimit, Error, Manifest, Recording, Table, Writer, WriterOptions};

use crate::samples::{off_cpu, only, read};

const DIRECTORY: &str = "RECORDING_DISK_DIR";

/// Writes numbered rows in turns of half a second.
struct Recorder {
    writer: Writer,
    rows: u64,
    now: Instant,
    losses: Vec<Loss>,
}

impl Recorder {
    fn start(dir: &Path, options: WriterOptions) -> Self {
        let writer = Writer::create(dir, &Manifest::default(), options).unwrap();
        Self { writer, rows: 0, now: Instant::now(), losses: Vec::new() }
    }

    fn turn(&mut self) -> Result<(), Error> {
        for _ in 0..2_000 {
            self.rows += 1;
            self.writer.write(&off_cpu(self.rows)).ok();
        }
        self.now += Duration::from_millis(500);
        let ticked = self.writer.tick(self.now);
        let updated = self.writer.update(&Manifest::default());
        self.losses.extend(self.writer.take_losses());
        ticked.and(updated)
    }

    /// Ends the recording and checks that every row is in it or in a loss of its time.
    fn finish(mut self, dir: &Path) -> Vec<Event> {
        self.writer.flush().unwrap();
        self.losses.extend(self.writer.take_losses());
        let reported = self.writer.rows().get("off_cpu").copied().unwrap_or(0);
        self.writer.finish(&Manifest { ended_ns: Some(1), ..Manifest::default() }).unwrap();
        let events = only(Table::OffCpu, &read(dir));
        let lost: u64 = self.losses.iter().map(|loss| loss.count).sum();
        assert_eq!((events.len() as u64 + lost, events.len() as u64), (self.rows, reported));
        let is_in_loss = |n: u64| {
            let at = off_cpu(n).time();
            self.losses.iter().any(|loss| (loss.start..=loss.end).contains(&at))
        };
        let mut there = events.iter().peekable();
        for n in 1..=self.rows {
            assert!(there.next_if(|event| **event == off_cpu(n)).is_some() || is_in_loss(n), "row {n}");
        }
        assert!(self.losses.iter().all(|loss| loss.kind == LossKind::EventsDropped && loss.count > 0));
        assert_eq!(Recording::open(dir).unwrap().manifest().ended_ns, Some(1));
        events
    }
}

/// Size of all files in a directory.
fn bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let of_one =
        |path: &Path| if path.is_dir() { bytes(path) } else { path.metadata().map_or(0, |m| m.len()) };
    entries.map(|entry| of_one(&entry.path())).sum()
}

#[test]
fn removes_the_oldest_parts_to_stay_within_the_size_limit() {
    const MAX: u64 = 4 << 20;
    let dir = tempfile::tempdir().unwrap();
    let options = WriterOptions { max_bytes: MAX, removes_oldest: true, ..WriterOptions::default() };
    let mut recorder = Recorder::start(dir.path(), options);
    let mut turns = 0;
    // The faster another thread converts parts, the more rows fit.
    while turns < 60 || recorder.losses.is_empty() {
        recorder.turn().unwrap();
        assert_eq!(recorder.writer.limit(), None);
        assert!(bytes(dir.path()) <= MAX, "{} bytes", bytes(dir.path()));
        turns += 1;
        assert!(turns < 1_000, "nothing was removed");
    }
    let rows = recorder.rows;
    let events = recorder.finish(dir.path());
    // The newest rows are all there. A part that is being converted may outlive a newer one.
    let newest: Vec<_> = (rows - 9_999..=rows).map(off_cpu).collect();
    assert!(events.ends_with(&newest), "{} rows of {rows}", events.len());
}

#[test]
fn tail_continues_after_removed_parts() {
    let dir = tempfile::tempdir().unwrap();
    let options = WriterOptions { max_bytes: 4 << 20, removes_oldest: true, ..WriterOptions::default() };
    let mut recorder = Recorder::start(dir.path(), options);
    while recorder.losses.is_empty() {
        recorder.turn().unwrap();
    }
    let mut follow = recording::Tail::start(&Recording::open(dir.path()).unwrap());
    follow.next_event().unwrap();
    let events = recorder.finish(dir.path());
    let followed: Vec<_> = std::iter::from_fn(|| follow.next_event().unwrap()).collect();
    assert!(follow.is_finished() && followed.ends_with(&events), "{} of {}", followed.len(), events.len());
}

#[test]
fn size_limit_holds_and_is_reported_if_no_part_may_be_removed() {
    const MAX: u64 = 4 << 20;
    let dir = tempfile::tempdir().unwrap();
    let mut recorder =
        Recorder::start(dir.path(), WriterOptions { max_bytes: MAX, ..WriterOptions::default() });
    while recorder.writer.limit().is_none() {
        recorder.turn().unwrap();
    }
    assert_eq!(recorder.writer.limit(), Some(DiskLimit::MaxBytes));
    for _ in 0..10 {
        recorder.turn().unwrap();
    }
    assert!(bytes(dir.path()) <= MAX, "{} bytes", bytes(dir.path()));
    recorder.finish(dir.path());
}

#[test]
#[ignore = "the child process of the test below, in a small file system"]
fn on_a_small_file_system() {
    let root = std::env::var_os(DIRECTORY).expect("a directory from the parent test");
    full_and_not(Path::new(&root));
    read_only_and_not(Path::new(&root));
    filled_by_others(Path::new(&root));
}

/// The disk is full for a while.
fn full_and_not(root: &Path) {
    let (dir, filler) = (root.join("full"), root.join("filler"));
    let mut recorder =
        Recorder::start(&dir, WriterOptions { rotate_rows: 5_000, ..WriterOptions::default() });
    recorder.turn().unwrap();
    // Fills the rest of the disk.
    fs::write(&filler, vec![1; 64 << 20]).unwrap_err();
    let errors = (0..5).filter(|_| recorder.turn().is_err()).count();
    assert_eq!(errors, 5);
    assert!(Recording::open(&dir).unwrap().manifest().ended_ns.is_none());
    fs::remove_file(&filler).unwrap();
    recorder.turn().unwrap();
    let [loss] = &recorder.losses[..] else { panic!("{:?}", recorder.losses) };
    assert!((8_000..=10_000).contains(&loss.count), "{loss:?}");
    recorder.finish(&dir);
    fs::remove_dir_all(&dir).unwrap();
}

/// The file system is read-only for a while.
fn read_only_and_not(root: &Path) {
    let dir = root.join("read-only");
    let mut recorder = Recorder::start(&dir, WriterOptions::default());
    let remount = |how: &str| {
        let how = format!("remount,{how}");
        assert!(Command::new("mount").args(["-o", &how]).arg(root).status().unwrap().success());
    };
    // The kernel would refuse this while a part is open.
    remount("ro");
    let errors = (0..5).filter(|_| recorder.turn().is_err()).count();
    assert_eq!(errors, 5);
    assert!(Recording::open(&dir).unwrap().manifest().ended_ns.is_none());
    remount("rw");
    recorder.turn().unwrap();
    let [loss] = &recorder.losses[..] else { panic!("{:?}", recorder.losses) };
    assert_eq!(loss.count, 10_000);
    recorder.finish(&dir);
    fs::remove_dir_all(&dir).unwrap();
}

/// Others take so much that less stays free than should.
fn filled_by_others(root: &Path) {
    let (dir, filler) = (root.join("filled"), root.join("filler"));
    let options =
        WriterOptions { min_free: 0.5, removes_oldest: true, rotate_rows: 5_000, ..WriterOptions::default() };
    let mut recorder = Recorder::start(&dir, options);
    for _ in 0..10 {
        recorder.turn().unwrap();
    }
    assert!(recorder.losses.is_empty());
    fs::write(&filler, vec![1; 20 << 20]).unwrap();
    for _ in 0..10 {
        recorder.turn().unwrap();
    }
    assert_eq!(recorder.writer.limit(), Some(DiskLimit::MinFree));
    let too_full = Writer::create(&root.join("new"), &Manifest::default(), options).map(drop).unwrap_err();
    assert!(matches!(too_full, Error::NoRoom { .. }), "{too_full}");
    assert!(too_full.to_string().contains("--min-free 50.0%"), "{too_full}");
    fs::remove_file(&filler).unwrap();
    for _ in 0..10 {
        recorder.turn().unwrap();
    }
    assert_eq!(recorder.writer.limit(), None);
    recorder.finish(&dir);
}

#[test]
fn all_rows_lost_to_a_full_disk_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    // A private namespace: no privilege is needed to mount there.
    let mount = "mount -t tmpfs -o size=32m tmpfs \"$0\" && exec \"$@\"";
    let child = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", mount])
        .arg(dir.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "disk::on_a_small_file_system", "--ignored", "--nocapture"])
        .env(DIRECTORY, dir.path())
        .output()
        .unwrap();
    let output =
        [child.stdout, child.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(child.status.success() && output.contains("1 passed"), "{output}");
}
