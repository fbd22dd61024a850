//! What was found of slow requests by themselves, kept for those that waited behind them on the same connection: in a
//! stall, each looks at all that are ahead of it. What it found of the threads that it waited for is kept apart from that:
//! whoever came when it had waited for a while needs a part of it. Finds nothing itself.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use ahash::RandomState;
use model::{Nanos, Request, StageSpan, Stages};

use crate::cause::Finding;

/// One that waited behind a request mostly ends sooner than so long after it.
const WANTED_FOR: Nanos = Nanos::from_millis(3_000);
/// Between two looks for what is not wanted any more. By numbers, not by time: what is looked at again does not depend on
/// anything but the requests that are judged.
const JUDGED: usize = 1_024;
/// However many are judged within that time, no more are kept: they are found anew where they are wanted again.
const MOST: usize = 32_768;

/// A request, its time and what explains it, but for those ahead of it.
#[derive(Debug, Default)]
pub(crate) struct Alone {
    pub(crate) stages: Stages,
    pub(crate) course: Vec<StageSpan>,
    /// How long it was complete and behind others.
    pub(crate) waited: Nanos,
    /// When the rest of it could not arrive because others were served.
    pub(crate) unread: Option<(Nanos, Nanos)>,
    /// What its own bytes' arrival explains.
    pub(crate) arrival: Option<Arc<Finding>>,
    /// What explains the time from the moment at which the broker could serve it.
    pub(crate) served: Vec<Arc<Finding>>,
    /// What there is to explain.
    pub(crate) time: Nanos,
    pub(crate) awaited: Awaited,
}

/// What was found of those that a request waited for, by the stage in which it did.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    pub(crate) receive: Found,
    pub(crate) queue: Found,
    pub(crate) remote: Found,
    pub(crate) respond: Found,
}

/// What explains a stretch of time, once somebody has looked.
#[derive(Debug, Default)]
pub(crate) struct Found(OnceLock<((Nanos, Nanos), Vec<Finding>)>);

impl Found {
    /// What is known of this stretch, or else found now.
    pub(crate) fn of(&self, stretch: (Nanos, Nanos), find: impl Fn() -> Vec<Finding>) -> Vec<Finding> {
        let (known, findings) = self.0.get_or_init(|| (stretch, find()));
        if *known == stretch { findings.clone() } else { find() }
    }
}

/// Client, broker, number, and arrival.
type Key = (SocketAddr, SocketAddr, i32, Nanos);

/// Those of late.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    kept: HashMap<Key, (Nanos, Arc<Alone>), RandomState>,
    judged: usize,
}

impl Requests {
    /// What is known of a request, or else found now.
    pub(crate) fn of(&mut self, request: &Request, find: impl FnOnce() -> Alone) -> Arc<Alone> {
        let key = (request.client, request.broker, request.correlation_id, request.arrival);
        if let Some((_, known)) = self.kept.get(&key) {
            return Arc::clone(known);
        }
        self.judged += 1;
        let last_seen = request.last_seen();
        if self.judged % JUDGED == 0 {
            self.kept.retain(|_, (ended, _)| *ended >= last_seen - WANTED_FOR);
            if self.kept.len() > MOST {
                self.kept.clear();
            }
        }
        let found = Arc::new(find());
        self.kept.insert(key, (last_seen, Arc::clone(&found)));
        found
    }
}

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::Found;

    #[test]
    fn a_stretch_is_looked_at_once_and_another_by_itself() {
        let found = Found::default();
        let looks = std::cell::Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            Vec::new()
        };
        for (start, end, expected) in [(1, 9, 1), (1, 9, 1), (2, 9, 2), (1, 9, 2)] {
            found.of((Nanos(start), Nanos(end)), look);
            assert_eq!(looks.get(), expected, "{start} to {end}");
        }
    }
}
