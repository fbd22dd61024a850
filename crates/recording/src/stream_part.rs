//! Reading an Arrow IPC stream that may end anywhere. Does not know the tables.
//!
//! Arrow's own reader believes the lengths it finds. Here each message's frame (Arrow columnar format,
//! "Encapsulated message format") is measured against the file before it is read and decoded, so that a
//! stream cut at any byte gives the batches before the cut, and a lie about a length costs nothing.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::root_as_message;

use crate::Error;
use crate::fence::fenced;
use crate::notes::Notes;

/// Far above what the writer puts into one message.
const MAX_METADATA_BYTES: u64 = 16 << 20;
const MAX_BODY_BYTES: u64 = 512 << 20;
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The batches of a stream.
pub(crate) struct StreamPart {
    path: PathBuf,
    file: BufReader<File>,
    /// Bytes of the file not yet read, as long as it was when it was opened.
    left: u64,
    /// None after the last batch.
    decoder: Option<StreamDecoder>,
    notes: Arc<Notes>,
}

/// What comes next in a stream.
pub(crate) enum Frame {
    Message(Vec<u8>),
    End,
    Cut { bytes: u64 },
    Broken(String),
}

impl StreamPart {
    /// Opens a stream.
    pub(crate) fn open(path: &Path, notes: Arc<Notes>) -> io::Result<Self> {
        let file = File::open(path)?;
        let left = file.metadata()?.len();
        let decoder = Some(StreamDecoder::new());
        Ok(Self { path: path.to_owned(), file: BufReader::new(file), left, decoder, notes })
    }

    /// The next batch, none at the end of the stream.
    fn step(&mut self) -> Result<Option<RecordBatch>, Error> {
        while let Some(decoder) = &mut self.decoder {
            let broken = |why: String| Error::Part { path: self.path.clone(), why };
            match frame(&mut self.file, &mut self.left).map_err(Error::io("read", &self.path))? {
                Frame::Message(bytes) => {
                    let mut buffer = Buffer::from_vec(bytes);
                    let decoded = fenced(|| decoder.decode(&mut buffer)).map_err(broken)?;
                    if let Some(batch) = decoded.map_err(|e| broken(e.to_string()))? {
                        return Ok(Some(batch));
                    }
                }
                Frame::End => return Ok(None),
                Frame::Cut { bytes } => {
                    let part = self.notes.shown(&self.path);
                    self.notes
                        .line(format!("{part} ends within a write: its last {bytes} bytes are left out"));
                    return Ok(None);
                }
                Frame::Broken(why) => return Err(broken(why)),
            }
        }
        Ok(None)
    }
}

impl Iterator for StreamPart {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if !matches!(step, Ok(Some(_))) {
            self.decoder = None;
        }
        step.transpose()
    }
}

/// Reads one message with its frame: continuation marker, length of the metadata, metadata, body.
pub(crate) fn frame(file: &mut BufReader<File>, left: &mut u64) -> io::Result<Frame> {
    let available = *left;
    let cut = Ok(Frame::Cut { bytes: available });
    let mut prefix = [0; 4];
    if available == 0 {
        return Ok(Frame::End);
    }
    if available < 8 {
        return cut;
    }
    file.read_exact(&mut prefix)?;
    if prefix == [0; 4] {
        // The old format's end; also what a file holds whose last blocks never reached the disk.
        return Ok(Frame::End);
    }
    if prefix != CONTINUATION {
        return Ok(Frame::Broken(format!("no Arrow message {available} bytes before its end")));
    }
    file.read_exact(&mut prefix)?;
    *left = available - 8;
    let metadata_bytes = u64::from(u32::from_le_bytes(prefix));
    if metadata_bytes == 0 {
        return Ok(Frame::End);
    }
    if metadata_bytes > MAX_METADATA_BYTES {
        return Ok(Frame::Broken(format!("an Arrow message with {metadata_bytes} bytes of metadata")));
    }
    if metadata_bytes > *left {
        return cut;
    }
    let mut message = [CONTINUATION, prefix].concat();
    append(file, left, metadata_bytes, &mut message)?;
    let body_bytes = match message.get(8..).map(root_as_message) {
        Some(Ok(metadata)) => u64::try_from(metadata.bodyLength()).unwrap_or(u64::MAX),
        _ => return Ok(Frame::Broken("an Arrow message's metadata cannot be read".to_owned())),
    };
    if body_bytes > MAX_BODY_BYTES {
        return Ok(Frame::Broken(format!("an Arrow message of {body_bytes} bytes")));
    }
    if body_bytes > *left {
        return cut;
    }
    append(file, left, body_bytes, &mut message)?;
    Ok(Frame::Message(message))
}

/// Reads `count` bytes, which are known to be there.
fn append(file: &mut BufReader<File>, left: &mut u64, count: u64, to: &mut Vec<u8>) -> io::Result<()> {
    to.reserve_exact(count as usize);
    let read = file.by_ref().take(count).read_to_end(to)? as u64;
    *left -= read;
    if read < count { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}
