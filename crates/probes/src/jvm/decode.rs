//! Decodes records of the JVM's probes into events. The layout is `bpf/jvm.h`.

use std::mem::offset_of;
use std::sync::Arc;

use model::{
    ClockOffset, Event, JvmPause, JvmPauseKind, Lock, LockHolder, LockKind, LockSource, LockWait, Pid,
};

use crate::bpf::jvm::types::{self, jvm_event_kind};
use crate::bpf::{record, text_of};
use crate::intern::Texts;

/// Decodes one JVM's records.
pub(super) struct Decoder {
    pid: Pid,
    clock: ClockOffset,
    texts: Texts,
    classes: Texts,
}

impl Decoder {
    /// Creates a decoder for that JVM; `clock` is from `CLOCK_MONOTONIC` to the clock of the events.
    pub(super) fn new(pid: Pid, clock: ClockOffset) -> Self {
        Self { pid, clock, texts: Texts::default(), classes: Texts::default() }
    }

    /// Decodes one record; `None` if its kind is unknown or it is shorter than its kind.
    pub(super) fn decode(&mut self, bytes: &[u8]) -> Option<Event> {
        match jvm_event_kind(u32::from_ne_bytes(*bytes.first_chunk()?)) {
            jvm_event_kind::JVM_MONITOR_WAIT => Some(self.monitor_wait(bytes)?.into()),
            jvm_event_kind::JVM_PAUSE => Some(self.pause(bytes)?.into()),
            _ => None,
        }
    }

    fn monitor_wait(&mut self, bytes: &[u8]) -> Option<LockWait> {
        let record: types::monitor_wait_event =
            record(bytes, offset_of!(types::monitor_wait_event, class_name))?;
        let class = counted(bytes, offset_of!(types::monitor_wait_event, class_name), record.class_bytes)?;
        Some(LockWait {
            start: self.clock.from_monotonic(record.start_ns),
            end: self.clock.from_monotonic(record.end_ns),
            pid: self.pid,
            tid: record.tid,
            thread: self.texts.share(text_of(&record.comm)),
            lock: Lock { kind: LockKind::Monitor, class: self.class(class), address: record.monitor },
            holder: (record.holder_tid != 0).then(|| LockHolder {
                tid: Some(record.holder_tid),
                thread: self.texts.share(text_of(&record.holder_comm)),
            }),
            stack: Arc::default(),
            source: LockSource::Usdt,
        })
    }

    fn pause(&mut self, bytes: &[u8]) -> Option<JvmPause> {
        let record: types::jvm_pause_event = record(bytes, offset_of!(types::jvm_pause_event, operation))?;
        let operation =
            counted(bytes, offset_of!(types::jvm_pause_event, operation), record.operation_bytes)?;
        let is_collection = record.pause == types::jvm_pause_kind::JVM_COLLECTION.0;
        let is_full = is_collection && record.full != 0;
        let start = self.clock.from_monotonic(record.start_ns);
        let operation_ns = Some(record.operation_ns).filter(|&ns| ns != 0 && !is_collection);
        Some(JvmPause {
            start,
            end: self.clock.from_monotonic(record.end_ns),
            pid: self.pid,
            kind: if is_collection { JvmPauseKind::Gc } else { JvmPauseKind::Safepoint },
            operation: self.texts.share(operation),
            cause: self.texts.share(if is_full { b"full collection" } else { b"" }),
            gc_id: None,
            time_to_safepoint: operation_ns.map(|ns| self.clock.from_monotonic(ns) - start),
        })
    }

    /// Formats a class name as Java does, not as class files do, like every other tool.
    fn class(&mut self, name: &[u8]) -> Arc<str> {
        if !name.contains(&b'/') {
            return self.classes.share(name);
        }
        let dotted: Vec<u8> = name.iter().map(|&byte| if byte == b'/' { b'.' } else { byte }).collect();
        self.classes.share(&dotted)
    }
}

fn counted(bytes: &[u8], at: usize, length: u32) -> Option<&[u8]> {
    bytes.get(at..at.checked_add(length as usize)?)
}

#[cfg(test)]
mod tests {
    use super::Decoder;
    use model::{ClockOffset, Event, JvmPause, JvmPauseKind, LockHolder, LockSource, Nanos, Row};

    fn decoder() -> Decoder {
        Decoder::new(9, ClockOffset::from_ns(1_000))
    }

    fn wait(holder: u32) -> Vec<u8> {
        let mut bytes = [1_u32, 42].map(u32::to_ne_bytes).concat();
        bytes.extend([1_000_u64, 5_000, 0xfeed].map(u64::to_ne_bytes).concat());
        bytes.extend([holder, 16].map(u32::to_ne_bytes).concat());
        bytes.extend(b"data-plane-kafk\0holder\0\0\0\0\0\0\0\0\0\0");
        bytes.extend(b"java/lang/Object");
        bytes
    }

    fn pause(kind: u32, operation_ns: u64) -> Vec<u8> {
        let mut bytes = [2_u32, kind].map(u32::to_ne_bytes).concat();
        bytes.extend([10_u64, 30, operation_ns].map(u64::to_ne_bytes).concat());
        bytes.extend([1_u32, 6].map(u32::to_ne_bytes).concat());
        bytes.extend(b"G1Full");
        bytes
    }

    #[test]
    fn decodes_thread_class_monitor_and_holder_of_a_wait() {
        for holder in [7, 0] {
            let Some(Event::LockWait(found)) = decoder().decode(&wait(holder)) else { panic!("no wait") };
            assert_eq!((found.start, found.end, found.pid), (Nanos(2_000), Nanos(6_000), 9));
            assert_eq!((found.tid, &*found.thread), (42, "data-plane-kafk"));
            assert_eq!((&*found.lock.class, found.lock.address), ("java.lang.Object", 0xfeed));
            let expected = (holder != 0).then(|| LockHolder { tid: Some(7), thread: "holder".into() });
            assert_eq!((found.holder, found.source), (expected, LockSource::Usdt));
        }
    }

    #[test]
    fn safepoint_has_a_time_to_safepoint_and_a_collection_has_none() {
        let expected = |kind, cause: &str, time_to_safepoint| {
            Some(Event::JvmPause(Box::new(JvmPause {
                start: Nanos(1_010),
                end: Nanos(1_030),
                pid: 9,
                kind,
                operation: "G1Full".into(),
                cause: cause.into(),
                time_to_safepoint,
                ..Row::empty()
            })))
        };
        let mut decoder = decoder();
        let safepoint = JvmPauseKind::Safepoint;
        assert_eq!(decoder.decode(&pause(0, 15)), expected(safepoint, "", Some(Nanos(5))));
        assert_eq!(decoder.decode(&pause(0, 0)), expected(safepoint, "", None));
        assert_eq!(decoder.decode(&pause(1, 15)), expected(JvmPauseKind::Gc, "full collection", None));
    }

    #[test]
    fn truncated_or_invalid_record_is_not_decoded() {
        let mut decoder = decoder();
        for whole in [wait(7), pause(0, 1)] {
            assert!((0..whole.len()).all(|length| decoder.decode(&whole[..length]).is_none()));
        }
        let mut lying = wait(7);
        lying[36..40].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(decoder.decode(&lying), None);
        assert_eq!(decoder.decode(&9_u32.to_ne_bytes()), None);
    }
}
