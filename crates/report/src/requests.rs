//! Requests as seen on the wire: one by one, the slowest, or summed up in an [`overview`].

pub mod overview;
mod summary;

use std::io::{self, Write};

use model::{Nanos, Partition, Request};

use crate::error_code;
use crate::quantity::NONE;
use crate::rows::{Cell, Column, Format, Report, Writer};
use crate::slowest::Slowest;

pub use summary::RequestSummary;

/// A request, one of its partitions and one of that partition's message ids.
#[derive(Clone, Copy, Debug)]
pub struct RequestRow<'a> {
    /// The request.
    pub request: &'a Request,
    /// The partition; `None` for a request without partitions, and in JSON.
    pub partition: Option<&'a Partition>,
    /// The message id; `None` if unknown.
    pub message_id: Option<&'a str>,
}

impl<'a> RequestRow<'a> {
    /// The request as a whole.
    pub fn of(request: &'a Request) -> Self {
        Self { request, partition: None, message_id: None }
    }

    /// The partition's error code; if it has none or 0, the whole response's.
    fn error_code(&self) -> Option<i16> {
        let own = self.partition.and_then(|partition| partition.error_code);
        let whole = self.request.error_code;
        own.filter(|&code| code != 0).or(whole.filter(|&code| code != 0)).or(own).or(whole)
    }
}

/// Requests.
/// Tables have one row per message id, or per partition if none is known; CSV one row per partition, with the
/// partition's `error_code`; JSON one object per request.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// Headings of wide columns that tables always show.
    pub also: Vec<&'static str>,
}

type Col = Column<Requests>;

impl Report for Requests {
    type Row<'a> = RequestRow<'a>;
    const TYPE: &'static str = "request";

    fn columns(&self) -> Vec<Col> {
        let mut columns = vec![
            Col::row(|row| Some(row.request)).not_in_csv(),
            Col::row(|row| Some(row.request)).not_in_json().rename("error_code", "response_error_code"),
            Col::row(|row| row.partition).not_in_json(),
            Col::text("ARRIVAL TIME", 12, "", |row| Cell::Time(row.request.arrival)),
            Col::text("END TIME", 12, "", |row| row.request.end.map(Cell::Time).into()),
            Col::text("LATENCY(ms)", 0, "", |row| row.request.latency().map(Cell::BareMillis).into()),
            Col::text("MESSAGE_ID", 0, "", |row| row.message_id.into()),
            Col::text("TOPIC", 12, "", |row| topic_name(row.partition).into()),
            Col::text("PARTITION", 0, "", |row| row.partition.map(|of| of.partition).into()),
        ];
        columns.extend(wide_columns().map(|column| {
            // Columns of `also` keep its order.
            match self.also.iter().position(|heading| *heading == column.heading()) {
                Some(place) => column.always(1 + place as u8),
                None => column,
            }
        }));
        columns
    }
}

fn wide_columns() -> [Col; 16] {
    [
        Col::text("API", 8, "", |row| row.request.api.into()),
        Col::number("VERSION", 0, "", |row| row.request.api_version.into()),
        Col::number("ACKS", 0, "", |row| row.request.acks.into()),
        Col::number("BYTES", 7, "", |row| row.partition.map(|of| of.bytes).into()),
        Col::number("RECORDS", 0, "", |row| row.partition.and_then(|of| of.records).into()),
        Col::text("BATCH_CRC", 10, "", |row| {
            row.partition.and_then(Partition::first_batch_crc).map(|crc| Cell::Hex(crc.into())).into()
        }),
        Col::number("BASE_OFFSET", 0, "", |row| row.partition.and_then(|of| of.base_offset).into()),
        Col::number("ERROR_CODE", 0, "", |row| row.error_code().into()),
        Col::number("HEAD_OF_LINE(ms)", 0, "", |row| row.request.head_of_line.map(Cell::BareMillis).into()),
        Col::number("THROTTLE(ms)", 0, "", |row| row.request.throttle_ms.into()),
        Col::text("CLIENT", 21, "", |row| Cell::display(row.request.client)),
        Col::text("BROKER", 21, "", |row| Cell::display(row.request.broker)),
        Col::number("CORRELATION", 0, "", |row| row.request.correlation_id.into()),
        Col::text("CLIENT_ID", 12, "", |row| row.request.client_id.as_deref().into()),
        Col::text("ERROR", 0, "", |row| row.request.error.as_deref().into()),
        Col::text("ERROR_NAME", 0, "", |row| {
            let code = row.error_code().filter(|&code| code != 0);
            code.map(|code| error_code::name(code).map_or_else(|| Cell::from(code), Cell::from)).into()
        }),
    ]
    .map(Col::wide)
}

