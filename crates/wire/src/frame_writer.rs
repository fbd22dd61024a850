//! Writes frames of the few requests that brokerscope itself sends. Knows no API.

use crate::ApiKey;

/// A request's frame during encoding: its length, a header of version 1, and the body so far.
pub(crate) struct FrameWriter {
    frame: Vec<u8>,
}

impl FrameWriter {
    /// Starts a frame with its header.
    pub(crate) fn new(api: ApiKey, version: i16, correlation_id: i32, client_id: &str) -> Self {
        let mut writer = Self { frame: vec![0; 4] };
        writer.frame.extend(api.0.to_be_bytes());
        writer.frame.extend(version.to_be_bytes());
        writer.i32(correlation_id);
        writer.string(client_id);
        writer
    }

    /// Writes an INT8 or a BOOLEAN.
    pub(crate) fn i8(&mut self, number: i8) {
        self.frame.extend(number.to_be_bytes());
    }

    /// Writes an INT32, or the number of elements of an array.
    pub(crate) fn i32(&mut self, number: i32) {
        self.frame.extend(number.to_be_bytes());
    }

    /// Writes a STRING; one that is too long is cut.
    pub(crate) fn string(&mut self, text: &str) {
        let end = (0..=text.len().min(i16::MAX as usize)).rev().find(|&at| text.is_char_boundary(at));
        let text = text.get(..end.unwrap_or(0)).unwrap_or_default();
        self.frame.extend((text.len() as i16).to_be_bytes());
        self.frame.extend(text.as_bytes());
    }

    /// Writes BYTES, some KiB at most.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.i32(bytes.len() as i32);
        self.frame.extend(bytes);
    }

    /// Returns the whole frame, with its length.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let length = (self.frame.len() - 4) as u32;
        self.frame.splice(..4, length.to_be_bytes());
        self.frame
    }
}
