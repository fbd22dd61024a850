//! Requests as a table: one row a message id, or a partition where no message id is known.

use std::io::{self, Write};

use model::{Partition, Request};

use super::{RequestReport, RequestSummary};
use crate::escape::escape;
use crate::numbers::{NONE, millis, or_none};
use crate::table::{Column, Table};
use crate::{Look, Zone};

const COLUMNS: [Column; 6] = [
    Column::text("ARRIVAL TIME", 12),
    Column::text("END TIME", 12),
    Column::text("LATENCY(ms)", 0),
    Column::text("MESSAGE_ID", 0),
    Column::text("TOPIC", 12),
    Column::text("PARTITION", 0),
];

const WIDE_COLUMNS: [Column; 15] = [
    Column::text("API", 8),
    Column::number("VERSION", 0),
    Column::number("ACKS", 0),
    Column::number("BYTES", 7),
    Column::number("RECORDS", 0),
    Column::text("BATCH_CRC", 10),
    Column::number("BASE_OFFSET", 0),
    Column::number("ERROR_CODE", 0),
    Column::number("HEAD_OF_LINE(ms)", 0),
    Column::number("THROTTLE(ms)", 0),
    Column::text("CLIENT", 21),
    Column::text("BROKER", 21),
    Column::number("CORRELATION", 0),
    Column::text("CLIENT_ID", 12),
    Column::text("ERROR", 0),
];

/// Requests as a table.
pub struct RequestTable<W> {
    table: Table<W>,
    zone: Zone,
    wide: bool,
}

impl<W: Write> RequestTable<W> {
    /// A table that looks like this.
    pub fn new(out: W, look: &Look) -> Self {
        let mut columns = COLUMNS.to_vec();
        if look.wide {
            columns.extend(WIDE_COLUMNS);
        }
        let table = Table::new(out, columns, look.lookahead).coloured(look.colour);
        Self { table, zone: look.zone.clone(), wide: look.wide }
    }

    fn row(&mut self, request: &Request, partition: Option<&Partition>, id: Option<&str>) -> io::Result<()> {
        let mut cells = vec![
            self.zone.time_of_day(request.arrival),
            or_none(request.end.map(|end| self.zone.time_of_day(end))),
            or_none(request.latency().map(millis)),
            or_none(id.map(escape)),
            partition.map_or_else(|| NONE.to_owned(), topic_shown),
            or_none(partition.map(|partition| partition.partition)),
        ];
        if self.wide {
            cells.extend(partition_cells(request, partition));
            cells.extend(connection_cells(request));
        }
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

fn partition_cells(request: &Request, partition: Option<&Partition>) -> [String; 8] {
    let crc =
        partition.and_then(|partition| partition.batches.first()).map(|batch| format!("{:#010x}", batch.crc));
    [
        escape(request.api).into_owned(),
        request.api_version.to_string(),
        or_none(request.acks),
        or_none(partition.map(|partition| partition.bytes)),
        or_none(partition.and_then(|partition| partition.records)),
        or_none(crc),
        or_none(partition.and_then(|partition| partition.base_offset)),
        or_none(partition.and_then(|partition| partition.error_code)),
    ]
}

fn connection_cells(request: &Request) -> [String; 7] {
    [
        or_none(request.head_of_line.map(millis)),
        or_none(request.throttle_ms),
        request.client.to_string(),
        request.broker.to_string(),
        request.correlation_id.to_string(),
        or_none(request.client_id.as_deref().map(escape)),
        or_none(request.error.as_deref().map(escape)),
    ]
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
