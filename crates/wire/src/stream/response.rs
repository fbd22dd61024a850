//! Responses, one after the other, out of a direction's bytes. Decodes those to Produce, Fetch, Metadata and share
//! groups, and of all others how long the client was throttled and the error code.

use super::dialect::Dialect;
use super::fetch::FetchWalk;
use super::framing::{Cut, Direction, Framing, Head, Opening, Scrutiny, Span, Step, plausible_size};
use super::produce::set_topic;
use super::{
    FetchResponseBody, FrameError, Options, ProducedPartition, Protocol, ResponseBody, ResponseFrame,
};
use super::{Start, StreamCounts, TopicRef};
use crate::api::AnswerLayout;
use crate::header::ResponseHeader;
use crate::metadata::MetadataResponse;
use crate::produce::{PartitionResponse, ProduceResponse};
use crate::reader::Reader;
use crate::{ApiKey, Error, ErrorKind};

/// A correlation id.
const MIN_SIZE: u32 = 4;
/// The most that is held of one body.
const MAX_BODY_BYTES: usize = 8 << 20;
/// No tagged fields are defined for the header; what may come is taken up to here.
const MAX_HEAD_BYTES: usize = 1024;

/// Decodes the broker's side of a connection.
pub struct ResponseStream<T: Copy> {
    framing: Framing<T>,
    decoder: ResponseDecoder<T>,
}

impl<T: Copy> ResponseStream<T> {
    /// A decoder before its first byte.
    pub fn new(options: Options, start: Start) -> Self {
        let decoder = ResponseDecoder {
            options,
            frame: None,
            asked: None,
            is_read: false,
            spare: Vec::new(),
            walk: FetchWalk::new(),
            spare_fetch: FetchResponseBody::default(),
        };
        Self { framing: Framing::new(start), decoder }
    }

    /// Counts offsets in the stream from this one on, which is that of the first byte; 0 without it.
    #[must_use]
    pub fn from_offset(mut self, offset: u64) -> Self {
        self.framing.begin_at(offset);
        self
    }

    /// As [`super::RequestStream::advance`]. `pending` says what was asked under a correlation id, without
    /// forgetting it: it may be asked about ids that were never used, and more than once.
    pub fn advance(
        &mut self,
        bytes: &[u8],
        at: T,
        pending: &mut impl FnMut(i32) -> Option<(ApiKey, i16)>,
    ) -> (usize, Option<&ResponseFrame<T>>) {
        let mut answers = Answers { decoder: &mut self.decoder, pending };
        let (used, frame) = self.framing.advance(&mut answers, bytes, at);
        (used, if frame { self.decoder.frame.as_ref() } else { None })
    }

    /// As [`super::RequestStream::lost`].
    pub fn lost(&mut self, n: u64, at: T) -> Option<&ResponseFrame<T>> {
        let mut answers = Answers { decoder: &mut self.decoder, pending: &mut |_| None };
        let frame = self.framing.lost(&mut answers, n, at);
        if frame { self.decoder.frame.as_ref() } else { None }
    }

    /// What happened so far.
    pub fn counts(&self) -> StreamCounts {
        self.framing.counts()
    }

    /// What the bytes turned out to be.
    pub fn protocol(&self) -> Protocol {
        self.framing.protocol()
    }
}

struct ResponseDecoder<T> {
    options: Options,
    /// The frame being read, or returned last; none before the first.
    frame: Option<ResponseFrame<T>>,
    /// What the current frame answers.
    asked: Option<(ApiKey, i16)>,
    /// Whether its throttle time and error code were read, where no more of it is.
    is_read: bool,
    /// Partitions of earlier frames, for their buffers.
    spare: Vec<ProducedPartition>,
    walk: FetchWalk,
    /// The Fetch body's buffers while the frame has another body.
    spare_fetch: FetchResponseBody,
}

/// How a body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// All of it at once.
    Whole,
    /// Element by element.
    Walk,
    /// Only its first bytes.
    Front,
    /// Not at all.
    Pass,
}

