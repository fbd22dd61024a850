//! Calls as a table: one row a call.

use std::io::{self, Write};

use diagnose::Call;

use super::{KernelReport, told};
use crate::escape::escape;
use crate::quantity::or_dash;
use crate::table::{Column, Table};
use crate::{Style, Zone};

const COLUMNS: [Column; 4] = [
    Column::text("START TIME", 12),
    Column::text("END TIME", 12),
    Column::text("LATENCY", 7),
    Column::text("FUNCTION", 31),
];
const WIDE: [Column; 6] = [
    Column::text("DEVICE", 0),
    Column::text("THREAD", 15),
    Column::text("TID", 6),
    Column::text("FILE", 32),
    Column::text("SEEN_BY", 11),
    Column::text("DETAIL", 0),
];

/// Calls as a table.
pub struct KernelTable<W> {
    table: Table<W>,
    zone: Zone,
    wide: bool,
}

impl<W: Write> KernelTable<W> {
    /// A table that looks like this.
    pub fn new(out: W, look: &Style) -> Self {
        let mut columns = COLUMNS.to_vec();
        if look.wide {
            columns.extend(WIDE);
        }
        let table = Table::new(out, columns, look.lookahead).coloured(look.colour);
        Self { table, zone: look.zone.clone(), wide: look.wide }
    }
}

impl<W: Write> KernelReport for KernelTable<W> {
    fn call(&mut self, call: &Call) -> io::Result<()> {
        let mut cells = vec![
            self.zone.time_of_day(call.start),
            self.zone.time_of_day(call.end),
            format!("{} ms", call.latency().as_millis_rounded()),
            escape(&call.function).into_owned(),
        ];
        if self.wide {
            cells.extend([
                or_dash(call.device.as_ref().map(|device| escape(&device.to_string()).into_owned())),
                or_dash(call.thread.as_ref().map(|(_, name)| escape(name))),
                or_dash(call.thread.as_ref().map(|(tid, _)| tid)),
                or_dash(call.file.as_deref().map(escape)),
                call.seen_by.as_str().to_owned(),
                or_dash(told(&call.detail).map(|detail| escape(&detail).into_owned())),
            ]);
        }
        self.table.row(cells)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.table.finish()
    }
}
