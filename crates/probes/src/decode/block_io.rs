//! Records of block requests. Their flags are told as the kernel's own tracepoints write them (`rwbs`).

use super::{Decoder, Record, device};
use crate::bpf::{block, types};
use crate::event::{BlockFile, BlockIo};

const _: () = assert!(size_of::<types::block_io_event>() == 104);

// SAFETY: generated from the C structure in events.h, which holds integers and arrays only.
unsafe impl Record for types::block_io_event {}

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
                block::OP_IN_RWBS => self.text(&record.rwbs),
                op => self.texts.share(rwbs(op, record.flags).as_bytes()),
            },
            tid: record.tid,
            comm: self.text(&record.comm),
            file: (record.file.inode != 0).then(|| self.block_file(&record.file)),
        }
    }

    /// The page cache writes files back long after their operations: any place that was told will do.
    fn block_file(&mut self, file: &types::file_key) -> BlockFile {
        let place = self.paths.since((file.device, file.inode, file.generation), 1);
        BlockFile {
            device: device(file.device),
            inode: file.inode,
            path: place.map(|place| place.path.clone()),
        }
    }
}

/// As `blk_fill_rwbs` writes it (kernel/trace/blktrace.c).
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
    let after = [(block::FUA, "F"), (block::AHEAD, "A"), (block::SYNC, "S"), (block::META, "M")];
    let mut text = if flags & block::PREFLUSH == 0 { String::new() } else { "F".to_owned() };
    text.push_str(name);
    after.into_iter().filter(|(flag, _)| flags & flag != 0).for_each(|(_, letter)| text.push_str(letter));
    text
}

#[cfg(test)]
mod tests {
    use super::rwbs;

    #[test]
    fn operations_and_flags_are_written_as_the_kernel_writes_them() {
        for (op, flags, text) in [
            (0, 4, "RA"),
            (1, 0, "W"),
            (1, 1 | 2 | 8 | 16, "FWFSM"),
            (2, 1, "FF"),
            (3, 8, "DS"),
            (5, 0, "DE"),
        ] {
            assert_eq!(rwbs(op, flags), text);
        }
    }
}
