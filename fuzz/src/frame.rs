//! Both directions of a connection through [`wire::stream`]: in pieces, with losses, from the start and from the
//! middle. Also the same bytes as the one answer that brokerscope itself requests.
//!
//! Input: mode, cuts, start and length of a loss, a byte each; then the stream. Bits of the mode: 0 responses, 1 from
//! the middle, 2 message ids requested, 3 losses, 4 repeated, 5 a large one at the end. The request that a response
//! answers is derived from its correlation id, see [`request_of`].

mod seen;

use wire::ApiKey;
use wire::describe_configs::DescribeConfigsResponse;
use wire::stream::{Options, RequestStream, ResponseStream, Start, StreamCounts};

use crate::Target;
use crate::bodies;
use crate::chunks::Cuts;
pub use seen::Frame;

/// The target.
pub const TARGET: Target = Target { name: "frame", check, spare_bytes: 8 << 20 };

const RESPONSES: u8 = 1;
const MIDSTREAM: u8 = 2;
const IDS_WANTED: u8 = 4;
const LOSSES: u8 = 8;
const AGAIN: u8 = 16;
const LARGE_AT_END: u8 = 32;

fn check(data: &[u8]) {
    let Some((&[mode, cuts, loss_at, loss_len], bytes)) = data.split_first_chunk::<4>() else { return };
    let cuts = Cuts::new(cuts);
    if mode & LOSSES != 0 {
        let events = with_losses(bytes, &cuts, mode, (loss_at, loss_len));
        Run::of(mode, &events);
        return;
    }
    let whole = Run::of(mode, &[Event::Bytes(bytes)]);
    let cut = Run::of(mode, &cuts.of(bytes).map(Event::Bytes).collect::<Vec<_>>());
    // A resynchronizing search depends on where chunks start and end.
    if mode & MIDSTREAM == 0 {
        assert_eq!(whole.in_step(), cut.in_step(), "the cuts made a difference");
    }
    if DescribeConfigsResponse::parse(bytes).is_ok() {
        bodies::check_prefixes(bytes, |bytes| DescribeConfigsResponse::parse(bytes).map(drop));
    }
}

/// The request that a response with that number answers.
pub fn request_of(correlation_id: i32) -> Option<(ApiKey, i16)> {
    let api_key = ApiKey(i16::try_from(correlation_id >> 5).ok()?);
    (api_key.is_known()).then_some((api_key, (correlation_id & 31) as i16))
}

/// The correlation id for which [`request_of`] returns this.
pub fn correlation_id(api_key: ApiKey, version: i16) -> i32 {
    (i32::from(api_key.0) << 5) | i32::from(version)
}

/// The options of every stream here: bounds small enough to be reached.
pub fn options(ids_wanted: bool) -> Options {
    Options {
        message_id_header: ids_wanted.then(|| b"id".to_vec().into()),
        max_frame_bytes: 1 << 20,
        max_batch_buffer_bytes: 4 << 10,
        max_decompressed_bytes: 64 << 10,
    }
}

#[derive(Clone, Copy, Debug)]
enum Event<'a> {
    Bytes(&'a [u8]),
    Lost(u64),
}

impl Event<'_> {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Lost(n) => *n,
        }
    }
}

/// The pieces, with those to be lost replaced by losses.
fn with_losses<'a>(bytes: &'a [u8], cuts: &Cuts, mode: u8, (at, len): (u8, u8)) -> Vec<Event<'a>> {
    let mut events = Vec::new();
    let (mut rest, mut before) = (bytes, usize::from(at) * 4);
    while !rest.is_empty() {
        let (kept, after) = rest.split_at(before.min(rest.len()));
        events.extend(cuts.clone().of(kept).map(Event::Bytes));
        let lost = usize::from(len).min(after.len());
        if lost > 0 {
            events.push(Event::Lost(lost as u64));
        }
        rest = &after[lost..];
        let progresses = usize::from(at) + lost > 0;
        before = if mode & AGAIN != 0 && progresses { usize::from(at) } else { usize::MAX };
    }
    if mode & LARGE_AT_END != 0 {
        events.push(Event::Lost(3 << 30));
        events.push(Event::Bytes(bytes));
    }
    events
}

/// The result of one stream, read to its end.
struct Run {
    /// Each frame, and the counts right after it.
    frames: Vec<(Frame, StreamCounts)>,
}

