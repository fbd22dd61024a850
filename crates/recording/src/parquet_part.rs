//! Reading a Parquet part batch by batch. Does not know the tables.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};
use parquet::schema::types::SchemaDescriptor;

use crate::Error;
use crate::fence::fenced;

const BATCH_ROWS: usize = 2048;

/// The batches of a Parquet file.
pub(crate) struct ParquetPart {
    path: PathBuf,
    /// None after the last batch, or the first error.
    reader: Option<ParquetRecordBatchReader>,
}

impl ParquetPart {
    /// Opens a file and reads its footer. Columns that are called one of `unread` are passed over.
    pub(crate) fn open(path: &Path, unread: &[&str]) -> Result<Self, Error> {
        let damaged = |why: String| Error::Part { path: path.to_owned(), why };
        let file = File::open(path).map_err(Error::io("read", path))?;
        let reader = fenced(|| {
            let builder = ParquetRecordBatchReaderBuilder::try_new(Measured(file))?;
            let wanted = wanted(builder.parquet_schema(), unread);
            builder.with_projection(wanted).with_batch_size(BATCH_ROWS).build()
        });
        let reader = reader.map_err(damaged)?.map_err(|e| damaged(e.to_string()))?;
        Ok(Self { path: path.to_owned(), reader: Some(reader) })
    }
}

/// The columns with values that are read, also those within rows of rows.
fn wanted(schema: &SchemaDescriptor, unread: &[&str]) -> ProjectionMask {
    let names = schema.columns().iter().map(|column| column.name());
    let read = names.enumerate().filter(|(_, name)| !unread.contains(name)).map(|(at, _)| at);
    ProjectionMask::leaves(schema, read.collect::<Vec<_>>())
}

impl Iterator for ParquetPart {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut reader = self.reader.take()?;
        let why = match fenced(|| reader.next()) {
            Ok(None) => return None,
            Ok(Some(Ok(batch))) => {
                self.reader = Some(reader);
                return Some(Ok(batch));
            }
            Ok(Some(Err(e))) => e.to_string(),
            Err(why) => why,
        };
        Some(Err(Error::Part { path: self.path.clone(), why }))
    }
}

/// A file of which no more is asked than it has: the plain `File` allocates what a footer claims.
struct Measured(File);

impl Length for Measured {
    fn len(&self) -> u64 {
        Length::len(&self.0)
    }
}

impl ChunkReader for Measured {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        match start.checked_add(length as u64) {
            Some(end) if end <= Length::len(self) => self.0.get_bytes(start, length),
            _ => Err(ParquetError::EOF(format!("{length} bytes at {start} are beyond the end"))),
        }
    }
}
