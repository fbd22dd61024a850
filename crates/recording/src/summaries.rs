//! Reads only some columns of events, for aggregates: of requests some twenty instead of seventy.
//! Also computes which byte ranges of a Parquet part that takes, for reading parts from remote storage. Does not
//! aggregate.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use arrow_array::RecordBatch;
use model::row::NonEmpty;
use model::row_summary::{FileOpColumns, PartitionColumns, RequestColumns};
use model::{Cause, Column, FileKind, FileOpKind, HostSample, Nanos, Row as _, Table, TopicId};
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::FooterTail;

use crate::cells::ColumnError;
use crate::columns::Projection;
use crate::events::{BATCHES_AHEAD, open};
use crate::notes::{Notes, catch_panics};
use crate::parquet_part::{ParquetFile, Rows, SUMMARIES_AT_ONCE};
use crate::part::{self, Part};
use crate::rows::{ReadRow, read_row};
use crate::selection::subset;
use crate::text::TextPool;
use crate::{Error, verdicts};

model::request_columns_row!(read_row);
model::partition_columns_row!(read_row);
model::file_op_columns_row!(read_row);

subset! {
    /// The columns of a verdict that aggregates need.
    pub struct VerdictColumns {
        cause: Cause,
        arrival: Nanos as "arrival_ns",
        end: Option<Nanos> as "end_ns",
    }
}

/// Batches of some columns of a table. Another thread reads and converts them, part after part.
pub struct ColumnBatches<T>(Receiver<Result<T, Error>>);

impl<T> Iterator for ColumnBatches<T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.recv().ok()
    }
}

impl<T: Send + 'static> ColumnBatches<T> {
    /// Reads the columns of `R` from these parts. A part ends with its first error.
    ///
    /// # Errors
    /// The operating system's error, if it cannot start a thread.
    pub(crate) fn start<R: ReadRow>(
        folder: &str,
        parts: Vec<Part>,
        notes: &Arc<Notes>,
        mut convert: impl FnMut(&RecordBatch) -> Result<T, ColumnError> + Send + 'static,
    ) -> io::Result<Self> {
        let notes = Arc::clone(notes);
        let projection = Projection::of(&R::columns());
        let (sender, receiver) = sync_channel(BATCHES_AHEAD);
        let read = move || {
            for part in parts {
                if send_part(&part, &notes, &projection, &mut convert, &sender).is_none() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name(format!("columns-{folder}")).spawn(read)?;
        Ok(Self(receiver))
    }
}

/// Sends a part's converted batches; `None` once the receiver is dropped.
fn send_part<T>(
    part: &Part,
    notes: &Arc<Notes>,
    projection: &Projection,
    convert: &mut dyn FnMut(&RecordBatch) -> Result<T, ColumnError>,
    sender: &SyncSender<Result<T, Error>>,
) -> Option<()> {
    let columns = |path: &Path| ParquetFile::open(path)?.read(projection, Rows::All, SUMMARIES_AT_ONCE);
    let batches = match open(part, notes, columns) {
        Ok((_, batches)) => batches,
        Err(error) => return sender.send(Err(error)).ok(),
    };
    for batch in batches {
        let damaged = |why: String| Error::Part { path: part.parquet(), why };
        let converted = batch.and_then(|batch| {
            let converted = catch_panics(|| convert(&batch));
            converted.map_err(damaged)?.map_err(|error| damaged(error.0))
        });
        let failed = converted.is_err();
        sender.send(converted).ok()?;
        if failed {
            break;
        }
    }
    Some(())
}

/// Some columns of events, batch after batch.
pub type Summaries<T> = ColumnBatches<Vec<T>>;

/// Reads and converts rows of `R`. Leaves out rows that lack a value: reading the events notes them.
pub(crate) fn summaries<R: ReadRow, T: Send + 'static>(
    folder: &str,
    parts: Vec<Part>,
    notes: &Arc<Notes>,
    convert: impl Fn(R) -> Option<T> + Send + 'static,
) -> io::Result<Summaries<T>> {
    let mut pool = TextPool::default();
    ColumnBatches::start::<R>(folder, parts, notes, move |batch| {
        let cells = R::cells(batch, "", false)?;
        let rows =
            (0..batch.num_rows()).filter_map(|i| R::read(&cells, i, &mut pool).ok().and_then(&convert));
        Ok(rows.collect())
    })
}

/// More than any recorder writes: a footer names a few dozen columns of some hundred row groups.
const MAX_FOOTER_BYTES: u64 = 64 << 20;

