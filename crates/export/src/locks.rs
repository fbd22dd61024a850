//! Waits for Java locks and stops of the JVM, as the JVM told of them. Does not say who was slow for them.

use std::collections::BTreeMap;

use model::{JvmPause, JvmPauseKind, LockSource, LockWait};

use crate::catalog;
use crate::encoding::Encoder;
use crate::histogram::Histogram;

/// What the JVM told.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    waits: BTreeMap<(&'static str, &'static str), Histogram>,
    pauses: [Histogram; JvmPauseKind::ALL.len()],
}

impl Locks {
    /// A wait of a thread of that role. A thread dump shows that a thread waits, not for how long.
    pub(crate) fn wait(&mut self, wait: &LockWait, role: &'static str) {
        if wait.source != LockSource::ThreadDump {
            self.waits.entry((role, wait.source.as_str())).or_default().observe_time(wait.length());
        }
    }

    pub(crate) fn pause(&mut self, pause: &JvmPause) {
        if let Some(histogram) = self.pauses.get_mut(pause.kind as usize) {
            histogram.observe_time(pause.length());
        }
    }

    pub(crate) fn encode(&self, out: &mut dyn Encoder) {
        out.family(&catalog::LOCK_WAIT);
        for (&(role, source), histogram) in &self.waits {
            out.histogram(&[role, source], histogram);
        }
        out.family(&catalog::JVM_PAUSE);
        for (kind, histogram) in JvmPauseKind::ALL.into_iter().zip(&self.pauses) {
            out.histogram(&[kind.as_str()], histogram);
        }
    }
}
