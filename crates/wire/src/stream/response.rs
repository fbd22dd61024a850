//! Decodes responses, one after the other, from a direction's bytes: bodies of Produce, Fetch, Metadata and share
//! groups, and of all others the throttle time and the error code.

use super::frame::PartitionFiller;
use super::framing::{Cut, Direction, Framing, Head, Scrutiny, Span, Step, judge_head};
use super::walk::{BodyWalk, Origin};
use super::{
    FetchResponseBody, FrameError, Options, Partition, Protocol, ResponseBody, ResponseFrame, Start,
    StreamCounts,
};
use crate::api::{Number, ResponseShape, Values};
use crate::header::ResponseHeader;
use crate::reader::Reader;
use crate::{ApiKey, Error, ErrorKind};

/// A correlation id.
const MIN_SIZE: u32 = 4;
/// Maximum number of buffered bytes of a body.
const MAX_BODY_BYTES: usize = 8 << 20;
/// The header has no tagged fields yet; future ones are accepted up to this size.
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
            request_api: None,
            shape: ResponseShape::None,
            is_read: false,
            rows: 0,
            spare: Vec::new(),
            filler: PartitionFiller::default(),
            walk: BodyWalk::new(Origin::Broker),
            spare_fetch: FetchResponseBody::default(),
        };
        Self { framing: Framing::new(start), decoder }
    }

    /// Sets the offset of the first byte in the stream; 0 without this call.
    #[must_use]
    pub fn from_offset(mut self, offset: u64) -> Self {
        self.framing.begin_at(offset);
        self
    }

    /// Like [`super::RequestStream::restart`].
    pub fn restart(&mut self, offset: u64) {
        self.framing.restart(offset);
    }

    /// Like [`super::RequestStream::advance`].
    /// `pending` returns the request with a correlation id, without removing it: it may be called with ids that were
    /// never used, and more than once.
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

    /// Like [`super::RequestStream::lost`].
    pub fn lost(&mut self, n: u64, at: T) -> Option<&ResponseFrame<T>> {
        let mut answers = Answers { decoder: &mut self.decoder, pending: &mut |_| None };
        let frame = self.framing.lost(&mut answers, n, at);
        if frame { self.decoder.frame.as_ref() } else { None }
    }

    /// Like [`super::RequestStream::kept_bytes`].
    pub fn kept_bytes(&self) -> usize {
        self.framing.kept_bytes() + self.decoder.walk.kept_bytes() + self.decoder.filler.total_bytes()
    }

    /// Like [`super::RequestStream::release_buffers`].
    pub fn release_buffers(&mut self) {
        if self.framing.release_buffers() {
            self.decoder.release();
        }
    }

    /// Like [`super::RequestStream::is_between_frames`].
    pub fn is_between_frames(&self) -> bool {
        self.framing.is_between_frames()
    }

    /// Whether the last bytes belong to no known response.
    pub fn is_searching(&self) -> bool {
        self.framing.is_searching()
    }

    /// The counts so far.
    pub fn counts(&self) -> StreamCounts {
        self.framing.counts()
    }

    /// The stream's protocol.
    pub fn protocol(&self) -> Protocol {
        self.framing.protocol()
    }
}

struct ResponseDecoder<T> {
    options: Options,
    /// The frame being read, or the one returned last; `None` before the first.
    frame: Option<ResponseFrame<T>>,
    /// The request that the current frame answers.
    request_api: Option<(ApiKey, i16)>,
    shape: ResponseShape,
    /// Whether its throttle time and error code were read. Used if that is all that is read of it.
    is_read: bool,
    /// Rows of its body, if none are returned.
    rows: usize,
    /// Partitions of earlier frames, for their buffers.
    spare: Vec<Partition>,
    filler: PartitionFiller,
    walk: BodyWalk,
    /// The Fetch body's buffers while the frame has another body.
    spare_fetch: FetchResponseBody,
}

impl<T> ResponseDecoder<T> {
    /// Whether a required part of the body has not been read.
    fn is_unread(&self) -> bool {
        self.shape != ResponseShape::None && !self.is_read
    }

    fn release(&mut self) {
        self.frame = None;
        self.walk.release();
        (self.spare, self.filler) = (Vec::new(), PartitionFiller::default());
        self.spare_fetch = FetchResponseBody::default();
    }

