//! Finds the recordings of many brokers in partition folders. The folders are named `cluster=…`, `broker=…` and
//! `date=…`, the layout of Hive and its readers. Reads no recording.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use analysis::bucket::Bucket;
use analysis::file_error;
use fleet::BrokerName;
use recording::MANIFEST;

/// Maximum depth: the folders of a partition, and one or two below them.
const MAX_DEPTH: usize = 8;
/// Maximum number of recordings: a thousand brokers for a hundred days.
const MAX_RECORDINGS: usize = 100_000;
/// Name of the cluster or broker if no folder names it.
const UNNAMED: &str = "-";

/// Recordings, by broker.
pub(super) type Folders = BTreeMap<BrokerName, Vec<PathBuf>>;

/// The partition that the folders on the path name.
#[derive(Clone, Debug, Default)]
struct Partition {
    cluster: Option<String>,
    broker: Option<String>,
    date: Option<String>,
}

/// Finds recordings below a directory or a URL, in the order of their names.
///
/// # Errors
/// There are none, or too many; a folder cannot be read; or the object store fails.
pub(super) fn find(
    directory: &Path,
    bucket: Option<&Bucket>,
    clusters: &[String],
    dates: &[String],
) -> anyhow::Result<Folders> {
    let mut search = Search { clusters, dates, folders: Folders::new(), found: 0, others: 0 };
    match bucket {
        Some(bucket) => search.take(directory, &bucket.recordings(MAX_RECORDINGS)?)?,
        None => search.visit(directory, &Partition::default(), 0)?,
    }
    let path = directory.display();
    if search.found == 0 && search.others > 0 {
        anyhow::bail!(
            "{path}: none of its {} recordings matches --cluster and --date; check the folder names",
            search.others
        );
    }
    anyhow::ensure!(
        search.found > 0,
        "{path}: it holds no recording; expected layout: cluster=NAME/broker=NAME/date=DAY/RECORDING"
    );
    Ok(search.folders)
}

struct Search<'a> {
    clusters: &'a [String],
    dates: &'a [String],
    folders: Folders,
    found: usize,
    /// Recordings that do not match the filter.
    others: usize,
}

impl Search<'_> {
    fn visit(&mut self, directory: &Path, partition: &Partition, depth: usize) -> anyhow::Result<()> {
        if directory.join(MANIFEST).is_file() {
            return self.recording(directory, partition);
        }
        let entries = std::fs::read_dir(directory).map_err(|error| file_error(directory, &error))?;
        let mut below = entries.flatten().collect::<Vec<_>>();
        // Links are not followed: they may lead anywhere, also in circles.
        below.retain(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        below.sort_by_key(std::fs::DirEntry::file_name);
        for entry in below.iter().filter(|_| depth < MAX_DEPTH) {
            let partition = partition.within(&entry.file_name().to_string_lossy());
            self.visit(&entry.path(), &partition, depth + 1)?;
        }
        Ok(())
    }

    /// Adds the recordings below a URL, by their paths relative to it.
    fn take(&mut self, url: &Path, places: &[String]) -> anyhow::Result<()> {
        let url = url.display().to_string();
        let url = url.trim_end_matches('/');
        for place in places.iter().filter(|place| place.split('/').count() <= MAX_DEPTH) {
            let within = |partition: Partition, folder: &str| partition.within(folder);
            let partition = place.split('/').fold(Partition::default(), within);
            let recording = if place.is_empty() { url.to_owned() } else { format!("{url}/{place}") };
            self.recording(Path::new(&recording), &partition)?;
        }
        Ok(())
    }

    fn recording(&mut self, directory: &Path, partition: &Partition) -> anyhow::Result<()> {
        let matches = |of: &Option<String>, requested: &[String]| {
            requested.is_empty() || of.as_ref().is_some_and(|of| requested.contains(of))
        };
        if !matches(&partition.cluster, self.clusters) || !matches(&partition.date, self.dates) {
            self.others += 1;
            return Ok(());
        }
        self.found += 1;
        anyhow::ensure!(
            self.found <= MAX_RECORDINGS,
            "{}: more than {MAX_RECORDINGS} recordings: choose a --date, or read them in SQL (deploy/sql)",
            directory.display()
        );
        let own = || directory.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = BrokerName {
            cluster: partition.cluster.clone().unwrap_or_else(|| UNNAMED.to_owned()),
            broker: partition.broker.clone().or_else(own).unwrap_or_else(|| UNNAMED.to_owned()),
        };
        self.folders.entry(name).or_default().push(directory.to_owned());
        Ok(())
    }
}

impl Partition {
    /// The partition of a folder with this name inside this one.
    fn within(&self, folder: &str) -> Self {
        let mut within = self.clone();
        match folder.split_once('=') {
            Some(("cluster", value)) => within.cluster = Some(value.to_owned()),
            Some(("broker", value)) => within.broker = Some(value.to_owned()),
            Some(("date", value)) => within.date = Some(value.to_owned()),
            _ => {}
        }
        within
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Folders, Search, find};

    fn summarize(folders: &Folders) -> Vec<String> {
        let describe = |(name, of): (&fleet::BrokerName, &Vec<_>)| {
            format!("{}/{}:{}", name.cluster, name.broker, of.len())
        };
        folders.iter().map(describe).collect()
    }

    #[test]
    fn finds_recordings_by_partition_folders() {
        let dir = tempfile::tempdir().unwrap();
        for recording in [
            "cluster=a/broker=1/date=2026-11-21",
            "cluster=a/broker=1/date=2026-11-22/10h",
            "cluster=a/broker=1/date=2026-11-22/11h",
            "cluster=a/broker=2/date=2026-11-22/10h",
            "cluster=b/broker=1/date=2026-11-22/10h",
            "alone",
        ] {
            let recording = dir.path().join(recording);
            std::fs::create_dir_all(recording.join("file_ops")).unwrap();
            std::fs::write(recording.join("manifest.json"), "{}").unwrap();
        }
        std::os::unix::fs::symlink(dir.path(), dir.path().join("cluster=c")).unwrap();
        let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let of = |clusters: &[&str], dates: &[&str]| find(dir.path(), None, &named(clusters), &named(dates));
        assert_eq!(summarize(&of(&[], &[]).unwrap()), ["-/alone:1", "a/1:3", "a/2:1", "b/1:1"]);
        assert_eq!(summarize(&of(&["a"], &["2026-11-22"]).unwrap()), ["a/1:2", "a/2:1"]);
        let error = of(&["z"], &[]).unwrap_err().to_string();
        assert!(error.contains("none of its 6 recordings"), "{error}");
        let error = find(&dir.path().join("alone/file_ops"), None, &[], &[]).unwrap_err().to_string();
        assert!(error.contains("it holds no recording"), "{error}");
    }

    #[test]
    fn groups_recordings_below_a_url_like_folders() {
        let mut search = Search { clusters: &[], dates: &[], folders: Folders::new(), found: 0, others: 0 };
        let deep = ["x"; 9].join("/");
        let places =
            ["cluster=a/broker=1/date=d/10h", "cluster=a/broker=1/date=d/11h", "alone", "", deep.as_str()];
        search.take(Path::new("s3://b/p/"), &places.map(str::to_owned)).unwrap();
        assert_eq!(summarize(&search.folders), ["-/alone:1", "-/p:1", "a/1:2"]);
        let paths = search.folders.into_values().flatten().collect::<Vec<_>>();
        assert_eq!(paths.get(1).unwrap(), Path::new("s3://b/p"));
        assert_eq!(paths.last().unwrap(), Path::new("s3://b/p/cluster=a/broker=1/date=d/11h"));
    }
}
