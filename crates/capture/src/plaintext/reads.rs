//! Joins requests that the agent saw with the broker's reads of their encrypted bytes, to learn when these bytes arrived.
//! A request may have lain in the socket long before the broker's call for it: behind another one, or because of a quota.
//!
//! Encrypted bytes are longer than what they carry, by an amount that is not known, and a read may take the bytes of
//! several requests. So a request's arrival is known exactly if its own call read from the socket; otherwise it arrived
//! with the last read before, at the latest. Its end is the earliest that its size allows.

use std::collections::VecDeque;
use std::net::SocketAddr;

use model::{Nanos, Request};

use crate::table::Table;

/// Connections that are followed; the least recently used one is forgotten.
const MAX_CONNECTIONS: usize = 8_192;
/// Reads of a connection since its last request, without and with known requests: 4 MB in reads of a record each.
const MAX_UNCLAIMED_READS: usize = 4;
const MAX_READS: usize = 256;
/// Reads of all connections beyond which each has [`MAX_UNCLAIMED_READS`].
const MAX_ALL_READS: usize = 16_384;
/// Arrivals of a read.
const MAX_ARRIVALS: usize = 8;
/// Bytes of a request that the broker may have read before a call reads from the socket: what fits into the two buffers
/// of `SslTransportLayer` (`SSLRecord.maxRecordSize` of JDK 25 each).
const MAX_BUFFERED_BYTES: u32 = 2 * 16_709;
/// The least that a record adds to its bytes: its head and the tag of an AEAD cipher (RFC 8446, 5.2; RFC 7905).
const MIN_OVERHEAD: u32 = 5 + 16;

/// A read of a connection by the broker.
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketRead {
    end: Nanos,
    sequence: u32,
    bytes: u32,
    arrivals: [(Nanos, u32); MAX_ARRIVALS],
    arrival_count: usize,
}

impl SocketRead {
    /// A read of that many bytes that ended at a time; `sequence` is the TCP sequence number of the first byte.
    pub fn new(end: Nanos, sequence: u32, bytes: u32) -> Self {
        Self { end, sequence, bytes, ..Self::default() }
    }

    /// Adds an arrival: a time, and how many of the bytes were there by then. In their order; at most eight.
    pub fn add_arrival(&mut self, at: Nanos, bytes: u32) {
        if let Some(free) = self.arrivals.get_mut(self.arrival_count) {
            *free = (at, bytes);
            self.arrival_count += 1;
        }
    }

    fn arrivals(&self) -> &[(Nanos, u32)] {
        self.arrivals.get(..self.arrival_count).unwrap_or_default()
    }

    /// When the first byte had arrived.
    fn first_arrival(&self) -> Option<Nanos> {
        self.arrivals().first().map(|(at, _)| *at)
    }

    /// When all bytes had arrived.
    fn last_arrival(&self) -> Option<Nanos> {
        self.arrivals().last().filter(|(_, bytes)| *bytes >= self.bytes).map(|(at, _)| *at)
    }

    /// When that many of its bytes had arrived, at least one.
    fn arrival_of(&self, bytes: u32) -> Option<Nanos> {
        let bytes = bytes.clamp(1, self.bytes.max(1));
        self.arrivals().iter().find(|(_, there)| *there >= bytes).map(|(at, _)| *at)
    }
}

/// Reads of a connection that may have taken bytes of the next request, and the last one before.
#[derive(Default)]
struct Connection {
    reads: VecDeque<SocketRead>,
    has_requests: bool,
    /// When the last response ended.
    answered: Option<Nanos>,
}

/// The reads of all connections.
pub struct SocketReads {
    connections: Table<(SocketAddr, SocketAddr), Connection>,
    count: usize,
}

impl Default for SocketReads {
    fn default() -> Self {
        Self { connections: Table::new(MAX_CONNECTIONS), count: 0 }
    }
}

impl SocketReads {
    /// Adds a read of the connection between the broker and a client. In the order of time.
    pub fn push(&mut self, broker: SocketAddr, client: SocketAddr, read: SocketRead) {
        let is_crowded = self.count >= MAX_ALL_READS;
        self.change((broker, client), |connection| {
            let is_followed = connection.has_requests && !is_crowded;
            let (max, dropped) = if is_followed { (MAX_READS, 2) } else { (MAX_UNCLAIMED_READS, 0) };
            // The first read of a request says when it came, the last one when it was complete.
            while connection.reads.len() >= max {
                connection.reads.remove(dropped);
            }
            connection.reads.push_back(read);
        });
    }

