//! Faults caused by the broker itself: quotas and busy threads.

use std::io::Write as _;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::plan::{Fault, OpenWindow, Proof, Truth, describe, prepared, slower_than, standard_load};
use super::test_bed::{BrokerAccess, TestBed};
use crate::client::{Connection, Request, Topic, Traffic, wait_for_close, words};
use crate::error::{Error, Result};
use crate::process::in_parallel;
use crate::session::interrupt;

/// A client id has a limit of bytes per second, and sends more. The broker answers at once and then does not read the
/// connection until the rate is within the limit again (KIP-219); this client sends on all the same, as older ones do.
///
/// Truth: `quota` for that client's slow requests: they wait in the socket while the channel is muted. The others are
/// not slowed.
pub(super) const QUOTA: Fault = Fault {
    name: "quota",
    story: "a client id sends more than its quota",
    shares: true,
    threshold_ms: (40, 100),
    truths: || vec![Truth::of(&["quota"]).through(&["quota"]).client(LIMITED)],
    inject: |window| {
        let OpenWindow { bed, rng, traffic, start_ns, threshold_ms, .. } = window;
        let limited = Traffic {
            // A new client id, because a quota looks back some seconds.
            client: format!("{LIMITED}-{start_ns}"),
            producers: 1,
            per_second: rng.u32(30..=60),
            record_bytes: rng.u32(1_000..=4_000),
            in_flight: rng.u32(2..=5),
            ..(*traffic).clone()
        };
        let sent = u64::from(limited.per_second) * u64::from(limited.record_bytes);
        // Kafka looks at the last ten seconds, from the first on: the more is sent, the sooner it is too much.
        let bytes_per_second = sent / rng.u64(8..=14);
        let client_id = format!("{}-1", limited.client);
        let mut admin = bed.connect("lab-admin")?;
        admin.order(&Request::alter_quota(&client_id, RATE, Some(bytes_per_second as f64)))?;
        let slowed = bed.produce(&limited, rng)?;
        interrupt().sleep(Duration::from_millis(rng.u64(3_000..=4_000)))?;
        let answers = slowed.stop()?;
        admin.order(&Request::alter_quota(&client_id, RATE, None))?;
        let slow = slower_than(&answers, *threshold_ms);
        window.parameters = format!("{bytes_per_second} B/s allowed; {}; beside", describe(&limited));
        Ok(Proof::Counted(slow, "requests of the limited client that it saw slow"))
    },
    ..Fault::DEFAULT
};

const LIMITED: &str = "limited";
const RATE: &str = "producer_byte_rate";

/// Batches that the broker recompresses. Their topic's `compression.type` is not the producer's.
///
/// Truth: `recompression` for these requests: the handler is on the CPU until the batch is recompressed. The others are
/// few, and there are enough handlers for them.
pub(super) const RECOMPRESSION: Fault = Fault {
    name: "recompression",
    story: "the broker compresses large batches again",
    shares: true,
    load: |rng| Traffic { producers: 2, per_second: 30, ..standard_load(rng) },
    truths: || vec![Truth::of(&["recompression"]).client(COMPRESSED_CLIENT)],
    prepare: |bed, tools, rng| {
        tools.codec = Some(Codec::prepare(bed, 1, rng)?);
        Ok(())
    },
    inject: |window| {
        let codec = *prepared(window.tools.codec.as_ref())?;
        let mut producer = RawProducer::new(&window.bed.access(), 0, window.rng)?;
        let (mut batches, mut slow) = (Vec::new(), 0);
        for _ in 0..window.rng.u64(3..=6) {
            let bytes = codec.batch_bytes(window.rng);
            let took = producer.send(bytes)?;
            slow += usize::from(took >= u128::from(window.threshold_ms));
            batches.push(format!("{bytes} B in {took} ms"));
        }
        window.parameters = format!("{codec}: {}; beside", batches.join(", "));
        Ok(Proof::Counted(slow, "batches that took long to compress"))
    },
    ..Fault::DEFAULT
};

