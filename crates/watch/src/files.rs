//! Names files from the broker's point of view: relative to its log dirs, with topic and partition.
//! Works from paths inside file systems and path arguments of system calls, both from the probes.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::RandomState;
use model::{FileKind, TopicPartition};
use probes::event::{FilePath, PathArgument};

use crate::mounts::DeviceNumber;
use crate::mounts::{Inside, Mounts, below};

/// A file's name from the broker's point of view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedFile {
    /// Path relative to its log dir, or else the path that the broker sees.
    pub(crate) file: Arc<str>,
    pub(crate) kind: FileKind,
    pub(crate) topic_partition: Option<TopicPartition>,
}

/// A file that is known only by a path argument.
pub(crate) struct GivenFile {
    pub(crate) named: NamedFile,
    pub(crate) device: DeviceNumber,
    /// The inode last observed there; 0 if none was.
    pub(crate) inode: u64,
    pub(crate) fs: Arc<str>,
}

/// Names files, with a cache.
pub(crate) struct Files {
    mounts: Mounts,
    mounts_read_at: Instant,
    /// The device that was last found in the mounts: there may be a hundred mounts, and most files are on one device.
    last_device: Option<DeviceNumber>,
    log_dirs: Vec<Inside>,
    known: HashMap<(DeviceNumber, Arc<str>), Known, RandomState>,
    /// The same files by inode, for events without a path.
    by_inode: HashMap<(DeviceNumber, u64), Arc<str>, RandomState>,
    mapped: MappedFiles,
    parents: HashMap<Box<str>, Option<Inside>>,
}

struct Known {
    named: NamedFile,
    inode: u64,
}

/// Limit of cached names, after which the cache is cleared: segments come and go.
const MAX_NAMES: usize = 16_384;
/// Limit of cached directories of path arguments.
const MAX_PARENTS: usize = 1_024;
/// Shortest time between two reads of the mounts because of an unknown device.
const MOUNTS_AGAIN: Duration = Duration::from_secs(1);

impl Files {
    pub(crate) fn new(mounts: Mounts, log_dirs: &[PathBuf]) -> Self {
        let log_dirs = log_dirs.iter().filter_map(|dir| mounts.locate(dir)).collect();
        let mapped = MappedFiles::of(mounts.pid);
        Self {
            mounts,
            mounts_read_at: Instant::now(),
            last_device: None,
            log_dirs,
            known: HashMap::default(),
            by_inode: HashMap::default(),
            mapped,
            parents: HashMap::new(),
        }
    }

    /// Names the file at a path in its file system.
    pub(crate) fn name(&mut self, device: DeviceNumber, path: &FilePath, inode: u64) -> NamedFile {
        let known = self.known_at(device, &path.path, path.whole);
        let is_new = std::mem::replace(&mut known.inode, inode) != inode;
        let named = known.named.clone();
        if is_new && path.whole {
            if self.by_inode.len() >= MAX_NAMES {
                self.by_inode.clear();
            }
            self.by_inode.insert((device, inode), Arc::clone(&path.path));
        }
        named
    }

    /// Names a mapped file by its inode.
    pub(crate) fn mapped(&mut self, device: DeviceNumber, inode: u64) -> NamedFile {
        if let Some(path) = self.by_inode.get(&(device, inode)).cloned() {
            return self.known_at(device, &path, true).named.clone();
        }
        let found = self.mapped.path(device, inode).and_then(|path| self.mounts.inside_by_name(path));
        match found.filter(|inside| inside.device == device) {
            Some(inside) => self.known_at(device, &inside.path.into(), true).named.clone(),
            None => Self::nameless(inode),
        }
    }

    /// Names a file whose path is not known.
    pub(crate) fn nameless(inode: u64) -> NamedFile {
        NamedFile { file: format!("inode {inode}").into(), kind: FileKind::Other, topic_partition: None }
    }