    /// Forgets all reads: some are missing.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Replaces the times of a request that the agent saw by those at which its bytes arrived, if they are known. In the
    /// order of each connection's requests.
    pub fn refine(&mut self, request: &mut Request) {
        self.change((request.broker, request.client), |connection| connection.refine(request));
    }

    fn change(&mut self, ends: (SocketAddr, SocketAddr), change: impl FnOnce(&mut Connection)) {
        if self.connections.touch(&ends).is_none() {
            let evicted = self.connections.insert(ends, Connection::default());
            self.count -= evicted.map_or(0, |connection| connection.reads.len());
        }
        if let Some(connection) = self.connections.touch(&ends) {
            self.count -= connection.reads.len();
            change(connection);
            self.count += connection.reads.len();
        }
    }
}

impl Connection {
    fn refine(&mut self, request: &mut Request) {
        self.has_requests = true;
        let answered = self.answered;
        self.answered = request.end.or(answered);
        let arrived = self.arrival_of(request);
        self.forget_until(request.arrival_end);
        let Some((arrival, arrival_end)) = arrived else { return };
        (request.read, request.read_end) = (Some(request.arrival), Some(request.arrival_end));
        request.arrival = arrival.min(request.arrival);
        request.arrival_end = arrival_end.clamp(request.arrival, request.arrival_end);
        if let (Some(ahead), Some(answered), Some(end)) = (&mut request.head_of_line, answered, request.end) {
            *ahead = (answered.min(end) - request.arrival_end).at_least_zero();
        }
    }

    /// When the first and the last byte of a request arrived, by the calls that read it.
    fn arrival_of(&self, request: &Request) -> Option<(Nanos, Nanos)> {
        let first_own = self.reads.partition_point(|read| read.end < request.arrival);
        let after_own = self.reads.partition_point(|read| read.end <= request.arrival_end);
        let mut own = self.reads.range(first_own..after_own.max(first_own));
        let Some(first) = own.next() else {
            let before = self.reads.get(first_own.checked_sub(1)?)?.last_arrival()?;
            return Some((before, before));
        };
        let last = own.next_back().unwrap_or(first);
        let wire_bytes =
            request.request_bytes.saturating_add(4 + MIN_OVERHEAD).saturating_sub(MAX_BUFFERED_BYTES);
        let before_last = last.sequence.wrapping_sub(first.sequence);
        let end = last.arrival_of(wire_bytes.saturating_sub(before_last))?;
        Some((first.first_arrival()?, end))
    }

    /// Forgets the reads until a time, except for the last one.
    fn forget_until(&mut self, time: Nanos) {
        let after = self.reads.partition_point(|read| read.end <= time);
        self.reads.drain(..after.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use model::{Nanos, Request};

    use super::{MAX_ALL_READS, MAX_CONNECTIONS, MAX_READS, MAX_UNCLAIMED_READS, SocketRead, SocketReads};

    const BROKER: ([u8; 4], u16) = ([10, 0, 0, 1], 9_093);
    const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 7], 41_000);

    fn read(end: i64, sequence: u32, bytes: u32, arrivals: &[(i64, u32)]) -> SocketRead {
        let mut read = SocketRead::new(Nanos(end), sequence, bytes);
        for (at, bytes) in arrivals {
            read.add_arrival(Nanos(*at), *bytes);
        }
        read
    }

    /// A request that the agent saw read within these times, and answered.
    fn request(called: (i64, i64), end: i64, request_bytes: u32) -> Request {
        Request {
            arrival: Nanos(called.0),
            arrival_end: Nanos(called.1),
            response: Some(Nanos(end - 1)),
            end: Some(Nanos(end)),
            head_of_line: Some(Nanos::ZERO),
            request_bytes,
            ..Request::new(CLIENT.into(), BROKER.into())
        }
    }

    struct Reads(SocketReads);

    impl Reads {
        fn new() -> Self {
            Self(SocketReads::default())
        }

        fn push(&mut self, read: SocketRead) {
            self.0.push(BROKER.into(), CLIENT.into(), read);
        }

        /// Arrival, its end, and the wait behind other requests.
        fn refine(&mut self, mut request: Request) -> (i64, i64, i64) {
            let called = (request.arrival, request.arrival_end);
            self.0.refine(&mut request);
            let is_refined = request.read.is_some();
            assert_eq!(request.read.zip(request.read_end), is_refined.then_some(called));
            (request.arrival.0, request.arrival_end.0, request.head_of_line.unwrap().0)
        }
    }

