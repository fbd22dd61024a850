//! Reading a part's Arrow IPC stream while it is written. Does not wait, and does not know the tables.

use std::fs::File;
use std::io::{self, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;

use crate::Error;
use crate::fence::fenced;
use crate::stream_part::{Frame, frame};

/// A stream that may have more later. Its file stays readable when its Parquet takes its place.
pub(crate) struct GrowingPart {
    path: PathBuf,
    file: BufReader<File>,
    /// Bytes of whole messages, read.
    read: u64,
    decoder: StreamDecoder,
}

impl GrowingPart {
    /// Opens a stream.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = BufReader::new(File::open(path)?);
        Ok(Self { path: path.to_owned(), file, read: 0, decoder: StreamDecoder::new() })
    }

    /// Where it is, or was.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The next batch; none where no more of them is whole yet. After an error there is nothing more to be had.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        let length = self.file.get_ref().metadata().map_err(Error::io("read", &self.path))?.len();
        // Shorter where a write that failed was taken back, of which nothing was read.
        let mut left = length.saturating_sub(self.read);
        while left > 0 {
            let before = left;
            let broken = |why: String| Error::Part { path: self.path.clone(), why };
            match frame(&mut self.file, &mut left).map_err(Error::io("read", &self.path))? {
                Frame::Message(bytes) => {
                    self.read += before - left;
                    let mut buffer = Buffer::from_vec(bytes);
                    let decoded = fenced(|| self.decoder.decode(&mut buffer)).map_err(broken)?;
                    if let Some(batch) = decoded.map_err(|e| broken(e.to_string()))? {
                        return Ok(Some(batch));
                    }
                }
                // What may be half a message is read again when there is more.
                Frame::End | Frame::Cut { .. } => {
                    self.file.seek(SeekFrom::Start(self.read)).map_err(Error::io("read", &self.path))?;
                    return Ok(None);
                }
                Frame::Broken(why) => return Err(broken(why)),
            }
        }
        Ok(None)
    }
}
