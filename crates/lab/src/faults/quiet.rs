//! Nothing is planted: load as in the other runs, on the file system that most of them have. The slowest of a window's
//! requests are judged, however quick they were.
//!
//! Truth: no request may be given a cause of which no witness tells. Witnesses are the JVM's own log of its stops, and the
//! kernel's figures of how long the broker's request threads waited for a processor and of when its device was at work:
//! those are real causes, and there is no machine without them. One that was slow without a cause (`unobserved`) is the machine's affair.

use std::time::Duration;

use super::mix;
use super::plan::{Fault, Ground, Window};
use super::scene::Scene;
use crate::client::{Answer, now_ns};
use crate::error::Error;
use crate::random::Random;
use crate::volume::FileSystem;

/// One request in so many is slow, as producers see it: their own waits for a processor are in it.
const SLOW_IN: usize = 50;
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

    fn shares(&self) -> bool {
        true
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
        let threshold_ms = slowest(answers.iter().filter(|answer| answer.sent_ns >= start_ns));
        Ok(Window {
            start_ns,
            end_ns,
            threshold_ms,
            parameters: mix::described(&traffic),
            proof: Some(format!("{} requests answered", answers.len())),
            ..Window::default()
        })
    }

    fn is_quiet(&self) -> bool {
        true
    }
}

/// What the slowest took at least, as their producers saw it: whole milliseconds, at least one.
fn slowest<'a>(answers: impl Iterator<Item = &'a Answer>) -> u64 {
    let mut latencies: Vec<i64> = answers.map(|answer| answer.latency_ns).collect();
    latencies.sort_unstable_by_key(|latency| std::cmp::Reverse(*latency));
    let slow = latencies.get(latencies.len() / SLOW_IN).copied().unwrap_or_default();
    u64::try_from(slow / 1_000_000).unwrap_or_default().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_fifty_is_slower_than_the_threshold() {
        let answers: Vec<Answer> =
            (1..=300).map(|ms| Answer { sent_ns: 0, latency_ns: ms * 1_000_000 }).collect();
        assert_eq!(slowest(answers.iter()), 294);
        assert_eq!(slowest([].iter()), 1);
    }
}
