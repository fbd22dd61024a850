//! The process that parses what a JVM writes: chunks of Flight Recorder and thread dumps. The watch opens the chunks and
//! requests the dumps, and receives events and names. The broker's user chooses these bytes, so the process opens nothing and
//! needs no capability. Fuzzed by: rows.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use jvm::jfr::{JfrEvent, Tail};
use jvm::threads;
use model::{ClockOffset, Nanos, Pid, Tid};
use serde::{Deserialize, Serialize};

use super::channel::{Channel, Kind, invalid};
use super::transfer::Transfer;
use super::{Rows, ignore_hangup};

/// A message from the watch to its JVM parser.
/// A thread dump is sent as [`Kind::Log`], in pieces.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum JvmOrder {
    /// Begins a recording of this process. Events that ended before `since_ns` are left out.
    Recording { pid: Pid, clock: ClockOffset, since_ns: i64 },
    /// Adds a chunk to the recording; its descriptor comes with this.
    Chunk { name: String },
    /// Sends the new events of the recording's chunks; with `is_last`, also those that were held back.
    Events { is_last: bool },
    /// Sends the names in the thread dump, and forgets the dump.
    Names,
}

/// The last message of a response to [`JvmOrder::Events`] or [`JvmOrder::Names`].
/// Events and names are sent as [`Kind::Rows`] before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JvmCounts {
    /// Parts of the recording that could not be read.
    pub(crate) damaged: u64,
}

/// A thread's id in the JVM's pid namespace, and its name.
pub(crate) type NamedThread = (Tid, Arc<str>);

/// Timeout for reading an order. Long, because each timeout wakes the process.
const WAIT: Duration = Duration::from_secs(3_600);

/// Parses a JVM's data for the watch at the other end of the socket.
/// Ends when the watch is gone. The caller must have entered the sandbox.
///
/// # Errors
/// The socket cannot be read or written, or a message is not an order.
pub fn parse_jvm(socket: OwnedFd) -> io::Result<()> {
    ignore_hangup(parse(Channel::new(UnixStream::from(socket))))
}

fn parse(mut channel: Channel) -> io::Result<()> {
    // The name that a thread for this would have.
    let _ = rustix::thread::set_name(c"brokerscope-jvm");
    let _ = probes::set_sched_batch();
    let mut parser = JvmParser::default();
    loop {
        let order = match channel.receive(WAIT)? {
            Some((Kind::Log, piece)) => {
                parser.add_to_dump(piece)?;
                continue;
            }
            Some((Kind::Json, order)) => serde_json::from_slice(order)?,
            Some(_) => return Err(invalid()),
            None => continue,
        };
        parser.execute(order, &mut channel)?;
    }
}

#[derive(Default)]
struct JvmParser {
    recording: Option<Tail>,
    /// Chunks and events of the recording that were dropped.
    dropped: u64,
    dump: Vec<u8>,
    rows: Rows,
}

impl JvmParser {
    fn add_to_dump(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.dump.len() + piece.len() > threads::MAX_DUMP_BYTES {
            return Err(invalid());
        }
        self.dump.extend_from_slice(piece);
        Ok(())
    }

    fn execute(&mut self, order: JvmOrder, channel: &mut Channel) -> io::Result<()> {
        match order {
            JvmOrder::Recording { pid, clock, since_ns } => {
                self.recording = Some(Tail::of(pid, clock, Nanos(since_ns)));
                self.dropped = 0;
                Ok(())
            }
            JvmOrder::Chunk { name } => {
                let file = File::from(channel.take_descriptor().ok_or_else(invalid)?);
                self.recording.as_mut().ok_or_else(invalid)?.add(name, file);
                Ok(())
            }
            JvmOrder::Events { is_last } => self.send_events(is_last, channel),
            JvmOrder::Names => self.send_names(channel),
        }
    }

