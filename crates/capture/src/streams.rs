//! What a connection carries: Kafka, decoded and paired, or something else.
//! Does not know TCP, except that stream offsets start at the first byte's sequence number: modulo 2^32 they are
//! sequence numbers.

use std::net::SocketAddr;

use model::{Nanos, TlsCount};
use wire::ApiKey;
use wire::stream::{
    FrameError, Options, Protocol, RequestFrame, RequestStream, ResponseStream, Start, StreamCounts,
};

use crate::context::Context;
use crate::counters::add_growth;
use crate::exchange::{Exchange, Extent, NoResponse};
use crate::idle::IdleConnection;
use crate::link::Side;
use crate::reassembly::{Chunk, Content, Stamp};

/// More bytes than any frame has: reported lost at a stream's end, so that the decoder returns its unfinished frame.
const REST_OF_STREAM: u64 = 1 << 40;

/// Both ends of a connection.
pub(crate) type Ends = (SocketAddr, SocketAddr);

/// The protocol of a connection, as far as known.
pub(crate) enum State {
    /// The client is not known yet.
    /// If a connection is joined midway on an unknown port, each side is decoded as the client's until one of them sends
    /// what can only be a request.
    Undecided(Box<(Candidate, Candidate)>),
    /// Kafka, with the client on this side.
    Kafka(Side, Box<KafkaStreams>),
    /// TLS to this listener: nothing can be read.
    Tls(SocketAddr),
    /// Not Kafka, or over.
    Done,
}

impl State {
    /// Before the first byte; `client` is the client's side, if known already.
    pub(crate) fn new(ends: Ends, client: Option<Side>) -> Self {
        match client {
            None => Self::Undecided(Box::default()),
            Some(side) => Self::Kafka(side, Box::new(KafkaStreams::new(ends, side))),
        }
    }

    /// Resumes an idle connection in the buffers of another one.
    pub(crate) fn resumed(self, ends: Ends, idle: IdleConnection) -> Self {
        let Self::Kafka(_, mut streams) = self else { return Self::new(ends, Some(idle.client)) };
        streams.restart(ends, idle);
        Self::Kafka(idle.client, streams)
    }