    /// Finds the file that a path argument names.
    pub(crate) fn resolve(&mut self, argument: &PathArgument) -> GivenFile {
        let Some(inside) = self.place(argument) else {
            let file = argument.text.clone().unwrap_or_else(|| "unknown".into());
            let named = NamedFile { file, kind: FileKind::Other, topic_partition: None };
            return GivenFile { named, device: (0, 0), inode: 0, fs: Arc::default() };
        };
        let fs = self.mounts.fs_of(inside.device).into();
        let known = self.known_at(inside.device, &inside.path.into(), true);
        GivenFile { named: known.named.clone(), device: inside.device, inode: known.inode, fs }
    }

    /// Records that a file, or a directory with its content, was renamed or removed.
    pub(crate) fn record_move(&mut self, from: &PathArgument, to: Option<&PathArgument>) {
        self.mapped.forget();
        let Some(inside) = self.place(from) else { return };
        self.by_inode
            .retain(|(device, _), path| *device != inside.device || below(path, &inside.path).is_none());
        let known = self.known_at(inside.device, &inside.path.into(), true);
        let inode = std::mem::take(&mut known.inode);
        if let Some(inside) = to.and_then(|to| self.place(to)) {
            self.known_at(inside.device, &inside.path.into(), true).inode = inode;
        }
    }

    /// Records that two files changed places (`RENAME_EXCHANGE`).
    pub(crate) fn record_exchange(&mut self, one: &PathArgument, other: &PathArgument) {
        let mut inode_at = |path: &PathArgument| self.resolve(path).inode;
        let inodes = (inode_at(one), inode_at(other));
        for (path, inode) in [(one, inodes.1), (other, inodes.0)] {
            self.record_move(path, None);
            if let Some(inside) = self.place(path) {
                self.known_at(inside.device, &inside.path.into(), true).inode = inode;
            }
        }
    }

    fn known_at(&mut self, device: DeviceNumber, path: &Arc<str>, whole: bool) -> &mut Known {
        let key = (device, Arc::clone(path));
        if self.known.len() >= MAX_NAMES && !self.known.contains_key(&key) {
            self.known.clear();
            self.by_inode.clear();
        }
        self.look_for(device);
        let (mounts, log_dirs) = (&self.mounts, &self.log_dirs);
        self.known
            .entry(key)
            .or_insert_with(|| Known { named: classify(mounts, log_dirs, device, path, whole), inode: 0 })
    }

    /// Reads the mounts again if none has this device.
    fn look_for(&mut self, device: DeviceNumber) {
        if self.last_device == Some(device) {
            return;
        }
        if !self.mounts.knows(device) && self.mounts_read_at.elapsed() >= MOUNTS_AGAIN {
            self.mounts = Mounts::of(self.mounts.pid);
            self.mounts_read_at = Instant::now();
        }
        self.last_device = self.mounts.knows(device).then_some(device);
    }

    /// Locates a file.
    /// Looks up its directory, because the path may contain links; if the directory is gone, falls back to the names in
    /// the path.
    fn place(&mut self, argument: &PathArgument) -> Option<Inside> {
        let text = argument.text.as_deref()?;
        if let Some(start) = &argument.start {
            let start_path = start.path.as_ref().filter(|path| path.whole)?;
            return Some(Inside {
                device: start.device,
                path: clean(&format!("{}/{text}", start_path.path)),
            });
        }
        let text = format!("/{}", clean(text));
        let (parent, name) = text.rsplit_once('/')?;
        let parent = if parent.is_empty() { "/" } else { parent };
        if self.parents.len() >= MAX_PARENTS {
            self.parents.clear();
        }
        if !self.parents.contains_key(parent) {
            self.parents.insert(parent.into(), self.mounts.locate_theirs(parent));
        }
        match self.parents.get(parent) {
            Some(Some(inside)) => {
                let path = format!("{}/{name}", inside.path).trim_start_matches('/').to_owned();
                Some(Inside { device: inside.device, path })
            }
            _ => self.mounts.inside_by_name(&text),
        }
    }
}

fn classify(
    mounts: &Mounts,
    log_dirs: &[Inside],
    device: DeviceNumber,
    path: &Arc<str>,
    whole: bool,
) -> NamedFile {
    let file: Arc<str> = if whole { name_of(mounts, log_dirs, device, path) } else { Arc::clone(path) };
    let (kind, topic_partition) = broker::path::classify(&file);
    // Only a partition has segments: `server.log` is a log of another kind.
    let kind = if kind == FileKind::Log && topic_partition.is_none() { FileKind::Other } else { kind };
    NamedFile { file, kind, topic_partition }
}

