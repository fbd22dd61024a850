//! The part that is being written: an append-only Arrow IPC stream. Does not decide when to flush it.
//!
//! Every batch goes out in one `write`, without `fsync`: a killed process loses nothing it has written,
//! and a broker's disk is not made to commit its journal for our sake.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::Schema;

use crate::Error;

/// A part that rows are appended to.
pub(crate) struct OpenPart {
    path: PathBuf,
    file: File,
    encoder: StreamWriter<Vec<u8>>,
    rows: u64,
    bytes: u64,
}

/// Keeps at most this much memory between batches.
const KEEP_BUFFER_BYTES: usize = 4 << 20;

impl OpenPart {
    /// Creates the file, which must not exist yet. The schema goes out with the first batch.
    pub(crate) fn create(path: PathBuf, schema: &Schema) -> Result<Self, Error> {
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = file.map_err(Error::io("create", &path))?;
        let encoder = StreamWriter::try_new(Vec::new(), schema)
            .map_err(|source| Error::Encode { path: path.clone(), source })?;
        Ok(Self { path, file, encoder, rows: 0, bytes: 0 })
    }

    /// Appends rows. After an error the part ends before them: append no more.
    pub(crate) fn append(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.encoder.write(batch).map_err(|source| Error::Encode { path: self.path.clone(), source })?;
        let encoded = self.encoder.get_mut();
        if let Err(source) = self.file.write_all(encoded) {
            // What was written of them would look like damage. If this fails too, the reader copes.
            let _ = self.file.set_len(self.bytes);
            return Err(Error::Io { action: "write", path: self.path.clone(), source });
        }
        self.bytes += encoded.len() as u64;
        self.rows += batch.num_rows() as u64;
        encoded.clear();
        encoded.shrink_to(KEEP_BUFFER_BYTES);
        Ok(())
    }

    /// Rows in it.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes in it.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
