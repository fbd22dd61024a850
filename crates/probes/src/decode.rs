//! Records of the ring buffer to [`Event`]s. The layout is `bpf/events.h`; both sides assert it.

mod block_io;
mod file_op;
mod kernel_span;
mod kernel_wait;
mod off_cpu;
mod paths;
mod reclaim;
mod socket;

use std::sync::Arc;

use model::CommitPhases;
use model::Nanos;

use crate::bpf::{kind, types};
use crate::event::{DirtyThrottle, Event, JournalCommit};
use crate::intern::Texts;
use crate::stacks::Stacks;

use kernel_span::Committing;
use off_cpu::Wakers;
use paths::Paths;

const _: () = {
    assert!(size_of::<types::journal_commit_event>() == 88);
    assert!(size_of::<types::dirty_throttle_event>() == 64);
};

/// What a record was.
#[expect(clippy::large_enum_variant, reason = "most are events, handed on where they are made")]
#[derive(Debug, PartialEq)]
pub(crate) enum Decoded {
    /// Something that happened.
    Event(Event),
    /// Something that later records build on, or that says nothing by itself.
    Learnt,
    /// Of no known kind, or shorter than its kind.
    Unknown,
}

/// Decodes one target's records.
pub(crate) struct Decoder {
    pid: u32,
    hz: Option<u32>,
    texts: Texts,
    stacks: Stacks,
    paths: Paths,
    committing: Committing,
    wakers: Wakers,
}

impl Decoder {
    pub(crate) fn new(pid: u32, hz: Option<u32>, stacks: Stacks) -> Self {
        Self {
            pid,
            hz: hz.filter(|&hz| hz > 0),
            texts: Texts::default(),
            stacks,
            paths: Paths::default(),
            committing: Committing::default(),
            wakers: Wakers::default(),
        }
    }

    /// One record.
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> Decoded {
        let kind = bytes.get(..4).and_then(|word| Some(u32::from_ne_bytes(word.try_into().ok()?)));
        let learnt = |known: Option<()>| known.map_or(Decoded::Unknown, |()| Decoded::Learnt);
        match kind {
            Some(kind::FILE_PATH) => learnt(self.file_path(bytes)),
            Some(kind::WAKER_STACK) => learnt(self.waker_stack(bytes)),
            Some(kind::KERNEL_SPAN) => self.kernel_span(bytes),
            Some(kind::KERNEL_WAIT) => self.kernel_wait(bytes),
            Some(kind) => self.event(kind, bytes).map_or(Decoded::Unknown, Decoded::Event),
            None => Decoded::Unknown,
        }
    }

    fn event(&mut self, kind: u32, bytes: &[u8]) -> Option<Event> {
        match kind {
            kind::FILE_OP => Some(Event::FileOp(self.file_op(bytes)?)),
            kind::OFF_CPU => Some(Event::OffCpu(self.off_cpu(bytes)?)),
            kind::JOURNAL_COMMIT => Some(Event::JournalCommit(self.journal_commit(&whole(bytes)?))),
            kind::BLOCK_IO => Some(Event::BlockIo(self.block_io(&whole(bytes)?))),
            kind::DIRTY_THROTTLE => Some(Event::DirtyThrottle(self.dirty_throttle(&whole(bytes)?))),
            kind::RECLAIM => Some(Event::Reclaim(self.reclaim(&whole(bytes)?))),
            kind::SOCKET => Some(Event::SocketOp(self.socket_op(bytes)?)),
            kind::TCP_TROUBLE => Some(Event::TcpEvent(socket::tcp_trouble(bytes)?)),
            _ => None,
        }
    }

    fn journal_commit(&self, record: &types::journal_commit_event) -> JournalCommit {
        JournalCommit {
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            device: device(record.device),
            transaction: record.transaction,
            phases: self.hz.filter(|_| record.phases.seen != 0).map(|hz| phases(&record.phases, hz)),
        }
    }

    fn dirty_throttle(&mut self, record: &types::dirty_throttle_event) -> DirtyThrottle {
        DirtyThrottle {
            start_ns: record.start_ns,
            pause_ns: record.pause_ms.saturating_mul(1_000_000),
            pid: self.pid,
            tid: record.tid,
            comm: self.text(&record.comm),
            dirty_pages: record.dirty_pages,
            limit_pages: record.limit_pages,
            setpoint_pages: record.setpoint_pages,
        }
    }

    /// Up to the first NUL.
    fn text(&mut self, chars: &[i8]) -> Arc<str> {
        let bytes = bytes_of(chars);
        self.texts.share(bytes.split(|&byte| byte == 0).next().unwrap_or_default())
    }
}

/// `MAJOR` and `MINOR` of `include/linux/kdev_t.h`.
fn device(number: u32) -> (u32, u32) {
    (number >> 20, number & 0xf_ffff)
}

fn phases(record: &types::commit_phases, hz: u32) -> CommitPhases {
    let length = |jiffies: u64| Nanos((u128::from(jiffies) * 1_000_000_000 / u128::from(hz)) as i64);
    CommitPhases {
        wait: length(record.wait),
        running: length(record.running),
        locked: length(record.locked),
        flushing: length(record.flushing),
        logging: length(record.logging),
        handles: record.handles,
        blocks: record.blocks,
        blocks_logged: record.blocks_logged,
    }
}

/// A record type of `events.h`: integers and arrays of them, so that any bytes make a valid value.
///
/// # Safety
/// Only for `repr(C)` types without padding, references, `bool` or enums.
unsafe trait Record: Default {}
// SAFETY: generated from the C structures in events.h, which hold integers and arrays only.
unsafe impl Record for types::journal_commit_event {}
// SAFETY: as above.
unsafe impl Record for types::dirty_throttle_event {}

fn whole<T: Record>(bytes: &[u8]) -> Option<T> {
    record(bytes, size_of::<T>())
}

/// The record that starts with these bytes, if there are at least `least`; what was not sent is zero.
fn record<T: Record>(bytes: &[u8], least: usize) -> Option<T> {
    if bytes.len() < least {
        return None;
    }
    let mut value = T::default();
    let length = bytes.len().min(size_of::<T>());
    // SAFETY: `length` bytes are readable in `bytes` and writable in `value`, which do not overlap; any bytes
    // are a valid T (see Record).
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut value).cast::<u8>(), length) };
    Some(value)
}

fn bytes_of(chars: &[i8]) -> &[u8] {
    // SAFETY: i8 and u8 have the same size, alignment and validity.
    unsafe { std::slice::from_raw_parts(chars.as_ptr().cast::<u8>(), chars.len()) }
}

#[cfg(test)]
mod tests;
