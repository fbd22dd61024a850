//! Tests recordings after power cuts: a device logs each write, and a cut may leave any prefix of its blocks, including
//! a part of a write. In each of a thousand such states, with old parts being removed, the recording opens, and lacks
//! only what was written recently.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use e2e::gate;
use e2e::traffic::directory;
use lab::Site;
use lab::device::DeviceOptions;
use lab::volume::{FileSystem, Volume, VolumeOptions};
use model::{Event, Nanos, Request, Table};
use recording::{Manifest, Recording, Writer, WriterOptions};
use rustix::time::{ClockId, clock_gettime};

const SIZE_BYTES: u64 = 512 << 20;
const RECORDED: Duration = Duration::from_secs(40);
const ROWS_A_SECOND: usize = 5_000;
const CUTS: usize = 1_000;
/// Size of an atomic write of a device.
const BLOCK_BYTES: usize = 4_096;
/// Settings for write-back of unsynced data. They replace the defaults of 30 s and 5 s.
const SETTINGS: [(&str, &str); 2] = [("dirty_expire_centisecs", "100"), ("dirty_writeback_centisecs", "50")];
/// Older rows must be on the device: half a second until they are in the file, both settings, and slack for a busy
/// machine.
const PROMISED: Duration = Duration::from_secs(5);
/// Minimum number of rows that fit within the size limit.
const MIN_ROWS: i32 = 10_000;

#[test]
fn power_cut_loses_at_most_the_last_seconds_of_a_recording() {
    let Some(_alone) = gate::live("power_cut_loses_at_most_the_last_seconds_of_a_recording") else {
        return;
    };
    let (_settings, directory) =
        (SETTINGS.map(|(name, value)| Setting::set(name, value)), directory("power-cuts"));
    let (log, base) = (directory.join("writes"), directory.join("base.img"));
    let written = record(&log, &base);
    let mut state = State::new(&base, &directory);
    let writes = Writes::open(&log).count();
    let mut random = fastrand::Rng::with_seed(22);
    let cuts: BTreeSet<usize> = (0..CUTS).map(|_| random.usize(1..=writes)).collect();
    let (mut opened, mut unopened) = (0, 0);
    for (index, write) in Writes::open(&log).enumerate() {
        let at_ns = state.apply(&write);
        if !cuts.contains(&(index + 1)) {
            continue;
        }
        let promised = written.before(at_ns.saturating_sub(PROMISED.as_nanos() as u64));
        match state.rows() {
            Ok(rows) => {
                opened += 1;
                assert_promise(&rows, promised, index + 1);
            }
            Err(error) => {
                unopened += 1;
                assert_eq!(promised, None, "after {} blocks: {error}", index + 1);
            }
        }
    }
    println!("{writes} blocks; {opened} cuts left a recording, {unopened} were before there was one");
    assert!(opened > 10 * unopened && opened > CUTS / 2);
}

/// Checks that the rows have no gap, and reach as far as promised.
fn assert_promise(rows: &BTreeSet<i32>, promised: Option<i32>, writes: usize) {
    let Some(promised) = promised else { return };
    let (Some(&first), Some(&last)) = (rows.first(), rows.last()) else {
        panic!("after {writes} blocks there are no rows, of {promised}");
    };
    assert!(last >= promised, "after {writes} blocks rows end at {last}, not at {promised}");
    assert_eq!(
        rows.len() as i32,
        last - first + 1,
        "after {writes} blocks rows {first} to {last} have a gap"
    );
    assert!(
        first == 0 || rows.len() as i32 >= MIN_ROWS,
        "after {writes} blocks only rows {first} to {last} are left"
    );
}

/// Numbered rows, with the time at which each had been written.
struct WrittenRows(Vec<(u64, i32)>);

impl WrittenRows {
    /// The last one before a time.
    fn before(&self, ns: u64) -> Option<i32> {
        let count = self.0.partition_point(|(at_ns, _)| *at_ns < ns);
        Some(self.0[count.checked_sub(1)?].1)
    }
}

/// Records on a device that logs its writes; `base` is its state before them.
fn record(log: &Path, base: &Path) -> WrittenRows {
    let site = Site::claim().unwrap();
    let device = DeviceOptions { size_bytes: SIZE_BYTES, seed: 1 };
    // Commits the names and sizes of files every second instead of every five.
    let mount_options = "commit=1".to_owned();
    let options = VolumeOptions { device, file_system: FileSystem::Ext4, mount_options };
    let mut volume = Volume::prepare(&site, &options).unwrap();
    rustix::fs::syncfs(File::open(volume.directory()).unwrap()).unwrap();
    volume.device().log_writes(log).unwrap();
    copy(&volume.device().image(), base);
    let options = WriterOptions {
        rotate_rows: 1_000,
        max_bytes: 16 << 20,
        removes_oldest: true,
        ..WriterOptions::default()
    };
    let manifest = Manifest::default();
    let mut writer = Writer::create(&volume.directory().join("recording"), &manifest, options).unwrap();
    let (mut rows, begun) = (Vec::new(), Instant::now());
    while begun.elapsed() < RECORDED {
        for _ in 0..ROWS_A_SECOND / 100 {
            let number = rows.len() as i32;
            writer.write(&row(number)).unwrap();
            rows.push((now_ns(), number));
        }
        writer.tick(Instant::now()).unwrap();
        sleep(Duration::from_millis(10));
    }
    writer.finish(&manifest).unwrap();
    WrittenRows(rows)
}