impl Run {
    /// Feeds the events, and checks what must hold for all of them.
    fn of(mode: u8, events: &[Event<'_>]) -> Self {
        let start = if mode & MIDSTREAM == 0 { Start::Boundary } else { Start::Midstream };
        let mut direction = Direction::new(mode & RESPONSES != 0, options(mode & IDS_WANTED != 0), start);
        let mut run = Self { frames: Vec::new() };
        // The start of each event: the stamps.
        let mut starts = Vec::new();
        let (mut position, mut lost) = (0, 0);
        for event in events {
            starts.push(position);
            match event {
                Event::Bytes(bytes) => run.feed(&mut direction, bytes, position),
                Event::Lost(n) => {
                    lost += n;
                    run.take(direction.lost(*n, position), &direction);
                }
            }
            position += event.len();
            run.frames.iter().for_each(|(frame, _)| assert!(frame.first() <= frame.last()));
        }
        run.check_frames(&starts);
        run.check_counts(direction.counts(), position, lost);
        run
    }

    fn feed(&mut self, direction: &mut Direction, bytes: &[u8], at: u64) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (used, frame) = direction.advance(rest, at);
            assert!(used > 0 || frame.is_some(), "no progress");
            self.take(frame, direction);
            rest = rest.get(used..).expect("no more is used than there is");
        }
    }

    fn take(&mut self, frame: Option<Frame>, direction: &Direction) {
        self.frames.extend(frame.map(|frame| (frame, direction.counts())));
    }

    fn check_frames(&self, starts: &[u64]) {
        let stamp_of = |byte: u64| starts[starts.partition_point(|&start| start <= byte) - 1];
        let mut end = 0;
        for (frame, _) in &self.frames {
            let span = frame.span();
            assert!(span.start >= end, "frames overlap");
            assert_eq!(span.end - span.start, u64::from(frame.size()) + 4);
            assert_eq!(frame.first(), stamp_of(span.start), "the first byte's stamp of {frame:?}");
            assert_eq!(frame.last(), stamp_of(span.end - 1), "the last byte's stamp of {frame:?}");
            assert!(frame.elements() as u64 <= span.end - span.start);
            end = span.end;
        }
    }

    fn check_counts(&self, counts: StreamCounts, position: u64, lost: u64) {
        assert_eq!(counts.frames, self.frames.len() as u64);
        assert_eq!(counts.lost_bytes, lost);
        assert!(counts.skipped_bytes + lost <= position, "{counts:?} of {position} bytes");
        let damaged = self.frames.iter().filter(|(frame, _)| frame.is_damaged()).count();
        assert!(counts.undecodable >= damaged as u64, "{counts:?}, {damaged} frames are damaged");
    }

    /// The frames as long as each started where the one before ended: up to there nothing depends on the cuts.
    fn in_step(&self) -> Vec<Frame> {
        let mut damaged = 0;
        let in_step = self.frames.iter().take_while(|(frame, counts)| {
            damaged += u64::from(frame.is_damaged());
            counts.resyncs == 0 && counts.undecodable == damaged
        });
        in_step.map(|(frame, _)| frame.without_stamps()).collect()
    }
}

enum Direction {
    Requests(Box<RequestStream<u64>>),
    Responses(Box<ResponseStream<u64>>),
}

impl Direction {
    fn new(responses: bool, options: Options, start: Start) -> Self {
        if responses {
            Self::Responses(Box::new(ResponseStream::new(options, start)))
        } else {
            Self::Requests(Box::new(RequestStream::new(options, start)))
        }
    }

    fn advance(&mut self, bytes: &[u8], at: u64) -> (usize, Option<Frame>) {
        match self {
            Self::Requests(stream) => {
                let (used, frame) = stream.advance(bytes, at);
                (used, frame.cloned().map(Frame::from))
            }
            Self::Responses(stream) => {
                let (used, frame) = stream.advance(bytes, at, &mut request_of);
                (used, frame.cloned().map(Frame::from))
            }
        }
    }

    fn lost(&mut self, n: u64, at: u64) -> Option<Frame> {
        match self {
            Self::Requests(stream) => stream.lost(n, at).cloned().map(Frame::from),
            Self::Responses(stream) => stream.lost(n, at).cloned().map(Frame::from),
        }
    }

    fn counts(&self) -> StreamCounts {
        match self {
            Self::Requests(stream) => stream.counts(),
            Self::Responses(stream) => stream.counts(),
        }
    }
}
