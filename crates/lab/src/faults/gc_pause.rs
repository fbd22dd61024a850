//! The JVM collects its whole heap several times, all threads stopped: what `jcmd PID GC.run` does, and a heap that is too
//! small. By the serial collector, whose pauses are as long as there are objects that live.
//!
//! Truth: `gc-pause` for every slow request of the window: nothing else makes any wait so long.

use std::time::Duration;

use super::mix;
use super::plan::{Fault, Truth, Window};
use super::scene::Scene;
use crate::broker::BrokerOptions;
use crate::client::now_ns;
use crate::error::Error;
use crate::jvm::Jvm;
use crate::random::Random;

/// How late the JVM's log may be, by its stamps of whole milliseconds.
const ROOM_NS: i64 = 5_000_000;

#[derive(Default)]
pub(super) struct GcPause {
    jvm: Option<Jvm>,
}

impl Fault for GcPause {
    fn name(&self) -> &'static str {
        "gc-pause"
    }

    fn story(&self) -> &'static str {
        "the JVM collects its whole heap, its threads stopped"
    }

    fn configure(&mut self, options: &mut BrokerOptions, random: &mut Random) -> Result<(), Error> {
        let heap = random.between(256, 512);
        options.jvm_arguments.extend([
            "-XX:-UseG1GC".to_owned(),
            "-XX:+UseSerialGC".to_owned(),
            format!("-Xms{heap}m"),
            format!("-Xmx{heap}m"),
        ]);
        Ok(())
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        self.jvm = Some(Jvm::attach(scene.broker.pid)?);
        scene.warm_up(&mix::standard(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let Some(jvm) = &self.jvm else { return Err(Error::Unusable("no JVM to talk to".to_owned())) };
        let traffic = mix::standard(random);
        let (times, apart_ms) = (random.between(3, 5), random.between(250, 700));
        let load = scene.produce(&traffic, random)?;
        scene.quiet()?;
        let start_ns = now_ns();
        for _ in 0..times {
            jvm.order("GC.run")?;
            scene.sleep(Duration::from_millis(apart_ms))?;
        }
        let end_ns = now_ns();
        scene.quiet()?;
        load.stop()?;
        let stops = scene.stops()?;
        let threshold_ms = random.between(25, 40);
        let long = stops.iter().filter(|stop| {
            let within = stop.end_ns >= start_ns - ROOM_NS && stop.start_ns <= end_ns;
            within && stop.is_collection() && stop.length_ns() >= threshold_ms as i64 * 1_000_000
        });
        let long: Vec<String> = long.map(|stop| format!("{} ms", stop.length_ns() / 1_000_000)).collect();
        Ok(Window {
            start_ns,
            end_ns,
            threshold_ms,
            parameters: format!(
                "{times} collections {apart_ms} ms apart, those over the threshold of {}; {}",
                long.join(", "),
                mix::described(&traffic)
            ),
            truths: vec![Truth::of(&["gc-pause"]).slows_stops()],
            ..Window::default()
        }
        .shown_by(long.len(), "collections over the threshold, by the JVM's own log"))
    }
}