impl<T> ResponseDecoder<T> {
    fn way(&self) -> Way {
        match self.asked {
            Some((ApiKey::PRODUCE | ApiKey::METADATA, _)) => Way::Whole,
            Some((api_key, _)) if Dialect::speaks(api_key) => Way::Walk,
            Some((api_key, version)) => match api_key.answer_layout(version) {
                Some(AnswerLayout::Front) => Way::Front,
                Some(AnswerLayout::Within) => Way::Whole,
                None => Way::Pass,
            },
            None => Way::Pass,
        }
    }

    /// Keeps the buffers of the last frame, and prepares for the body of the one that begins.
    fn prepare(&mut self, frame: &mut ResponseFrame<T>) {
        match self.frame.take().map(|last| last.body) {
            Some(ResponseBody::Produce { partitions, .. }) => self.spare = partitions,
            Some(ResponseBody::Fetch(body)) => self.spare_fetch = body,
            _ => {}
        }
        if let Some((api_key, version)) = self.asked.filter(|(api_key, _)| Dialect::speaks(*api_key)) {
            match self.walk.begin(api_key, version, &mut self.spare_fetch) {
                Ok(()) => frame.body = ResponseBody::Fetch(std::mem::take(&mut self.spare_fetch)),
                Err(error) => frame.error = Some(FrameError::Malformed(error)),
            }
        }
    }

    /// Reads on in a Fetch response.
    fn walk(&mut self, bytes: &[u8], left: u64, at: usize) -> Step {
        let Some(frame) = &mut self.frame else { return Step::Rest };
        let ResponseBody::Fetch(body) = &mut frame.body else { return Step::Rest };
        if frame.error.is_some() {
            return Step::Rest;
        }
        let step = self.walk.step(body, bytes, left, at);
        (frame.throttle_ms, frame.error_code) = (self.walk.throttle_ms, self.walk.error_code);
        step.unwrap_or_else(|error| {
            frame.error = Some(FrameError::Malformed(error));
            Step::Rest
        })
    }

    /// Reads what stands before a body that is passed over.
    fn front(&mut self, bytes: &[u8]) -> Step {
        match self.read_body(bytes) {
            Err(Error { kind: ErrorKind::UnexpectedEnd { missing }, .. }) => Step::More(missing),
            // Fields of fixed length hold anything.
            _ => Step::Rest,
        }
    }

    /// Decodes a whole body, or its first bytes where they are all that is wanted.
    fn read_body(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(frame) = &mut self.frame else { return Ok(()) };
        match self.asked {
            Some((ApiKey::PRODUCE, version)) => {
                let response = ProduceResponse::parse(bytes, version)?;
                let mut partitions = Vec::new();
                std::mem::swap(&mut partitions, &mut self.spare);
                fill(&mut partitions, response.partitions());
                frame.throttle_ms = response.throttle_ms;
                frame.body = ResponseBody::Produce { throttle_ms: response.throttle_ms, partitions };
            }
            Some((ApiKey::METADATA, version)) => {
                let response = MetadataResponse::parse(bytes, version)?;
                (frame.throttle_ms, frame.error_code) = (response.throttle_ms, response.error_code);
                let topics = response
                    .topics()
                    .filter(|topic| topic.name.is_some() || topic.topic_id != [0; 16])
                    .map(|topic| (topic.topic_id, topic.name.map(str::to_owned)))
                    .collect();
                frame.body = ResponseBody::Metadata { topics };
            }
            Some((api_key, version)) => {
                let answer = api_key.read_response_status(bytes, version)?;
                (frame.throttle_ms, frame.error_code) = (answer.throttle_ms, answer.error_code);
                self.is_read = true;
            }
            None => {}
        }
        Ok(())
    }
}

