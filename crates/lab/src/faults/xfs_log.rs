//! XFS instead of ext4: somebody makes and removes many files on the same file system while its log is slow and small,
//! so that the log fills. An append changes its file's times, which needs room in the log (`xfs_vn_update_time`,
//! `fs/xfs/xfs_iops.c`), and waits for it (`xlog_grant_head_wait`, `fs/xfs/xfs_log.c`).
//!
//! Truth: `xfs-log-space` for every slow request: it is inside the append, under the lock, so that others wait for who
//! waits. The log has room again when the device has taken what is in it, and a commit may have to wait for that
//! (`xlog_cil_push_background`, `fs/xfs/xfs_log_cil.c`) before the log is full: `slow-device` is the same event told
//! from the device, whose log writes are what is held back.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::mix;
use super::plan::{Fault, Ground, Truth, Window};
use super::scene::Scene;
use crate::client::now_ns;
use crate::error::Error;
use crate::random::Random;
use crate::volume::FileSystem;

/// How many threads make files, and how many each makes before it removes them.
const CHURNERS: usize = 2;
const FILES: u32 = 400;

pub(super) struct XfsLog;

impl Fault for XfsLog {
    fn name(&self) -> &'static str {
        "xfs-log"
    }

    fn story(&self) -> &'static str {
        "XFS, whose small log is slow while somebody makes and removes many files"
    }

    fn ground(&self) -> Option<Ground> {
        Some(Ground { file_system: FileSystem::Xfs, mount_options: "" })
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        scene.warm_up(&mix::standard(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let traffic = mix::standard(random);
        let held_ms = random.between(150, 350);
        let length_ms = random.between(3_000, 4_000);
        let load = scene.produce(&traffic, random)?;
        scene.quiet()?;
        scene.volume()?.device().trace()?;
        let start_ns = now_ns();
        scene.volume()?.plant_journal_delay(held_ms, held_ms)?;
        let churn = Churn::start(scene.volume()?.directory());
        scene.sleep(Duration::from_millis(length_ms))?;
        scene.volume()?.device().clear()?;
        let made = churn.stop()?;
        scene.sleep(Duration::from_millis(held_ms))?;
        let end_ns = now_ns();
        scene.quiet()?;
        let held = scene.volume()?.device().trace()?.iter().filter(|served| served.held_ms > 0).count();
        load.stop()?;
        let window = Window {
            start_ns,
            end_ns,
            threshold_ms: random.between(40, 80),
            parameters: format!(
                "log writes +{held_ms} ms for {length_ms} ms, {made} files made; {}",
                mix::described(&traffic)
            ),
            truths: vec![Truth::of(&["xfs-log-space", "slow-device"]).through(&["xfs-log-space"])],
            ..Window::default()
        };
        Ok(window.shown_by(held, "writes into the log held back"))
    }
}

/// Threads that make and remove files.
struct Churn {
    over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<Result<u32, Error>>>,
}

impl Churn {
    fn start(volume: &Path) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let start = |number: usize| {
            let (directory, over) = (volume.join(format!("churn-{number}")), Arc::clone(&over));
            thread::spawn(move || churn(&directory, &over))
        };
        let threads = (0..CHURNERS).map(start).collect();
        Self { over, threads }
    }

    /// How many files were made.
    fn stop(self) -> Result<u32, Error> {
        self.over.store(true, Ordering::Relaxed);
        let mut made = 0;
        for thread in self.threads {
            made += thread.join().map_err(|_| Error::Unusable("who makes files died".to_owned()))??;
        }
        Ok(made)
    }
}

fn churn(directory: &Path, over: &AtomicBool) -> Result<u32, Error> {
    let mut made = 0;
    while !over.load(Ordering::Relaxed) {
        fs::create_dir_all(directory).map_err(Error::io("make", directory))?;
        for number in 0..FILES {
            if over.load(Ordering::Relaxed) {
                break;
            }
            let path: PathBuf = directory.join(format!("a file whose name takes room in the log, {number}"));
            fs::write(&path, b"").map_err(Error::io("write", &path))?;
            made += 1;
        }
        fs::remove_dir_all(directory).map_err(Error::io("remove", directory))?;
    }
    Ok(made)
}