type ColumnsOf = fn() -> Vec<Column>;

/// The columns that are read of each table with summaries, by folder.
const READ: [(&str, ColumnsOf); 4] = [
    ("requests", RequestColumns::columns),
    ("file_ops", FileOpColumns::columns),
    ("host_samples", HostSample::columns),
    (verdicts::FOLDER, VerdictColumns::columns),
];

/// The folder of a part, by its path in a recording.
/// An example of a path is `requests/part-00001.parquet`. `None` if the path names no part.
pub fn folder_of(place: &str) -> Option<&'static str> {
    let (folder, name) = place.split_once('/')?;
    let mut tables = Table::ALL.iter().map(|table| table.as_str()).chain([verdicts::FOLDER]);
    tables.find(|known| *known == folder).filter(|_| part::number_of(name).is_some())
}

/// Whether aggregates read only some columns of a table, by its folder.
pub fn has_summaries(folder: &str) -> bool {
    READ.iter().any(|(known, _)| *known == folder)
}

/// Byte range of a Parquet part's footer. Needs only the part's last eight bytes.
///
/// # Errors
/// [`Error::Part`] if the file does not end as Parquet does; [`Error::Io`].
pub fn footer_range(path: &Path) -> Result<Range<u64>, Error> {
    let damaged = |why: &str| Error::Part { path: path.to_owned(), why: why.to_owned() };
    let mut file = File::open(path).map_err(Error::io("read", path))?;
    let size = file.metadata().map_err(Error::io("read", path))?.len();
    let Some(tail) = size.checked_sub(FOOTER_SIZE as u64) else { return Err(damaged("it is too short")) };
    let mut end = [0; FOOTER_SIZE];
    file.seek(SeekFrom::Start(tail)).map_err(Error::io("read", path))?;
    file.read_exact(&mut end).map_err(Error::io("read", path))?;
    let footer = FooterTail::try_from(end).map_err(|error| damaged(&error.to_string()))?;
    let bytes = footer.metadata_length() as u64;
    let start = tail.checked_sub(bytes).filter(|_| bytes <= MAX_FOOTER_BYTES);
    Ok(start.ok_or_else(|| damaged("its footer is longer than it can be"))?..size)
}