/// Sets `partitions` to what the response says, reusing their buffers.
fn fill<'a>(partitions: &mut Vec<ProducedPartition>, response: impl Iterator<Item = PartitionResponse<'a>>) {
    let mut filled = 0;
    for from in response {
        if filled == partitions.len() {
            partitions.push(ProducedPartition {
                topic: TopicRef::Id([0; 16]),
                partition: 0,
                error_code: 0,
                base_offset: 0,
                log_append_time_ms: 0,
            });
        }
        if let Some(to) = partitions.get_mut(filled) {
            set_topic(&mut to.topic, from.topic);
            to.partition = from.partition;
            to.error_code = from.error_code;
            to.base_offset = from.base_offset;
            to.log_append_time_ms = from.log_append_time_ms;
        }
        filled += 1;
    }
    partitions.truncate(filled);
}

/// The largest response that a search believes in. A wrong guess costs as many bytes.
fn sought_bytes(api_key: ApiKey) -> u32 {
    match api_key {
        ApiKey::FETCH => u32::MAX,
        ApiKey::PRODUCE => 64 << 10,
        _ => 1 << 20,
    }
}

/// A decoder together with the caller's knowledge of what was asked.
struct Answers<'a, T, P> {
    decoder: &'a mut ResponseDecoder<T>,
    pending: &'a mut P,
}

impl<T, P: FnMut(i32) -> Option<(ApiKey, i16)>> Answers<'_, T, P> {
    /// The header's end if it is plausible; `UnexpectedEnd` if it may yet be.
    fn plausible(&mut self, bytes: &[u8], size: u32, scrutiny: Scrutiny) -> Result<Option<usize>, Error> {
        let mut reader = Reader::new(bytes);
        reader.take(4)?;
        let correlation_id = Reader::new(reader.rest()).i32()?;
        match (self.pending)(correlation_id) {
            Some((api_key, _)) if scrutiny == Scrutiny::Searching && size > sought_bytes(api_key) => {
                return Ok(None);
            }
            Some((api_key, version)) => {
                ResponseHeader::read(&mut reader, api_key, version)?;
            }
            None if scrutiny != Scrutiny::Synced => return Ok(None),
            None => {
                reader.i32()?;
            }
        }
        Ok(Some(reader.at()))
    }
}

