//! Writes into ext4's journal take long, everything else is quick: commits last, and whoever needs a buffer that a
//! commit holds waits for it (`do_get_write_access`, fs/jbd2/transaction.c).
//!
//! Truth: `journal-commit` for every slow request. An append holds its partition's lock and a request handler while it
//! waits, so others queue behind it, at the lock, for a handler, or behind an earlier request of their connection;
//! the root of all of them is the commit.

use std::time::Duration;

use super::mix;
use super::plan::{Fault, Ground, Truth, Window};
use super::scene::Scene;
use crate::client::now_ns;
use crate::error::Error;
use crate::random::Random;
use crate::volume::FileSystem;

pub(super) struct JournalStall;

impl Fault for JournalStall {
    fn name(&self) -> &'static str {
        "journal-stall"
    }

    fn story(&self) -> &'static str {
        "writes into ext4's journal are held back"
    }

    fn ground(&self) -> Option<Ground> {
        // A commit every second instead of every five: several in a window.
        Some(Ground { file_system: FileSystem::Ext4, mount_options: "commit=1" })
    }

    fn shares(&self) -> bool {
        true
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        scene.warm_up(&mix::standard(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let traffic = mix::standard(random);
        let held_ms = random.between(120, 350);
        let length_ms = random.between(2_200, 3_500);
        let load = scene.produce(&traffic, random)?;
        scene.quiet()?;
        scene.held_back()?;
        let start_ns = now_ns();
        scene.volume()?.plant_journal_delay(held_ms, held_ms)?;
        scene.sleep(Duration::from_millis(length_ms))?;
        scene.volume()?.device().clear()?;
        // What is held back already stays so.
        scene.sleep(Duration::from_millis(held_ms))?;
        let end_ns = now_ns();
        scene.quiet()?;
        let held = scene.held_back()?;
        load.stop()?;
        Ok(Window {
            start_ns,
            end_ns,
            threshold_ms: random.between(40, 80),
            parameters: format!(
                "journal writes +{held_ms} ms for {length_ms} ms; {}",
                mix::described(&traffic)
            ),
            truths: vec![Truth::of(&["journal-commit"])],
            ..Window::default()
        }
        .shown_by(held, "writes into the journal held back"))
    }
}
