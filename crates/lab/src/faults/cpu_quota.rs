//! The broker's cgroup may use the processors for part of each period only, as a container with a CPU limit.
//!
//! Truth: `cpu-throttled` for every slow request: with nothing else planted, whatever a thread of the broker was at, it
//! stood still because the quota was used up, and who waited for that thread waited for the same.

use std::time::Duration;

use super::mix;
use super::plan::{Fault, Truth, Window};
use super::scene::Scene;
use crate::cgroup::Cgroup;
use crate::client::now_ns;
use crate::error::Error;
use crate::random::Random;

#[derive(Default)]
pub(super) struct CpuQuota {
    group: Option<Cgroup>,
}

impl Fault for CpuQuota {
    fn name(&self) -> &'static str {
        "cpu-quota"
    }

    fn story(&self) -> &'static str {
        "the broker's cgroup has used up its CPU quota for most of each period"
    }

    fn shares(&self) -> bool {
        true
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        let group = Cgroup::make(scene.site.path(), "cpu")?;
        // In it from the start and unlimited: as a container is.
        group.put(scene.broker.pid)?;
        self.group = Some(group);
        scene.warm_up(&mix::standard(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let Some(group) = &self.group else { return Err(Error::Unusable("no cgroup".to_owned())) };
        let traffic = mix::standard(random);
        let period_ms = random.between(250, 600);
        let percent = random.between(5, 12);
        let length_ms = random.between(2_200, 3_200);
        let load = scene.produce(&traffic, random)?;
        scene.quiet()?;
        let throttled = || group.figure("cpu.stat", "nr_throttled");
        let before = throttled()?;
        let start_ns = now_ns();
        group.set("cpu.cfs_period_us", period_ms as i64 * 1_000)?;
        group.set("cpu.cfs_quota_us", (period_ms * 10 * percent) as i64)?;
        scene.sleep(Duration::from_millis(length_ms))?;
        group.set("cpu.cfs_quota_us", -1)?;
        let end_ns = now_ns();
        let times = throttled()?.saturating_sub(before);
        scene.quiet()?;
        load.stop()?;
        Ok(Window {
            start_ns,
            end_ns,
            threshold_ms: random.between(50, 100),
            parameters: format!(
                "{percent} % of one processor, by periods of {period_ms} ms; {}",
                mix::described(&traffic)
            ),
            truths: vec![Truth::of(&["cpu-throttled"]).slows_stops()],
            ..Window::default()
        }
        .shown_by(times as usize, "periods in which the kernel throttled the broker"))
    }

    fn restore(&mut self, _: &mut Scene) {
        self.group = None;
    }
}