/// One or two request handlers, all busy with batches to recompress. Some clients send these batches; others send small
/// requests.
///
/// Truth: `handlers-busy` for the small requests, anywhere in the chain, or as their root what kept the handlers busy:
/// `recompression`. The large ones wait for a handler too, behind each other.
pub(super) const HANDLERS_BUSY: Fault = Fault {
    name: "handlers-busy",
    story: "every request handler is busy with a large batch",
    load: |rng| Traffic { per_second: 30, ..standard_load(rng) },
    truths: || {
        vec![
            Truth::of(&["recompression"]).through(&["handlers-busy"]).client(COMPRESSED_CLIENT),
            Truth::of(&["handlers-busy", "recompression"]).through(&["handlers-busy"]),
        ]
    },
    configure: |options, tools, rng| {
        tools.handlers = rng.u32(1..=2);
        options.properties.push(("num.io.threads".to_owned(), tools.handlers.to_string()));
        Ok(())
    },
    prepare: |bed, tools, rng| {
        tools.codec = Some(Codec::prepare(bed, tools.handlers, rng)?);
        Ok(())
    },
    inject: |window| {
        let OpenWindow { bed, tools, rng, .. } = window;
        let codec = prepared(tools.codec.as_ref())?;
        let (requests, apart_ms) = (rng.u64(3..=5), rng.u64(50..=250));
        let mut busy_ms = Vec::new();
        for _ in 0..requests {
            // Several handlers compress in parallel, on the same processors.
            let bytes = codec.batch_bytes(rng) / (2 * tools.handlers as usize);
            let producers = (0..tools.handlers).map(|number| RawProducer::new(&bed.access(), number, rng));
            let took = in_parallel(producers.collect::<Result<_>>()?, |mut producer| producer.send(bytes));
            busy_ms.extend(took.into_iter().collect::<Result<Vec<u128>>>()?.into_iter().min());
            interrupt().sleep(Duration::from_millis(apart_ms))?;
        }
        window.parameters = format!("{} handler(s), busy for {busy_ms:?} ms with {codec}", tools.handlers);
        Ok(Proof::SlowRequests)
    },
    ..Fault::DEFAULT
};

/// A topic whose compression is not its producers': the broker recompresses every batch, on a request handler.
const COMPRESSED: &str = "packed";
const COMPRESSED_CLIENT: &str = "packer";

/// Compression of that topic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Codec {
    name: &'static str,
    level: u32,
}

impl Codec {
    /// Chooses Zstandard at its slowest, or gzip; creates the topic with this many partitions.
    fn prepare(bed: &TestBed, partitions: u32, rng: &mut Rng) -> Result<Self> {
        let codec = match rng.u32(0..=2) {
            0 => Self { name: "gzip", level: 9 },
            _ => Self { name: "zstd", level: rng.u32(16..=19) },
        };
        let configs = [
            ("compression.type".to_owned(), codec.name.to_owned()),
            // KIP-390, Kafka 3.8.
            (format!("compression.{}.level", codec.name), codec.level.to_string()),
            ("max.message.bytes".to_owned(), (16 << 20).to_string()),
        ]
        .to_vec();
        bed.create_topic(&Topic { name: COMPRESSED.to_owned(), partitions, configs, ..Topic::default() })?;
        // The first batch loads the codec's library.
        RawProducer::new(&bed.access(), 0, rng)?.send(64 << 10)?;
        Ok(codec)
    }

    /// Gzip is a few times faster, so its batches are larger.
    fn batch_bytes(self, rng: &mut Rng) -> usize {
        let kib = if self.name == "gzip" { rng.usize(3_000..=7_000) } else { rng.usize(500..=1_500) };
        kib << 10
    }
}

impl std::fmt::Display for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.level)
    }
}

/// A client that sends batches to that topic uncompressed.
struct RawProducer {
    connection: Connection,
    partition: u32,
    rng: Rng,
}

impl RawProducer {
    fn new(access: &BrokerAccess, partition: u32, rng: &mut Rng) -> Result<Self> {
        let connection = access.connect(&format!("{COMPRESSED_CLIENT}-{partition}"))?;
        Ok(Self { connection, partition, rng: rng.fork() })
    }

