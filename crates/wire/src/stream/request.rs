//! Decodes requests, one after the other, from a direction's bytes: headers of all, bodies of Produce, Fetch and share
//! groups, and the groups and transactions in others.

use super::frame::{PartitionFiller, set_optional_text, text_bytes};
use super::framing::{Cut, Direction, Framing, Head, Scrutiny, Span, Step, judge_head};
use super::walk::{BodyWalk, MAX_ELEMENT_BYTES, Origin, starts_as_produce};
use super::{
    FetchBody, FrameError, Options, ProduceBody, Protocol, RequestBody, RequestFrame, RequestIdsBody, Start,
    StreamCounts,
};
use crate::api::{Number, Values};
use crate::header::RequestHeader;
use crate::reader::Reader;
use crate::{ApiKey, Error, ErrorKind};

/// A header of version 0: key, version and correlation id.
const MIN_SIZE: u32 = 8;
/// In step, keys newer than the table are accepted up to this one.
const MAX_NEW_KEY: i16 = 1023;
/// Newer versions are accepted up to this one: in step, in a connection's first request and in one that fills its chunk.
const MAX_NEW_VERSION: i16 = 127;
/// Maximum number of buffered bytes of a body.
const MAX_BODY_BYTES: usize = 8 << 20;
/// The limit during a search: real clients stay below it.
const MAX_SOUGHT_CLIENT_ID_BYTES: usize = 255;
const MAX_SOUGHT_HEAD_BYTES: usize = 1024;
const MAX_SOUGHT_BODY_BYTES: u32 = 64 << 10;

/// Decodes the client's side of a connection.
pub struct RequestStream<T: Copy> {
    framing: Framing<T>,
    decoder: RequestDecoder<T>,
}

impl<T: Copy> RequestStream<T> {
    /// A decoder before its first byte.
    pub fn new(options: Options, start: Start) -> Self {
        let decoder = RequestDecoder {
            options,
            frame: None,
            walk: BodyWalk::new(Origin::Client),
            spare: ProduceBody::default(),
            spare_fetch: FetchBody::default(),
            filler: PartitionFiller::default(),
            spare_ids: RequestIdsBody::default(),
        };
        Self { framing: Framing::new(start), decoder }
    }

    /// Sets the offset of the first byte in the stream; 0 without this call.
    #[must_use]
    pub fn from_offset(mut self, offset: u64) -> Self {
        self.framing.begin_at(offset);
        self
    }

    /// Switches to another stream; reuses the buffers. Its next byte is a frame's first and has this offset.
    pub fn restart(&mut self, offset: u64) {
        self.framing.restart(offset);
    }

    /// Decodes the next bytes of the stream up to the end of a frame; returns how many bytes it used and the frame, if
    /// one ended. Call again with the rest. At least one byte is used, or a frame is returned.
    pub fn advance(&mut self, bytes: &[u8], at: T) -> (usize, Option<&RequestFrame<T>>) {
        let (used, frame) = self.framing.advance(&mut self.decoder, bytes, at);
        (used, if frame { self.decoder.frame.as_ref() } else { None })
    }

    /// Reports that `n` bytes of the stream are missing here.
    /// If they end within the current frame and its header is known, the stream stays in step, and the frame or one of
    /// its partitions gets an error unless only records were lost. A header counts as known if it is there up to its
    /// correlation id. Otherwise the current frame is returned as far as it was read, and the next one is searched for.
    pub fn lost(&mut self, n: u64, at: T) -> Option<&RequestFrame<T>> {
        let frame = self.framing.lost(&mut self.decoder, n, at);
        if frame { self.decoder.frame.as_ref() } else { None }
    }

    /// Its memory in bytes besides itself: the bytes of the next frame so far, the last frame, and buffers.
    pub fn kept_bytes(&self) -> usize {
        self.framing.kept_bytes() + self.decoder.kept_bytes()
    }