    /// Whether nothing more will be decoded.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Tls(_) | Self::Done)
    }

    /// The listener of a TLS connection.
    pub(crate) fn tls_listener(&self) -> Option<SocketAddr> {
        if let Self::Tls(listener) = self { Some(*listener) } else { None }
    }

    /// The client's side, if no frame is in progress and no request is pending.
    /// A direction without a byte so far counts as between frames if it `is_at_start`.
    pub(crate) fn idle_client(&self, is_at_start: (bool, bool)) -> Option<Side> {
        let Self::Kafka(client, streams) = self else { return None };
        streams.are_idle(client.split(is_at_start)).then_some(*client)
    }

    /// Whether the broker is on `side` and no completely captured request is pending.
    pub(crate) fn sends_unprompted(&self, side: Side) -> bool {
        matches!(self, Self::Kafka(client, streams) if *client != side && !streams.exchange.is_waiting())
    }

    /// Its memory in bytes.
    pub(crate) fn kept_bytes(&self) -> usize {
        match self {
            Self::Undecided(candidates) => {
                size_of_val(&**candidates) + candidates.0.kept_bytes() + candidates.1.kept_bytes()
            }
            Self::Kafka(_, streams) => size_of_val(&**streams) + streams.kept_bytes(),
            Self::Tls(_) | Self::Done => 0,
        }
    }

    /// Frees the buffers of frames that have been read.
    pub(crate) fn release_buffers(&mut self) {
        if let Self::Kafka(_, streams) = self {
            streams.release_buffers();
        }
    }

    /// Emits the rows of requests that have waited too long.
    pub(crate) fn give_up_late(&mut self, now: Nanos, cx: &mut Context) {
        if let Self::Kafka(_, streams) = self {
            streams.exchange.give_up_late(now, cx);
        }
    }

    /// Decodes the next chunk that `side` sends.
    pub(crate) fn on_data(
        &mut self,
        side: Side,
        chunk: Chunk<'_>,
        is_from_start: bool,
        ends: Ends,
        cx: &mut Context,
    ) {
        match self {
            Self::Tls(_) | Self::Done => {}
            Self::Undecided(candidates) => match recognize(candidates, side, chunk, is_from_start, cx) {
                Recognition::Nothing => {}
                Recognition::Other(protocol) => self.dismiss(protocol, ends, cx),
                Recognition::Request { stream, frame, rest } => {
                    let mut streams = KafkaStreams::new(ends, side);
                    (streams.requests, streams.has_data) = (Some(*stream), true);
                    streams.exchange.request(&frame, Extent::Whole, cx);
                    streams.count(cx);
                    *self = Self::Kafka(side, Box::new(streams));
                    if let Some(rest) = rest {
                        self.on_data(side, rest, is_from_start, ends, cx);
                    }
                }
            },
            Self::Kafka(client, streams) => {
                if *client == side {
                    streams.on_client_data(chunk, is_from_start, cx);
                } else {
                    streams.on_broker_data(chunk, is_from_start, cx);
                }
                let protocol = streams.protocol();
                if matches!(protocol, Protocol::Tls | Protocol::Other) {
                    self.dismiss(protocol, ends, cx);
                }
            }
        }
    }

    /// The broker's end.
    /// If the client is unknown, the end with the lower port, because clients use high ones.
    fn broker_end(&self, ends: Ends) -> SocketAddr {
        match self {
            Self::Kafka(client, _) => client.split(ends).1,
            _ if ends.0.port() < ends.1.port() => ends.0,
            _ => ends.1,
        }
    }

    /// Stops decoding: the connection costs nothing from here on.
    fn dismiss(&mut self, protocol: Protocol, ends: Ends, cx: &mut Context) {
        let is_tls = protocol == Protocol::Tls;
        cx.counters.tls_connections += u64::from(is_tls);
        cx.counters.other_connections += u64::from(!is_tls);
        if let Self::Kafka(_, streams) = self {
            streams.exchange.give_up_all(NoResponse::ConnectionEnded, cx);
        }
        if !is_tls {
            *self = Self::Done;
            return;
        }
        let listener = self.broker_end(ends);
        cx.tls.add(listener, TlsCount { connections: 1, bytes: 0 });
        *self = Self::Tls(listener);
    }

    /// Ends the streams.
    /// A connection of which only one side was captured counts as one-sided even if it is not Kafka: responses alone
    /// cannot be told from something else.
    pub(crate) fn end(&mut self, why: NoResponse, is_one_sided: bool, cx: &mut Context) {
        let (has_data, is_unrecognized) = match self {
            Self::Tls(_) | Self::Done => return,
            Self::Undecided(candidates) => {
                let has_data = !matches!(**candidates, (Candidate::Silent, Candidate::Silent));
                (has_data, has_data)
            }
            Self::Kafka(_, streams) => {
                (streams.has_data, streams.has_data && streams.protocol() == Protocol::Unknown)
            }
        };
        if is_one_sided && has_data {
            cx.counters.one_sided_connections += 1;
        } else {
            cx.counters.other_connections += u64::from(is_unrecognized);
        }
        if let Self::Kafka(_, streams) = self {
            streams.end(why, cx);
        }
        *self = Self::Done;
    }
}

/// The two directions of a connection whose client is known.
pub(crate) struct KafkaStreams {
    requests: Option<RequestStream<Stamp>>,
    responses: Option<ResponseStream<Stamp>>,
    exchange: Exchange,
    /// Counts of streams that were replaced.
    past: StreamCounts,
    /// The part of all counts that was already added to the counters.
    counted: StreamCounts,
    has_data: bool,
    /// Memory of each decoder after its last bytes.
    kept_bytes: (usize, usize),
}

