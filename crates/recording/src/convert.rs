//! Turning a full Arrow stream into Parquet, on another thread so that rows keep flowing.
//! Does not decide when a part is full.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use model::Table;
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression, Encoding, Type, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::closed::ClosedParts;
use crate::notes::Notes;
use crate::part::Part;
use crate::stream::StreamPart;
use crate::table::schema;
use crate::{Directory, Error};

const ROW_GROUP_ROWS: usize = 64 * 1024;
/// After each batch, while the recording goes on: a part can wait, and a thread that wakes on this processor cannot.
const REST: Duration = Duration::from_millis(1);
/// What a row group may hold in memory before it is written, however few its rows.
pub(crate) const ROW_GROUP_BYTES: usize = 16 << 20;

/// A thread that converts the parts it is given, in order.
pub(crate) struct Converter {
    parts: Option<Sender<(Table, Part)>>,
    /// Whether somebody waits for it.
    awaited: Arc<AtomicBool>,
    /// Ends with the first failure.
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Converter {
    /// Starts the thread.
    pub(crate) fn start(directory: &Arc<Directory>, closed: &Arc<ClosedParts>) -> Result<Self, Error> {
        let (parts, queue) = channel();
        let awaited = Arc::<AtomicBool>::default();
        let conversion = Conversion {
            directory: Arc::clone(directory),
            closed: Arc::clone(closed),
            is_awaited: Arc::clone(&awaited),
        };
        let thread = std::thread::Builder::new()
            .name("recording-parts".to_owned())
            .spawn(move || conversion.run(&queue))
            .map_err(Error::io("start a thread for", directory.path()))?;
        Ok(Self { parts: Some(parts), awaited, thread: Some(thread) })
    }

    /// Hands it a part that nobody appends to any more.
    pub(crate) fn take(&self, table: Table, part: Part) {
        if let Some(parts) = &self.parts {
            // The thread outlives the sender; were it gone, the part would simply stay a stream.
            let _ = parts.send((table, part));
        }
    }

    /// Waits until all parts are converted; the first that could not be is the error.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.awaited.store(true, Ordering::Relaxed);
        drop(self.parts.take());
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or(Ok(())))
    }
}

/// What the thread works on.
struct Conversion {
    directory: Arc<Directory>,
    closed: Arc<ClosedParts>,
    is_awaited: Arc<AtomicBool>,
}

impl Conversion {
    /// Converts all. What could not be converted, as while the disk was full, is tried once more at the end: the first error
    /// then.
    fn run(&self, queue: &Receiver<(Table, Part)>) -> Result<(), Error> {
        step_back();
        let failed: Vec<_> =
            queue.iter().filter(|(table, part)| self.try_convert(*table, part).is_err()).collect();
        let mut outcome = Ok(());
        for (table, part) in &failed {
            outcome = outcome.and(self.try_convert(*table, part));
        }
        outcome
    }

    /// Converts a part, unless it was removed. A panic leaves it a stream, which is as good.
    fn try_convert(&self, table: Table, part: &Part) -> Result<(), Error> {
        if !self.closed.hold(part) {
            return Ok(());
        }
        let converted = catch_unwind(AssertUnwindSafe(|| self.convert(table, part).map(Some)));
        let bytes = converted.unwrap_or(Ok(None));
        self.closed.release(part, *bytes.as_ref().unwrap_or(&None));
        bytes.map(drop)
    }

    /// Writes a part's Parquet beside its stream, renames it into place, and only then removes the stream. How many bytes it has.
    fn convert(&self, table: Table, part: &Part) -> Result<u64, Error> {
        let stream = self.directory.path().join(part.stream());
        let notes = Arc::new(Notes::on(&stream));
        let file = self.directory.open_file(part.stream())?;
        let batches = StreamPart::of(file, &stream, notes).map_err(Error::io("read", &stream))?;
        let bytes = write(&self.directory, table, part, batches.inspect(|_| self.rest()))?;
        self.directory.remove(part.stream())?;
        Ok(bytes)
    }

    fn rest(&self) {
        if !self.is_awaited.load(Ordering::Relaxed) {
            std::thread::sleep(REST);
        }
    }
}

/// A part can wait; the other processes on this machine cannot. Not to the last place: at the end of a recording
/// somebody waits for it.
#[cfg(target_os = "linux")]
fn step_back() {
    // Of this thread only, on Linux (setpriority(2)). Were it refused, converting would be no less right.
    let _ = rustix::process::setpriority_process(None, 10);
}

/// Elsewhere it is not the thread that has a priority, but the process.
#[cfg(not(target_os = "linux"))]
fn step_back() {}

/// Writes a part without rows, so that every table can be queried.
pub(crate) fn write_empty(directory: &Directory, table: Table, part: &Part) -> Result<(), Error> {
    write(directory, table, part, std::iter::empty()).map(drop)
}

fn write(
    directory: &Directory,
    table: Table,
    part: &Part,
    batches: impl Iterator<Item = Result<RecordBatch, Error>>,
) -> Result<u64, Error> {
    let temporary = part.temporary();
    let file = directory.create_temporary(&temporary)?;
    let written = write_to(file, &directory.path().join(&temporary), &schema(table), batches);
    if written.is_err() {
        // Nothing to add to the error where even that fails: readers pass over temporary files.
        let _ = directory.remove(&temporary);
    }
    let bytes = written?;
    directory.rename(&temporary, part.parquet())?;
    Ok(bytes)
}

fn write_to(
    file: File,
    path: &Path,
    schema: &Schema,
    batches: impl Iterator<Item = Result<RecordBatch, Error>>,
) -> Result<u64, Error> {
    let failed = |source: ParquetError| Error::Convert { path: path.to_owned(), source };
    let properties = properties(schema).map_err(failed)?;
    let mut writer =
        ArrowWriter::try_new(file, Arc::new(schema.clone()), Some(properties)).map_err(failed)?;
    for batch in batches {
        writer.write(&batch?).map_err(failed)?;
        if writer.in_progress_size() > ROW_GROUP_BYTES {
            writer.flush().map_err(failed)?;
        }
    }
    let file = writer.into_inner().map_err(failed)?;
    Ok(file.metadata().map_err(Error::io("read", path))?.len())
}

/// Times, offsets and sequence numbers hardly repeat but lie close together: as differences they take least, and
/// cost neither a dictionary nor much compression. What repeats otherwise is text.
pub(crate) fn properties(schema: &Schema) -> Result<WriterProperties, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_size(ROW_GROUP_ROWS)
        .set_created_by(format!("brokerscope {}", env!("CARGO_PKG_VERSION")));
    for column in ArrowSchemaConverter::new().convert(schema)?.columns() {
        if matches!(column.physical_type(), Type::INT32 | Type::INT64) {
            properties = properties
                .set_column_dictionary_enabled(column.path().clone(), false)
                .set_column_encoding(column.path().clone(), Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(properties.build())
}
