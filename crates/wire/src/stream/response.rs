//! Responses, one after the other, out of a direction's bytes. Decodes those to Produce, Fetch and Metadata, and
//! of others how long the client was throttled.

use super::fetch::FetchWalk;
use super::framing::{Cut, Direction, Framing, Head, Opening, Scrutiny, Span, Step, plausible_size};
use super::produce::set_topic;
use super::{FetchResponseBody, FrameError, Nature, Options, ProducedPartition, ResponseBody, ResponseFrame};
use super::{Start, StreamCounts, TopicRef};
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
            spare: Vec::new(),
            walk: FetchWalk::new(),
            spare_fetch: FetchResponseBody::default(),
        };
        Self { framing: Framing::new(start), decoder }
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
    pub fn nature(&self) -> Nature {
        self.framing.nature()
    }
}

struct ResponseDecoder<T> {
    options: Options,
    /// The frame being read, or returned last; none before the first.
    frame: Option<ResponseFrame<T>>,
    /// What the current frame answers.
    asked: Option<(ApiKey, i16)>,
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
    /// Only its throttle time.
    Throttle,
    /// Not at all.
    Pass,
}

impl<T> ResponseDecoder<T> {
    fn way(&self) -> Way {
        match self.asked {
            Some((ApiKey::PRODUCE | ApiKey::METADATA, _)) => Way::Whole,
            Some((ApiKey::FETCH, _)) => Way::Walk,
            Some((api_key, version)) if leads_with_throttle(api_key, version) => Way::Throttle,
            _ => Way::Pass,
        }
    }

    /// Keeps the buffers of the last frame, and prepares for the body of the one that begins.
    fn prepare(&mut self, frame: &mut ResponseFrame<T>) {
        match self.frame.take().map(|last| last.body) {
            Some(ResponseBody::Produce { partitions, .. }) => self.spare = partitions,
            Some(ResponseBody::Fetch(body)) => self.spare_fetch = body,
            _ => {}
        }
        if let Some((ApiKey::FETCH, version)) = self.asked {
            match self.walk.begin(version, &mut self.spare_fetch) {
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
        frame.throttle_ms = self.walk.throttle_ms;
        step.unwrap_or_else(|error| {
            frame.error = Some(FrameError::Malformed(error));
            Step::Rest
        })
    }

    /// Reads the throttle time before a body that is passed over.
    fn throttle(&mut self, bytes: &[u8]) -> Step {
        match Reader::new(bytes).i32() {
            Err(Error { kind: ErrorKind::UnexpectedEnd { missing }, .. }) => return Step::More(missing),
            Ok(throttle_ms) => {
                if let Some(frame) = &mut self.frame {
                    frame.throttle_ms = Some(throttle_ms);
                }
            }
            Err(_) => {}
        }
        Step::Rest
    }

    /// Decodes a whole body.
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
                frame.throttle_ms = response.throttle_ms;
                let topics = response
                    .topics()
                    .filter(|topic| topic.name.is_some() || topic.topic_id != [0; 16])
                    .map(|topic| (topic.topic_id, topic.name.map(str::to_owned)))
                    .collect();
                frame.body = ResponseBody::Metadata { topics };
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whether a body of that version begins with the throttle time; of a version from the future nobody knows.
fn leads_with_throttle(api_key: ApiKey, version: i16) -> bool {
    let is_known = api_key.max_version().is_some_and(|max| version <= max);
    is_known && api_key.first_throttled_version().is_some_and(|first| version >= first)
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
        let mut frame = ResponseFrame {
            first: span.first,
            last: span.first,
            stream_start: span.stream_start,
            stream_end: span.stream_start + 4 + u64::from(span.size),
            size: span.size,
            correlation_id,
            throttle_ms: None,
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
        self.decoder.frame.as_mut()?.error = Some(FrameError::Lost { bytes: cut.missing });
        Some(used)
    }

    fn step(&mut self, bytes: &[u8], left: u64, at: usize) -> Step {
        let missing = usize::try_from(left).unwrap_or(usize::MAX).saturating_sub(bytes.len());
        let result = match self.decoder.way() {
            Way::Walk => return self.decoder.walk(bytes, left, at),
            Way::Throttle => return self.decoder.throttle(bytes),
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
        let decoded = matches!(self.decoder.way(), Way::Whole | Way::Walk);
        let (true, Some(frame)) = (decoded, &mut self.decoder.frame) else { return u64::MAX };
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
        let Some(frame) = &mut self.decoder.frame else { return };
        frame.last = last;
        let unfinished = match (&frame.body, self.decoder.asked) {
            (ResponseBody::Other, Some((ApiKey::PRODUCE | ApiKey::METADATA, _))) => true,
            (ResponseBody::Fetch(_), _) => !self.decoder.walk.is_done(),
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
