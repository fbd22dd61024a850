//! Which bytes of a Parquet part its gists are made of, for who fetches parts from afar: the footer, and the columns that are
//! read. Reads of the part no more than that, so that nothing else of it needs to be there.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::Path;

use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::FooterTail;

use crate::Error;
use crate::fence::fenced;
use crate::parquet_part::ParquetFile;
use crate::part;
use crate::table::Table;
use crate::verdicts;

/// A larger footer is none of ours: it names a few dozen columns of some hundred row groups.
const MOST_FOOTER_BYTES: u64 = 64 << 20;

/// Whether a column is read.
type IsRead = fn(&str) -> bool;

/// The tables that gists are made of, by their folders, and which columns of them.
const READ: [(&str, IsRead); 4] = [
    ("requests", super::is_read),
    ("file_ops", super::file_ops::is_read),
    ("host_samples", super::samples::is_read),
    (verdicts::FOLDER, super::verdicts::is_read),
];

/// The folder of a part, by its place in a recording (`requests/part-00001.parquet`); none where it is no part, whatever it is.
pub fn folder_of(place: &str) -> Option<&'static str> {
    let (folder, name) = place.split_once('/')?;
    let mut tables = Table::ALL.iter().map(|table| table.folder()).chain([verdicts::FOLDER]);
    tables.find(|known| *known == folder).filter(|_| part::number_of(name).is_some())
}

/// Whether gists are made of a table, by its folder.
pub fn has_gists(folder: &str) -> bool {
    READ.iter().any(|(known, _)| *known == folder)
}

/// Where a Parquet part's footer is. Of the part, its last eight bytes need to be there.
///
/// # Errors
/// [`Error::Part`] where it does not end as Parquet does; [`Error::Io`].
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
    let start = tail.checked_sub(bytes).filter(|_| bytes <= MOST_FOOTER_BYTES);
    Ok(start.ok_or_else(|| damaged("its footer is longer than it can be"))?..size)
}

/// Where in a Parquet part of a table its gists' columns are. Of the part, its footer needs to be there.
///
/// # Errors
/// [`Error::Part`] where the footer cannot be understood or leads out of the part; [`Error::Io`].
pub fn gist_ranges(folder: &str, path: &Path) -> Result<Vec<Range<u64>>, Error> {
    let Some((_, wanted)) = READ.iter().find(|(known, _)| *known == folder) else { return Ok(Vec::new()) };
    let file = ParquetFile::open(path)?;
    let damaged = |why: String| Error::Part { path: path.to_owned(), why };
    let ranges = fenced(|| file.ranges(wanted)).map_err(damaged)?;
    let size = std::fs::metadata(path).map_err(Error::io("read", path))?.len();
    if ranges.iter().any(|range| range.end > size) {
        return Err(damaged("its footer leads beyond its end".to_owned()));
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs::{self, File};
    use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
    use std::path::{Path, PathBuf};

    use model::{HostScope, Nanos};

    use super::{READ, folder_of, footer_range, gist_ranges, has_gists};
    use crate::{Error, Gists, Recording, Table, VerdictWriter};

    fn sample() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/journal-stall")
    }

    #[test]
    fn a_part_is_known_by_its_place_and_nothing_else_is_one() {
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
        assert!(has_gists("verdicts") && !has_gists("off_cpu"));
        for (folder, _) in READ {
            assert!(
                folder == "verdicts" || Table::ALL.iter().any(|table| table.folder() == folder),
                "{folder}"
            );
        }
    }

    /// A copy of a part that has its end and the columns of gists, and zeros elsewhere; how many bytes it was given.
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
        end + gist_ranges(folder, to).unwrap().into_iter().map(take).sum::<u64>()
    }

    fn all<T: std::fmt::Debug>(gists: Gists<T>) -> Vec<String> {
        gists.flat_map(|batch| batch.unwrap()).map(|gist| format!("{gist:?}")).collect()
    }

    fn told(recording: &Recording) -> Vec<Vec<String>> {
        let any = |_: HostScope, _: &str| true;
        vec![
            all(recording.gists().unwrap()),
            all(recording.file_gists().unwrap()),
            all(recording.samples(any).unwrap()),
            all(recording.verdict_gists().unwrap().unwrap()),
        ]
    }

    #[test]
    fn gists_are_made_of_these_bytes_and_no_others() {
        let (whole, holes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for place in places(&sample()).into_iter().chain(["manifest.json".into()]) {
            fs::create_dir_all(whole.path().join(&place).parent().unwrap()).unwrap();
            fs::copy(sample().join(&place), whole.path().join(&place)).unwrap();
        }
        VerdictWriter::create(&Recording::open(whole.path()).unwrap(), Nanos(0)).unwrap().finish().unwrap();
        let (mut taken, mut there) = (0, 0);
        for place in places(whole.path()).iter().filter(|place| has_gists(folder_of(place).unwrap())) {
            let (from, to) = (whole.path().join(place), holes.path().join(place));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            taken += copy(folder_of(place).unwrap(), &from, &to);
            there += fs::metadata(&from).unwrap().len();
        }
        fs::copy(whole.path().join("manifest.json"), holes.path().join("manifest.json")).unwrap();
        let recording = Recording::open_for_gists(holes.path()).unwrap();
        let expected = told(&Recording::open(whole.path()).unwrap());
        assert!(
            expected.iter().take(2).all(|gists| gists.len() > 10),
            "{:?}",
            expected.iter().map(Vec::len).collect::<Vec<_>>()
        );
        assert_eq!(told(&recording), expected);
        assert!(taken < there, "{taken} of {there} bytes");
        assert!(recording.notes().iter().all(|note| !note.contains("is missing")), "{:?}", recording.notes());
    }

    /// The places of all parts.
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
    fn what_does_not_end_as_parquet_is_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("part-00001.parquet");
        for bytes in [&b"PAR1"[..], b"12345678", b"\xff\xff\xff\x7fPAR1", b"PAR1....\x00\x00\x00\x10PAR1"] {
            fs::write(&path, bytes).unwrap();
            assert!(matches!(footer_range(&path), Err(Error::Part { .. })), "{bytes:?}");
        }
        fs::write(&path, b"PAR1zzzz\x04\0\0\0PAR1").unwrap();
        assert_eq!(footer_range(&path).unwrap(), 4..16);
        assert!(matches!(gist_ranges("requests", &path), Err(Error::Part { .. })));
    }
}