    /// Frees the buffers for the next frame, unless it has begun.
    pub fn release_buffers(&mut self) {
        if self.framing.release_buffers() {
            self.decoder.release();
        }
    }

    /// Whether a frame certainly starts at the next byte. A new decoder could then continue from there.
    pub fn is_between_frames(&self) -> bool {
        self.framing.is_between_frames()
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

struct RequestDecoder<T> {
    options: Options,
    /// The frame being read, or the one returned last; `None` before the first.
    frame: Option<RequestFrame<T>>,
    walk: BodyWalk,
    /// The Produce body's buffers while the frame has another body.
    spare: ProduceBody,
    /// Likewise for Fetch.
    spare_fetch: FetchBody,
    filler: PartitionFiller,
    /// Likewise for requests with a group or transaction.
    spare_ids: RequestIdsBody,
}

impl<T: Copy> RequestDecoder<T> {
    /// Returns the header's end if the header is plausible. Fails with `UnexpectedEnd` if it may become so.
    fn plausible(bytes: &[u8], size: u32, scrutiny: Scrutiny) -> Result<Option<usize>, Error> {
        let mut reader = Reader::new(bytes);
        reader.take(4)?;
        let api_key = ApiKey(reader.i16()?);
        let api_version = reader.i16()?;
        let searching = scrutiny.is_search();
        // Its body can confirm that it is one.
        let is_produce = api_key == ApiKey::PRODUCE && !api_key.is_newer(api_version);
        let too_large = searching && !is_produce && size > MAX_SOUGHT_BODY_BYTES;
        if !is_believed(api_key, api_version, scrutiny) || too_large {
            return Ok(None);
        }
        let correlation_id = reader.i32()?;
        if searching && correlation_id < 0 {
            return Ok(None);
        }
        let header_version = api_key.request_header_version(api_version);
        let must_be_named = match scrutiny {
            Scrutiny::Synced | Scrutiny::Token => false,
            Scrutiny::First => api_key.is_newer(api_version) && api_key != ApiKey::API_VERSIONS,
            Scrutiny::WholeChunk | Scrutiny::AfterGuess | Scrutiny::Searching => !is_produce,
        };
        let doubt = ClientIdDoubt { is_guess: searching || must_be_named, must_be_named };
        if header_version >= 1 && !plausible_client_id(&mut reader, doubt)? {
            return Ok(None);
        }
        reader.tagged_fields(header_version >= 2 && !api_key.is_newer(api_version))?;
        let end = reader.at();
        let left = (size as usize + 4).saturating_sub(end);
        if searching && is_produce {
            let levels = api_key.request_levels(api_version)?;
            let is_sound =
                starts_as_produce(&levels, reader.rest(), left).map_err(|error| error.shifted(end))?;
            return Ok(Some(end).filter(|_| is_sound));
        }
        Ok(Some(end))
    }
}

impl<T: Copy> RequestDecoder<T> {
    fn kept_bytes(&self) -> usize {
        let body = match self.frame.as_ref().map(|frame| &frame.body) {
            Some(RequestBody::Produce(body)) => text_bytes(body.transactional_id.as_ref()),
            Some(RequestBody::Fetch(body)) => text_bytes(body.group_id.as_ref()),
            Some(RequestBody::Ids(body)) => {
                text_bytes(body.transactional_id.as_ref()) + text_bytes(body.group_id.as_ref())
            }
            Some(RequestBody::Other) | None => 0,
        };
        let spare = text_bytes(self.spare.transactional_id.as_ref())
            + text_bytes(self.spare_fetch.group_id.as_ref())
            + text_bytes(self.spare_ids.transactional_id.as_ref())
            + text_bytes(self.spare_ids.group_id.as_ref());
        let client_id = self.frame.as_ref().map_or(0, |frame| text_bytes(frame.client_id.as_ref()));
        self.walk.kept_bytes() + self.filler.total_bytes() + client_id + body + spare
    }

    fn release(&mut self) {
        self.frame = None;
        self.walk.release();
        (self.spare, self.spare_fetch) = (ProduceBody::default(), FetchBody::default());
        (self.spare_ids, self.filler) = (RequestIdsBody::default(), PartitionFiller::default());
    }

    /// Begins a frame with this header.
    fn open(&mut self, header: RequestHeader<'_>, span: Span<T>) {
        let stream_end = span.stream_start + 4 + u64::from(span.size);
        let frame = self.frame.get_or_insert(RequestFrame {
            first: span.first,
            last: span.first,
            stream_start: 0,
            stream_end: 0,
            size: 0,
            api_key: header.api_key,
            api_version: 0,
            correlation_id: 0,
            client_id: None,
            body: RequestBody::Other,
            error: None,
        });
        (frame.first, frame.last) = (span.first, span.first);
        (frame.stream_start, frame.stream_end, frame.size) = (span.stream_start, stream_end, span.size);
        (frame.api_key, frame.api_version) = (header.api_key, header.api_version);
        frame.correlation_id = header.correlation_id;
        set_optional_text(&mut frame.client_id, header.client_id);
        frame.error = None;
        match std::mem::replace(&mut frame.body, RequestBody::Other) {
            RequestBody::Produce(body) => self.spare = body,
            RequestBody::Fetch(body) => self.spare_fetch = body,
            RequestBody::Ids(body) => self.spare_ids = body,
            RequestBody::Other => {}
        }
        let (api_key, version) = (header.api_key, header.api_version);
        let opened = match api_key {
            ApiKey::PRODUCE => self.walk.begin(api_key, version),
            _ => api_key.check_version(version).map(drop),
        };
        match opened {
            Err(error) => frame.error = Some(FrameError::Malformed(error.shifted(4))),
            Ok(()) if api_key == ApiKey::PRODUCE => {
                let mut body = std::mem::take(&mut self.spare);
                self.walk.shorten(&mut body.partitions);
                body.transactional_id.iter_mut().for_each(String::clear);
                (body.acks, body.timeout_ms) = (None, 0);
                frame.body = RequestBody::Produce(body);
            }
            Ok(()) => {}
        }
    }

    /// Reads a body, once it is complete.
    fn whole(&mut self, bytes: &[u8], left: u64, at: usize) -> Step {
        let missing = usize::try_from(left).unwrap_or(usize::MAX).saturating_sub(bytes.len());
        let read = match missing {
            _ if left > MAX_BODY_BYTES as u64 => Err(Error::new(ErrorKind::TooLarge(MAX_BODY_BYTES), 0)),
            0 => self.read_whole(bytes),
            _ => return Step::More(missing),
        };
        if let (Err(error), Some(frame)) = (read, &mut self.frame) {
            frame.error = Some(FrameError::Malformed(error.shifted(at)));
        }
        Step::Rest
    }

    fn read_whole(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(frame) = &mut self.frame else { return Ok(()) };
        let (api_key, version) = (frame.api_key, frame.api_version);
        if api_key.names_partitions() {
            let values = self
                .filler
                .fill(&mut self.spare_fetch.partitions, |row| api_key.read_request(bytes, version, row))?;
            set_fetch(&mut self.spare_fetch, &values);
            frame.body = RequestBody::Fetch(std::mem::take(&mut self.spare_fetch));
        } else {
            let values = api_key.read_request(bytes, version, |_| {})?;
            set_optional_text(&mut self.spare_ids.transactional_id, values.transactional_id());
            set_optional_text(&mut self.spare_ids.group_id, values.group_id());
            frame.body = RequestBody::Ids(std::mem::take(&mut self.spare_ids));
        }
        Ok(())
    }
}

/// Sets everything but the partitions, reusing buffers.
fn set_fetch(body: &mut FetchBody, values: &Values<'_>) {
    set_optional_text(&mut body.group_id, values.group_id());
    body.max_wait_ms = values.int(Number::MaxWaitMs);
    body.min_bytes = values.int(Number::MinBytes);
    body.max_bytes = values.int(Number::MaxBytes);
    body.isolation_level = values.int(Number::IsolationLevel).unwrap_or(0) as i8;
    body.session_id = values.int(Number::SessionId).unwrap_or(0);
    body.session_epoch = values.int(Number::SessionEpoch).unwrap_or(-1);
}

/// Whether the body is buffered and decoded as a whole.
fn is_held_whole(api_key: ApiKey) -> bool {
    api_key != ApiKey::PRODUCE && api_key.has_request_layout()
}

/// Whether a request of this API and version is believable.
fn is_believed(api_key: ApiKey, version: i16, scrutiny: Scrutiny) -> bool {
    let may_be_new = (0..=MAX_NEW_VERSION).contains(&version);
    match scrutiny {
        Scrutiny::Synced => may_be_new && (0..=MAX_NEW_KEY).contains(&api_key.0),
        Scrutiny::First | Scrutiny::WholeChunk => may_be_new && api_key.is_known(),
        Scrutiny::Token | Scrutiny::AfterGuess | Scrutiny::Searching => {
            api_key.max_version().is_some_and(|max| (0..=max).contains(&version))
        }
    }
}

/// How a client id is judged.
#[derive(Clone, Copy)]
struct ClientIdDoubt {
    /// If present, it must be text of a plausible length.
    is_guess: bool,
    /// It must be present.
    must_be_named: bool,
}

/// Skips a client id, if it is a valid one.
/// A search does not accept its absence unless the body can confirm the frame: record batches are full of zeros that
/// look like headers without a client id. Nor is its absence accepted in an unknown version at a connection's start,
/// except for the request that every client may send first.
fn plausible_client_id(reader: &mut Reader<'_>, doubt: ClientIdDoubt) -> Result<bool, Error> {
    let ClientIdDoubt { is_guess, must_be_named } = doubt;
    let length = reader.i16()?;
    let Ok(length) = usize::try_from(length) else { return Ok(length == -1 && !must_be_named) };
    if is_guess && length > MAX_SOUGHT_CLIENT_ID_BYTES || length == 0 && must_be_named {
        return Ok(false);
    }
    let available = reader.rest().get(..length).unwrap_or(reader.rest());
    if is_guess && available.iter().any(u8::is_ascii_control) {
        return Ok(false);
    }
    let id = reader.take(length)?;
    Ok(std::str::from_utf8(id).is_ok())
}

impl<T: Copy> Direction<T> for RequestDecoder<T> {
    fn head(&mut self, bytes: &[u8], scrutiny: Scrutiny) -> Head {
        let max_bytes = if scrutiny == Scrutiny::Synced { MAX_ELEMENT_BYTES } else { MAX_SOUGHT_HEAD_BYTES };
        judge_head(bytes, MIN_SIZE..=self.options.max_frame_bytes, max_bytes, |bytes, size| {
            Self::plausible(bytes, size, scrutiny)
        })
    }

    fn begin(&mut self, head: &[u8], span: Span<T>) {
        let mut reader = Reader::new(head.get(4..).unwrap_or_default());
        // Complete, because `head` has checked it.
        let Ok(header) = RequestHeader::read(&mut reader) else { return };
        self.open(header, span);
    }

    fn begin_cut(&mut self, head: &[u8], span: Span<T>, cut: Cut) -> Option<usize> {
        let bytes = head.get(4..)?;
        let header = RequestHeader::of_start(bytes)?;
        let mut reader = Reader::new(bytes);
        let is_whole = RequestHeader::read(&mut reader).is_ok();
        self.open(header, span);
        if is_whole {
            return Some(4 + reader.at());
        }
        self.frame.as_mut()?.error = Some(FrameError::HeadLost(cut.missing));
        Some(head.len())
    }

    fn step(&mut self, bytes: &[u8], left: u64, at: usize) -> Step {
        let Some(frame) = &mut self.frame else { return Step::Rest };
        if frame.error.is_some() {
            return Step::Rest;
        }
        if is_held_whole(frame.api_key) {
            return self.whole(bytes, left, at);
        }
        let RequestBody::Produce(body) = &mut frame.body else { return Step::Rest };
        let ProduceBody { transactional_id, acks, timeout_ms, partitions } = body;
        let top = |values: &Values<'_>| {
            set_optional_text(transactional_id, values.transactional_id());
            *acks = values.short(Number::Acks);
            *timeout_ms = values.int(Number::TimeoutMs).unwrap_or(0);
        };
        self.walk.step(partitions, top, bytes, (left, at), &self.options).unwrap_or_else(|error| {
            frame.error = Some(FrameError::Malformed(error));
            Step::Rest
        })
    }

    fn lost(&mut self, n: u64, held: &[u8], skip: u64) -> u64 {
        let Some(frame) = &mut self.frame else { return u64::MAX };
        let RequestBody::Produce(body) = &mut frame.body else {
            // Once the body has been read, the rest of the frame is not needed.
            if is_held_whole(frame.api_key) && matches!(frame.body, RequestBody::Other) {
                frame.error.get_or_insert(FrameError::Lost(n));
            }
            return u64::MAX;
        };
        if frame.error.is_some() {
            return u64::MAX;
        }
        // Whether there will be an answer depends on acks, so acks alone is useful.
        if let Some((values, acks)) = self.walk.cut_top(held).and_then(|v| Some((v, v.short(Number::Acks)?)))
        {
            set_optional_text(&mut body.transactional_id, values.transactional_id());
            body.acks = Some(acks);
        }
        self.walk.lost(&mut body.partitions, n, held, skip).unwrap_or_else(|| {
            frame.error = Some(FrameError::Lost(n));
            u64::MAX
        })
    }

    fn end(&mut self, last: T) {
        let Some(frame) = &mut self.frame else { return };
        frame.last = last;
        if let RequestBody::Produce(body) = &mut frame.body {
            self.walk.finish(&mut body.partitions);
        }
        let unfinished = frame.error.is_none()
            && match &frame.body {
                RequestBody::Produce(_) => !self.walk.is_done(),
                RequestBody::Fetch(_) | RequestBody::Ids(_) => false,
                // A body without bytes takes no step, but may be complete all the same.
                RequestBody::Other => is_held_whole(frame.api_key) && self.read_whole(&[]).is_err(),
            };
        if let (true, Some(frame)) = (unfinished, &mut self.frame) {
            let error = Error::new(ErrorKind::UnexpectedEnd(1), frame.size as usize + 4);
            frame.error = Some(FrameError::Malformed(error));
        }
    }

    fn error(&mut self) -> Option<&mut Option<FrameError>> {
        self.frame.as_mut().map(|frame| &mut frame.error)
    }

    fn is_damaged(&self) -> bool {
        self.frame.as_ref().is_some_and(|frame| match &frame.body {
            // The client uses this to find out whether the broker knows this version (KIP-511): the body has nothing to
            // lose.
            _ if frame.api_key == ApiKey::API_VERSIONS
                && ApiKey::API_VERSIONS.is_newer(frame.api_version) =>
            {
                false
            }
            _ if frame.error.is_some() => true,
            RequestBody::Produce(body) => body.partitions.iter().any(|p| p.error.is_some()),
            RequestBody::Fetch(_) | RequestBody::Ids(_) | RequestBody::Other => false,
        })
    }

    fn precedes_tokens(&self) -> bool {
        let frame = self.frame.as_ref();
        frame.is_some_and(|frame| frame.api_key == ApiKey::SASL_HANDSHAKE && frame.api_version == 0)
    }

    fn proves(&self) -> bool {
        let Some(RequestFrame { body: RequestBody::Produce(body), .. }) = &self.frame else { return false };
        body.acks.is_some_and(|acks| (-1..=1).contains(&acks))
            && body.timeout_ms >= 0
            && body.partitions.iter().any(|p| !p.batches.is_empty())
            && !self.is_damaged()
    }
}
