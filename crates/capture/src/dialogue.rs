//! The two directions of a connection whose client is known: its bytes decoded, its requests paired.
//! Does not know TCP, but that offsets in a stream start at its first byte's sequence number: modulo 2^32 they are
//! sequence numbers.

use wire::stream::{Options, Protocol, RequestFrame, RequestStream, ResponseStream, Start, StreamCounts};

use crate::books::{Books, Rows};
use crate::exchange::{Exchange, Extent, Unanswered};
use crate::reassembly::{Chunk, Content, Stamp};

/// More bytes than any frame has: told to a stream at its end, so that it hands over the frame it is in.
const REST_OF_STREAM: u64 = 1 << 40;

pub(crate) struct Dialogue {
    requests: Option<RequestStream<Stamp>>,
    responses: Option<ResponseStream<Stamp>>,
    pub(crate) exchange: Exchange,
    /// Counts of streams that are no more.
    past: StreamCounts,
    has_data: bool,
}

/// Whether a direction is known from its first byte.
pub(crate) fn start(is_from_start: bool) -> Start {
    if is_from_start { Start::Boundary } else { Start::Midstream }
}

impl Dialogue {
    /// Before the first byte of either side.
    pub(crate) fn new(exchange: Exchange) -> Self {
        Self { requests: None, responses: None, exchange, past: StreamCounts::default(), has_data: false }
    }

    /// From a request that was found before it was known who the client is; the stream goes on behind it.
    pub(crate) fn found(
        exchange: Exchange,
        requests: RequestStream<Stamp>,
        frame: &RequestFrame<Stamp>,
        books: &mut Books,
        out: &mut Rows<'_>,
    ) -> Self {
        let mut dialogue = Self { requests: Some(requests), has_data: true, ..Self::new(exchange) };
        dialogue.exchange.request(frame, Extent::Whole, books, out);
        dialogue
    }

    /// The next part of what the client sends.
    pub(crate) fn hear_client(
        &mut self,
        chunk: Chunk<'_>,
        is_from_start: bool,
        books: &mut Books,
        out: &mut Rows<'_>,
    ) {
        let Self { requests, exchange, has_data, .. } = self;
        let stream = requests.get_or_insert_with(|| {
            RequestStream::new(books.stream_options.clone(), start(is_from_start))
                .from_offset(chunk.sequence.into())
        });
        match chunk.content {
            Content::Gap(bytes, at) => {
                if let Some(frame) = stream.lost(bytes, Stamp::at(at)) {
                    exchange.request(frame, Extent::Lost, books, out);
                }
            }
            // The packet was seen, so when a frame ended that ends in it is known.
            Content::Cut(bytes, stamp) => {
                if let Some(frame) = stream.lost(bytes, stamp) {
                    exchange.request(frame, Extent::Whole, books, out);
                }
            }
            Content::Data(mut bytes, stamp) => {
                *has_data = true;
                while !bytes.is_empty() {
                    let (used, frame) = stream.advance(bytes, stamp);
                    let found = frame.is_some();
                    if let Some(frame) = frame {
                        exchange.request(frame, Extent::Whole, books, out);
                    }
                    if used == 0 && !found {
                        break;
                    }
                    bytes = bytes.get(used..).unwrap_or_default();
                }
            }
        }
    }

