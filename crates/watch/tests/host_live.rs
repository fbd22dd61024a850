//! Host samples of a device with a known load: a volume with injected latency, under writes that are timed here. Needs root,
//! FUSE, `BROKERSCOPE_LIVE_TESTS=1`, and `brokerscope` built (it serves the device). Without the variable, the test prints
//! that it did not run; with it, anything missing is a failure.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::Site;
use lab::device::{Delay, DeviceOptions, Direction};
use lab::volume::{FileSystem, Volume, VolumeOptions};
use model::{ClockOffset, Event, HostScope, Nanos};
use watch::{Jfr, Memory, Options, Watch};

const DELAY_MS: u64 = 40;
const DEVICE_BYTES: u64 = 256 << 20;
const LOAD: Duration = Duration::from_secs(6);
const PAGE: usize = 4096;
const DELAY: Nanos = Nanos::from_millis(DELAY_MS as i64);

/// A sample's start, end and value.
type Sample = (Nanos, Nanos, f64);

#[test]
fn device_figures_match_the_load() {
    if std::env::var_os("BROKERSCOPE_LIVE_TESTS").is_none_or(|value| value != "1") {
        eprintln!("NOT RUN: needs root, FUSE and BROKERSCOPE_LIVE_TESTS=1");
        return;
    }
    let site = Site::claim().unwrap();
    let mut volume = slow_volume(&site);
    let file = aligned_file(volume.directory());
    inject(&mut volume);
    let watch = Watch::start(&Options {
        pid: std::process::id(),
        node_id: None,
        log_dirs: vec![volume.directory().to_owned()],
        named_dirs: None,
        ports: Vec::new(),
        named_ports: None,
        packets: None,
        always_on: None,
        max_cost: None,
        kernel: false,
        cpu_samples_hz: None,
        host: true,
        jvm: false,
        jfr: Jfr::Never,
        parser: PathBuf::new(),
        request_log: None,
        memory: Memory::default(),
    });
    let writes = write_at_half_speed(&file, watch.clock().0);
    let mut samples = Vec::new();
    let ended = watch.stop(&mut |event| samples.push(event));
    assert_eq!(ended.dropped, 0);
    volume.device().clear().unwrap();

    let device = volume.loop_device().file_name().unwrap().to_str().unwrap().to_owned();
    let figures = |metric: &str| -> Vec<Sample> {
        let of = |event: &Event| match event {
            Event::HostSample(sample)
                if sample.scope == HostScope::Device
                    && *sample.name == *device
                    && *sample.metric == *metric =>
            {
                Some((sample.start, sample.end, sample.value))
            }
            _ => None,
        };
        samples.iter().filter_map(of).collect()
    };
    let util = figures("util_ratio");
    assert!(util.len() >= 4, "{} samples of {device}", util.len());
    let injected: Vec<_> = writes.iter().map(|&(began, _)| (began, began + DELAY)).collect();
    let busy = Truth { least: busy_in(&injected, &util), most: busy_in(&writes, &util) };
    busy.check("util_ratio", &util);
    // There is one write at a time, so the queue depth equals the utilization.
    busy.check("queue_depth", &figures("queue_depth"));
    let mean_ms = |writes: &[(Nanos, Nanos)]| {
        writes.iter().map(|(start, end)| (*end - *start).0 as f64 / 1e6).sum::<f64>() / writes.len() as f64
    };
    let waits = Truth { least: mean_ms(&injected), most: mean_ms(&writes) };
    waits.check("write_wait_ms", &figures("write_wait_ms"));
    let bytes = figures("write_bytes_per_second");
    let written = |(start, end, _): Sample| {
        let ended = writes.iter().filter(|(_, ended)| (start..end).contains(ended)).count();
        (ended * PAGE) as f64 / ((end - start).0 as f64 / 1e9)
    };
    let least: f64 = bytes.iter().copied().map(written).sum();
    let found: f64 = bytes.iter().map(|(_, _, value)| value).sum();
    assert!(found >= least * 0.9, "{found} bytes a second are fewer than the {least} written here");
}

/// The share of the samples' time in which a write was in progress.
fn busy_in(writes: &[(Nanos, Nanos)], samples: &[Sample]) -> f64 {
    let shared = |&(start, end, _): &Sample| {
        let within = |&(began, ended): &(Nanos, Nanos)| (ended.min(end) - began.max(start)).at_least_zero().0;
        writes.iter().map(within).sum::<i64>()
    };
    let whole: i64 = samples.iter().map(|(start, end, _)| (*end - *start).0).sum();
    samples.iter().map(shared).sum::<i64>() as f64 / whole as f64
}

/// Ground truth of a figure: the device is busy for at least the injected time, and for at most the time of the calls, which
/// includes their thread's wait for a CPU afterwards.
struct Truth {
    least: f64,
    most: f64,
}

impl Truth {
    fn check(&self, metric: &str, found: &[Sample]) {
        assert!(!found.is_empty(), "{metric}");
        let found = found.iter().map(|(_, _, value)| value).sum::<f64>() / found.len() as f64;
        let Self { least, most } = self;
        eprintln!("{metric}: {found:.3}, in truth {least:.3} to {most:.3}");
        assert!(found >= least * 0.9 && found <= most * 1.1, "{metric}: {found}, in truth {least} to {most}");
    }
}

fn slow_volume(site: &Site) -> Volume {
    let device = DeviceOptions { size_bytes: DEVICE_BYTES, seed: 1 };
    let options = VolumeOptions { device, file_system: FileSystem::Ext4, mount_options: String::new() };
    Volume::prepare(site, &options).unwrap()
}

/// Delays all writes except those to the journal.
/// Only the load's own writes are thus slow.
fn inject(volume: &mut Volume) {
    let mut from = 0;
    let mut journal = volume.journal().to_vec();
    journal.sort_by_key(|extent| extent.offset);
    let mut gaps = Vec::new();
    for extent in journal {
        gaps.push((from, extent.offset - from));
        from = extent.offset + extent.length;
    }
    gaps.push((from, DEVICE_BYTES - from));
    for (offset, length) in gaps.into_iter().filter(|(_, length)| *length > 0) {
        let (least_ms, most_ms) = (DELAY_MS, DELAY_MS);
        let rule = Delay { direction: Direction::Write, offset, length, least_ms, most_ms };
        volume.device().delay(rule).unwrap();
    }
}

/// A fully allocated file, open for direct writes.
fn aligned_file(directory: &Path) -> File {
    let path = directory.join("load");
    let file = File::create(&path).unwrap();
    file.write_all_at(&vec![1; 64 * PAGE], 0).unwrap();
    file.sync_all().unwrap();
    let direct = rustix::fs::OFlags::DIRECT.bits();
    OpenOptions::new().write(true).custom_flags(direct as i32).open(&path).unwrap()
}

/// Writes page after page, with pauses as long as the writes; returns start and end of each.
fn write_at_half_speed(file: &File, offset: ClockOffset) -> Vec<(Nanos, Nanos)> {
    let buffer = vec![7; 2 * PAGE];
    let aligned = buffer.as_ptr().align_offset(PAGE);
    let page = &buffer[aligned..aligned + PAGE];
    let now = || offset.from_monotonic(watch::now().monotonic_ns);
    let end = Instant::now() + LOAD;
    let mut writes = Vec::new();
    while Instant::now() < end {
        let began = now();
        file.write_all_at(page, (writes.len() % 64 * PAGE) as u64).unwrap();
        writes.push((began, now()));
        sleep(Duration::from_millis(DELAY_MS));
    }
    writes
}