    fn send_events(&mut self, is_last: bool, channel: &Channel) -> io::Result<()> {
        let Self { recording, dropped, rows, .. } = self;
        let tail = recording.as_mut().ok_or_else(invalid)?;
        let mut sent = Ok(());
        let mut emit = |event| {
            rows.push(&event);
            if rows.is_full() && sent.is_ok() {
                sent = rows.send(channel);
            }
        };
        *dropped += u64::from(tail.poll(crate::now(), &mut emit).is_err());
        if is_last {
            tail.finish(&mut emit);
        }
        sent?;
        *dropped += std::mem::take(&mut rows.dropped);
        let summary = tail.summary();
        let damaged = *dropped + summary.damaged + summary.lost;
        self.respond(JvmCounts { damaged }, channel)
    }

    fn send_names(&mut self, channel: &Channel) -> io::Result<()> {
        for (tid, name) in threads::parse_names(&std::mem::take(&mut self.dump)) {
            let named: NamedThread = (tid, name);
            self.rows.push(&named);
            if self.rows.is_full() {
                self.rows.send(channel)?;
            }
        }
        self.respond(JvmCounts::default(), channel)
    }

    fn respond(&mut self, counts: JvmCounts, channel: &Channel) -> io::Result<()> {
        self.rows.send(channel)?;
        channel.send_json(&counts, None)
    }
}