/// Byte ranges of the columns of a Parquet part that aggregates need. Needs only the part's footer.
///
/// # Errors
/// [`Error::Part`] if the footer cannot be parsed or points beyond the part; [`Error::Io`].
pub fn summary_ranges(folder: &str, path: &Path) -> Result<Vec<Range<u64>>, Error> {
    let Some((_, columns)) = READ.iter().find(|(known, _)| *known == folder) else { return Ok(Vec::new()) };
    let file = ParquetFile::open(path)?;
    let damaged = |why: String| Error::Part { path: path.to_owned(), why };
    let ranges = catch_panics(|| file.ranges(&Projection::of(&columns()))).map_err(damaged)?;
    let size = std::fs::metadata(path).map_err(Error::io("read", path))?.len();
    if ranges.iter().any(|range| range.end > size) {
        return Err(damaged("its footer points beyond its end".to_owned()));
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs::{self, File};
    use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
    use std::path::{Path, PathBuf};

    use model::row_summary::{FileOpColumns, RequestColumns};
    use model::{FileOp, HostScope, Nanos, Request, Row as _, Verdict};

    use super::{READ, VerdictColumns, folder_of, footer_range, has_summaries, summary_ranges};
    use crate::selection::assert_subset;
    use crate::{Error, Recording, Summaries, Table, VerdictWriter};

    fn sample() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/journal-stall")
    }

    #[test]
    fn folder_of_accepts_only_valid_part_paths() {
        assert_eq!(folder_of("requests/part-00001.parquet"), Some("requests"));
        assert_eq!(folder_of("verdicts/part-00001.parquet"), Some("verdicts"));
        assert_eq!(folder_of("losses/part-00012.arrows"), Some("losses"));
        for place in [
            "manifest.json",
            "requests",
            "requests/part-1.parquet",
            "requests/../requests/part-00001.parquet",
            "/etc/part-00001.parquet",
            "../requests/part-00001.parquet",
            "requests//part-00001.parquet",
            "requests/part-00001.parquet/part-00001.parquet",
            "others/part-00001.parquet",
        ] {
            assert_eq!(folder_of(place), None, "{place}");
        }
        assert!(has_summaries("verdicts") && !has_summaries("off_cpu"));
        for (folder, _) in READ {
            assert!(
                folder == "verdicts" || Table::ALL.iter().any(|table| table.as_str() == folder),
                "{folder}"
            );
        }
    }

    /// Copies a part's end and the columns of summaries, with zeros elsewhere; returns the number of bytes copied.
    fn copy(folder: &str, from: &Path, to: &Path) -> u64 {
        let size = fs::metadata(from).unwrap().len();
        let hole = File::create(to).unwrap();
        hole.set_len(size).unwrap();
        let take = |range: std::ops::Range<u64>| {
            let (mut from, mut to) = (File::open(from).unwrap(), &hole);
            let mut bytes = vec![0; (range.end - range.start) as usize];
            from.seek(SeekFrom::Start(range.start)).unwrap();
            from.read_exact(&mut bytes).unwrap();
            to.seek(SeekFrom::Start(range.start)).unwrap();
            to.write_all(&bytes).unwrap();
            range.end - range.start
        };
        let end = take(size - 8..size) + take(footer_range(to).unwrap());
        end + summary_ranges(folder, to).unwrap().into_iter().map(take).sum::<u64>()
    }

    fn all<T: std::fmt::Debug>(summaries: Summaries<T>) -> Vec<String> {
        summaries.flat_map(|batch| batch.unwrap()).map(|row| format!("{row:?}")).collect()
    }

    fn read_all(recording: &Recording) -> Vec<Vec<String>> {
        let any = |_: HostScope, _: &str| true;
        vec![
            all(recording.request_columns().unwrap()),
            all(recording.file_op_columns().unwrap()),
            all(recording.host_samples(any).unwrap()),
            all(recording.causes().unwrap().unwrap()),
        ]
    }

    #[test]
    fn summary_ranges_contain_all_bytes_that_summaries_read() {
        let (whole, holes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for place in places(&sample()).into_iter().chain(["manifest.json".into()]) {
            fs::create_dir_all(whole.path().join(&place).parent().unwrap()).unwrap();
            fs::copy(sample().join(&place), whole.path().join(&place)).unwrap();
        }
        VerdictWriter::create(&Recording::open(whole.path()).unwrap(), Nanos(0)).unwrap().finish().unwrap();
        let (mut taken, mut there) = (0, 0);
        for place in places(whole.path()).iter().filter(|place| has_summaries(folder_of(place).unwrap())) {
            let (from, to) = (whole.path().join(place), holes.path().join(place));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            taken += copy(folder_of(place).unwrap(), &from, &to);
            there += fs::metadata(&from).unwrap().len();
        }
        fs::copy(whole.path().join("manifest.json"), holes.path().join("manifest.json")).unwrap();
        let recording = Recording::open_for_summaries(holes.path()).unwrap();
        let expected = read_all(&Recording::open(whole.path()).unwrap());
        assert!(
            expected.iter().take(2).all(|rows| rows.len() > 10),
            "{:?}",
            expected.iter().map(Vec::len).collect::<Vec<_>>()
        );
        assert_eq!(read_all(&recording), expected);
        assert!(taken < there, "{taken} of {there} bytes");
        assert!(recording.notes().iter().all(|note| !note.contains("is missing")), "{:?}", recording.notes());
    }

    /// Paths of all parts.
    fn places(recording: &Path) -> BTreeSet<String> {
        let mut places = BTreeSet::new();
        for folder in fs::read_dir(recording).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
            for part in fs::read_dir(folder.path()).unwrap().flatten() {
                let names = [folder.file_name(), part.file_name()].map(|name| name.into_string().unwrap());
                places.insert(names.join("/"));
            }
        }
        places.retain(|place| folder_of(place).is_some());
        places
    }

    #[test]
    fn file_without_a_valid_parquet_footer_is_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("part-00001.parquet");
        for bytes in [&b"PAR1"[..], b"12345678", b"\xff\xff\xff\x7fPAR1", b"PAR1....\x00\x00\x00\x10PAR1"] {
            fs::write(&path, bytes).unwrap();
            assert!(matches!(footer_range(&path), Err(Error::Part { .. })), "{bytes:?}");
        }
        fs::write(&path, b"PAR1zzzz\x04\0\0\0PAR1").unwrap();
        assert_eq!(footer_range(&path).unwrap(), 4..16);
        assert!(matches!(summary_ranges("requests", &path), Err(Error::Part { .. })));
    }

    #[test]
    fn summary_columns_are_subsets_of_their_tables() {
        assert_subset(&RequestColumns::columns(), &Request::columns());
        assert_subset(&FileOpColumns::columns(), &FileOp::columns());
        assert_subset(&VerdictColumns::columns(), &Verdict::columns());
    }
}
