//! `tier-state-io`: reads of tiered storage's state files kept the device busy.
//!
//! Needs: a wait for the device, and reads of `*.tierstate*` files on the same device that are most of what the broker
//! read from it at the time. That these were what the wait was behind is by the time only.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, FileKind, Nanos};

use super::device_load::{BEFORE, Load, read_bytes};
use super::{Finding, op_evidence};
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
    let largest = load.dominated_by()?;
    let seen = op_evidence(largest);
    let text = format!(
        "{} of the {} bytes that the broker read from {device} then were of tiered storage's state; {}",
        load.bytes, load.all, seen.text
    );
    Some(Finding {
        cause: Cause::TierStateIo,
        chain: vec![Cause::TierStateIo],
        root: Arc::from(format!("tier-state-io:{device}:{}", began.0)),
        confidence: Confidence::Weak,
        evidence: vec![Evidence { text, ..seen }],
        time: end - start,
        partition: None,
    })
}
