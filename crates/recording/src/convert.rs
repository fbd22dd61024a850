//! Converts full Arrow streams to Parquet.
//! Runs on another thread so that rows keep flowing. Does not decide when a part is full.

use std::collections::BTreeSet;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
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
/// Pause after each batch while the recording runs: a part can wait, a thread that wakes on this CPU cannot.
const REST: Duration = Duration::from_millis(1);
/// A sync may delay the broker, whose logs can be on the same disk: so syncs are rare and cover several parts at once.
const SYNC_AFTER: Duration = Duration::from_secs(60);
const MAX_UNSYNCED_PARTS: usize = 16;
/// Memory that a row group may take before it is written, however few its rows.
pub(crate) const ROW_GROUP_BYTES: usize = 16 << 20;

/// A thread that converts the parts it is given, in order.
pub(crate) struct Converter {
    parts: Option<Sender<(Table, Part)>>,
    /// Whether [`Converter::finish`] waits for it.
    awaited: Arc<AtomicBool>,
    /// Returns the first failure.
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
            converted: Vec::new(),
            failed: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("recording-parts".to_owned())
            .spawn(move || conversion.run(&queue))
            .map_err(Error::io("start a thread for", directory.path()))?;
        Ok(Self { parts: Some(parts), awaited, thread: Some(thread) })
    }

    /// Queues a complete part.
    pub(crate) fn take(&self, table: Table, part: Part) {
        if let Some(parts) = &self.parts {
            // The thread outlives the sender; if it were gone, the part would simply stay a stream.
            let _ = parts.send((table, part));
        }
    }

    /// Waits until all parts are converted; returns the first failure.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.awaited.store(true, Ordering::Relaxed);
        drop(self.parts.take());
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or(Ok(())))
    }
}

/// The state of the thread.
struct Conversion {
    directory: Arc<Directory>,
    closed: Arc<ClosedParts>,
    is_awaited: Arc<AtomicBool>,
    converted: Vec<Replacement>,
    /// Parts that could not be converted, for example while the disk was full.
    failed: Vec<(Table, Part)>,
}

/// A part whose Parquet is written beside its stream. The Parquet may not be on the disk yet.
struct Replacement {
    table: Table,
    part: Part,
    file: File,
}

