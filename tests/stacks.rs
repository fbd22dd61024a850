//! Tests `brokerscope stacks` on a thread whose appends meet a slow journal: most of the time in its writes is off the
//! CPU, in ext4's dirtying of the inode, waiting for jbd2.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use e2e::brokerscope;
use e2e::gate;
use e2e::traffic::directory;
use lab::Site;
use lab::device::DeviceOptions;
use lab::volume::{FileSystem, Volume, VolumeOptions};

#[test]
fn profile_attributes_write_time_to_the_journal_stall() {
    let Some(_alone) = gate::live("profile_attributes_write_time_to_the_journal_stall") else { return };
    let site = Site::claim().unwrap();
    let device = DeviceOptions { size_bytes: 1 << 30, seed: 7 };
    let options = VolumeOptions { device, file_system: FileSystem::Ext4, mount_options: String::new() };
    let mut volume = Volume::prepare(&site, &options).unwrap();
    let acting = Acting::start(volume.directory());
    volume.inject_journal_delay(120, 200).unwrap();
    let (folded, svg) = profile(&directory("stacks"));
    volume.device().clear().unwrap();
    drop(acting);
    check_folded(&folded);
    check_svg(&svg);
}

/// Folded stacks and flame graph of three seconds of this process.
fn profile(into: &Path) -> (String, String) {
    let (folded, svg) = (into.join("write.folded"), into.join("write.svg"));
    let pid = std::process::id().to_string();
    let (to, graph) = (folded.to_str().unwrap(), svg.to_str().unwrap());
    let mut arguments = vec!["stacks", "--pid", &pid, "--inside", "write", "--thread", "test-appends"];
    arguments.extend(["--for", "3s", "--folded", to, "-o", graph]);
    let stderr = brokerscope::run(arguments).done().stderr;
    assert!(stderr.contains(" off CPU in "), "{stderr}");
    (fs::read_to_string(&folded).unwrap(), fs::read_to_string(&svg).unwrap())
}

fn check_folded(folded: &str) {
    let lines = folded.lines().map(|line| line.rsplit_once(' ').unwrap());
    let lines: Vec<(&str, u64)> = lines.map(|(stack, us)| (stack, us.parse().unwrap())).collect();
    let time = |holds: &dyn Fn(&str) -> bool| -> u64 {
        lines.iter().filter(|(stack, _)| holds(stack)).map(|(_, us)| us).sum()
    };
    let all = time(&|_| true);
    let stalled = time(&|stack| stack.starts_with("off CPU;") && stack.contains(";ext4_dirty_inode_[k];"));
    let in_jbd2 = time(&|stack| stack.contains(";ext4_dirty_inode_[k];") && stack.contains(";jbd2_"));
    assert!(all > 500_000, "commits of 120 ms and more, one after the other, hold no write up:\n{folded}");
    assert!(
        stalled * 10 > all * 6 && in_jbd2 * 10 > all * 6,
        "{stalled} and {in_jbd2} of {all} us:\n{folded}"
    );
    for (stack, _) in &lines {
        let thread = stack.split(';').nth(1);
        assert_eq!(thread, Some("test-appends"), "{stack}");
        assert!(stack.ends_with("_[k]") && !stack.contains("nanosleep"), "not inside write(2): {stack}");
    }
}

fn check_svg(svg: &str) {
    assert!(svg.contains("inside write") && svg.trim_end().ends_with("</svg>"));
    for frame in ["ext4_dirty_inode", "vfs_write", "test-appends"] {
        assert!(svg.contains(&format!("<title>{frame}\n")), "{frame} is missing");
    }
}

/// A thread that appends, and one that makes the journal commit. It commits several times per second.
struct Acting {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Acting {
    fn start(directory: &Path) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let mut segment = File::create(directory.join("segment")).unwrap();
        let append = move || {
            segment.write_all(&[7; 500]).unwrap();
            // Longer than a tick of the file system's clock, so that each append changes the modification time.
            std::thread::sleep(Duration::from_millis(12));
        };
        let root = File::open(directory).unwrap();
        let commit = move || {
            rustix::fs::syncfs(&root).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        };
        let threads = vec![again("test-appends", append, &stop), again("test-commits", commit, &stop)];
        Self { stop, threads }
    }
}

impl Drop for Acting {
    /// Ends the threads, so that they do not hold the volume when the test fails.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn again(name: &str, mut act: impl FnMut() + Send + 'static, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
    let stop = Arc::clone(stop);
    let run = move || {
        while !stop.load(Ordering::Relaxed) {
            act();
        }
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(run).unwrap()
}