/// Bytes of a stream, or a number of missing ones.
enum Input<'a> {
    Bytes(&'a [u8]),
    Lost(u64),
}

/// Feeds a part of a stream to a decoder. The decoder returns how many bytes it used and whether a frame ended.
fn feed(content: Content<'_>, mut decode: impl FnMut(Input<'_>, Stamp, Extent) -> (usize, bool)) {
    match content {
        Content::Gap(bytes, at) => drop(decode(Input::Lost(bytes), Stamp::at(at), Extent::Lost)),
        // The packet was captured, so the end time of a frame that ends in it is known.
        Content::Cut(bytes, stamp) => drop(decode(Input::Lost(bytes), stamp, Extent::Whole)),
        Content::Data(mut bytes, stamp) => {
            while !bytes.is_empty() {
                let (used, found) = decode(Input::Bytes(bytes), stamp, Extent::Whole);
                if used == 0 && !found {
                    break;
                }
                bytes = bytes.get(used..).unwrap_or_default();
            }
        }
    }
}

/// Whether a direction is known from its first byte.
fn start(is_from_start: bool) -> Start {
    if is_from_start { Start::Boundary } else { Start::Midstream }
}

impl KafkaStreams {
    fn new(ends: Ends, client: Side) -> Self {
        let (client, broker) = client.split(ends);
        Self {
            requests: None,
            responses: None,
            exchange: Exchange::new(client, broker),
            past: StreamCounts::default(),
            counted: StreamCounts::default(),
            has_data: false,
            kept_bytes: (0, 0),
        }
    }

    fn kept_bytes(&self) -> usize {
        self.kept_bytes.0 + self.kept_bytes.1 + self.exchange.kept_bytes()
    }

    /// Resumes an idle connection in the same buffers.
    fn restart(&mut self, ends: Ends, idle: IdleConnection) {
        let (request_seq, response_seq) = idle.client.split(idle.next);
        self.requests.iter_mut().for_each(|stream| stream.restart(request_seq.into()));
        self.responses.iter_mut().for_each(|stream| stream.restart(response_seq.into()));
        let (client, broker) = idle.client.split(ends);
        self.exchange.restart(client, broker);
        (self.past, self.counted, self.has_data) = Default::default();
    }

    fn are_idle(&self, is_at_start: (bool, bool)) -> bool {
        let requests = self.requests.as_ref().map_or(is_at_start.0, RequestStream::is_between_frames);
        let responses = self.responses.as_ref().map_or(is_at_start.1, ResponseStream::is_between_frames);
        requests && responses && !self.exchange.is_waiting()
    }

    fn release_buffers(&mut self) {
        let Self { requests, responses, kept_bytes, .. } = self;
        if let Some(requests) = requests {
            requests.release_buffers();
            kept_bytes.0 = requests.kept_bytes();
        }
        if let Some(responses) = responses {
            responses.release_buffers();
            kept_bytes.1 = responses.kept_bytes();
        }
    }

    fn on_client_data(&mut self, chunk: Chunk<'_>, is_from_start: bool, cx: &mut Context) {
        let Self { requests, exchange, has_data, .. } = self;
        *has_data |= matches!(chunk.content, Content::Data(..));
        let stream =
            requests.get_or_insert_with(|| request_stream(&chunk, is_from_start, &cx.stream_options));
        feed(chunk.content, |input, stamp, extent| {
            let (used, frame) = match input {
                Input::Bytes(bytes) => stream.advance(bytes, stamp),
                Input::Lost(bytes) => (0, stream.lost(bytes, stamp)),
            };
            let found = frame.map(|frame| exchange.request(frame, extent, cx));
            (used, found.is_some())
        });
        self.kept_bytes.0 = stream.kept_bytes();
        self.count(cx);
    }