impl Conversion {
    /// Converts all parts. Tries failed parts once more at the end, and returns the first error then.
    fn run(mut self, queue: &Receiver<(Table, Part)>) -> Result<(), Error> {
        lower_priority();
        loop {
            match self.next(queue) {
                Ok((table, part)) => {
                    let _ = self.try_convert(table, part);
                    if self.converted.len() < MAX_UNSYNCED_PARTS {
                        continue;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let _ = self.replace_streams();
        }
        let _ = self.replace_streams();
        let mut outcome = Ok(());
        for (table, part) in std::mem::take(&mut self.failed) {
            outcome = outcome.and(self.try_convert(table, part));
        }
        outcome.and(self.replace_streams())
    }

    /// Receives the next part; times out if none comes while others wait for a sync.
    fn next(&self, queue: &Receiver<(Table, Part)>) -> Result<(Table, Part), RecvTimeoutError> {
        if self.converted.is_empty() {
            return queue.recv().map_err(|_| RecvTimeoutError::Disconnected);
        }
        queue.recv_timeout(SYNC_AFTER)
    }

    /// Converts a part, unless it was removed. After a panic it stays a stream, which is as good.
    fn try_convert(&mut self, table: Table, part: Part) -> Result<(), Error> {
        if !self.closed.hold(&part) {
            return Ok(());
        }
        let converted = catch_unwind(AssertUnwindSafe(|| self.convert(table, &part).map(Some)));
        let converted = converted.unwrap_or(Ok(None));
        self.closed.release(&part, converted.as_ref().ok().and_then(Option::as_ref).map(|(_, bytes)| *bytes));
        match converted {
            Ok(Some((file, _))) => self.converted.push(Replacement { table, part, file }),
            Ok(None) => {}
            Err(error) => {
                self.failed.push((table, part));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes a part's Parquet beside its stream; returns the file and the size of both.
    fn convert(&self, table: Table, part: &Part) -> Result<(File, u64), Error> {
        let stream = self.directory.path().join(part.stream());
        let bytes = |file: &File| file.metadata().map(|metadata| metadata.len());
        let notes = Arc::new(Notes::on(&stream));
        let file = self.directory.open_file(part.stream())?;
        let stream_bytes = bytes(&file).map_err(Error::io("read", &stream))?;
        let batches = StreamPart::of(file, &stream, notes).map_err(Error::io("read", &stream))?;
        let file = write(&self.directory, table, part, batches.inspect(|_| self.rest()))?;
        let parquet_bytes = bytes(&file).map_err(Error::io("read", part.temporary()))?;
        Ok((file, stream_bytes + parquet_bytes))
    }

    /// Replaces streams with Parquet.
    /// Removes a stream only once the data and the name of its Parquet are on the disk. Parts that fail are tried again
    /// at the end.
    fn replace_streams(&mut self) -> Result<(), Error> {
        let (mut outcome, mut placed) = (Ok(()), Vec::new());
        for converted in std::mem::take(&mut self.converted) {
            // Otherwise the part was removed.
            if self.closed.hold(&converted.part) {
                outcome = outcome.and(self.place(&converted));
                placed.push(converted);
            }
        }
        let tables: BTreeSet<&str> = placed.iter().map(|converted| converted.table.as_str()).collect();
        for table in tables {
            outcome = outcome.and(self.directory.sync_folder(table));
        }
        for Replacement { table, part, file } in placed {
            let mut bytes = None;
            if outcome.is_ok() {
                outcome = self.directory.remove(part.stream());
                bytes = file.metadata().ok().map(|metadata| metadata.len());
            }
            self.closed.release(&part, bytes);
            if outcome.is_err() {
                self.failed.push((table, part));
            }
        }
        outcome
    }

    fn place(&self, Replacement { part, file, .. }: &Replacement) -> Result<(), Error> {
        self.directory.sync_file(file, part.temporary())?;
        self.directory.rename(part.temporary(), part.parquet())
    }

    fn rest(&self) {
        if !self.is_awaited.load(Ordering::Relaxed) {
            std::thread::sleep(REST);
        }
    }
}

/// Lowers the thread's priority: a part can wait, other processes cannot.
/// Not to the minimum: at the end of a recording the user waits for it.
#[cfg(target_os = "linux")]
fn lower_priority() {
    // On Linux this applies to this thread only (setpriority(2)). Conversion works without it too.
    let _ = rustix::process::setpriority_process(None, 10);
}

/// Elsewhere the process has a priority, not the thread.
#[cfg(not(target_os = "linux"))]
fn lower_priority() {}

/// Writes a part without rows, so that every table can be queried.
pub(crate) fn write_empty(directory: &Directory, table: Table, part: &Part) -> Result<(), Error> {
    write(directory, table, part, std::iter::empty())?;
    directory.rename(part.temporary(), part.parquet())
}

fn write(
    directory: &Directory,
    table: Table,
    part: &Part,
    batches: impl Iterator<Item = Result<RecordBatch, Error>>,
) -> Result<File, Error> {
    let temporary = part.temporary();
    let file = directory.create_temporary(&temporary)?;
    let written = write_to(file, &directory.path().join(&temporary), &schema(table), batches);
    if written.is_err() {
        // If this fails too, there is nothing to add to the error: readers skip temporary files.
        let _ = directory.remove(&temporary);
    }
    written
}

fn write_to(
    file: File,
    path: &Path,
    schema: &Schema,
    batches: impl Iterator<Item = Result<RecordBatch, Error>>,
) -> Result<File, Error> {
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
    writer.into_inner().map_err(failed)
}

/// The encoding of columns.
/// Times, offsets and sequence numbers hardly repeat but lie close together: they take the least space as differences,
/// without a dictionary or much compression. Only text repeats otherwise.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::RecordBatch;
    use model::Table;

    use super::Converter;
    use crate::Directory;
    use crate::closed::{ClosedPart, ClosedParts};
    use crate::intake::RowSpan;
    use crate::part::Part;
    use crate::stream::OpenPart;
    use crate::table::schema;

    #[test]
    fn removes_streams_only_after_parquet_and_folders_are_synced() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Arc::new(Directory::create(&dir.path().join("recording")).unwrap());
        let closed = Arc::<ClosedParts>::default();
        let mut converter = Converter::start(&directory, &closed).unwrap();
        for (table, number) in [(Table::Losses, 1), (Table::Losses, 2), (Table::OffCpu, 1)] {
            directory.folder(table.as_str()).unwrap();
            let part = Part::new(table.as_str().into(), number);
            let mut open = OpenPart::create(&directory, &part.stream(), &schema(table)).unwrap();
            open.append(&RecordBatch::new_empty(schema(table))).unwrap();
            let (bytes, rows) = (open.bytes, RowSpan::NONE);
            closed.push(ClosedPart { table, part: part.clone(), rows, bytes, is_busy: false });
            converter.take(table, part);
        }
        converter.finish().unwrap();
        let done = directory.log.lock().unwrap();
        let done: Vec<&str> = done
            .iter()
            .map(String::as_str)
            .filter(|done| !done.starts_with("remove") || done.ends_with(".arrows"))
            .collect();
        assert_eq!(
            done,
            [
                "sync losses/part-00001.parquet.tmp",
                "rename to losses/part-00001.parquet",
                "sync losses/part-00002.parquet.tmp",
                "rename to losses/part-00002.parquet",
                "sync off_cpu/part-00001.parquet.tmp",
                "rename to off_cpu/part-00001.parquet",
                "sync losses",
                "sync off_cpu",
                "remove losses/part-00001.arrows",
                "remove losses/part-00002.arrows",
                "remove off_cpu/part-00001.arrows",
            ]
        );
    }
}
