//! The part of a table that is being written: an Arrow IPC stream that may end anywhere.
//! Does not know the tables, and does not decide when to flush.
//!
//! Every batch goes out in one `write`, without `fsync`: a killed process loses nothing that it has written, and the
//! broker's disk need not commit its journal for a recording. Arrow's own reader trusts the lengths it finds. Here each
//! message's frame (Arrow columnar format, "Encapsulated message format") is checked against the file's length before
//! it is read and decoded, so that a stream cut at any byte yields the batches before the cut, and a false length
//! allocates nothing.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::root_as_message;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::Schema;

use crate::notes::{Notes, catch_panics};
use crate::{Directory, Error};

/// A part that rows are appended to.
pub(crate) struct OpenPart {
    path: PathBuf,
    file: File,
    encoder: StreamWriter<Vec<u8>>,
    /// Rows in it.
    pub(crate) rows: u64,
    /// Bytes in it.
    pub(crate) bytes: u64,
}

/// Maximum capacity that the buffer keeps between batches.
const KEEP_BUFFER_BYTES: usize = 4 << 20;

impl OpenPart {
    /// Creates the file, which must not exist yet. The schema goes out with the first batch.
    pub(crate) fn create(directory: &Directory, name: &Path, schema: &Schema) -> Result<Self, Error> {
        let (path, file) = (directory.path().join(name), directory.create_file(name)?);
        let encoder = StreamWriter::try_new(Vec::new(), schema)
            .map_err(|source| Error::Encode { path: path.clone(), source })?;
        Ok(Self { path, file, encoder, rows: 0, bytes: 0 })
    }

    /// Appends rows. After an error the part ends before them: append no more.
    pub(crate) fn append(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.encoder.write(batch).map_err(|source| Error::Encode { path: self.path.clone(), source })?;
        let encoded = self.encoder.get_mut();
        if let Err(source) = self.file.write_all(encoded) {
            // Partly written rows would look like damage. If this fails too, the reader copes with them.
            let _ = self.file.set_len(self.bytes);
            return Err(Error::Io { action: "write", path: self.path.clone(), source });
        }
        self.bytes += encoded.len() as u64;
        self.rows += batch.num_rows() as u64;
        encoded.clear();
        encoded.shrink_to(KEEP_BUFFER_BYTES);
        Ok(())
    }
}

/// Far above what the writer puts into one message.
const MAX_METADATA_BYTES: u64 = 16 << 20;
const MAX_BODY_BYTES: u64 = 512 << 20;
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The batches of a stream, up to its length when it was opened.
pub(crate) struct StreamPart {
    /// `None` after the last batch.
    part: Option<GrowingPart>,
    notes: Arc<Notes>,
}

impl StreamPart {
    /// Opens a stream.
    pub(crate) fn open(path: &Path, notes: Arc<Notes>) -> io::Result<Self> {
        Self::of(File::open(path)?, path, notes)
    }

    /// Reads a stream from its open file.
    pub(crate) fn of(file: File, path: &Path, notes: Arc<Notes>) -> io::Result<Self> {
        let length = Some(file.metadata()?.len());
        Ok(Self { part: Some(GrowingPart { length, ..GrowingPart::of(file, path) }), notes })
    }
}

impl Iterator for StreamPart {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut part = self.part.take()?;
        let next = part.next_batch().transpose();
        if matches!(next, Some(Ok(_))) {
            self.part = Some(part);
        } else if let Some(bytes) = part.cut_bytes {
            let path = self.notes.display_path(&part.path);
            self.notes.line(format!("{path} ends within a write: its last {bytes} bytes are left out"));
        }
        next
    }
}

/// A stream that may grow. Its file stays readable when Parquet replaces it.
pub(crate) struct GrowingPart {
    /// Its path; the file may be gone.
    pub(crate) path: PathBuf,
    file: BufReader<File>,
    /// Its end; `None` if it is read as it grows.
    length: Option<u64>,
    /// Bytes of complete messages read so far.
    read: u64,
    /// Bytes of an incomplete message at its end.
    cut_bytes: Option<u64>,
    decoder: StreamDecoder,
}

impl GrowingPart {
    /// Opens a stream.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self::of(File::open(path)?, path))
    }

    fn of(file: File, path: &Path) -> Self {
        let (file, decoder) = (BufReader::new(file), StreamDecoder::new());
        Self { path: path.to_owned(), file, length: None, read: 0, cut_bytes: None, decoder }
    }

    /// The next batch; `None` if no other is complete yet. After an error the stream yields nothing more.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        let io_error = |source| Error::io("read", &self.path)(source);
        let length = match self.length {
            Some(length) => length,
            None => self.file.get_ref().metadata().map_err(io_error)?.len(),
        };
        // The file is shorter if a failed write was truncated; nothing of that was read.
        let mut left = length.saturating_sub(self.read);
        while left > 0 {
            let before = left;
            let broken = |why: String| Error::Part { path: self.path.clone(), why };
            match frame(&mut self.file, &mut left).map_err(io_error)? {
                Frame::Message(bytes) => {
                    self.read += before - left;
                    let mut buffer = Buffer::from_vec(bytes);
                    let decoded = catch_panics(|| self.decoder.decode(&mut buffer)).map_err(broken)?;
                    if let Some(batch) = decoded.map_err(|e| broken(e.to_string()))? {
                        return Ok(Some(batch));
                    }
                }
                // An incomplete message is read again when there is more.
                end @ (Frame::End | Frame::Cut { .. }) => {
                    self.cut_bytes = if let Frame::Cut { bytes } = end { Some(bytes) } else { None };
                    self.file.seek(SeekFrom::Start(self.read)).map_err(io_error)?;
                    return Ok(None);
                }
                Frame::Broken(why) => return Err(broken(why)),
            }
        }
        Ok(None)
    }
}

/// The next item of a stream.
enum Frame {
    Message(Vec<u8>),
    End,
    Cut { bytes: u64 },
    Broken(String),
}

/// Reads one message with its frame: continuation marker, length of the metadata, metadata, body.
fn frame(file: &mut BufReader<File>, left: &mut u64) -> io::Result<Frame> {
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
        // The old format's end; also the content of blocks that never reached the disk.
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
