//! Reads a Parquet part batch by batch: some of its columns, and all or some of its rows.
//! Does not know what is in them.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
    RowSelection,
};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::statistics::Statistics;
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};

use crate::Error;
use crate::columns::Projection;
use crate::notes::catch_panics;
use crate::pages::{MAX_HEADER_BYTES, PageBudget, unpacked_bytes};
use crate::thrift::read_struct;

/// Rows per batch of events.
pub(crate) const EVENTS_AT_ONCE: usize = 2_048;
/// Rows per batch of a few columns, which are small.
pub(crate) const SUMMARIES_AT_ONCE: usize = 8_192;
/// Bytes read from the start of a page to get its header: that takes some 50 bytes, more with statistics of texts.
const PAGE_HEADER_BYTES: usize = 512;

/// The batches of a Parquet file.
pub(crate) struct ParquetPart {
    path: PathBuf,
    /// `None` after the last batch or the first error.
    reader: Option<ParquetRecordBatchReader>,
}

/// A Parquet file whose footer has been read.
pub(crate) struct ParquetFile {
    path: PathBuf,
    file: BoundedFile,
    footer: ArrowReaderMetadata,
}

/// The rows of a file to read.
pub(crate) enum Rows {
    All,
    /// Rows of row groups in which the column has a value of at least this.
    /// Also rows of row groups without statistics.
    WithAtLeast(&'static str, i64),
    /// Rows of these row groups.
    OfGroups(Range<usize>),
    Of(RowSelection),
}

impl ParquetFile {
    /// Opens a file and reads its footer.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let file = BoundedFile::open(path).map_err(Error::io("read", path))?;
        let footer = catch_panics(|| ArrowReaderMetadata::load(&file, ArrowReaderOptions::default()));
        let damaged = |why: String| Error::Part { path: path.to_owned(), why };
        let footer = footer.map_err(damaged)?.map_err(|e| damaged(e.to_string()))?;
        Ok(Self { path: path.to_owned(), file, footer })
    }

    /// Number of rows, according to the footer.
    pub(crate) fn rows(&self) -> usize {
        usize::try_from(self.footer.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// Number of row groups.
    pub(crate) fn groups(&self) -> usize {
        self.footer.metadata().num_row_groups()
    }

    /// Minimum and maximum of a column in a row group. `None` if they are unknown or a value is missing.
    pub(crate) fn bounds(&self, group: usize, column: &str) -> Option<(i64, i64)> {
        let group = self.footer.metadata().row_groups().get(group)?;
        match group.columns().get(self.place(column)?)?.statistics()? {
            Statistics::Int64(numbers) if numbers.null_count_opt().is_none_or(|count| count == 0) => {
                Some((*numbers.min_opt()?, *numbers.max_opt()?))
            }
            _ => None,
        }
    }

    /// Reads some rows and columns, in batches of `batch_rows`.
    pub(crate) fn read(
        &self,
        projection: &Projection,
        rows: Rows,
        batch_rows: usize,
    ) -> Result<ParquetPart, Error> {
        let reader = catch_panics(|| {
            let budget = PageBudget::of(self.footer.metadata().row_groups());
            let file = BoundedFile { budget: Some(Arc::new(budget)), ..self.file.clone() };
            let footer = self.footer.clone();
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer);
            let mask = mask(builder.parquet_schema(), projection);
            let builder = builder.with_projection(mask).with_batch_size(batch_rows);
            match rows {
                Rows::All => builder,
                Rows::WithAtLeast(column, least) => {
                    builder.with_row_groups(self.groups_reaching(column, least))
                }
                Rows::OfGroups(groups) => builder.with_row_groups(groups.collect()),
                Rows::Of(selection) => builder.with_row_selection(selection),
            }
            .build()
        });
        let damaged = |why: String| Error::Part { path: self.path.clone(), why };
        let reader = reader.map_err(damaged)?.map_err(|e| damaged(e.to_string()))?;
        Ok(ParquetPart { path: self.path.clone(), reader: Some(reader) })
    }

    /// Byte ranges of the projected columns. Parquet's own code panics on a footer with negative offsets.
    pub(crate) fn ranges(&self, projection: &Projection) -> Vec<Range<u64>> {
        let footer = self.footer.metadata();
        let mask = mask(footer.file_metadata().schema_descr(), projection);
        let columns = footer.row_groups().iter().flat_map(|group| group.columns().iter().enumerate());
        let ranges = columns.filter(|(at, _)| mask.leaf_included(*at)).map(|(_, column)| {
            let (start, bytes) = column.byte_range();
            start..start.saturating_add(bytes)
        });
        ranges.collect()
    }

    /// The row groups in which a column may have a value of at least `least`.
    fn groups_reaching(&self, column: &str, least: i64) -> Vec<usize> {
        let at = self.place(column);
        let most = |group: &RowGroupMetaData| match group.columns().get(at?)?.statistics()? {
            Statistics::Int64(numbers) => numbers.max_opt().copied(),
            _ => None,
        };
        let groups = self.footer.metadata().row_groups().iter().enumerate();
        groups.filter(|(_, group)| most(group).is_none_or(|most| most >= least)).map(|(at, _)| at).collect()
    }

    fn place(&self, column: &str) -> Option<usize> {
        let columns = self.footer.metadata().file_metadata().schema_descr().columns();
        columns.iter().position(|known| known.name() == column)
    }
}

fn mask(schema: &SchemaDescriptor, projection: &Projection) -> ProjectionMask {
    // The levels that Parquet puts between a list and its elements, by its own name and by Arrow's.
    let of_list = |part: &&String| !["list", "item", "element"].contains(&part.as_str());
    let path = |column: &ColumnDescPtr| {
        column.path().parts().iter().filter(of_list).map(String::as_str).collect::<Vec<_>>().join(".")
    };
    let read = schema.columns().iter().enumerate().filter(|(_, column)| projection.contains(&path(column)));
    ProjectionMask::leaves(schema, read.map(|(at, _)| at).collect::<Vec<_>>())
}

impl Iterator for ParquetPart {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut reader = self.reader.take()?;
        let why = match catch_panics(|| reader.next()) {
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

/// A file that is not read beyond the length that it had when opened.
/// With a plain `File`, Parquet allocates what a footer claims and duplicates the descriptor twice for each page, which
/// costs six system calls a page.
#[derive(Clone)]
struct BoundedFile {
    file: Arc<File>,
    bytes: u64,
    /// How much its pages may unpack to; `None` while its footer is read.
    budget: Option<Arc<PageBudget>>,
}

impl BoundedFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), bytes, budget: None })
    }
}