impl Transfer for JfrEvent {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Self::LockWait(wait) => {
                0u8.put(to);
                wait.put(to);
            }
            Self::Pause(pause) => {
                1u8.put(to);
                pause.put(to);
            }
            Self::HandlerCall(call) => {
                2u8.put(to);
                call.put(to);
            }
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        match u8::take(from)? {
            0 => Transfer::take(from).map(Self::LockWait),
            1 => Transfer::take(from).map(Self::Pause),
            2 => Transfer::take(from).map(Self::HandlerCall),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{self, Write as _};
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;
    use std::thread::JoinHandle;

    use jvm::jfr::JfrEvent;
    use jvm::threads::MAX_DUMP_BYTES;
    use model::{
        HandlerCall, JvmPause, JvmPauseKind, Lock, LockHolder, LockKind, LockSource, LockWait, Nanos,
    };

    use super::super::channel::MAX_MESSAGE;
    use super::super::transfer::{Transfer, take_rows};
    use super::{Channel, ClockOffset, Duration, JvmCounts, JvmOrder, Kind, NamedThread, parse};

    /// A parser, and the watch's end of its socket.
    struct TestParser {
        channel: Channel,
        ended: JoinHandle<io::Result<()>>,
    }

    impl TestParser {
        fn start() -> Self {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let ended = std::thread::spawn(move || parse(Channel::new(theirs)));
            Self { channel: Channel::new(ours), ended }
        }

        fn order(&self, order: &JvmOrder, file: Option<&File>) {
            self.channel.send_json(order, file.map(|file| file.as_fd())).unwrap();
        }

        /// Reads a response.
        fn response<T: Transfer>(&mut self) -> (Vec<T>, JvmCounts) {
            let mut rows = Vec::new();
            loop {
                match self.channel.receive(Duration::from_secs(10)).unwrap() {
                    Some((Kind::Rows, body)) => take_rows(body, |row| rows.push(row)).unwrap(),
                    Some((Kind::Json, body)) => return (rows, serde_json::from_slice(body).unwrap()),
                    other => panic!("{other:?}"),
                }
            }
        }

        /// The error with which the parser ends.
        fn error(self) -> io::Error {
            self.ended.join().unwrap().unwrap_err()
        }
    }

    fn recording() -> JvmOrder {
        JvmOrder::Recording { pid: 7, clock: ClockOffset::from_ns(0), since_ns: i64::MIN }
    }

    fn events() -> [JfrEvent; 3] {
        let wait = LockWait {
            start: Nanos(3),
            end: Nanos(i64::MAX),
            pid: 7,
            tid: 9,
            thread: "data-plane-kafka-request-handler-3".into(),
            lock: Lock { kind: LockKind::Park, class: "java.lang.Object".into(), address: u64::MAX },
            holder: Some(LockHolder { tid: None, thread: "ü".into() }),
            stack: "a;b".into(),
            source: LockSource::Jfr,
        };
        let pause = JvmPause {
            start: Nanos(-1),
            end: Nanos(4),
            pid: 7,
            kind: JvmPauseKind::Safepoint,
            operation: "".into(),
            cause: "System.gc()".into(),
            gc_id: Some(3),
            time_to_safepoint: None,
        };
        let call = HandlerCall {
            start: Nanos(1),
            end: Nanos(2),
            pid: 7,
            tid: 9,
            thread: "h".into(),
            method: "kafka.server.KafkaApis.handle".into(),
        };
        [JfrEvent::LockWait(wait), JfrEvent::Pause(pause), JfrEvent::HandlerCall(call)]
    }

    #[test]
    fn events_round_trip_and_each_prefix_is_refused() {
        for event in events() {
            let mut bytes = Vec::new();
            event.put(&mut bytes);
            assert_eq!(JfrEvent::take(&mut &bytes[..]), Some(event));
            for end in 0..bytes.len() {
                assert_eq!(JfrEvent::take(&mut &bytes[..end]), None, "{end}");
            }
        }
        assert_eq!(JfrEvent::take(&mut &[9; 200][..]), None);
    }

    #[test]
    fn names_are_those_of_the_dump_sent_since_the_last_answer() {
        let mut parser = TestParser::start();
        for name in ["first", "second"] {
            let dump = format!("Full thread dump:\n\n\"{name}\" #1 prio=5 tid=0x1 nid=0x10 runnable\n");
            for piece in dump.as_bytes().chunks(20) {
                parser.channel.send(Kind::Log, piece, None).unwrap();
            }
            parser.order(&JvmOrder::Names, None);
            let (names, counts) = parser.response::<NamedThread>();
            assert_eq!((names, counts), (vec![(16, name.into())], JvmCounts::default()));
        }
    }

    #[test]
    fn damaged_chunk_is_counted_and_another_recording_begins_at_zero() {
        let mut parser = TestParser::start();
        let mut chunk = tempfile::tempfile().unwrap();
        // A finished chunk that ends after its header, although it says that there is more.
        let mut header = b"FLR\0\0\x02\0\x01".to_vec();
        header.extend([100u64, 0, 68, 1, 1, 1, 1].map(u64::to_be_bytes).concat());
        header.extend([0, 0, 0, 1]);
        chunk.write_all(&header).unwrap();
        for expected in [1, 0] {
            parser.order(&recording(), None);
            if expected > 0 {
                parser.order(&JvmOrder::Chunk { name: "1.jfr".into() }, Some(&chunk));
            }
            parser.order(&JvmOrder::Events { is_last: true }, None);
            let (events, counts) = parser.response::<JfrEvent>();
            assert_eq!((events.len(), counts), (0, JvmCounts { damaged: expected }));
        }
    }

    #[test]
    fn orders_out_of_place_and_endless_dumps_are_errors() {
        for order in
            [JvmOrder::Events { is_last: false }, JvmOrder::Chunk { name: "without a descriptor".into() }]
        {
            let parser = TestParser::start();
            parser.order(&order, None);
            assert_eq!(parser.error().kind(), io::ErrorKind::InvalidData, "{order:?}");
        }
        let parser = TestParser::start();
        let piece = vec![b'x'; MAX_MESSAGE];
        for _ in 0..=MAX_DUMP_BYTES / MAX_MESSAGE {
            // The last one may meet a closed socket.
            let _ = parser.channel.send(Kind::Log, &piece, None);
        }
        assert_eq!(parser.error().kind(), io::ErrorKind::InvalidData);
    }
}