    /// Keeps the buffers of the last frame, and prepares for the next body.
    fn prepare(&mut self, frame: &mut ResponseFrame<T>) {
        match self.frame.take().map(|last| last.body) {
            Some(ResponseBody::Produce(partitions)) => self.spare = partitions,
            Some(ResponseBody::Fetch(body)) => self.spare_fetch = body,
            _ => {}
        }
        let request_api = self.request_api;
        self.shape =
            request_api.map_or(ResponseShape::None, |(api_key, version)| api_key.response_shape(version));
        let (ResponseShape::Records, Some((api_key, version))) = (self.shape, request_api) else { return };
        match self.walk.begin(api_key, version) {
            Ok(()) => {
                let mut body = std::mem::take(&mut self.spare_fetch);
                self.walk.shorten(&mut body.partitions);
                body.session_id = 0;
                frame.body = ResponseBody::Fetch(body);
            }
            Err(error) => frame.error = Some(FrameError::Malformed(error)),
        }
    }

    /// Reads on in a Fetch response.
    fn walk(&mut self, bytes: &[u8], left: u64, at: usize) -> Step {
        let Some(frame) = self.frame.as_mut().filter(|frame| frame.error.is_none()) else {
            return Step::Rest;
        };
        let ResponseBody::Fetch(body) = &mut frame.body else { return Step::Rest };
        let FetchResponseBody { session_id, partitions } = body;
        let top = |values: &Values<'_>| {
            frame.throttle_ms = values.int(Number::ThrottleMs);
            frame.error_code = values.short(Number::ErrorCode);
            *session_id = values.int(Number::SessionId).unwrap_or(0);
        };
        self.walk.step(partitions, top, bytes, (left, at), &self.options).unwrap_or_else(|error| {
            frame.error = Some(FrameError::Malformed(error));
            Step::Rest
        })
    }

    /// Reads the beginning of a body that is otherwise skipped.
    fn front(&mut self, bytes: &[u8]) -> Step {
        match self.read_body(bytes) {
            Err(Error { kind: ErrorKind::UnexpectedEnd(missing), .. }) => Step::More(missing),
            // Fields of fixed length can hold any bytes.
            _ => Step::Rest,
        }
    }

    /// Decodes a whole body, or only its first bytes if no more is required.
    fn read_body(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let (Some(frame), Some((api_key, version))) = (&mut self.frame, self.request_api) else {
            return Ok(());
        };
        let values = match api_key {
            ApiKey::PRODUCE => {
                let values =
                    self.filler.fill(&mut self.spare, |row| api_key.read_response(bytes, version, row))?;
                frame.body = ResponseBody::Produce(std::mem::take(&mut self.spare));
                values
            }
            ApiKey::METADATA => {
                let (mut topics, mut replicas) = (Vec::new(), Vec::new());
                self.filler.begin();
                let mut stored = Ok(());
                let values = api_key.read_response(bytes, version, |values| {
                    let name_bytes = values.topic_name.map_or(0, str::len);
                    stored = stored.and_then(|()| {
                        self.filler.keep(size_of::<([u8; 16], Option<String>)>() + name_bytes)
                    });
                    if stored.is_err() {
                        return;
                    }
                    let (id, name) = (values.topic_id.unwrap_or_default(), values.topic_name);
                    match (values.replicas, values.int(Number::Partition)) {
                        _ if name.is_none() && id == [0; 16] => {}
                        // A topic comes after its partitions.
                        (Some(count), Some(partition)) => {
                            replicas.push((topics.len() as u32, partition, count));
                        }
                        _ => topics.push((id, name.map(str::to_owned))),
                    }
                })?;
                stored?;
                frame.body = ResponseBody::Metadata { topics, replicas };
                values
            }
            _ => api_key.read_response(bytes, version, |_| self.rows += 1)?,
        };
        frame.throttle_ms = values.int(Number::ThrottleMs);
        frame.error_code = values.short(Number::ErrorCode);
        self.is_read = true;
        Ok(())
    }
}

/// The largest response that a search accepts. A wrong guess costs as many bytes.
fn sought_bytes(api_key: ApiKey) -> u32 {
    match api_key {
        ApiKey::FETCH => u32::MAX,
        ApiKey::PRODUCE => 64 << 10,
        _ => 1 << 20,
    }
}

/// A decoder with the caller's knowledge of pending requests.
struct Answers<'a, T, P> {
    decoder: &'a mut ResponseDecoder<T>,
    pending: &'a mut P,
}

