//! A topic whose compression is not its producers': the broker compresses every batch again, on a request handler. For the
//! faults that this is, and that this makes.

use super::door::Door;
use super::scene::Scene;
use crate::client::{Connection, Request, Topic, batch, now_ns, text};
use crate::error::Error;
use crate::random::Random;

pub(super) const TOPIC: &str = "packed";
pub(super) const CLIENT: &str = "packer";
const MOST_BYTES: u64 = 16 << 20;

/// How a topic compresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packing {
    codec: &'static str,
    level: u64,
}

impl Packing {
    /// Zstandard at its slowest, or gzip.
    pub(super) fn draw(random: &mut Random) -> Self {
        match random.between(0, 2) {
            0 => Self { codec: "gzip", level: 9 },
            _ => Self { codec: "zstd", level: random.between(16, 19) },
        }
    }

    /// Makes the topic, with so many partitions.
    pub(super) fn create_topic(self, scene: &Scene, partitions: u32) -> Result<(), Error> {
        let Self { codec, level } = self;
        let configs = [
            ("compression.type", codec.to_owned()),
            // KIP-390, Kafka 3.8.
            (
                if codec == "gzip" { "compression.gzip.level" } else { "compression.zstd.level" },
                level.to_string(),
            ),
            ("max.message.bytes", MOST_BYTES.to_string()),
        ];
        let configs = configs.map(|(key, value)| (key.to_owned(), value)).to_vec();
        scene.create_topic(&Topic { name: TOPIC.to_owned(), partitions, configs, ..Topic::default() })
    }

    /// Gzip is some times faster, so its batches are larger.
    pub(super) fn bytes(self, random: &mut Random) -> usize {
        let kib =
            if self.codec == "gzip" { random.between(3_000, 7_000) } else { random.between(500, 1_500) };
        (kib << 10) as usize
    }
}

impl std::fmt::Display for Packing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.codec, self.level)
    }
}

/// A client that sends such batches, not compressed itself.
pub(super) struct Packer {
    connection: Connection,
    partition: u32,
    random: Random,
}

impl Packer {
    pub(super) fn new(door: &Door, number: u32, random: &mut Random) -> Result<Self, Error> {
        let connection = door.connect(&format!("{CLIENT}-{number}"))?;
        Ok(Self { connection, partition: number, random: Random::new(random.number()) })
    }

    /// Sends one of so many bytes and waits until it is written; returns how long that took, in milliseconds.
    pub(super) fn send(&mut self, bytes: usize) -> Result<u128, Error> {
        let values: Vec<Vec<u8>> =
            (0..bytes.div_ceil(1 << 10)).map(|_| text(1 << 10, &mut self.random)).collect();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let request = Request::produce(TOPIC, self.partition, 1, &batch(&values, now_ns() / 1_000_000));
        let started = std::time::Instant::now();
        self.connection.order(&request)?;
        Ok(started.elapsed().as_millis())
    }
}
