//! Requests as a table: one row a message id, or a partition where no message id is known.

use std::io::{self, Write};

use model::{Partition, Request};

use super::{RequestReport, RequestSummary};
use crate::error_code;
use crate::escape::escape;
use crate::quantity::{NONE, millis, or_dash};
use crate::table::{Column, Table};
use crate::{Style, Zone};

const COLUMNS: [Column; 6] = [
    Column::text("ARRIVAL TIME", 12),
    Column::text("END TIME", 12),
    Column::text("LATENCY(ms)", 0),
    Column::text("MESSAGE_ID", 0),
    Column::text("TOPIC", 12),
    Column::text("PARTITION", 0),
];

/// A column on the right, and what it shows.
struct Extra {
    column: Column,
    cell: fn(&Request, Option<&Partition>) -> String,
}

const EXTRA: [Extra; 16] = [
    Extra { column: Column::text("API", 8), cell: |request, _| escape(request.api).into_owned() },
    Extra { column: Column::number("VERSION", 0), cell: |request, _| request.api_version.to_string() },
    Extra { column: Column::number("ACKS", 0), cell: |request, _| or_dash(request.acks) },
    Extra { column: Column::number("BYTES", 7), cell: |_, partition| or_dash(partition.map(|of| of.bytes)) },
    Extra {
        column: Column::number("RECORDS", 0),
        cell: |_, partition| or_dash(partition.and_then(|of| of.records)),
    },
    Extra { column: Column::text("BATCH_CRC", 10), cell: |_, partition| or_dash(partition.and_then(crc)) },
    Extra {
        column: Column::number("BASE_OFFSET", 0),
        cell: |_, partition| or_dash(partition.and_then(|of| of.base_offset)),
    },
    Extra { column: Column::number("ERROR_CODE", 0), cell: |request, of| or_dash(error_code(request, of)) },
    Extra {
        column: Column::number("HEAD_OF_LINE(ms)", 0),
        cell: |request, _| or_dash(request.head_of_line.map(millis)),
    },
    Extra { column: Column::number("THROTTLE(ms)", 0), cell: |request, _| or_dash(request.throttle_ms) },
    Extra { column: Column::text("CLIENT", 21), cell: |request, _| request.client.to_string() },
    Extra { column: Column::text("BROKER", 21), cell: |request, _| request.broker.to_string() },
    Extra { column: Column::number("CORRELATION", 0), cell: |request, _| request.correlation_id.to_string() },
    Extra {
        column: Column::text("CLIENT_ID", 12),
        cell: |request, _| or_dash(request.client_id.as_deref().map(escape)),
    },
    Extra {
        column: Column::text("ERROR", 0),
        cell: |request, _| or_dash(request.error.as_deref().map(escape)),
    },
    Extra {
        column: Column::text("ERROR_NAME", 0),
        cell: |request, of| or_dash(error_code(request, of).filter(|&code| code != 0).map(error_name)),
    },
];

/// Requests as a table.
pub struct RequestTable<W> {
    table: Table<W>,
    zone: Zone,
    extra: Vec<&'static Extra>,
}

impl<W: Write> RequestTable<W> {
    /// A table that looks like this.
    pub fn new(out: W, look: &Style) -> Self {
        Self::with(out, look, &[])
    }

    /// A table that looks like this and, where it is not wide and has them all, has these of the wide one's
    /// columns.
    pub fn with(out: W, look: &Style, headings: &[&str]) -> Self {
        let named = |heading: &&str| EXTRA.iter().find(|extra| extra.column.heading() == *heading);
        let extra = if look.wide {
            EXTRA.iter().collect()
        } else {
            headings.iter().filter_map(named).collect::<Vec<_>>()
        };
        let columns = COLUMNS.into_iter().chain(extra.iter().map(|extra| extra.column)).collect();
        let table = Table::new(out, columns, look.lookahead).coloured(look.colour);
        Self { table, zone: look.zone.clone(), extra }
    }

    fn row(&mut self, request: &Request, partition: Option<&Partition>, id: Option<&str>) -> io::Result<()> {
        let mut cells = vec![
            self.zone.time_of_day(request.arrival),
            or_dash(request.end.map(|end| self.zone.time_of_day(end))),
            or_dash(request.latency().map(millis)),
            or_dash(id.map(escape)),
            partition.map_or_else(|| NONE.to_owned(), topic_shown),
            or_dash(partition.map(|partition| partition.partition)),
        ];
        cells.extend(self.extra.iter().map(|extra| (extra.cell)(request, partition)));
        self.table.row(cells)
    }
}

/// The topic's name; where only its id is known, that, marked by a character no topic's name can have.
pub(crate) fn topic_shown(partition: &Partition) -> String {
    match (&partition.topic, partition.topic_id) {
        (Some(topic), _) => escape(topic).into_owned(),
        (None, Some(id)) => format!("id:{id}"),
        (None, None) => NONE.to_owned(),
    }
}

fn crc(partition: &Partition) -> Option<String> {
    partition.batches.first().map(|batch| format!("{:#010x}", batch.crc))
}

fn error_name(code: i16) -> String {
    error_code::name(code).map_or_else(|| code.to_string(), str::to_owned)
}

/// The partition's error code; where it has none or none worth telling, the whole response's.
fn error_code(request: &Request, partition: Option<&Partition>) -> Option<i16> {
    let own = partition.and_then(|partition| partition.error_code);
    own.filter(|&code| code != 0)
        .or(request.error_code.filter(|&code| code != 0))
        .or(own)
        .or(request.error_code)
}

impl<W: Write> RequestReport for RequestTable<W> {
    fn request(&mut self, request: &Request) -> io::Result<()> {
        if request.partitions.is_empty() {
            return self.row(request, None, None);
        }
        for partition in &request.partitions {
            if partition.message_ids.is_empty() {
                self.row(request, Some(partition), None)?;
            }
            for id in &partition.message_ids {
                self.row(request, Some(partition), Some(id))?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, _summary: &RequestSummary) -> io::Result<()> {
        self.table.finish()
    }
}
