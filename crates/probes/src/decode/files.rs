//! Decodes file operations and block requests, and the paths that both refer to.

use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::Arc;

use ahash::RandomState;
use model::FileOpKind;

use super::{Decoder, device};
use crate::bpf::probes::types::{self, block_flag, file_op};
use crate::bpf::{bytes_of, record};
use crate::event::{BlockFile, BlockIo, FileOp, FilePath, HEAD_BYTES, PathArgument, PathArguments, StartDir};

/// Operation number if `rwbs` holds the operation and the flags.
const BLOCK_OP_IN_RWBS: u16 = 0xffff;
const HEADER_BYTES: usize = size_of::<types::file_op_event>();
const GIVEN_AT: usize = offset_of!(types::file_name_event, given);
/// `include/uapi/linux/fs.h`.
const RENAME_EXCHANGE: u64 = 1 << 1;
/// A path argument this long may be cut.
const MAX_ARGUMENT_BYTES: usize = 1024;

const _: () = assert!(size_of::<types::file_name_event>() == GIVEN_AT + 2 * MAX_ARGUMENT_BYTES);

impl Decoder {
    pub(super) fn file_op(&mut self, bytes: &[u8]) -> Option<FileOp> {
        let header: types::file_op_event = record(bytes, HEADER_BYTES)?;
        let key = key(&header.file);
        let place = self.paths.since(key, header.path_ns);
        let (path, fs) = place.map(|place| (place.path.clone(), Arc::clone(&place.fs))).unzip();
        let counts_pages = header.reads_pages != 0;
        let (head, head_len) = head_of(&header, bytes);
        Some(FileOp {
            start_ns: header.start_ns,
            end_ns: header.end_ns,
            op: operation(header.op)?,
            pid: header.pid,
            tid: header.tid,
            comm: self.text(&header.comm),
            fd: header.fd,
            result: header.result,
            offset: if is_rename(&header) { 0 } else { header.offset },
            device: device(header.file.device),
            inode: header.file.inode,
            generation: header.file.generation,
            fs: fs.unwrap_or_default(),
            path,
            path_arguments: if key == (0, 0, 0) { Some(Box::new(self.path_arguments(bytes)?)) } else { None },
            disk_bytes: counts_pages.then_some(header.disk_bytes),
            readahead_bytes: counts_pages.then_some(header.readahead_bytes),
            head,
            head_len,
            journal_transaction: (header.has_handle != 0).then_some(header.transaction),
        })
    }

    fn path_arguments(&mut self, bytes: &[u8]) -> Option<PathArguments> {
        let from: types::given_path = record(bytes.get(offset_of!(types::file_name_event, from)..)?, 32)?;
        let to: types::given_path = record(bytes.get(offset_of!(types::file_name_event, to)..)?, 32)?;
        let texts = bytes.get(GIVEN_AT..)?;
        let (first, rest) = texts.split_at_checked(usize::from(from.length))?;
        let second = rest.get(..usize::from(to.length))?;
        let header: types::file_op_event = record(bytes, HEADER_BYTES)?;
        let is_rename = is_rename(&header);
        Some(PathArguments {
            from: self.given_path(&from, first),
            to: is_rename.then(|| self.given_path(&to, second)),
            exchange: is_rename && header.offset & RENAME_EXCHANGE != 0,
        })
    }

    fn given_path(&mut self, argument: &types::given_path, text: &[u8]) -> PathArgument {
        let readable = !text.is_empty() && text.len() < MAX_ARGUMENT_BYTES;
        let name = text.strip_suffix(b"\0").unwrap_or(text);
        let key = key(&argument.dir);
        let start = (key != (0, 0, 0)).then(|| StartDir {
            device: device(argument.dir.device),
            path: self.paths.since(key, argument.dir_path_ns).map(|place| place.path.clone()),
        });
        PathArgument { text: readable.then(|| String::from_utf8_lossy(name).into()), start }
    }

