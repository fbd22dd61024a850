//! `gc_pauses/`: moments in which the JVM stopped its threads, for its collector and for anything else.

use model::{Event, JvmPause, JvmPauseKind, Nanos};

use crate::cells::BadRow;
use crate::columns::{Derived, I64, Maybe, Name, Text, U32, columns};
use crate::table::{Decode, Encode};
use crate::text::TextPool;

columns! {
    GcPauses, GcPauseCells {
        start_ns: I64,
        end_ns: I64,
        latency_ns: Derived<I64>,
        pid: U32,
        kind: Name<JvmPauseKind>,
        operation: Text,
        cause: Text,
        gc_id: Maybe<U32>,
        reach_ns: Maybe<I64>,
    }
}

impl Encode for GcPauses {
    type Row = JvmPause;

    fn append(&mut self, pause: &JvmPause) {
        self.start_ns.append_value(pause.start.0);
        self.end_ns.append_value(pause.end.0);
        self.latency_ns.append_value(pause.length().0);
        self.pid.append_value(pause.pid);
        self.kind.append_value(pause.kind.as_str());
        self.operation.append_value(&pause.operation);
        self.cause.append_value(&pause.cause);
        self.gc_id.append_option(pause.gc_id);
        self.reach_ns.append_option(pause.time_to_safepoint.map(|reach| reach.0));
    }

    fn weight(pause: &JvmPause) -> usize {
        56 + pause.operation.len() + pause.cause.len()
    }
}

impl Decode for GcPauseCells {
    fn event(&self, i: usize, pool: &mut TextPool) -> Result<Event, BadRow> {
        Ok(Event::JvmPause(Box::new(JvmPause {
            start: Nanos(self.start_ns.at(i)?),
            end: Nanos(self.end_ns.at(i)?),
            pid: self.pid.at(i)?,
            kind: self.kind.at(i)?,
            operation: self.operation.at(i, pool)?,
            cause: self.cause.at(i, pool)?,
            gc_id: self.gc_id.maybe(i),
            time_to_safepoint: self.reach_ns.maybe(i).map(Nanos),
        })))
    }
}