    #[test]
    fn request_arrived_with_the_bytes_that_its_own_calls_read() {
        let mut reads = Reads::new();
        reads.push(read(105, 0, 300, &[(40, 300)]));
        assert_eq!(reads.refine(request((100, 120), 900, 200)), (40, 40, 0));
        // The next one came while the first was served, and lay in the socket until 950.
        reads.push(read(955, 300, 300, &[(500, 300)]));
        assert_eq!(reads.refine(request((950, 960), 990, 200)), (500, 500, 400));
        // It came in three reads.
        for (end, at, sequence) in [(1_010, 1_000, 600), (1_030, 1_020, 700), (1_050, 1_040, 800)] {
            reads.push(read(end, sequence, 100, &[(at, 100)]));
        }
        assert_eq!(reads.refine(request((1_005, 1_060), 1_090, 200)), (1_000, 1_040, 0));
    }

    #[test]
    fn pipelined_requests_arrived_with_the_read_before_at_the_latest() {
        let mut reads = Reads::new();
        reads.push(read(105, 0, 900, &[(20, 300), (40, 600), (60, 900)]));
        assert_eq!(reads.refine(request((100, 120), 200, 200)), (20, 20, 0));
        assert_eq!(reads.refine(request((210, 220), 300, 200)), (60, 60, 140));
        assert_eq!(reads.refine(request((310, 320), 400, 200)), (60, 60, 240));
        // A read after the call took bytes of the next request.
        reads.push(read(505, 900, 300, &[(450, 300)]));
        assert_eq!(reads.refine(request((500, 520), 600, 200)), (450, 450, 0));
    }

    #[test]
    fn large_request_is_complete_when_its_size_allows() {
        let mut reads = Reads::new();
        reads.push(read(105, 0, 100_000, &[(20, 10_000), (40, 60_000), (60, 90_000), (80, 100_000)]));
        assert_eq!(
            reads.refine(request((100, 120), 200, 99_000)),
            (20, 60, 0),
            "at 65,607 bytes at the earliest"
        );
    }

    #[test]
    fn times_stay_if_no_arrival_is_known() {
        let mut reads = Reads::new();
        assert_eq!(reads.refine(request((100, 120), 200, 50)), (100, 120, 0));
        reads.push(read(305, 0, 100, &[]));
        assert_eq!(reads.refine(request((300, 320), 400, 50)), (300, 320, 0));
        // Its last bytes are older than what is known.
        reads.push(read(505, 100, 100, &[(450, 60)]));
        assert_eq!(reads.refine(request((600, 620), 700, 50)), (600, 620, 0));
        reads.push(read(805, 200, 100, &[(750, 100)]));
        reads.0.clear();
        assert_eq!(reads.refine(request((800, 820), 900, 50)), (800, 820, 0));
    }

    #[test]
    fn arrival_is_never_after_the_call() {
        let mut reads = Reads::new();
        reads.push(read(105, 0, 300, &[(110, 100), (400, 300)]));
        assert_eq!(reads.refine(request((100, 120), 900, 200)), (100, 110, 0));
    }

    #[test]
    fn first_and_last_reads_of_a_huge_request_stay_known() {
        let mut reads = Reads::new();
        reads.push(read(5, 0, 100, &[(1, 100)]));
        assert_eq!(reads.refine(request((2, 8), 9, 50)), (1, 1, 0));
        for i in 0..2_000_u32 {
            let at = i64::from(i);
            reads.push(read(105 + at, 100 + 10_000 * i, 10_000, &[(100 + at, 10_000)]));
        }
        assert_eq!(reads.refine(request((102, 3_000), 4_000, 19_900_000)), (100, 2_099, 0));
    }

    #[test]
    fn memory_is_bounded() {
        let mut reads = SocketReads::default();
        for port in 1_000..10_000 {
            let client = SocketAddr::from((CLIENT.0, port));
            let mut request = Request { client, ..request((0, 0), 1, 1) };
            reads.refine(&mut request);
            (0..300).for_each(|end| reads.push(BROKER.into(), client, read(end, 0, 1, &[])));
        }
        let counted: usize = reads.connections.values_mut().map(|connection| connection.reads.len()).sum();
        assert_eq!(counted, reads.count);
        assert!(counted <= MAX_ALL_READS + MAX_READS + MAX_UNCLAIMED_READS * MAX_CONNECTIONS, "{counted}");
    }
}