    /// Records where a file is.
    pub(super) fn file_path(&mut self, bytes: &[u8]) -> Option<()> {
        let record: types::file_path_event = record(bytes, offset_of!(types::file_path_event, path))?;
        let names = bytes_of(&record.path);
        let names = names.get(..usize::from(record.path_len)).unwrap_or(names);
        let path = FilePath { path: join_names(names).into(), whole: record.whole != 0 };
        let fs = self.text(&record.fs);
        self.paths.learn(key(&record.file), Place { at_ns: record.path_ns, path, fs });
        Some(())
    }
}

fn key(file: &types::file_key) -> FileKey {
    (file.device, file.inode, file.generation)
}

fn operation(number: u8) -> Option<FileOpKind> {
    Some(match file_op(u32::from(number)) {
        file_op::OP_WRITE => FileOpKind::Write,
        file_op::OP_READ => FileOpKind::Read,
        file_op::OP_SENDFILE => FileOpKind::Sendfile,
        file_op::OP_SPLICE => FileOpKind::Splice,
        file_op::OP_COPY => FileOpKind::Copy,
        file_op::OP_FSYNC => FileOpKind::Fsync,
        file_op::OP_FDATASYNC => FileOpKind::Fdatasync,
        file_op::OP_MSYNC => FileOpKind::Msync,
        file_op::OP_TRUNCATE => FileOpKind::Truncate,
        file_op::OP_ALLOCATE => FileOpKind::Allocate,
        file_op::OP_RENAME => FileOpKind::Rename,
        file_op::OP_UNLINK => FileOpKind::Unlink,
        file_op::OP_OPEN => FileOpKind::Open,
        file_op::OP_MMAP_FAULT => FileOpKind::MmapFault,
        _ => return None,
    })
}

/// Renames have their flags in place of an offset.
fn is_rename(header: &types::file_op_event) -> bool {
    file_op(u32::from(header.op)) == file_op::OP_RENAME
}

/// The head as sent; the rest is zero.
fn head_of(header: &types::file_op_event, bytes: &[u8]) -> ([u8; HEAD_BYTES], u8) {
    let mut head = [0; HEAD_BYTES];
    let sent = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let valid = usize::from(header.head_len).min(HEAD_BYTES).min(sent.len());
    head.iter_mut().zip(sent.iter().take(valid)).for_each(|(to, from)| *to = *from);
    (head, valid as u8)
}

impl Decoder {
    pub(super) fn block_io(&mut self, record: &types::block_io_event) -> BlockIo {
        BlockIo {
            queued_ns: (record.queued_ns != 0).then_some(record.queued_ns),
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            device: device(record.device),
            sector: record.sector,
            bytes: record.bytes,
            rwbs: match record.op {
                BLOCK_OP_IN_RWBS => self.text(&record.rwbs),
                op => self.texts.share(rwbs(op, record.flags).as_bytes()),
            },
            tid: record.tid,
            comm: self.text(&record.comm),
            file: (record.file.inode != 0).then(|| self.block_file(&record.file)),
        }
    }

    /// The file of a block request. Any known place is good enough, because the page cache writes files back long after
    /// their operations.
    fn block_file(&mut self, file: &types::file_key) -> BlockFile {
        let place = self.paths.since((file.device, file.inode, file.generation), 1);
        BlockFile {
            device: device(file.device),
            inode: file.inode,
            path: place.map(|place| place.path.clone()),
        }
    }
}

/// Formats flags like `blk_fill_rwbs` (kernel/trace/blktrace.c).
fn rwbs(op: u16, flags: u16) -> String {
    // enum req_op of include/linux/blk_types.h
    let name = match op {
        0 => "R",
        1 => "W",
        2 => "F",
        3 => "D",
        5 => "DE",
        _ => "N",
    };
    let has = |flag: block_flag| u32::from(flags) & flag.0 != 0;
    let after = [
        (block_flag::BLOCK_FUA, 'F'),
        (block_flag::BLOCK_AHEAD, 'A'),
        (block_flag::BLOCK_SYNC, 'S'),
        (block_flag::BLOCK_META, 'M'),
    ];
    let mut text = String::from(if has(block_flag::BLOCK_PREFLUSH) { "F" } else { "" });
    text.push_str(name);
    text.extend(after.into_iter().filter(|(flag, _)| has(*flag)).map(|(_, letter)| letter));
    text
}