/// The path relative to the log dir, or else the path that the broker sees.
fn name_of(mounts: &Mounts, log_dirs: &[Inside], device: DeviceNumber, path: &Arc<str>) -> Arc<str> {
    let of_device = log_dirs.iter().filter(|log_dir| log_dir.device == device);
    let rests = of_device.filter_map(|log_dir| below(path, &log_dir.path));
    match rests.filter(|rest| !rest.is_empty()).min_by_key(|rest| rest.len()) {
        Some(rest) => rest.into(),
        None => mounts.visible_path(device, path).map_or_else(|| Arc::clone(path), Into::into),
    }
}

/// Removes `.`, `..` and empty components.
fn clean(path: &str) -> String {
    let mut components: Vec<&str> = Vec::new();
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." => drop(components.pop()),
            name => components.push(name),
        }
    }
    components.join("/")
}

/// Shortest time between two reads of a process's mappings: if there are many, reading them delays its page faults.
const AGAIN: Duration = Duration::from_secs(10);

/// The files that a process had mapped at the last read.
pub(crate) struct MappedFiles {
    pid: u32,
    read_at: Option<Instant>,
    paths: HashMap<(DeviceNumber, u64), String>,
}

impl MappedFiles {
    pub(crate) fn of(pid: u32) -> Self {
        Self { pid, read_at: None, paths: HashMap::new() }
    }

    /// The path of a mapped file, as the process sees it.
    /// `None` if it was not mapped at the last read.
    #[allow(clippy::disallowed_methods, reason = "/proc")]
    pub(crate) fn path(&mut self, device: DeviceNumber, inode: u64) -> Option<&str> {
        let is_old = self.read_at.is_none_or(|read_at| read_at.elapsed() >= AGAIN);
        if is_old && !self.paths.contains_key(&(device, inode)) {
            let text = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
            self.paths = text.lines().filter_map(parse).collect();
            self.read_at = Some(Instant::now());
        }
        self.paths.get(&(device, inode)).map(String::as_str)
    }

    /// Clears the paths after a file was renamed or removed.
    pub(crate) fn forget(&mut self) {
        self.paths.clear();
    }
}