impl Length for BoundedFile {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for BoundedFile {
    type T = HeaderReader;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let reader = ReadFrom { file: Arc::clone(&self.file), position: start };
        let unchecked = self.budget.clone().map(|budget| (budget, start));
        Ok(HeaderReader { ahead: BufReader::with_capacity(PAGE_HEADER_BYTES, reader), unchecked })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        match start.checked_add(length as u64) {
            Some(end) if end <= self.bytes => {
                let mut buffer = vec![0; length];
                self.file.read_exact_at(&mut buffer, start)?;
                // Without a budget these are the footer's bytes: nothing else is read before the pages.
                if self.budget.is_none() && read_struct(&buffer, |_, _| ()).is_none() {
                    return Err(ParquetError::General("its footer is not whole".to_owned()));
                }
                Ok(buffer.into())
            }
            _ => Err(ParquetError::EOF(format!("{length} bytes at {start} are beyond the end"))),
        }
    }
}

/// Reads from where Parquet expects a page's header.
/// If Parquet knows the header already, it reads nothing.
struct HeaderReader {
    ahead: BufReader<ReadFrom>,
    /// Until the header is read: the budget that the page takes from, and the page's position.
    unchecked: Option<(Arc<PageBudget>, u64)>,
}

impl HeaderReader {
    fn check(&mut self, budget: &PageBudget, start: u64) -> io::Result<()> {
        let mut unpacked = unpacked_bytes(self.ahead.fill_buf()?);
        if unpacked.is_none() {
            let mut header = vec![0; MAX_HEADER_BYTES];
            let read = self.ahead.get_ref().file.read_at(&mut header, start)?;
            unpacked = unpacked_bytes(header.get(..read).unwrap_or_default());
        }
        budget.take(start, unpacked).map_err(io::Error::other)
    }
}

impl Read for HeaderReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some((budget, start)) = self.unchecked.take() {
            self.check(&budget, start)?;
        }
        self.ahead.read(buffer)
    }
}

/// Reads a file from a position that no other reader moves.
struct ReadFrom {
    file: Arc<File>,
    position: u64,
}

impl Read for ReadFrom {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}
