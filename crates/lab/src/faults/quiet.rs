//! Nothing is planted: load as in the other runs, on the file system that most of them have.
//!
//! Truth: no request may be given a cause. One that was slow without a cause (`unobserved`) is the machine's affair.

use std::time::Duration;

use super::mix;
use super::plan::{Fault, Ground, Window};
use super::scene::Scene;
use crate::client::now_ns;
use crate::error::Error;
use crate::random::Random;
use crate::volume::FileSystem;

/// As the lowest threshold of the other faults.
const THRESHOLD_MS: u64 = 50;
const LENGTH: Duration = Duration::from_millis(2_500);

pub(super) struct Quiet;

impl Fault for Quiet {
    fn name(&self) -> &'static str {
        "quiet"
    }

    fn story(&self) -> &'static str {
        "nothing is planted"
    }

    fn ground(&self) -> Option<Ground> {
        Some(Ground { file_system: FileSystem::Ext4, mount_options: "commit=1" })
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        scene.warm_up(&mix::standard(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let traffic = mix::standard(random);
        let load = scene.produce(&traffic, random)?;
        scene.quiet()?;
        let start_ns = now_ns();
        scene.sleep(LENGTH)?;
        let end_ns = now_ns();
        scene.quiet()?;
        let answers = load.stop()?;
        Ok(Window {
            start_ns,
            end_ns,
            threshold_ms: THRESHOLD_MS,
            parameters: mix::described(&traffic),
            proof: Some(format!("{} requests answered", answers.len())),
            ..Window::default()
        })
    }
}
