//! The probes' block requests in the shared vocabulary.

use model::{BlockIo, ClockOffset, Direction};

use super::Names;

impl Names {
    pub(super) fn block_io(&mut self, io: probes::BlockIo, offset: ClockOffset) -> BlockIo {
        let path = io.file.as_ref().and_then(|file| Some((file, file.path.as_ref()?)));
        let named = path.map(|(file, path)| self.files.name(file.device, path, file.inode));
        BlockIo {
            queued: io.queued_ns.map(|queued| offset.from_monotonic(queued)),
            start: offset.from_monotonic(io.start_ns),
            end: offset.from_monotonic(io.end_ns),
            device: self.devices.holding(io.device, io.sector),
            direction: direction(&io.rwbs),
            sector: io.sector,
            bytes: io.bytes,
            tid: io.tid,
            thread: self.threads.full(io.tid, io.comm),
            flags: io.rwbs,
            inode: io.file.map(|file| file.inode),
            file: named.map(|named| named.file),
        }
    }
}

/// `rwbs` as `blk_fill_rwbs` (block/blk-core, kernel/trace/blktrace.c) writes it: a leading `F` is a
/// preflush, then the operation.
fn direction(rwbs: &str) -> Direction {
    match rwbs.trim_start_matches('F').chars().next() {
        Some('W') => Direction::Write,
        Some('R') => Direction::Read,
        _ => Direction::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::direction;
    use model::Direction;

    #[test]
    fn the_kernels_flags_say_which_way_the_data_went() {
        for (rwbs, expected) in [
            ("W", Direction::Write),
            ("WS", Direction::Write),
            ("FWFS", Direction::Write),
            ("R", Direction::Read),
            ("RA", Direction::Read),
            ("FF", Direction::Other),
            ("D", Direction::Other),
            ("", Direction::Other),
        ] {
            assert_eq!(direction(rwbs), expected, "{rwbs}");
        }
    }
}