fn row(number: i32) -> Event {
    let (client, broker) = ("10.0.0.7:41234".parse().unwrap(), "10.0.0.1:9092".parse().unwrap());
    let arrival = Nanos::from_millis(1_700_000_000_000 + i64::from(number));
    let end = Some(arrival + Nanos::from_millis(1));
    let request = Request {
        arrival,
        arrival_end: arrival,
        end,
        correlation_id: number,
        ..Request::new(client, broker)
    };
    request.into()
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("--sparse=always").args([from, to]).status().unwrap();
    assert!(copied.success());
}

/// A write to the device.
struct DeviceWrite {
    at_ns: u64,
    offset: u64,
    bytes: Vec<u8>,
}

/// All writes in their order, block by block: some hundred writes give many more states than that.
struct Writes {
    log: BufReader<File>,
    /// The rest of the last write.
    rest: Option<DeviceWrite>,
}

impl Writes {
    fn open(log: &Path) -> Self {
        Self { log: BufReader::new(File::open(log).unwrap()), rest: None }
    }

    fn read(&mut self) -> Option<DeviceWrite> {
        let mut head = [0; 24];
        self.log.read_exact(&mut head).ok()?;
        let [at_ns, offset, length] =
            [0, 8, 16].map(|at| u64::from_le_bytes(head[at..at + 8].try_into().unwrap()));
        let mut bytes = vec![0; length as usize];
        self.log.read_exact(&mut bytes).ok()?;
        Some(DeviceWrite { at_ns, offset, bytes })
    }
}

impl Iterator for Writes {
    type Item = DeviceWrite;

    fn next(&mut self) -> Option<DeviceWrite> {
        let mut write = self.rest.take().or_else(|| self.read())?;
        if write.bytes.len() > BLOCK_BYTES {
            let bytes = write.bytes.split_off(BLOCK_BYTES);
            let offset = write.offset + BLOCK_BYTES as u64;
            self.rest = Some(DeviceWrite { at_ns: write.at_ns, offset, bytes });
        }
        Some(write)
    }
}

/// The device's state after some writes.
struct State {
    image: File,
    path: PathBuf,
    cut: PathBuf,
    mount: PathBuf,
}

impl State {
    fn new(base: &Path, directory: &Path) -> Self {
        let image = fs::OpenOptions::new().write(true).open(base).unwrap();
        let mount = directory.join("mount");
        fs::create_dir_all(&mount).unwrap();
        Self { image, path: base.to_owned(), cut: directory.join("cut.img"), mount }
    }

    fn apply(&mut self, write: &DeviceWrite) -> u64 {
        self.image.write_all_at(&write.bytes, write.offset).unwrap();
        write.at_ns
    }

    /// The numbers of the remaining rows.
    fn rows(&self) -> anyhow::Result<BTreeSet<i32>> {
        copy(&self.path, &self.cut);
        let _mount = ImageMount::mount(&self.cut, &self.mount);
        let mut rows = BTreeSet::new();
        for event in Recording::open(&self.mount.join("recording"))?.events_of(&[Table::Requests]) {
            if let Event::Request(request) = event? {
                rows.insert(request.correlation_id);
            }
        }
        Ok(rows)
    }
}

/// Unmounted when dropped.
struct ImageMount<'p>(&'p Path);

impl<'p> ImageMount<'p> {
    /// Mounts the image; the file system replays its journal, as after a power cut.
    fn mount(image: &Path, place: &'p Path) -> Self {
        let mounted = Command::new("mount").args(["-o", "loop"]).args([image, place]).status().unwrap();
        assert!(mounted.success());
        Self(place)
    }
}

impl Drop for ImageMount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

/// A changed setting below `/proc/sys/vm`; restored when dropped.
struct Setting {
    path: PathBuf,
    before: String,
}

impl Setting {
    fn set(name: &str, value: &str) -> Self {
        let path = Path::new("/proc/sys/vm").join(name);
        let before = fs::read_to_string(&path).unwrap();
        fs::write(&path, value).unwrap();
        Self { path, before }
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = fs::write(&self.path, &self.before);
    }
}