/// The topic's name, or its id if only that is known. A character that no topic name can contain marks an id.
pub(crate) fn topic_name(partition: Option<&Partition>) -> String {
    match partition.map(|of| (&of.topic, of.topic_id)) {
        Some((Some(topic), _)) => topic.to_string(),
        Some((None, Some(id))) => format!("id:{id}"),
        Some((None, None)) | None => NONE.to_owned(),
    }
}

/// Requests in any format.
pub struct RequestWriter<W: Write>(Writer<Requests, W>);

impl<W: Write> RequestWriter<W> {
    /// Creates a writer to this output; `also` names wide columns that every table shows.
    pub fn new(out: W, also: Vec<&'static str>, format: &Format) -> Self {
        Self(Writer::new(out, &Requests { also }, format))
    }

    /// Writes one request.
    pub fn request(&mut self, request: &Request) -> io::Result<()> {
        let whole = RequestRow::of(request);
        if self.0.is_json() || request.partitions.is_empty() {
            return self.0.row(&whole);
        }
        for partition in &request.partitions {
            let row = RequestRow { partition: Some(partition), ..whole };
            if !self.0.is_table() || partition.message_ids.is_empty() {
                self.0.row(&row)?;
                continue;
            }
            for id in &partition.message_ids {
                self.0.row(&RequestRow { message_id: Some(id), ..row })?;
            }
        }
        Ok(())
    }

    /// Ends the output.
    /// Only JSON has a place for the summary; for other formats the caller shows its sentences elsewhere.
    pub fn finish(&mut self, summary: &RequestSummary) -> io::Result<()> {
        self.0.summary(summary)?;
        self.0.finish()
    }
}

/// The slowest requests of an input, slowest first.
/// Holds only the requested number, however long the input is.
pub struct TopRequests<W: Write> {
    to: RequestWriter<W>,
    less_waits: bool,
    slowest: Slowest<Request>,
    unranked: u64,
}

impl<W: Write> TopRequests<W> {
    /// Passes the slowest `max` requests to this output.
    pub fn new(max: usize, to: RequestWriter<W>) -> Self {
        Self { to, less_waits: false, slowest: Slowest::new(max), unranked: 0 }
    }

    /// Sets whether to rank without the time for which fetches waited for data.
    #[must_use]
    pub fn less_waits(self, less_waits: bool) -> Self {
        Self { less_waits, ..self }
    }

    /// Number of requests held, which will be shown.
    pub fn count(&self) -> u64 {
        self.slowest.count()
    }

    /// Number of requests without a latency: no response is due, or none was seen.
    pub fn unranked(&self) -> u64 {
        self.unranked
    }

    /// Takes a request. Copies it only if it is among the slowest so far.
    pub fn request(&mut self, request: &Request) {
        let latency: Option<Nanos> =
            if self.less_waits { request.latency_less_wait() } else { request.latency() };
        match latency {
            Some(latency) => self.slowest.offer(latency, || request.clone()),
            None => self.unranked += 1,
        }
    }

    /// Writes the requests, and ends the output.
    pub fn finish(mut self, summary: &RequestSummary) -> io::Result<()> {
        for request in self.slowest.take() {
            self.to.request(&request)?;
        }
        self.to.finish(summary)
    }
}
