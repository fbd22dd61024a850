//! `block_ios/`: requests to block devices.

use model::{BlockIo, Direction, Event, Nanos};

use super::device;
use crate::cells::BadRow;
use crate::columns::{Derived, I64, Maybe, Name, Text, U32, U64, columns};
use crate::table::{Decode, Encode};
use crate::text::TextPool;

columns! {
    BlockIos, BlockIoCells {
        queued_ns: Maybe<I64>,
        start_ns: I64,
        end_ns: I64,
        latency_ns: Derived<I64>,
        device: Maybe<Text>,
        device_major: U32,
        device_minor: U32,
        direction: Name<Direction>,
        sector: U64,
        bytes: U32,
        tid: U32,
        thread: Text,
        flags: Text,
        inode: Maybe<U64>,
        file: Maybe<Text>,
    }
}

impl Encode for BlockIos {
    type Row = BlockIo;

    fn append(&mut self, io: &BlockIo) {
        self.queued_ns.append_option(io.queued.map(|at| at.0));
        self.start_ns.append_value(io.start.0);
        self.end_ns.append_value(io.end.0);
        self.latency_ns.append_value(io.latency().0);
        device::append(&io.device, &mut self.device, &mut self.device_major, &mut self.device_minor);
        self.direction.append_value(io.direction.as_str());
        self.sector.append_value(io.sector);
        self.bytes.append_value(io.bytes);
        self.tid.append_value(io.tid);
        self.thread.append_value(&io.thread);
        self.flags.append_value(&io.flags);
        self.inode.append_option(io.inode);
        self.file.append_option(io.file.as_deref());
    }

    fn weight(io: &BlockIo) -> usize {
        112 + io.thread.len() + io.flags.len() + io.file.as_deref().map_or(0, str::len)
    }
}

impl Decode for BlockIoCells {
    fn event(&self, i: usize, pool: &mut TextPool) -> Result<Event, BadRow> {
        Ok(Event::BlockIo(Box::new(BlockIo {
            queued: self.queued_ns.maybe(i).map(Nanos),
            start: Nanos(self.start_ns.at(i)?),
            end: Nanos(self.end_ns.at(i)?),
            device: device::read(i, &self.device, &self.device_major, &self.device_minor, pool)?,
            direction: self.direction.at(i)?,
            sector: self.sector.at(i)?,
            bytes: self.bytes.at(i)?,
            tid: self.tid.at(i)?,
            thread: self.thread.at(i, pool)?,
            flags: self.flags.at(i, pool)?,
            inode: self.inode.maybe(i),
            file: self.file.maybe(i, pool),
        })))
    }
}