/// A file for as long as it exists: device, inode, generation.
pub(super) type FileKey = (u32, u64, u32);

/// Where a file was at some time.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) at_ns: u64,
    pub(super) path: FilePath,
    pub(super) fs: Arc<str>,
}

/// Size of each half of the table of places; at most two halves are kept.
const HALF: usize = 16_384;

/// Places of files. Forgets a file that is neither reported nor looked up while as many others are.
#[derive(Default)]
pub(super) struct Paths {
    recent: HashMap<FileKey, Place, RandomState>,
    older: HashMap<FileKey, Place, RandomState>,
}

impl Paths {
    /// Records where a file is now.
    pub(super) fn learn(&mut self, file: FileKey, place: Place) {
        if self.recent.len() >= HALF && !self.recent.contains_key(&file) {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(file, place);
    }

    /// Where the file was at that time or later; `None` if no such place was reported, even if an earlier one is known.
    pub(super) fn since(&mut self, file: FileKey, at_ns: u64) -> Option<&Place> {
        if at_ns == 0 {
            return None;
        }
        if !self.recent.contains_key(&file) {
            let place = self.older.remove(&file)?;
            self.learn(file, place);
        }
        self.recent.get(&file).filter(|place| place.at_ns >= at_ns)
    }
}

/// Joins NUL-terminated names, innermost first, into a path.
pub(super) fn join_names(bytes: &[u8]) -> String {
    let names = bytes.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let names: Vec<_> = names.map(String::from_utf8_lossy).rev().collect();
    names.join("/")
}

#[cfg(test)]
mod tests {
    use super::{FilePath, HALF, Paths, Place, join_names};

    fn place(at_ns: u64, path: &str) -> Place {
        Place { at_ns, path: FilePath { path: path.into(), whole: true }, fs: "ext4".into() }
    }

    fn name(paths: &mut Paths, inode: u64, at_ns: u64) -> Option<String> {
        paths.since((1, inode, 0), at_ns).map(|place| place.path.path.to_string())
    }

    #[test]
    fn joins_names_from_innermost_first_to_outermost_first() {
        assert_eq!(join_names(b"0000.log\0topicA-0\0data\0"), "data/topicA-0/0000.log");
        assert_eq!(join_names(b""), "");
        assert_eq!(join_names(b"\xff.log\0d\0"), "d/\u{fffd}.log");
    }

    #[test]
    fn path_older_than_the_requested_time_is_none() {
        let mut paths = Paths::default();
        paths.learn((1, 7, 0), place(10, "a"));
        assert_eq!(name(&mut paths, 7, 10).as_deref(), Some("a"));
        assert_eq!(name(&mut paths, 7, 11), None, "reported again at 11, and that was lost");
        assert_eq!(name(&mut paths, 7, 0), None, "never reported");
        paths.learn((1, 7, 0), place(12, "b"));
        assert_eq!(name(&mut paths, 7, 11).as_deref(), Some("b"));
        assert_eq!(paths.since((1, 7, 1), 10).map(|place| place.at_ns), None, "another file's number");
    }

    #[test]
    fn used_paths_survive_and_unused_paths_are_evicted() {
        let mut paths = Paths::default();
        paths.learn((1, 0, 0), place(1, "used"));
        paths.learn((1, 1, 0), place(1, "unused"));
        for inode in 2..3 * HALF as u64 {
            paths.learn((1, inode, 0), place(1, "other"));
            assert!(name(&mut paths, 0, 1).is_some(), "{inode}");
        }
        assert_eq!(name(&mut paths, 1, 1), None);
        assert!(paths.recent.len() <= HALF && paths.older.len() <= HALF);
    }
}
