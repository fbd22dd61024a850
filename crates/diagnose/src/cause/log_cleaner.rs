//! `log-cleaner`: the log cleaner's own reads and writes kept the device busy.
//!
//! Needs: a wait for the device, and operations of the cleaner's threads on the same device that moved most of what the
//! broker read from it and wrote at the time. That these were what the wait was behind is by the time only.

use model::{Cause, Nanos};

use super::Finding;
use super::device_load::{BEFORE, Load, moved_bytes};
use crate::window::Window;

/// What the kernel keeps of `kafka-log-cleaner-thread-0` (`LogCleaner.CleanerThread`).
const THREAD: &str = "kafka-log-clean";

/// What is behind a wait for the device, where the cleaner is.
pub(super) fn behind(
    window: &Window,
    device: &model::Device,
    began: Nanos,
    (start, end): (Nanos, Nanos),
) -> Option<Finding> {
    let around = (start - BEFORE, end);
    let load = Load::of(window, device, around, moved_bytes, |op| op.thread.starts_with(THREAD));
    load.blamed(Cause::LogCleaner, device, began, end - start, |load| {
        format!(
            "the log cleaner moved {} of the {} bytes that the broker read from {device} and wrote to it then",
            load.bytes, load.all
        )
    })
}
