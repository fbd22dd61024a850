//! JVM pauses: collections and safepoints. Does not say which requests they delayed.

use model::JvmPause;

use crate::rows::{Cell, Column, Report};

/// JVM pauses, one row each.
#[derive(Clone, Copy, Debug)]
pub struct Pauses;

type Col = Column<Pauses>;

impl Report for Pauses {
    type Row<'a> = JvmPause;
    const TYPE: &'static str = "jvm-pause";

    fn columns(&self) -> Vec<Col> {
        vec![
            Col::row(|pause| Some(pause))
                .rename("latency_ns", "duration_ns")
                .replace("pid", pid)
                .replace("operation", |pause| Cell::known(&pause.operation))
                .replace("cause", |pause| Cell::known(&pause.cause)),
            Col::text("START TIME", 12, "", |pause| Cell::Time(pause.start)),
            Col::text("END TIME", 12, "", |pause| Cell::Time(pause.end)),
            Col::text("DURATION", 8, "", |pause| Cell::Length(pause.length())),
            Col::text("KIND", 9, "", |pause| pause.kind.as_str().into()),
            Col::text("OPERATION", 24, "", |pause| Cell::known(&pause.operation)),
            Col::text("CAUSE", 24, "", |pause| Cell::known(&pause.cause)),
            Col::text("TIME TO SAFEPOINT", 0, "", |pause| pause.time_to_safepoint.map(Cell::Length).into()),
            Col::number("GC_ID", 0, "", |pause| pause.gc_id.into()).wide(),
            Col::number("PID", 0, "", pid).wide(),
        ]
    }
}

/// The process; 0 means that no source names it.
fn pid(pause: &JvmPause) -> Cell<'_> {
    (pause.pid != 0).then_some(pause.pid).into()
}