impl<T, P: FnMut(i32) -> Option<(ApiKey, i16)>> Answers<'_, T, P> {
    /// Returns the header's end if the header is plausible. Fails with `UnexpectedEnd` if it may become so.
    fn plausible(&mut self, bytes: &[u8], size: u32, scrutiny: Scrutiny) -> Result<Option<usize>, Error> {
        let mut reader = Reader::new(bytes);
        reader.take(4)?;
        let correlation_id = Reader::new(reader.rest()).i32()?;
        let is_same = |frame: &ResponseFrame<T>| frame.correlation_id == correlation_id;
        if scrutiny == Scrutiny::AfterGuess && self.decoder.frame.as_ref().is_some_and(is_same) {
            return Ok(None);
        }
        match (self.pending)(correlation_id) {
            Some((api_key, _)) if scrutiny.is_search() && size > sought_bytes(api_key) => {
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
        let sizes = MIN_SIZE..=self.decoder.options.max_frame_bytes;
        judge_head(bytes, sizes, MAX_HEAD_BYTES, |bytes, size| self.plausible(bytes, size, scrutiny))
    }

    fn begin(&mut self, head: &[u8], span: Span<T>) {
        let mut reader = Reader::new(head.get(4..).unwrap_or_default());
        // Complete, because `head` has checked it.
        let Ok(correlation_id) = reader.i32() else { return };
        let decoder = &mut *self.decoder;
        decoder.request_api = (self.pending)(correlation_id);
        (decoder.is_read, decoder.rows) = (false, 0);
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

    /// Reads the request's number only. The request cannot be looked up while bytes are missing.
    fn begin_cut(&mut self, head: &[u8], span: Span<T>, cut: Cut) -> Option<usize> {
        let used = 4 + size_of::<i32>();
        self.begin(head.get(..used)?, span);
        let is_whole = cut.missing == 0;
        self.decoder.frame.as_mut()?.error = (!is_whole).then_some(FrameError::Lost(cut.missing));
        Some(used)
    }

    fn step(&mut self, bytes: &[u8], left: u64, at: usize) -> Step {
        let missing = usize::try_from(left).unwrap_or(usize::MAX).saturating_sub(bytes.len());
        let result = match self.decoder.shape {
            ResponseShape::Records => return self.decoder.walk(bytes, left, at),
            ResponseShape::Front => return self.decoder.front(bytes),
            ResponseShape::None => Ok(()),
            _ if left > MAX_BODY_BYTES as u64 => Err(Error::new(ErrorKind::TooLarge(MAX_BODY_BYTES), 0)),
            _ if missing > 0 => return Step::More(missing),
            _ => self.decoder.read_body(bytes),
        };
        if let Err(error) = result {
            self.fail(FrameError::Malformed(error.shifted(at)));
        }
        Step::Rest
    }

    fn lost(&mut self, n: u64, held: &[u8], skip: u64) -> u64 {
        let unread = self.decoder.is_unread();
        let (true, Some(frame)) = (unread, &mut self.decoder.frame) else { return u64::MAX };
        if let (ResponseBody::Fetch(body), None) = (&mut frame.body, frame.error) {
            if let Some(skip) = self.decoder.walk.lost(&mut body.partitions, n, held, skip) {
                return skip;
            }
        }
        self.fail(FrameError::Lost(n));
        u64::MAX
    }

    fn end(&mut self, last: T) {
        let unread = self.decoder.is_unread();
        let Some(frame) = &mut self.decoder.frame else { return };
        frame.last = last;
        if let ResponseBody::Fetch(body) = &mut frame.body {
            self.decoder.walk.finish(&mut body.partitions);
        }
        let unfinished = match &frame.body {
            ResponseBody::Fetch(_) => !self.decoder.walk.is_done(),
            ResponseBody::Other => unread,
            _ => false,
        };
        if unfinished && frame.error.is_none() {
            let error = Error::new(ErrorKind::UnexpectedEnd(1), frame.size as usize + 4);
            frame.error = Some(FrameError::Malformed(error));
        }
    }

    fn error(&mut self) -> Option<&mut Option<FrameError>> {
        self.decoder.frame.as_mut().map(|frame| &mut frame.error)
    }

    fn is_damaged(&self) -> bool {
        self.decoder.frame.as_ref().is_some_and(|frame| match &frame.body {
            _ if frame.error.is_some() => true,
            ResponseBody::Fetch(body) => body.partitions.iter().any(|p| p.error.is_some()),
            _ => false,
        })
    }

    fn precedes_tokens(&self) -> bool {
        self.decoder.request_api == Some((ApiKey::SASL_HANDSHAKE, 0))
    }

    fn proves(&self) -> bool {
        let Some(frame) = self.decoder.frame.as_ref().filter(|frame| frame.error.is_none()) else {
            return false;
        };
        let (is_whole, rows) = match &frame.body {
            ResponseBody::Produce(partitions) => (true, partitions.len()),
            ResponseBody::Metadata { topics, .. } => (true, topics.len()),
            ResponseBody::Fetch(body) => (true, body.partitions.len()),
            ResponseBody::Other => (false, self.decoder.rows),
        };
        rows > 0 || (is_whole && !self.needs_proof())
    }

    fn needs_proof(&self) -> bool {
        self.decoder.frame.as_ref().is_some_and(|frame| frame.correlation_id == 0)
    }
}
