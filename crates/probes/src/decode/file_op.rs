//! Operations on files and the paths they build on.

use std::mem::offset_of;
use std::sync::Arc;

use model::FileOpKind;

use super::paths::{FileKey, Place, join_names};
use super::{Decoder, Record, bytes_of, device, record};
use crate::bpf::types;
use crate::event::{FileOp, FilePath, HEAD_BYTES, PathArgument, PathArguments, StartDir};

const HEADER_BYTES: usize = size_of::<types::file_op_event>();
const GIVEN_AT: usize = offset_of!(types::file_name_event, given);
/// `enum file_op`; such an operation has its flags in place of an offset.
const RENAME: u8 = 11;
/// `include/uapi/linux/fs.h`.
const RENAME_EXCHANGE: u64 = 1 << 1;
/// A given path of as many bytes as are read of one may be cut.
const MOST_GIVEN_BYTES: usize = 1024;

const _: () = {
    assert!(HEADER_BYTES == 112);
    assert!(size_of::<types::file_write_event>() == 112 + 64);
    assert!(offset_of!(types::file_write_event, head) == HEADER_BYTES);
    assert!(GIVEN_AT == 176);
    assert!(size_of::<types::file_name_event>() == GIVEN_AT + 2 * MOST_GIVEN_BYTES);
    assert!(offset_of!(types::file_path_event, path) == 48);
    assert!(size_of::<types::file_path_event>() == 48 + 16 * 256);
};

// SAFETY: generated from the C structures in events.h, which hold integers and arrays only.
unsafe impl Record for types::file_op_event {}
// SAFETY: as above.
unsafe impl Record for types::given_path {}
// SAFETY: as above; the path's bytes are read from the record itself.
unsafe impl Record for types::file_path_event {}

impl Decoder {
    pub(super) fn file_op(&mut self, bytes: &[u8]) -> Option<FileOp> {
        let header: types::file_op_event = record(bytes, HEADER_BYTES)?;
        let key = key(&header.file);
        let place = self.paths.since(key, header.path_ns);
        let (path, fs) = place.map(|place| (place.path.clone(), Arc::clone(&place.fs))).unzip();
        let watched = header.reads_pages != 0;
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
            offset: if header.op == RENAME { 0 } else { header.offset },
            device: device(header.file.device),
            inode: header.file.inode,
            generation: header.file.generation,
            fs: fs.unwrap_or_default(),
            path,
            given: if key == (0, 0, 0) { Some(Box::new(self.given(bytes)?)) } else { None },
            disk_bytes: watched.then_some(header.disk_bytes),
            readahead_bytes: watched.then_some(header.readahead_bytes),
            head,
            head_len,
            journal_transaction: (header.has_handle != 0).then_some(header.transaction),
        })
    }

    fn given(&mut self, bytes: &[u8]) -> Option<PathArguments> {
        let from: types::given_path = record(bytes.get(offset_of!(types::file_name_event, from)..)?, 32)?;
        let to: types::given_path = record(bytes.get(offset_of!(types::file_name_event, to)..)?, 32)?;
        let texts = bytes.get(GIVEN_AT..)?;
        let (first, rest) = texts.split_at_checked(usize::from(from.length))?;
        let second = rest.get(..usize::from(to.length))?;
        let header: types::file_op_event = record(bytes, HEADER_BYTES)?;
        let is_rename = header.op == RENAME;
        Some(PathArguments {
            from: self.given_path(&from, first),
            to: is_rename.then(|| self.given_path(&to, second)),
            exchange: is_rename && header.offset & RENAME_EXCHANGE != 0,
        })
    }

    fn given_path(&mut self, given: &types::given_path, text: &[u8]) -> PathArgument {
        let readable = !text.is_empty() && text.len() < MOST_GIVEN_BYTES;
        let name = text.strip_suffix(b"\0").unwrap_or(text);
        let key = key(&given.dir);
        let start = (key != (0, 0, 0)).then(|| StartDir {
            device: device(given.dir.device),
            path: self.paths.since(key, given.dir_path_ns).map(|place| place.path.clone()),
        });
        PathArgument { text: readable.then(|| String::from_utf8_lossy(name).into()), start }
    }

    /// Remembers where a file is.
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

/// `enum file_op`.
fn operation(number: u8) -> Option<FileOpKind> {
    Some(match number {
        1 => FileOpKind::Write,
        2 => FileOpKind::Read,
        3 => FileOpKind::Sendfile,
        4 => FileOpKind::Splice,
        5 => FileOpKind::Copy,
        6 => FileOpKind::Fsync,
        7 => FileOpKind::Fdatasync,
        8 => FileOpKind::Msync,
        9 => FileOpKind::Truncate,
        10 => FileOpKind::Allocate,
        RENAME => FileOpKind::Rename,
        12 => FileOpKind::Unlink,
        13 => FileOpKind::Open,
        14 => FileOpKind::MmapFault,
        _ => return None,
    })
}

/// The bytes that were sent of it; the rest is zero.
fn head_of(header: &types::file_op_event, bytes: &[u8]) -> ([u8; HEAD_BYTES], u8) {
    let mut head = [0; HEAD_BYTES];
    let sent = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let valid = usize::from(header.head_len).min(HEAD_BYTES).min(sent.len());
    head.iter_mut().zip(sent.iter().take(valid)).for_each(|(to, from)| *to = *from);
    (head, valid as u8)
}