    fn on_broker_data(&mut self, chunk: Chunk<'_>, is_from_start: bool, cx: &mut Context) {
        let mut seen = None;
        match chunk.content {
            Content::Gap(bytes, _) | Content::Cut(bytes, _) => self.exchange.add_lost_answers(bytes),
            Content::Data(_, stamp) => seen = Some(stamp.seen),
        }
        self.has_data |= seen.is_some();
        self.begin_responses(is_from_start, chunk.sequence, &cx.stream_options);
        let Self { responses: Some(stream), exchange, .. } = self else { return };
        feed(chunk.content, |input, stamp, extent| {
            let (used, frame) = match input {
                Input::Bytes(bytes) => stream.advance(bytes, stamp, &mut |id| exchange.find_pending(id)),
                Input::Lost(bytes) => (0, stream.lost(bytes, stamp)),
            };
            let found = frame.map(|frame| exchange.response(frame, extent, cx));
            (used, found.is_some())
        });
        if let Some(seen) = seen.filter(|_| stream.is_searching()) {
            exchange.note_unmatched(seen);
        }
        self.kept_bytes.1 = stream.kept_bytes();
        self.count(cx);
    }

    /// Ensures that responses are decoded.
    /// In the middle of a stream, only an expected correlation id shows where a response starts, so there is nothing to
    /// look for until a request is pending. A stream that gave up gets another chance then.
    fn begin_responses(&mut self, is_from_start: bool, sequence: u32, options: &Options) {
        let gave_up = |stream: &mut ResponseStream<Stamp>| stream.protocol() == Protocol::Other;
        if let Some(stream) = self.responses.take_if(gave_up) {
            self.past += stream.counts();
        }
        let is_first = self.past == StreamCounts::default();
        if self.responses.is_none() && ((is_from_start && is_first) || self.exchange.is_waiting()) {
            let stream = ResponseStream::new(options.clone(), start(is_from_start && is_first));
            self.responses = Some(stream.from_offset(sequence.into()));
        }
    }

    /// The connection's protocol: that of the client's side, unless the broker's is TLS.
    fn protocol(&self) -> Protocol {
        let requests = self.requests.as_ref().map(RequestStream::protocol).unwrap_or_default();
        let responses = self.responses.as_ref().map(ResponseStream::protocol).unwrap_or_default();
        if responses == Protocol::Tls { Protocol::Tls } else { requests }
    }

    /// Adds the streams' counts since the last call.
    fn count(&mut self, cx: &mut Context) {
        let mut counts = self.past;
        counts += self.requests.as_ref().map(RequestStream::counts).unwrap_or_default();
        counts += self.responses.as_ref().map(ResponseStream::counts).unwrap_or_default();
        add_growth(&mut cx.counters, std::mem::replace(&mut self.counted, counts), counts);
    }

    /// Ends both streams: every request gets its row.
    fn end(&mut self, why: NoResponse, cx: &mut Context) {
        let Self { requests, responses, exchange, .. } = self;
        let at = Stamp::default();
        if let Some(frame) = responses.as_mut().and_then(|stream| stream.lost(REST_OF_STREAM, at)) {
            exchange.response(frame, Extent::Cut, cx);
        }
        if let Some(frame) = requests.as_mut().and_then(|stream| stream.lost(REST_OF_STREAM, at)) {
            exchange.request(frame, Extent::Cut, cx);
        }
        exchange.give_up_all(why, cx);
    }
}

fn request_stream(chunk: &Chunk<'_>, is_from_start: bool, options: &Options) -> RequestStream<Stamp> {
    RequestStream::new(options.clone(), start(is_from_start)).from_offset(chunk.sequence.into())
}

/// One side of a connection whose client is not known.
#[derive(Default)]
pub(crate) enum Candidate {
    #[default]
    Silent,
    Sender(Box<RequestStream<Stamp>>),
    NotAClient,
}

impl Candidate {
    fn kept_bytes(&self) -> usize {
        let Self::Sender(stream) = self else { return 0 };
        size_of_val(&**stream) + stream.kept_bytes()
    }
}

