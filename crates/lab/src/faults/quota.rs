//! A client id may send so many bytes a second, and sends more. The broker answers at once and then does not read the
//! connection for as long as makes up for it (KIP-219); this client sends on all the same, as older ones do.
//!
//! Truth: `quota` for that client's slow requests: they lie in the socket while the channel is muted. The others are
//! not slowed.

use std::time::Duration;

use super::mix;
use super::plan::{Fault, Truth, Window};
use super::scene::Scene;
use crate::client::{Request, Traffic, now_ns};
use crate::error::Error;
use crate::random::Random;

const LIMITED: &str = "limited";

#[derive(Default)]
pub(super) struct Quota {
    windows: u32,
}

impl Fault for Quota {
    fn name(&self) -> &'static str {
        "quota"
    }

    fn story(&self) -> &'static str {
        "a client id sends more than its quota"
    }

    fn shares(&self) -> bool {
        true
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        scene.warm_up(&mix::standard(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let others = mix::standard(random);
        // Its client id is new: a quota looks back some seconds.
        self.windows += 1;
        let limited = Traffic {
            client: format!("{LIMITED}-{}", self.windows),
            producers: 1,
            per_second: random.between(30, 60) as u32,
            record_bytes: random.between(1_000, 4_000) as u32,
            in_flight: random.between(2, 5) as u32,
            ..others.clone()
        };
        let sent = u64::from(limited.per_second) * u64::from(limited.record_bytes);
        // Kafka looks at the last ten seconds, from the first on: the more is sent, the sooner there is too much of it.
        let bytes_per_second = sent / random.between(8, 14);
        let client_id = format!("{}-1", limited.client);
        let length_ms = random.between(3_000, 4_000);
        let mut admin = scene.connect("lab-admin")?;
        admin.order(&Request::alter_quota(
            &client_id,
            "producer_byte_rate",
            Some(bytes_per_second as f64),
        ))?;
        let load = scene.produce(&others, random)?;
        scene.quiet()?;
        let start_ns = now_ns();
        let slowed = scene.produce(&limited, random)?;
        scene.sleep(Duration::from_millis(length_ms))?;
        let answers = slowed.stop()?;
        let end_ns = now_ns();
        admin.order(&Request::alter_quota(&client_id, "producer_byte_rate", None))?;
        scene.quiet()?;
        load.stop()?;
        let threshold_ms = random.between(40, 100);
        let slow = mix::slower_than(&answers, threshold_ms);
        Ok(Window {
            start_ns,
            end_ns,
            threshold_ms,
            parameters: format!(
                "{bytes_per_second} B/s allowed; {}; beside {}",
                mix::described(&limited),
                mix::described(&others)
            ),
            truths: vec![Truth::of(&["quota"]).through(&["quota"]).client(LIMITED)],
            ..Window::default()
        }
        .shown_by(slow, "requests of the limited client that it saw slow"))
    }
}
