//! Records of the JVM's probes to [`JvmEvent`]s. The layout is `bpf/jvm.h`'s.

use std::mem::offset_of;
use std::sync::Arc;

use super::event::{Holder, JvmEvent, MonitorWait, Pause, PauseKind};
use crate::bpf::jvm::types::{self, jvm_event_kind};
use crate::bpf::{record, text_of};
use crate::intern::Texts;

/// Decodes one JVM's records.
#[derive(Default)]
pub(super) struct Decoder {
    texts: Texts,
    classes: Texts,
}

impl Decoder {
    /// One record; none if it is of no known kind or shorter than its kind.
    pub(super) fn decode(&mut self, bytes: &[u8]) -> Option<JvmEvent> {
        match jvm_event_kind(u32::from_ne_bytes(*bytes.first_chunk()?)) {
            jvm_event_kind::JVM_MONITOR_WAIT => Some(JvmEvent::MonitorWait(self.monitor_wait(bytes)?)),
            jvm_event_kind::JVM_PAUSE => Some(JvmEvent::Pause(self.pause(bytes)?)),
            _ => None,
        }
    }

    fn monitor_wait(&mut self, bytes: &[u8]) -> Option<MonitorWait> {
        let record: types::monitor_wait_event =
            record(bytes, offset_of!(types::monitor_wait_event, class_name))?;
        let class = counted(bytes, offset_of!(types::monitor_wait_event, class_name), record.class_bytes)?;
        Some(MonitorWait {
            tid: record.tid,
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            monitor: record.monitor,
            comm: self.texts.share(text_of(&record.comm)),
            holder: (record.holder_tid != 0).then(|| Holder {
                tid: record.holder_tid,
                comm: self.texts.share(text_of(&record.holder_comm)),
            }),
            class: self.class(class),
        })
    }

    fn pause(&mut self, bytes: &[u8]) -> Option<Pause> {
        let record: types::jvm_pause_event = record(bytes, offset_of!(types::jvm_pause_event, operation))?;
        let operation =
            counted(bytes, offset_of!(types::jvm_pause_event, operation), record.operation_bytes)?;
        let is_collection = record.pause == types::jvm_pause_kind::JVM_COLLECTION.0;
        let full = record.full != 0;
        Some(Pause {
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            kind: if is_collection { PauseKind::Collection { full } } else { PauseKind::Safepoint },
            operation: self.texts.share(operation),
            operation_ns: Some(record.operation_ns).filter(|&ns| ns != 0 && !is_collection),
        })
    }

    /// As Java writes it, not as class files do: every other tool shows it so.
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
    use crate::jvm::{Holder, JvmEvent, MonitorWait, Pause, PauseKind};

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
    fn a_wait_names_thread_class_monitor_and_holder() {
        let expected = |holder| {
            JvmEvent::MonitorWait(MonitorWait {
                start_ns: 1_000,
                end_ns: 5_000,
                tid: 42,
                comm: "data-plane-kafk".into(),
                class: "java.lang.Object".into(),
                monitor: 0xfeed,
                holder,
            })
        };
        let mut decoder = Decoder::default();
        let holder = Holder { tid: 7, comm: "holder".into() };
        assert_eq!(decoder.decode(&wait(7)), Some(expected(Some(holder))));
        assert_eq!(decoder.decode(&wait(0)), Some(expected(None)));
    }

    #[test]
    fn a_collection_is_within_an_operation_and_does_not_wait_for_it() {
        let pause_of = |kind, operation_ns| {
            let operation = "G1Full".into();
            JvmEvent::Pause(Pause { start_ns: 10, end_ns: 30, kind, operation, operation_ns })
        };
        let mut decoder = Decoder::default();
        assert_eq!(decoder.decode(&pause(0, 15)), Some(pause_of(PauseKind::Safepoint, Some(15))));
        assert_eq!(decoder.decode(&pause(0, 0)), Some(pause_of(PauseKind::Safepoint, None)));
        let full = PauseKind::Collection { full: true };
        assert_eq!(decoder.decode(&pause(1, 15)), Some(pause_of(full, None)));
    }

    #[test]
    fn a_record_is_read_whole_or_not_at_all() {
        let mut decoder = Decoder::default();
        for whole in [wait(7), pause(0, 1)] {
            assert!((0..whole.len()).all(|length| decoder.decode(&whole[..length]).is_none()));
        }
        let mut lying = wait(7);
        lying[36..40].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(decoder.decode(&lying), None);
        assert_eq!(decoder.decode(&9_u32.to_ne_bytes()), None);
    }
}
