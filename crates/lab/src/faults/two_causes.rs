//! Two causes at once, on different connections: ext4's journal is slow, as in [`super::journal_stall`], and a client
//! sends its requests a few bytes at a time.
//!
//! Truth: `slow-client` for that client's requests, whose bytes take several times as long to come as any commit
//! takes; `journal-commit` for everybody else's.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::mix;
use super::plan::{Fault, Ground, Truth, Window};
use super::scene::Scene;
use crate::background::Background;
use crate::client::{Connection, Request, batch, now_ns};
use crate::error::Error;
use crate::random::Random;
use crate::volume::FileSystem;

const SLOW_CLIENT: &str = "far-away";
const LENGTH: Duration = Duration::from_millis(2_800);
/// In how many pieces a slow request comes.
const PIECES: u32 = 12;

pub(super) struct TwoCauses;

impl Fault for TwoCauses {
    fn name(&self) -> &'static str {
        "two-causes"
    }

    fn story(&self) -> &'static str {
        "ext4's journal is slow, and one client sends its requests slowly"
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
        let held_ms = random.between(100, 200);
        let trickle_ms = random.between(900, 1_300);
        let load = scene.produce(&traffic, random)?;
        scene.quiet()?;
        scene.held_back()?;
        let start_ns = now_ns();
        scene.volume()?.plant_journal_delay(held_ms, held_ms)?;
        let client = SlowClient::start(scene, Duration::from_millis(trickle_ms) / PIECES, random)?;
        scene.sleep(LENGTH)?;
        scene.volume()?.device().clear()?;
        scene.sleep(Duration::from_millis(held_ms))?;
        let trickled = client.stop()?;
        let end_ns = now_ns();
        scene.quiet()?;
        let held = scene.held_back()?;
        load.stop()?;
        let window = Window {
            start_ns,
            end_ns,
            threshold_ms: random.between(40, 70),
            parameters: format!(
                "journal writes +{held_ms} ms, {trickled} requests in {trickle_ms} ms each; {}",
                mix::described(&traffic)
            ),
            truths: vec![
                Truth::of(&["slow-client"]).client(SLOW_CLIENT),
                Truth::of(&["journal-commit"]).client(&traffic.client),
            ],
            ..Window::default()
        };
        Ok(window.shown_by(held.min(trickled), "writes held back and requests trickled"))
    }
}

/// A producer whose requests come piece by piece.
struct SlowClient(Background<Result<usize, Error>>);

impl SlowClient {
    fn start(scene: &Scene, pause: Duration, random: &mut Random) -> Result<Self, Error> {
        let connection = Connection::open(scene.address(), SLOW_CLIENT)?;
        let random = Random::new(random.number());
        let work = move |over: &AtomicBool| trickle(connection, pause, random, over);
        Ok(Self(Background::start("the slow client", work)))
    }

    /// Ends it when its request is answered; returns how many it sent.
    fn stop(self) -> Result<usize, Error> {
        self.0.stop()?
    }
}

fn trickle(
    mut connection: Connection,
    pause: Duration,
    mut random: Random,
    over: &AtomicBool,
) -> Result<usize, Error> {
    let mut sent = 0;
    let mut value = [0; 1200];
    while !over.load(Ordering::Relaxed) {
        random.fill(&mut value);
        let frame =
            connection.frame(&Request::produce(mix::TOPIC, 0, 1, &batch(&[&value], now_ns() / 1_000_000)));
        for piece in frame.chunks(frame.len().div_ceil(PIECES as usize)) {
            connection.stream().write_all(piece).map_err(Error::system("send a piece"))?;
            thread::sleep(pause);
        }
        connection.receive()?;
        sent += 1;
    }
    Ok(sent)
}