/// Parses `7f1c2000-7f1c3000 rw-s 00000000 08:01 131 /its path`; numbers are hexadecimal, except the inode.
fn parse(line: &str) -> Option<((DeviceNumber, u64), String)> {
    let mut rest = line;
    let mut next = || {
        let (word, after) = rest.split_once(' ')?;
        rest = after.trim_start();
        Some(word)
    };
    let (major, minor) =
        next().and_then(|_| next()).and_then(|_| next()).and_then(|_| next())?.split_once(':')?;
    let inode = next()?.parse().ok().filter(|&inode| inode != 0)?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    let path = Some(rest).filter(|path| path.starts_with('/') && !path.ends_with(" (deleted)"))?;
    Some((((number(major)?, number(minor)?), inode), path.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::FileKind;
    use probes::event::{FilePath, PathArgument, StartDir};

    use super::{Files, Inside, Mounts};

    const DEVICE: (u32, u32) = (259, 3);

    fn files() -> Files {
        let mut files = Files::new(Mounts::default(), &[]);
        files.log_dirs = [(DEVICE, "kafka/data"), ((8, 1), "kafka/other")]
            .map(|(device, path)| Inside { device, path: path.to_owned() })
            .to_vec();
        files
    }

    fn path(path: &str, whole: bool) -> FilePath {
        FilePath { path: path.into(), whole }
    }

    /// A path argument relative to the file system's root.
    fn path_argument(text: &str) -> PathArgument {
        let start = StartDir { device: DEVICE, path: Some(path("", true)) };
        PathArgument { text: Some(text.into()), start: Some(start) }
    }

    #[test]
    fn file_names_start_at_the_log_dir() {
        let mut files = files();
        for (seen, whole, file, kind, partition) in [
            (
                "kafka/data/t-0/00000000000000000000.log",
                true,
                "t-0/00000000000000000000.log",
                FileKind::Log,
                Some("t-0"),
            ),
            (
                "kafka/data/a/b/c/t-0/leader-epoch-checkpoint",
                true,
                "a/b/c/t-0/leader-epoch-checkpoint",
                FileKind::Metadata,
                Some("t-0"),
            ),
            (
                "kafka/data/recovery-point-offset-checkpoint",
                true,
                "recovery-point-offset-checkpoint",
                FileKind::Checkpoint,
                None,
            ),
            ("kafka/other/x", true, "kafka/other/x", FileKind::Other, None),
            ("kafka/database/x", true, "kafka/database/x", FileKind::Other, None),
            ("kafka/data/x", false, "kafka/data/x", FileKind::Other, None),
            ("var/log/server.log", true, "var/log/server.log", FileKind::Other, None),
        ] {
            let named = files.name(DEVICE, &path(seen, whole), 7);
            assert_eq!(&*named.file, file);
            assert_eq!(named.topic_partition.map(|p| p.to_string()).as_deref(), partition, "{seen}");
            assert_eq!(named.kind, kind, "{seen}");
        }
        assert_eq!(&*Files::nameless(9).file, "inode 9");
    }

    #[test]
    fn rename_moves_the_inode_to_the_new_path() {
        let mut files = files();
        files.name(DEVICE, &path("kafka/data/c.tmp", true), 41);
        let inode = |files: &mut Files, text: &str| files.resolve(&path_argument(text)).inode;
        assert_eq!(inode(&mut files, "kafka/data/c.tmp"), 41);
        files.record_move(&path_argument("kafka/./data/c.tmp"), Some(&path_argument("kafka/data/../data/c")));
        assert_eq!(inode(&mut files, "kafka/data/c.tmp"), 0);
        assert_eq!(inode(&mut files, "kafka/data/c"), 41);
        assert_eq!(&*files.resolve(&path_argument("kafka/data/c")).named.file, "c");
        files.record_move(&path_argument("kafka/data/c"), None);
        assert_eq!(inode(&mut files, "kafka/data/c"), 0);
    }

    #[test]
    fn exchange_swaps_both_inodes() {
        let mut files = files();
        files.name(DEVICE, &path("kafka/data/a", true), 41);
        files.name(DEVICE, &path("kafka/data/b", true), 42);
        files.record_exchange(&path_argument("kafka/data/a"), &path_argument("kafka/data/b"));
        let inode = |files: &mut Files, text: &str| files.resolve(&path_argument(text)).inode;
        assert_eq!((inode(&mut files, "kafka/data/a"), inode(&mut files, "kafka/data/b")), (42, 41));
        files.record_move(&path_argument("kafka/data/a"), Some(&path_argument("kafka/data/c")));
        assert_eq!((inode(&mut files, "kafka/data/a"), inode(&mut files, "kafka/data/c")), (0, 42));
    }

    #[test]
    fn unresolved_path_is_the_argument_as_written() {
        let mut files = files();
        let lost = StartDir { device: DEVICE, path: None };
        for (text, start, file) in [(Some("a/b"), Some(lost), "a/b"), (None, None, "unknown")] {
            let text: Option<Arc<str>> = text.map(Into::into);
            let found = files.resolve(&PathArgument { text, start });
            assert_eq!((&*found.named.file, found.device, found.inode), (file, (0, 0), 0));
        }
    }
}

#[cfg(test)]
mod mapped_tests {
    use super::parse;

    #[test]
    fn parses_only_mappings_of_existing_files() {
        let line =
            "7f1c2000-7f1c3000 rw-s 00000000 fe:1f 131                          /data/my topic-0/0.index";
        assert_eq!(parse(line), Some((((0xfe, 0x1f), 131), "/data/my topic-0/0.index".to_owned())));
        for line in [
            "7f1c2000-7f1c3000 rw-p 00000000 00:00 0 ",
            "7f1c2000-7f1c3000 rw-p 00000000 00:00 0                          [heap]",
            "7f1c2000-7f1c3000 rw-s 00000000 fe:01 131                        /data/0.index (deleted)",
            "7f1c2000",
            "",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
