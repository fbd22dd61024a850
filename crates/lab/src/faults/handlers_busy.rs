//! One or two request handlers, and clients that keep all of them busy with batches to be compressed again, while others
//! have small requests.
//!
//! Truth: `handlers-busy` for the small requests, wherever in the chain, or what the handlers were busy with as their root:
//! `recompression`. The large ones wait for a handler too, behind each other.

use std::time::Duration;

use super::door::side_by_side;
use super::mix;
use super::packed::{CLIENT, Packer, Packing};
use super::plan::{Fault, Truth, Window};
use super::scene::Scene;
use crate::broker::BrokerOptions;
use crate::client::{Traffic, now_ns};
use crate::error::Error;
use crate::random::Random;

#[derive(Default)]
pub(super) struct HandlersBusy {
    handlers: u32,
    packing: Option<Packing>,
}

impl Fault for HandlersBusy {
    fn name(&self) -> &'static str {
        "handlers-busy"
    }

    fn story(&self) -> &'static str {
        "every request handler is busy with a large batch"
    }

    fn configure(&mut self, options: &mut BrokerOptions, random: &mut Random) -> Result<(), Error> {
        self.handlers = random.between(1, 2) as u32;
        options.properties.push(("num.io.threads".to_owned(), self.handlers.to_string()));
        Ok(())
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        let packing = Packing::draw(random);
        packing.create_topic(scene, self.handlers)?;
        self.packing = Some(packing);
        Packer::new(&scene.door(), 0, random)?.send(64 << 10)?;
        scene.warm_up(&mix::standard(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let Some(packing) = self.packing else { return Err(Error::Unusable("no topic".to_owned())) };
        let others = Traffic { per_second: 30, ..mix::standard(random) };
        let (requests, apart_ms) = (random.between(3, 5), random.between(50, 250));
        let threshold_ms = random.between(40, 80);
        let load = scene.produce(&others, random)?;
        scene.quiet()?;
        let start_ns = now_ns();
        let mut busy_ms = Vec::new();
        for _ in 0..requests {
            // Those of several handlers compress side by side, on the same processors.
            let bytes = packing.bytes(random) / (2 * self.handlers as usize);
            let packers: Result<Vec<Packer>, Error> =
                (0..self.handlers).map(|number| Packer::new(&scene.door(), number, random)).collect();
            let took = side_by_side(packers?, |mut packer| packer.send(bytes))?;
            busy_ms.push(took.into_iter().min().unwrap_or_default());
            scene.sleep(Duration::from_millis(apart_ms))?;
        }
        let end_ns = now_ns();
        scene.quiet()?;
        let answers = load.stop()?;
        let slow = mix::slower_than(&answers, threshold_ms);
        Ok(Window {
            start_ns,
            end_ns,
            threshold_ms,
            parameters: format!(
                "{} handler(s), busy for {busy_ms:?} ms with {packing}; {}",
                self.handlers,
                mix::described(&others)
            ),
            truths: vec![
                Truth::of(&["recompression"]).through(&["handlers-busy"]).client(CLIENT),
                Truth::of(&["handlers-busy", "recompression"]).through(&["handlers-busy"]),
            ],
            ..Window::default()
        }
        .shown_by(slow, "small requests that their producers saw slow"))
    }
}
