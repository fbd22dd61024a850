//! `tier-state-io`: reads of tiered storage's state files kept the device busy.
//!
//! Needs: a wait for the device, and reads of `*.tierstate*` files on the same device that are most of what the broker
//! read from it at the time. That these were what the wait was behind is by the time only.

use model::{Cause, FileKind, Nanos};

use super::Finding;
use super::device_load::{BEFORE, Load, read_bytes};
use crate::window::Window;

/// What is behind a wait for the device, where the state files are.
pub(super) fn behind(
    window: &Window,
    device: &model::Device,
    began: Nanos,
    (start, end): (Nanos, Nanos),
) -> Option<Finding> {
    let around = (start - BEFORE, end);
    let load = Load::of(window, device, around, read_bytes, |op| op.kind == FileKind::TierState);
    load.blamed(Cause::TierStateIo, device, began, end - start, |load| {
        format!(
            "{} of the {} bytes that the broker read from {device} then were of tiered storage's state",
            load.bytes, load.all
        )
    })
}
