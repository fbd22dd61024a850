//! A capture of produce traffic: several producers that pipeline large requests over their connections, in bursts, with
//! acknowledgements and answers in between. The same in every run.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::Path;

use crate::frames::Produce;
use crate::packets::{End, PacketWriter, SEGMENT_BYTES, SYN};
use fastrand::Rng;

pub(crate) const PORT: u16 = 9092;
const CONNECTIONS: u16 = 8;
/// Requests a connection may have unanswered: the Java client's default
/// (`max.in.flight.requests.per.connection`).
const IN_FLIGHT: u64 = 5;
/// The receiver acknowledges once per this many segments, as with receive offload.
const SEGMENTS_PER_ACK: usize = 4;

/// The contents of the capture.
pub(crate) struct Contents {
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    pub(crate) requests: u64,
    pub(crate) records: u64,
}

/// Writes a capture of at least `bytes` bytes. All requests in it are complete and answered.
pub(crate) fn write(path: &Path, bytes: u64) -> io::Result<Contents> {
    let mut writer = PacketWriter::new(BufWriter::with_capacity(1 << 20, File::create(path)?))?;
    let mut rng = Rng::with_seed(42);
    let mut connections: Vec<Connection> = (0..CONNECTIONS).map(Connection::new).collect();
    let (mut requests, mut records) = (0, 0);
    for connection in &mut connections {
        connection.open(&mut writer)?;
    }
    while writer.bytes < bytes {
        let chosen = rng.u64(..u64::from(CONNECTIONS)) as usize;
        let Some(connection) = connections.get_mut(chosen) else { break };
        if connection.unsent.is_empty() {
            records += connection.queue_request(requests as i32, records, &mut rng);
            requests += 1;
        }
        connection.send_burst(4 + rng.u64(..40) as usize, &mut writer)?;
        if connection.in_flight.len() as u64 > rng.u64(..IN_FLIGHT) {
            connection.answer(&mut writer)?;
        }
        writer.wait(rng.u64(..20_000));
    }
    for connection in &mut connections {
        connection.finish(&mut writer)?;
    }
    let contents = Contents { bytes: writer.bytes, packets: writer.packets, requests, records };
    writer.finish()?;
    Ok(contents)
}

struct Connection {
    client: End,
    broker: End,
    client_id: String,
    unsent: VecDeque<Vec<u8>>,
    in_flight: VecDeque<Produce>,
    answered: i64,
}

impl Connection {
    fn new(number: u16) -> Self {
        let client = End {
            address: Ipv4Addr::new(10, 0, 1, number as u8 + 1),
            port: 40_000 + number,
            next: u32::MAX - 1_000_000 * u32::from(number),
        };
        let broker = End { address: Ipv4Addr::new(10, 0, 0, 1), port: PORT, next: u32::from(number) };
        Self {
            client,
            broker,
            client_id: format!("producer-{number}"),
            unsent: VecDeque::new(),
            in_flight: VecDeque::new(),
            answered: 0,
        }
    }

    fn open(&mut self, writer: &mut PacketWriter<impl Write>) -> io::Result<()> {
        writer.send(&mut self.client, &self.broker, SYN, &[])?;
        // The acknowledgement flag is in everything except a bare SYN.
        writer.send(&mut self.broker, &self.client, SYN | 0x10, &[])?;
        writer.send(&mut self.client, &self.broker, 0, &[])
    }

    /// Queues another request of the client; returns its number of records.
    fn queue_request(&mut self, correlation_id: i32, first_id: u64, rng: &mut Rng) -> u64 {
        let mut request = Produce::new(correlation_id, &self.client_id, first_id, rng);
        let records = request.records;
        let bytes = std::mem::take(&mut request.bytes);
        self.unsent.extend(bytes.chunks(SEGMENT_BYTES).map(<[u8]>::to_vec));
        self.in_flight.push_back(request);
        records
    }

    fn send_burst(&mut self, segments: usize, writer: &mut PacketWriter<impl Write>) -> io::Result<()> {
        for number in 1..=segments {
            let Some(payload) = self.unsent.pop_front() else { break };
            writer.send(&mut self.client, &self.broker, 0x08, &payload)?;
            if number % SEGMENTS_PER_ACK == 0 {
                writer.send(&mut self.broker, &self.client, 0, &[])?;
            }
        }
        Ok(())
    }

    /// Answers the oldest request that was sent completely.
    fn answer(&mut self, writer: &mut PacketWriter<impl Write>) -> io::Result<()> {
        if !self.unsent.is_empty() && self.in_flight.len() < 2 {
            return Ok(());
        }
        let Some(request) = self.in_flight.pop_front() else { return Ok(()) };
        self.answered += 1;
        let response = request.response(self.answered * 1_000);
        writer.send(&mut self.broker, &self.client, 0x08, &response)?;
        writer.send(&mut self.client, &self.broker, 0, &[])
    }

    /// Sends the rest, and answers it.
    fn finish(&mut self, writer: &mut PacketWriter<impl Write>) -> io::Result<()> {
        self.send_burst(usize::MAX, writer)?;
        while !self.in_flight.is_empty() {
            self.answer(writer)?;
        }
        Ok(())
    }
}
