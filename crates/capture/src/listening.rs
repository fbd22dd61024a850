//! A connection joined midway on no known port: both sides are listened to until one of them says what
//! can only be a request. Does not pair anything.

use wire::ApiKey;
use wire::stream::{FrameError, Protocol, RequestFrame, RequestStream, Start};

use crate::books::Books;
use crate::connection::Side;
use crate::dialogue::start;
use crate::reassembly::{Chunk, Content, Stamp};

/// A stream of each side taken for the client's.
#[derive(Default)]
pub(crate) struct Listening {
    sides: (Candidate, Candidate),
}

#[derive(Default)]
enum Candidate {
    #[default]
    Silent,
    Listening(Box<RequestStream<Stamp>>),
    NotAClient,
}

/// What the last bytes told.
pub(crate) enum Heard<'a> {
    Nothing,
    /// The connection is none of Kafka's.
    Other(Protocol),
    /// A request: the side that sent it is the client.
    Request {
        stream: Box<RequestStream<Stamp>>,
        frame: Box<RequestFrame<Stamp>>,
        rest: Option<Chunk<'a>>,
    },
}

impl Listening {
    pub(crate) fn hear<'a>(
        &mut self,
        side: Side,
        chunk: Chunk<'a>,
        is_from_start: bool,
        books: &Books,
    ) -> Heard<'a> {
        let (mine, theirs) = side.split((&mut self.sides.0, &mut self.sides.1));
        if matches!(mine, Candidate::Silent) {
            let stream = RequestStream::new(books.stream_options.clone(), start(is_from_start));
            let stream = stream.from_offset(chunk.sequence.into());
            *mine = Candidate::Listening(Box::new(stream));
        }
        let Candidate::Listening(stream) = mine else { return Heard::Nothing };
        if let Some((frame, rest)) = first_request(stream, chunk, books) {
            let Candidate::Listening(stream) = std::mem::take(mine) else { return Heard::Nothing };
            return Heard::Request { stream, frame, rest };
        }
        match stream.protocol() {
            Protocol::Tls => return Heard::Other(Protocol::Tls),
            Protocol::Other => *mine = Candidate::NotAClient,
            Protocol::Unknown | Protocol::Kafka => {}
        }
        if matches!((mine, theirs), (Candidate::NotAClient, Candidate::NotAClient)) {
            return Heard::Other(Protocol::Other);
        }
        Heard::Nothing
    }

    pub(crate) fn has_data(&self) -> bool {
        !matches!(self.sides, (Candidate::Silent, Candidate::Silent))
    }
}

/// The first request in a chunk that decodes, and the chunk's rest. A response taken for a request may
/// look plausible at first; that its body decodes as well would be a strange accident.
fn first_request<'a>(
    stream: &mut RequestStream<Stamp>,
    chunk: Chunk<'a>,
    books: &Books,
) -> Option<(Box<RequestFrame<Stamp>>, Option<Chunk<'a>>)> {
    let mut sequence = chunk.sequence;
    match chunk.content {
        Content::Gap(bytes, at) => found_in_loss(stream, sequence, bytes, Stamp::at(at), books),
        Content::Cut(bytes, stamp) => found_in_loss(stream, sequence, bytes, stamp, books),
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

/// The request that missing bytes ended, and no rest. A Produce response starts like a Produce request (number,
/// topics, name), so one that is cut there shows nothing, and the search begins anew.
fn found_in_loss<'a>(
    stream: &mut RequestStream<Stamp>,
    sequence: u32,
    bytes: u64,
    stamp: Stamp,
    books: &Books,
) -> Option<(Box<RequestFrame<Stamp>>, Option<Chunk<'a>>)> {
    let frame = stream.lost(bytes, stamp).filter(|frame| is_request(frame))?;
    if frame.api_key == ApiKey::PRODUCE && frame.error.is_some() {
        let fresh = RequestStream::new(books.stream_options.clone(), Start::Midstream);
        *stream = fresh.from_offset(sequence.wrapping_add(bytes as u32).into());
        return None;
    }
    Some((Box::new(frame.clone()), None))
}

fn is_request(frame: &RequestFrame<Stamp>) -> bool {
    !matches!(frame.error, Some(FrameError::Malformed(_)))
}
