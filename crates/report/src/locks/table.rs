//! Waits as a table: one row a wait.

use std::io::{self, Write};

use diagnose::{HolderActivity, LockRow};

use super::{LockReport, doing, lock_name, seen_by};
use crate::escape::escape;
use crate::file_ops::reasons;
use crate::quantity::{NONE, or_dash};
use crate::table::{Column, Table};
use crate::{Style, Zone};

const COLUMNS: [Column; 11] = [
    Column::text("START TIME", 12),
    Column::text("END TIME", 12),
    Column::text("LATENCY", 7),
    Column::text("TID", 6),
    Column::text("THREAD", 24),
    Column::text("LOCK", 8),
    Column::text("HOLDER", 24),
    Column::text("WHAT THE HOLDER WAS DOING", 40),
    Column::text("TOPIC", 8),
    Column::text("PARTITION", 0),
    Column::text("SEEN BY", 8),
];
const WIDE: [Column; 6] = [
    Column::number("AHEAD", 0),
    Column::text("PREVIOUS OWNER", 24),
    Column::text("CLASS", 16),
    Column::text("ADDRESS", 14),
    Column::text("HOLDER'S FILE", 40),
    Column::text("REASONS", 0),
];

/// Waits as a table.
pub struct LockTable<W> {
    table: Table<W>,
    zone: Zone,
    wide: bool,
}

impl<W: Write> LockTable<W> {
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

impl<W: Write> LockReport for LockTable<W> {
    fn wait(&mut self, row: &LockRow) -> io::Result<()> {
        let mut cells = vec![
            self.zone.time_of_day(row.start),
            self.zone.time_of_day(row.end),
            format!("{} ms", row.latency().as_millis_rounded()),
            row.tid.to_string(),
            escape(&row.thread).into_owned(),
            escape(&lock_name(row)).into_owned(),
            or_dash(row.holder.as_ref().map(|holder| thread(&holder.thread, holder.tid))),
            or_dash(doing(row)),
            or_dash(row.partition.as_ref().map(|of| escape(&of.topic))),
            or_dash(row.partition.as_ref().map(|of| of.partition)),
            seen_by(row).to_owned(),
        ];
        if self.wide {
            cells.extend(wide_cells(row));
        }
        self.table.row(cells)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.table.finish()
    }
}

/// A thread as it is named and numbered.
fn thread(name: &str, tid: Option<u32>) -> String {
    let name = escape(name);
    tid.map_or_else(|| name.to_string(), |tid| format!("{name} {tid}"))
}

fn wide_cells(row: &LockRow) -> [String; 6] {
    let lock = row.lock.as_ref();
    let (file, spent) = match &row.doing {
        HolderActivity::Op(op, spent) => (escape(&op.file).into_owned(), reasons::all(spent)),
        _ => (NONE.to_owned(), NONE.to_owned()),
    };
    let class = lock.map(|lock| escape(&lock.class)).filter(|class| !class.is_empty());
    [
        row.ahead.to_string(),
        or_dash(row.previous_owner.as_ref().map(|owner| thread(&owner.thread, owner.tid))),
        or_dash(class),
        or_dash(lock.filter(|lock| lock.address != 0).map(|lock| format!("{:#x}", lock.address))),
        file,
        spent,
    ]
}
