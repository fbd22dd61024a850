//! The broker has one processor, and busy processes of a higher weight are on it; its clients have the other one.
//!
//! Truth: `run-queue` for every slow request: its threads could have run and had no processor, or waited for one that
//! could have run.

use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::mix;
use super::plan::{Fault, Truth, Window};
use super::scene::Scene;
use crate::broker::BrokerOptions;
use crate::client::now_ns;
use crate::crowd::Crowd;
use crate::error::Error;
use crate::random::Random;

/// The broker's; the others are its clients'.
const BROKERS: usize = 1;

pub(super) struct CpuHog;

impl Fault for CpuHog {
    fn name(&self) -> &'static str {
        "cpu-hog"
    }

    fn story(&self) -> &'static str {
        "busy processes of higher priority share the broker's processor"
    }

    fn configure(&mut self, options: &mut BrokerOptions, _: &mut Random) -> Result<(), Error> {
        options.launcher.extend(["taskset", "--cpu-list", &BROKERS.to_string()].map(str::to_owned));
        Ok(())
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        scene.warm_up(&mix::standard(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let traffic = mix::standard(random);
        let (count, niceness) = (random.between(4, 8), -(random.between(10, 15) as i32));
        let length_ms = random.between(2_200, 3_000);
        let crowd = Crowd::gather(scene.site.path(), count as u32, &BROKERS.to_string(), niceness)?;
        let (address, place) = (scene.address(), scene.clients.clone());
        let load = elsewhere(|| place.within(|| traffic.start(address, random)))???;
        scene.quiet()?;
        let start_ns = now_ns();
        crowd.go();
        scene.sleep(Duration::from_millis(length_ms))?;
        crowd.halt();
        let end_ns = now_ns();
        scene.quiet()?;
        let answers = load.stop()?;
        let threshold_ms = random.between(40, 80);
        let slow = mix::slower_than(&answers, threshold_ms);
        Ok(Window {
            start_ns,
            end_ns,
            threshold_ms,
            parameters: format!(
                "{count} busy processes at nice {niceness} for {length_ms} ms; {}",
                mix::described(&traffic)
            ),
            truths: vec![Truth::of(&["run-queue"]).slows_stops()],
            ..Window::default()
        }
        .shown_by(slow, "requests that their producers saw slow"))
    }
}

/// Starts clients where the broker is not: threads inherit where their parent may run.
fn elsewhere<T: Send>(start: impl FnOnce() -> T + Send) -> Result<T, Error> {
    let begin = || -> rustix::io::Result<()> {
        let mut allowed: CpuSet = sched_getaffinity(None)?;
        if allowed.count() > 1 {
            allowed.unset(BROKERS);
        }
        sched_setaffinity(None, &allowed)
    };
    std::thread::scope(|scope| {
        let starter = scope.spawn(|| {
            begin().map_err(|error| Error::system("keep off the broker's processor")(error.into()))?;
            Ok(start())
        });
        starter.join().unwrap_or_else(|_| Err(Error::Unusable("a client's thread died".to_owned())))
    })
}