impl<T: Copy, P: FnMut(i32) -> Option<(ApiKey, i16)>> Direction<T> for Answers<'_, T, P> {
    fn head(&mut self, bytes: &[u8], scrutiny: Scrutiny) -> Head {
        let size = match plausible_size(bytes, MIN_SIZE, &self.decoder.options) {
            Ok(size) => size,
            Err(head) => return head,
        };
        let whole = size as usize + 4;
        let bytes = bytes.get(..whole).unwrap_or(bytes);
        match self.plausible(bytes, size, scrutiny) {
            Ok(Some(used)) => Head::Complete(Opening { bytes: used, size }),
            Err(Error { kind: ErrorKind::UnexpectedEnd { missing }, .. })
                if bytes.len().saturating_add(missing) <= whole.min(MAX_HEAD_BYTES) =>
            {
                Head::Incomplete(missing)
            }
            _ => Head::Implausible,
        }
    }

    fn begin(&mut self, head: &[u8], span: Span<T>) {
        let mut reader = Reader::new(head.get(4..).unwrap_or_default());
        // Complete, or `head` would not have said so.
        let Ok(correlation_id) = reader.i32() else { return };
        let decoder = &mut *self.decoder;
        decoder.asked = (self.pending)(correlation_id);
        decoder.is_read = false;
        let mut frame = ResponseFrame {
            first: span.first,
            last: span.first,
            stream_start: span.stream_start,
            stream_end: span.stream_start + 4 + u64::from(span.size),
            size: span.size,
            correlation_id,
            throttle_ms: None,
            error_code: None,
            body: ResponseBody::Other,
            error: None,
        };
        decoder.prepare(&mut frame);
        decoder.frame = Some(frame);
    }

    /// Whose answer it is cannot be asked while bytes are missing, but its number is there.
    fn begin_cut(&mut self, head: &[u8], span: Span<T>, cut: Cut) -> Option<usize> {
        let used = 4 + size_of::<i32>();
        self.begin(head.get(..used)?, span);
        let is_whole = cut.missing == 0;
        self.decoder.frame.as_mut()?.error = (!is_whole).then_some(FrameError::Lost { bytes: cut.missing });
        Some(used)
    }

    fn step(&mut self, bytes: &[u8], left: u64, at: usize) -> Step {
        let missing = usize::try_from(left).unwrap_or(usize::MAX).saturating_sub(bytes.len());
        let result = match self.decoder.way() {
            Way::Walk => return self.decoder.walk(bytes, left, at),
            Way::Front => return self.decoder.front(bytes),
            Way::Pass => Ok(()),
            Way::Whole if left > MAX_BODY_BYTES as u64 => {
                Err(Error::new(ErrorKind::TooLarge { limit: MAX_BODY_BYTES }, 0))
            }
            Way::Whole if missing > 0 => return Step::More(missing),
            Way::Whole => self.decoder.read_body(bytes),
        };
        if let (Err(error), Some(frame)) = (result, &mut self.decoder.frame) {
            frame.error.get_or_insert(FrameError::Malformed(error.shifted(at)));
        }
        Step::Rest
    }

    fn truncated(&mut self, missing: usize, at: usize) {
        if let Some(frame) = &mut self.decoder.frame {
            let error = Error::new(ErrorKind::UnexpectedEnd { missing }, at);
            frame.error.get_or_insert(FrameError::Malformed(error));
        }
    }

    fn lost(&mut self, n: u64, held: &[u8], skip: u64) -> u64 {
        let wanted = self.decoder.way() != Way::Pass && !self.decoder.is_read;
        let (true, Some(frame)) = (wanted, &mut self.decoder.frame) else { return u64::MAX };
        if let (ResponseBody::Fetch(body), None) = (&mut frame.body, frame.error) {
            if let Some(skip) = self.decoder.walk.lost(body, n, held, skip) {
                return skip;
            }
        }
        frame.error.get_or_insert(FrameError::Lost { bytes: n });
        u64::MAX
    }

    fn abandoned(&mut self, n: u64) {
        if let Some(frame) = &mut self.decoder.frame {
            frame.error.get_or_insert(FrameError::Lost { bytes: n });
        }
    }

    fn end(&mut self, last: T) {
        let unread = self.decoder.way() != Way::Pass && !self.decoder.is_read;
        let Some(frame) = &mut self.decoder.frame else { return };
        frame.last = last;
        let unfinished = match &frame.body {
            ResponseBody::Fetch(_) => !self.decoder.walk.is_done(),
            ResponseBody::Other => unread,
            _ => false,
        };
        if unfinished && frame.error.is_none() {
            let error = Error::new(ErrorKind::UnexpectedEnd { missing: 1 }, frame.size as usize + 4);
            frame.error = Some(FrameError::Malformed(error));
        }
    }

    fn failed(&self) -> bool {
        self.decoder.frame.as_ref().is_some_and(|frame| frame.error.is_some())
    }

    fn refuted(&self) -> bool {
        self.decoder.frame.as_ref().is_some_and(|f| matches!(f.error, Some(FrameError::Malformed(_))))
    }

    fn damaged(&self) -> bool {
        self.decoder.frame.as_ref().is_some_and(|frame| match &frame.body {
            _ if frame.error.is_some() => true,
            ResponseBody::Fetch(body) => body.partitions.iter().any(|p| p.error.is_some()),
            _ => false,
        })
    }

    fn precedes_tokens(&self) -> bool {
        self.decoder.asked == Some((ApiKey::SASL_HANDSHAKE, 0))
    }

    fn proves(&self) -> bool {
        let decoded = self.decoder.frame.as_ref().is_some_and(|f| !matches!(f.body, ResponseBody::Other));
        decoded && !self.failed()
    }
}
