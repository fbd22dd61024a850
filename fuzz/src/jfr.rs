//! Flight recordings: whole files, and the same bytes as a chunk that is still being written.
//!
//! Input: the file.

use jvm::jfr::{JfrEvent, Recording};

use crate::Target;

/// The target. The window for reading a file takes 256 KiB, and each text is held once.
pub const TARGET: Target = Target { name: "jfr", check, spare_bytes: 2 << 20 };

/// Maximum stack length in the crate, plus a name that is added before it is full.
const MAX_STACK_BYTES: usize = 16 << 10;

fn check(data: &[u8]) {
    let whole = count_events(data);
    // The generation in the header means that more is to come, so nothing after the chunk is read.
    let mut growing = data.to_vec();
    if let Some(generation) = growing.get_mut(64) {
        *generation = 1;
        assert!(
            count_events(&growing) <= whole,
            "a chunk tells more while it is written than when it is finished"
        );
    }
}

/// Counts the events of a recording, and checks that all are within bounds.
fn count_events(data: &[u8]) -> usize {
    let mut events = 0;
    let mut recording = Recording::of(1);
    let _ = recording.read(data, &mut |observed| {
        events += 1;
        check_event(&observed);
    });
    let summary = recording.summary();
    assert!(summary.bytes <= data.len() as u64 || summary.chunks == 0, "more bytes than there are");
    assert_eq!(summary.damaged == 0, summary.first_damage.is_none());
    events
}

/// Checks that an event is ordered and bounded.
pub(crate) fn check_event(observed: &JfrEvent) {
    match observed {
        JfrEvent::LockWait(wait) => {
            assert!(wait.start <= wait.end, "a wait that ends before it begins");
            assert!(wait.stack.len() <= MAX_STACK_BYTES, "a stack of {} bytes", wait.stack.len());
            assert!(!wait.thread.contains(char::is_control), "control characters in a name");
        }
        JfrEvent::Pause(pause) => assert!(pause.start <= pause.end, "a stop that ends before it begins"),
        JfrEvent::HandlerCall(call) => {
            assert!(call.start <= call.end, "a call that ends before it begins");
            assert!(!call.thread.contains(char::is_control), "control characters in a name");
        }
    }
}
