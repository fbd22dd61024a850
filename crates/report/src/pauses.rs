//! Stops of the JVM: collections and safepoints, one row each. Does not say which requests they delayed.

use std::io::{self, Write};

use model::JvmPause;

use crate::escape::escape;
use crate::fields::{CsvRows, Fields};
use crate::quantity::or_dash;
use crate::table::{Column, Table};
use crate::{Style, Zone};

const COLUMNS: [Column; 7] = [
    Column::text("START TIME", 12),
    Column::text("END TIME", 12),
    Column::text("DURATION", 8),
    Column::text("KIND", 9),
    Column::text("OPERATION", 24),
    Column::text("CAUSE", 24),
    Column::text("TIME TO SAFEPOINT", 0),
];
const WIDE: [Column; 2] = [Column::number("GC_ID", 0), Column::number("PID", 0)];

/// An output of stops, one after the other.
pub trait PauseReport {
    /// Writes one stop.
    fn pause(&mut self, pause: &JvmPause) -> io::Result<()>;

    /// Ends the output.
    fn finish(&mut self) -> io::Result<()>;
}

/// Stops as a table.
pub struct PauseTable<W> {
    table: Table<W>,
    zone: Zone,
    wide: bool,
}

impl<W: Write> PauseTable<W> {
    /// A table that looks like this.
    pub fn new(out: W, look: &Style) -> Self {
        let columns = COLUMNS.into_iter().chain(WIDE.into_iter().filter(|_| look.wide)).collect();
        let table = Table::new(out, columns, look.lookahead).coloured(look.colour);
        Self { table, zone: look.zone.clone(), wide: look.wide }
    }
}

impl<W: Write> PauseReport for PauseTable<W> {
    fn pause(&mut self, pause: &JvmPause) -> io::Result<()> {
        let named = |text: &str| or_dash(Some(escape(text)).filter(|text| !text.is_empty()));
        let mut cells = vec![
            self.zone.time_of_day(pause.start),
            self.zone.time_of_day(pause.end),
            pause.length().to_string(),
            pause.kind.as_str().to_owned(),
            named(&pause.operation),
            named(&pause.cause),
            or_dash(pause.time_to_safepoint),
        ];
        if self.wide {
            cells.extend([or_dash(pause.gc_id), or_dash(Some(pause.pid).filter(|&pid| pid != 0))]);
        }
        self.table.row(cells)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.table.finish()
    }
}

/// Stops as JSON lines.
pub struct PauseJson<W>(pub W);

impl<W: Write> PauseReport for PauseJson<W> {
    fn pause(&mut self, pause: &JvmPause) -> io::Result<()> {
        fields(pause).write_json(&mut self.0)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Stops as CSV.
pub struct PauseCsv<W>(CsvRows<W>);

impl<W: Write> PauseCsv<W> {
    /// CSV to this output.
    pub fn new(out: W) -> Self {
        Self(CsvRows::new(out, || fields(&nothing())))
    }
}

impl<W: Write> PauseReport for PauseCsv<W> {
    fn pause(&mut self, pause: &JvmPause) -> io::Result<()> {
        self.0.row(&fields(pause))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.finish()
    }
}

/// A stop as programs read it; times are UTC nanoseconds.
fn fields(pause: &JvmPause) -> Fields {
    let named = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Fields(vec![
        ("type", "jvm-pause".into()),
        ("start_ns", pause.start.0.into()),
        ("end_ns", pause.end.0.into()),
        ("duration_ns", pause.length().0.into()),
        ("pid", (pause.pid != 0).then_some(pause.pid).into()),
        ("kind", pause.kind.as_str().into()),
        ("operation", named(&pause.operation).into()),
        ("cause", named(&pause.cause).into()),
        ("gc_id", pause.gc_id.into()),
        ("time_to_safepoint_ns", pause.time_to_safepoint.map(|reach| reach.0).into()),
    ])
}

/// A stop that was none, for the names of its fields.
fn nothing() -> JvmPause {
    JvmPause {
        start: model::Nanos::ZERO,
        end: model::Nanos::ZERO,
        pid: 0,
        kind: model::JvmPauseKind::Gc,
        operation: "".into(),
        cause: "".into(),
        gc_id: None,
        time_to_safepoint: None,
    }
}
