//! `verdicts/`: the verdicts on a recording's slow requests, as a table beside its events, for queries of the files.
//! Reaches no verdicts and reads none back: they follow from the events. ([`Recording::causes`] reads the columns that
//! aggregates need.)
//!
//! The table is written whole and replaces an earlier one atomically: a reader of the folder sees the old verdicts or
//! the new ones.

use std::fs::File;
use std::path::PathBuf;

use model::{Nanos, Row as _, Verdict};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;

use crate::columns::schema;
use crate::convert::{ROW_GROUP_BYTES, properties};
use crate::part::Part;
use crate::rows::{Append, batch};
use crate::{Directory, Error, Recording};

/// The folder in a recording.
pub(crate) const FOLDER: &str = "verdicts";
/// The one part.
const PART: u32 = 1;
/// Metadata key for the minimum latency of the file's requests, in nanoseconds.
const SLOWER_THAN: &str = "brokerscope.slower_than_ns";
/// Verdicts written at a time.
const BATCH_ROWS: usize = 1024;

/// Writes a recording's verdicts.
/// Dropped without [`VerdictWriter::finish`], it leaves the earlier verdicts in place.
pub struct VerdictWriter {
    rows: <Verdict as Append>::Builder,
    waiting: usize,
    written: u64,
    /// `None` once it is closed.
    file: Option<ArrowWriter<File>>,
    /// The table's folder; somebody else's recording must not lead out of its directory.
    folder: Directory,
    temporary: PathBuf,
    part: Part,
}

impl VerdictWriter {
    /// Starts a table of verdicts on requests that took at least `slower_than`.
    /// Does not change the recording yet.
    ///
    /// # Errors
    /// [`Error::Io`] if the recording's directory cannot be written to, [`Error::NoFolder`] if something other than a
    /// folder has the table's name.
    pub fn create(recording: &Recording, slower_than: Nanos) -> Result<Self, Error> {
        let folder = Directory::open(recording.dir())?.folder(FOLDER)?;
        let part = Part::new(PathBuf::new(), PART);
        // One for each process: two may do this at the same time, and the last one wins.
        let temporary = part.temporary().with_extension(format!("{}.tmp", std::process::id()));
        let schema = schema(&Verdict::columns());
        let mut writer = Self {
            file: None,
            rows: <Verdict as Append>::Builder::default(),
            waiting: 0,
            written: 0,
            folder,
            temporary,
            part,
        };
        let refused = writer.refused();
        let properties = properties(&schema).map_err(&refused)?;
        let created = writer.folder.create_temporary(&writer.temporary)?;
        let mut file = ArrowWriter::try_new(created, schema, Some(properties)).map_err(refused)?;
        file.append_key_value_metadata(KeyValue::new(SLOWER_THAN.to_owned(), slower_than.0.to_string()));
        writer.file = Some(file);
        Ok(writer)
    }

    /// Adds a verdict.
    ///
    /// # Errors
    /// The write failed: the earlier table stays.
    pub fn write(&mut self, verdict: &Verdict) -> Result<(), Error> {
        Verdict::append(verdict, &mut self.rows);
        self.waiting += 1;
        if self.waiting >= BATCH_ROWS { self.write_batch() } else { Ok(()) }
    }

    /// Replaces the earlier table; returns the number of verdicts.
    ///
    /// # Errors
    /// As [`VerdictWriter::write`].
    pub fn finish(mut self) -> Result<u64, Error> {
        self.write_batch()?;
        if let Some(file) = self.file.take() {
            file.close().map_err(self.refused())?;
        }
        self.folder.rename(&self.temporary, self.part.parquet())?;
        Ok(self.written)
    }

    fn write_batch(&mut self) -> Result<(), Error> {
        let rows = std::mem::take(&mut self.waiting);
        let batch = batch::<Verdict>(&mut self.rows)
            .map_err(|source| Error::Encode { path: self.folder.path().join(&self.temporary), source })?;
        let refused = self.refused();
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write(&batch).map_err(&refused)?;
        if file.in_progress_size() > ROW_GROUP_BYTES {
            file.flush().map_err(&refused)?;
        }
        self.written += rows as u64;
        Ok(())
    }

    fn refused(&self) -> impl Fn(ParquetError) -> Error + use<> {
        let path = self.folder.path().join(&self.temporary);
        move |source| Error::Convert { path: path.clone(), source }
    }
}

impl Drop for VerdictWriter {
    fn drop(&mut self) {
        // After `finish` it is gone already; readers skip it if it stays.
        let _ = self.folder.remove(&self.temporary);
    }
}