/// What the latest bytes of such a connection show.
enum Recognition<'a> {
    Nothing,
    /// The connection is not Kafka.
    Other(Protocol),
    /// A request: its sender is the client.
    Request {
        stream: Box<RequestStream<Stamp>>,
        frame: Box<RequestFrame<Stamp>>,
        rest: Option<Chunk<'a>>,
    },
}

fn recognize<'a>(
    sides: &mut (Candidate, Candidate),
    side: Side,
    chunk: Chunk<'a>,
    is_from_start: bool,
    cx: &Context,
) -> Recognition<'a> {
    let (mine, theirs) = side.split((&mut sides.0, &mut sides.1));
    if matches!(mine, Candidate::Silent) {
        *mine = Candidate::Sender(Box::new(request_stream(&chunk, is_from_start, &cx.stream_options)));
    }
    let Candidate::Sender(stream) = mine else { return Recognition::Nothing };
    if let Some((frame, rest)) = first_request(stream, chunk, &cx.stream_options) {
        let Candidate::Sender(stream) = std::mem::take(mine) else { return Recognition::Nothing };
        return Recognition::Request { stream, frame, rest };
    }
    match stream.protocol() {
        Protocol::Tls => return Recognition::Other(Protocol::Tls),
        Protocol::Other => *mine = Candidate::NotAClient,
        Protocol::Unknown | Protocol::Kafka => {}
    }
    match (mine, theirs) {
        (Candidate::NotAClient, Candidate::NotAClient) => Recognition::Other(Protocol::Other),
        _ => Recognition::Nothing,
    }
}

type FirstRequest<'a> = (Box<RequestFrame<Stamp>>, Option<Chunk<'a>>);

/// The first request in a chunk that decodes, and the rest of the chunk.
/// A response mistaken for a request may look plausible at first, but it is very unlikely that its body decodes as
/// well.
fn first_request<'a>(
    stream: &mut RequestStream<Stamp>,
    chunk: Chunk<'a>,
    options: &Options,
) -> Option<FirstRequest<'a>> {
    let mut sequence = chunk.sequence;
    match chunk.content {
        Content::Gap(bytes, at) => request_at_loss(stream, sequence, bytes, Stamp::at(at), options),
        Content::Cut(bytes, stamp) => request_at_loss(stream, sequence, bytes, stamp, options),
        Content::Data(mut bytes, stamp) => {
            while !bytes.is_empty() {
                let (used, frame) = stream.advance(bytes, stamp);
                let is_stuck = used == 0 && frame.is_none();
                bytes = bytes.get(used..).unwrap_or_default();
                sequence = sequence.wrapping_add(used as u32);
                if let Some(frame) = frame.filter(|frame| is_request(frame)) {
                    let rest = Chunk { sequence, content: Content::Data(bytes, stamp) };
                    return Some((Box::new(frame.clone()), Some(rest)));
                }
                if is_stuck {
                    break;
                }
            }
            None
        }
    }
}

/// The request that missing bytes ended, without a rest.
/// A Produce response starts like a Produce request (number, topics, name), so a truncated one proves nothing, and the
/// search starts over.
fn request_at_loss<'a>(
    stream: &mut RequestStream<Stamp>,
    sequence: u32,
    bytes: u64,
    stamp: Stamp,
    options: &Options,
) -> Option<FirstRequest<'a>> {
    let frame = stream.lost(bytes, stamp).filter(|frame| is_request(frame))?;
    if frame.api_key == ApiKey::PRODUCE && frame.error.is_some() {
        let fresh = RequestStream::new(options.clone(), Start::Midstream);
        *stream = fresh.from_offset(sequence.wrapping_add(bytes as u32).into());
        return None;
    }
    Some((Box::new(frame.clone()), None))
}

fn is_request(frame: &RequestFrame<Stamp>) -> bool {
    !matches!(frame.error, Some(FrameError::Malformed(_)))
}
