//! Many producers to one partition: whenever one's append is slow (it has to read the segment's last page from a slow
//! device, as in [`super::slow_device`]), all others wait for the partition's lock.
//!
//! Truth: the chain leads through `log-lock`, to whatever held the holder up. The holder's own request waited for no
//! lock: for it, and as the root of all, `slow-device` is right. There are more request handlers than producers, so
//! that nobody waits for a handler instead.

use super::plan::{Fault, Ground, Truth, Window};
use super::scene::Scene;
use super::{mix, slow_device};
use crate::broker::BrokerOptions;
use crate::client::Traffic;
use crate::error::Error;
use crate::random::Random;
use crate::volume::FileSystem;

const HANDLERS: &str = "24";

pub(super) struct LockContention;

impl Fault for LockContention {
    fn name(&self) -> &'static str {
        "lock-contention"
    }

    fn story(&self) -> &'static str {
        "many producers to one partition, of which now and then one is slow under the lock"
    }

    fn ground(&self) -> Option<Ground> {
        Some(Ground { file_system: FileSystem::Ext4WithoutJournal, mount_options: "" })
    }

    fn configure(&mut self, options: &mut BrokerOptions, _: &mut Random) -> Result<(), Error> {
        options.properties.push(("num.io.threads".to_owned(), HANDLERS.to_owned()));
        Ok(())
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, 1)?;
        scene.warm_up(&crowd(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let traffic = crowd(random);
        let window = slow_device::plant_slow_reads(scene, &traffic, random)?;
        let truth = Truth::of(&["log-lock", "slow-device"]).through(&["log-lock"]);
        Ok(Window { truths: vec![truth], ..window })
    }
}

/// Ten to twenty producers, one request of each unanswered.
fn crowd(random: &mut Random) -> Traffic {
    let producers = random.between(10, 20) as u32;
    let per_second = random.between(40, 70) as u32;
    Traffic { partitions: 1, producers, per_second, in_flight: 1, ..mix::standard(random) }
}