    /// The next part of what the broker sends.
    pub(crate) fn hear_broker(
        &mut self,
        chunk: Chunk<'_>,
        is_from_start: bool,
        books: &mut Books,
        out: &mut Rows<'_>,
    ) {
        if let Content::Gap(bytes, _) | Content::Cut(bytes, _) = chunk.content {
            self.exchange.lose_answers(bytes);
        }
        if let Content::Data(..) = chunk.content {
            self.has_data = true;
        }
        if !self.begin_responses(is_from_start, chunk.sequence, &books.stream_options) {
            return;
        }
        let Self { responses: Some(stream), exchange, .. } = self else { return };
        match chunk.content {
            Content::Gap(bytes, at) => {
                if let Some(frame) = stream.lost(bytes, Stamp::at(at)) {
                    exchange.response(frame, Extent::Lost, books, out);
                }
            }
            Content::Cut(bytes, stamp) => {
                if let Some(frame) = stream.lost(bytes, stamp) {
                    exchange.response(frame, Extent::Whole, books, out);
                }
            }
            Content::Data(mut bytes, stamp) => {
                while !bytes.is_empty() {
                    let (used, frame) = stream.advance(bytes, stamp, &mut |id| exchange.asked(id));
                    let found = frame.is_some();
                    if let Some(frame) = frame {
                        exchange.response(frame, Extent::Whole, books, out);
                    }
                    if used == 0 && !found {
                        break;
                    }
                    bytes = bytes.get(used..).unwrap_or_default();
                }
            }
        }
    }

    /// Makes sure there is somebody to hear responses. In the middle of a stream only an expected
    /// correlation id shows where one begins, so until a request waits there is nothing to look for; and
    /// a stream that gave up gets another chance then.
    fn begin_responses(&mut self, is_from_start: bool, sequence: u32, options: &Options) -> bool {
        if self.responses.as_ref().is_some_and(|stream| stream.protocol() == Protocol::Other) {
            self.past =
                sum(self.past, self.responses.take().map(|stream| stream.counts()).unwrap_or_default());
        }
        let is_first = self.past == StreamCounts::default();
        if self.responses.is_none() && ((is_from_start && is_first) || self.exchange.is_waiting()) {
            let stream = ResponseStream::new(options.clone(), start(is_from_start && is_first));
            self.responses = Some(stream.from_offset(sequence.into()));
        }
        self.responses.is_some()
    }

    /// What the connection turned out to be: the client's side says, unless the broker's is TLS.
    pub(crate) fn protocol(&self) -> Protocol {
        let requests = self.requests.as_ref().map(RequestStream::protocol).unwrap_or_default();
        let responses = self.responses.as_ref().map(ResponseStream::protocol).unwrap_or_default();
        if responses == Protocol::Tls { Protocol::Tls } else { requests }
    }

    /// Whether there were bytes.
    pub(crate) fn has_data(&self) -> bool {
        self.has_data
    }

    /// Whether there were bytes, and none of them Kafka's.
    pub(crate) fn is_unrecognized(&self) -> bool {
        self.has_data && self.protocol() == Protocol::Unknown
    }

    pub(crate) fn counts(&self) -> StreamCounts {
        let requests = self.requests.as_ref().map(RequestStream::counts).unwrap_or_default();
        let responses = self.responses.as_ref().map(ResponseStream::counts).unwrap_or_default();
        sum(self.past, sum(requests, responses))
    }

    /// No more bytes will come: every request gets its row. Call [`Self::counts`] before.
    pub(crate) fn end(&mut self, why: Unanswered, books: &mut Books, out: &mut Rows<'_>) {
        let Self { requests, responses, exchange, .. } = self;
        if let Some(frame) =
            responses.as_mut().and_then(|stream| stream.lost(REST_OF_STREAM, Stamp::default()))
        {
            exchange.response(frame, Extent::Cut, books, out);
        }
        if let Some(frame) =
            requests.as_mut().and_then(|stream| stream.lost(REST_OF_STREAM, Stamp::default()))
        {
            exchange.request(frame, Extent::Cut, books, out);
        }
        exchange.give_up_all(why, books, out);
    }
}

fn sum(one: StreamCounts, other: StreamCounts) -> StreamCounts {
    StreamCounts {
        frames: one.frames + other.frames,
        undecodable: one.undecodable + other.undecodable,
        sasl_tokens: one.sasl_tokens + other.sasl_tokens,
        resyncs: one.resyncs + other.resyncs,
        skipped_bytes: one.skipped_bytes + other.skipped_bytes,
        lost_bytes: one.lost_bytes + other.lost_bytes,
    }
}