    /// Sends a batch of this size and waits until it is written; returns the time in milliseconds.
    fn send(&mut self, bytes: usize) -> Result<u128> {
        let values: Vec<Vec<u8>> =
            (0..bytes.div_ceil(1 << 10)).map(|_| words(1 << 10, &mut self.rng)).collect();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let request = Request::produce(COMPRESSED, self.partition, 1, &values);
        let started = Instant::now();
        self.connection.order(&request)?;
        Ok(started.elapsed().as_millis())
    }
}

/// One network thread, and a client whose requests take long to parse: the network thread reads a request's fields
/// before any handler sees it. These requests name a million topics and end too early, so that no handler sees them:
/// the broker closes the connection.
///
/// Truth: `network-threads-busy` for every slow produce request: it waited in its socket, complete, while the thread
/// that should have read it was on the CPU.
pub(super) const NETWORK_THREADS_BUSY: Fault = Fault {
    name: "network-threads-busy",
    story: "the only network thread takes large requests apart",
    properties: &[("num.network.threads", "1"), ("socket.request.max.bytes", "104857600")],
    truths: || vec![Truth::of(&["network-threads-busy"]).through(&["network-threads-busy"]).api("PRODUCE")],
    configure: |options, _, _| {
        options.jvm_arguments.extend(HEAP.map(str::to_owned));
        Ok(())
    },
    // Lets the compiler optimize the loop before anything is recorded.
    prepare: |bed, _, _| (0..3).try_for_each(|_| send_huge_requests(bed, 2, 200_000).map(drop)),
    inject: |window| {
        let OpenWindow { bed, rng, .. } = window;
        let (times, requests) = (rng.u32(3..=4), rng.u32(3..=6));
        let names = rng.u32(600_000..=1_000_000);
        let mut busy_ms = Vec::new();
        for _ in 0..times {
            busy_ms.push(send_huge_requests(bed, requests, names)?.as_millis());
            interrupt().sleep(Duration::from_millis(rng.u64(150..=400)))?;
        }
        window.parameters = format!(
            "{times} times {requests} requests of {names} names, until the broker hung up {busy_ms:?} ms"
        );
        Ok(Proof::SlowRequests)
    },
    ..Fault::DEFAULT
};

/// A heap in which everything allocated for such a request is young garbage.
const HEAP: [&str; 5] = ["-XX:-UseG1GC", "-XX:+UseParallelGC", "-Xms4g", "-Xmx4g", "-Xmn3g"];
/// Time until everything sent has been read.
const SETTLED: Duration = Duration::from_millis(60);
/// Metadata, version 1: an array of names.
const HEAD: &[u8] = b"\0\x03\0\x01\0\0\0\x01\0\x07babbler";

/// Sends `requests` requests at once, each with `names` empty names. Each announces one name more than it has. Returns
/// how long the broker took to close all connections.
fn send_huge_requests(bed: &TestBed, requests: u32, names: u32) -> Result<Duration> {
    let size = HEAD.len() as u32 + 4 + names * 2;
    let mut frame = [&size.to_be_bytes(), HEAD, &(names + 1).to_be_bytes()].concat();
    frame.resize(size as usize + 4, 0);
    let write = |connection: &Connection, bytes: &[u8]| {
        (&connection.stream).write_all(bytes).map_err(Error::system("send a request"))
    };
    let connections = (0..requests).map(|_| bed.connect("babbler")).collect::<Result<Vec<_>>>()?;
    // Complete at the same time: the last bytes follow when everything else has been read.
    let (most, last) = frame.split_at(frame.len() - 1);
    connections.iter().try_for_each(|connection| write(connection, most))?;
    interrupt().sleep(SETTLED)?;
    let sent = Instant::now();
    connections.iter().try_for_each(|connection| write(connection, last))?;
    connections.iter().try_for_each(|connection| wait_for_close(&connection.stream))?;
    Ok(sent.elapsed())
}
