//! One network thread, and a client whose requests take it long to take apart: it reads a request's fields before a handler
//! ever sees it. These ask about a million topics and end too early, so that no handler does see them: the broker
//! hangs up.
//!
//! Truth: `network-threads-busy` for every slow produce request: it lay in its socket, whole, while the thread that
//! should have read it was on the CPU.

use std::io::Write as _;
use std::time::{Duration, Instant};

use super::mix;
use super::plan::{Fault, Truth, Window};
use super::scene::Scene;
use crate::broker::BrokerOptions;
use crate::client::{Connection, now_ns, wait_for_close};
use crate::error::Error;
use crate::random::Random;

/// A heap of which all that is made of such a request is young garbage.
const HEAP: [&str; 5] = ["-XX:-UseG1GC", "-XX:+UseParallelGC", "-Xms4g", "-Xmx4g", "-Xmn3g"];
/// Until what has been sent has been read.
const SETTLED: Duration = Duration::from_millis(60);
const MOST_BYTES: &str = "104857600";
/// Metadata, version 1: an array of names.
const HEAD: &[u8] = b"\0\x03\0\x01\0\0\0\x01\0\x07babbler";

pub(super) struct NetworkThreadsBusy;

impl Fault for NetworkThreadsBusy {
    fn name(&self) -> &'static str {
        "network-threads-busy"
    }

    fn story(&self) -> &'static str {
        "the only network thread takes large requests apart"
    }

    fn configure(&mut self, options: &mut BrokerOptions, _: &mut Random) -> Result<(), Error> {
        options.jvm_arguments.extend(HEAP.map(str::to_owned));
        let properties = [("num.network.threads", "1"), ("socket.request.max.bytes", MOST_BYTES)];
        options.properties.extend(properties.map(|(key, value)| (key.to_owned(), value.to_owned())));
        Ok(())
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        // The compiler has had its way with the loop before anything is recorded.
        for _ in 0..3 {
            babble(scene, 2, 200_000)?;
        }
        scene.warm_up(&mix::standard(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let others = mix::standard(random);
        let (times, requests) = (random.between(3, 4), random.between(3, 6));
        let names = random.between(600_000, 1_000_000);
        let threshold_ms = random.between(40, 80);
        let load = scene.produce(&others, random)?;
        scene.quiet()?;
        let start_ns = now_ns();
        let mut busy_ms = Vec::new();
        for _ in 0..times {
            busy_ms.push(babble(scene, requests, names)?.as_millis());
            scene.sleep(Duration::from_millis(random.between(150, 400)))?;
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
                "{times} times {requests} requests of {names} names, until the broker hung up {busy_ms:?} ms; {}",
                mix::described(&others)
            ),
            truths: vec![
                Truth::of(&["network-threads-busy"]).through(&["network-threads-busy"]).api("PRODUCE"),
            ],
            ..Window::default()
        }
        .shown_by(slow, "requests that their producers saw slow"))
    }
}

/// Sends so many requests at once, each of so many empty names, one short of what it promises; returns how long the broker
/// took to hang up on all.
fn babble(scene: &Scene, requests: u64, names: u64) -> Result<Duration, Error> {
    let mut frame = vec![0; 4];
    frame.extend_from_slice(HEAD);
    frame.extend((names as u32 + 1).to_be_bytes());
    frame.resize(frame.len() + names as usize * 2, 0);
    let size = frame.len() as u32 - 4;
    frame.splice(..4, size.to_be_bytes());
    let give = |connection: &Connection, bytes: &[u8]| {
        connection.stream().write_all(bytes).map_err(Error::system("send a request"))
    };
    let connections: Result<Vec<Connection>, Error> =
        (0..requests).map(|_| scene.connect("babbler")).collect();
    let connections = connections?;
    // Whole all at the same time: their last bytes come when the others have been read.
    let (most, last) = frame.split_at(frame.len() - 1);
    connections.iter().try_for_each(|connection| give(connection, most))?;
    scene.sleep(SETTLED)?;
    let sent = Instant::now();
    connections.iter().try_for_each(|connection| give(connection, last))?;
    connections.iter().try_for_each(|connection| wait_for_close(connection.stream()))?;
    Ok(sent.elapsed())
}
