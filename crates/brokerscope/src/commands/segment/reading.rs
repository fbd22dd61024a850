//! Reads a segment in another thread. Checking and unpacking batches run in parallel with writing rows. Only a few
//! pieces are in flight, and a piece holds a bounded number of records, however many a batch has. Does not write.

use std::mem;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use broker::segment::{Batch, message_id};
use report::segments::{BatchRow, RecordRow};
use wire::record::Record;

use super::Segment;

/// Maximum number of records in a piece: enough that passing pieces costs nothing compared to filling them.
const MAX_PIECE_RECORDS: usize = 4096;
/// Maximum number of batches that start in a piece.
const MAX_PIECE_BATCHES: usize = 128;
/// Maximum number of pieces in flight.
const MAX_PIECES: usize = 4;

/// Records in the order of the segment, and the batches that start among them. Also messages about unreadable data.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub(super) records: Vec<RecordRow>,
    pub(super) batches: Vec<BatchStart>,
    pub(super) notes: Vec<String>,
}

/// A batch, and the number of records that precede it in its piece.
#[derive(Debug)]
pub(super) struct BatchStart {
    pub(super) batch: BatchRow,
    pub(super) after: usize,
}

impl Piece {
    fn is_full(&self) -> bool {
        self.records.len() >= MAX_PIECE_RECORDS || self.batches.len() >= MAX_PIECE_BATCHES
    }

    fn clear(&mut self) {
        self.records.clear();
        self.batches.clear();
        self.notes.clear();
    }
}

/// The reading end.
pub(super) struct Reading<'a> {
    args: &'a Segment,
    filled: SyncSender<Piece>,
    used: Receiver<Piece>,
    piece: Piece,
    /// Buffer for a batch's decompressed records.
    scratch: Vec<u8>,
}

/// The receiving end.
pub(super) struct Pieces {
    filled: Receiver<Piece>,
    used: Sender<Piece>,
}

/// The receiving end is closed.
struct NoReceiver;

impl Pieces {
    /// Passes every piece to `take`, until the last or an error.
    pub(super) fn each(self, mut take: impl FnMut(&mut Piece) -> anyhow::Result<()>) -> anyhow::Result<()> {
        for mut piece in self.filled {
            take(&mut piece)?;
            piece.clear();
            // The reader may have ended.
            let _ = self.used.send(piece);
        }
        Ok(())
    }
}

impl<'a> Reading<'a> {
    /// Creates both ends.
    pub(super) fn new(args: &'a Segment) -> (Self, Pieces) {
        let (to_fill, filled) = sync_channel(MAX_PIECES);
        let (to_reuse, used) = channel();
        let reading = Self { args, filled: to_fill, used, piece: Piece::default(), scratch: Vec::new() };
        (reading, Pieces { filled, used: to_reuse })
    }

    /// Reads the requested batches, until the receiver is closed.
    pub(super) fn run(mut self, segment: &mut broker::Segment) {
        let batches = match (self.args.offset, self.args.bytes) {
            (Some(offset), Some(bytes)) => segment.batches_in(offset, bytes),
            _ => segment.batches(),
        };
        for batch in batches {
            let read = match batch {
                Ok(batch) => self.batch(&batch),
                Err(damage) => {
                    self.piece.notes.push(damage.to_string());
                    Ok(())
                }
            };
            if read.and_then(|()| self.send_if_full()).is_err() {
                return;
            }
        }
        // If the receiver is closed, nobody misses the last piece.
        let _ = self.send_piece();
    }

    fn batch(&mut self, batch: &Batch) -> Result<(), NoReceiver> {
        let start = BatchStart { batch: self.row(batch), after: self.piece.records.len() };
        self.piece.batches.push(start);
        if self.args.records { self.records_of(batch) } else { Ok(()) }
    }

    fn row(&mut self, batch: &Batch) -> BatchRow {
        let header = &batch.header;
        let message_ids = self.message_ids(batch);
        BatchRow {
            base_offset: header.base_offset,
            last_offset: batch.last_offset(),
            bytes: u64::from(header.length_bytes),
            position: batch.position,
            magic: header.magic,
            crc: header.crc,
            crc_ok: batch.crc_ok,
            codec: header.codec().map_or("unknown", wire::compression::Codec::name),
            producer_id: header.producer_id,
            records: header.records(),
            timestamp_ms: header.max_timestamp_ms,
            control: header.is_control(),
            message_ids,
        }
    }

    fn message_ids(&mut self, batch: &Batch) -> Vec<String> {
        let Some(header) = &self.args.message_id else { return Vec::new() };
        batch.message_ids(header.as_bytes(), &mut self.scratch).unwrap_or_else(|error| {
            self.piece.notes.push(unreadable(batch, error));
            Vec::new()
        })
    }

    fn records_of(&mut self, batch: &Batch) -> Result<(), NoReceiver> {
        let header = self.args.message_id.as_deref().map(str::as_bytes);
        let mut scratch = mem::take(&mut self.scratch);
        let sent = match batch.records(&mut scratch) {
            Ok(records) => self.push_records(batch, records, header),
            Err(error) => {
                self.piece.notes.push(unreadable(batch, error));
                Ok(())
            }
        };
        self.scratch = scratch;
        sent
    }

    fn push_records<'r>(
        &mut self,
        batch: &Batch,
        records: impl Iterator<Item = Result<Record<'r>, wire::Error>>,
        header: Option<&[u8]>,
    ) -> Result<(), NoReceiver> {
        for record in records {
            match record {
                Ok(record) => self.piece.records.push(record_row(&record, header)),
                Err(error) => self.piece.notes.push(unreadable(batch, error)),
            }
            self.send_if_full()?;
        }
        Ok(())
    }

    fn send_if_full(&mut self) -> Result<(), NoReceiver> {
        if self.piece.is_full() { self.send_piece() } else { Ok(()) }
    }

    fn send_piece(&mut self) -> Result<(), NoReceiver> {
        let next = self.used.try_recv().unwrap_or_default();
        self.filled.send(mem::replace(&mut self.piece, next)).map_err(|_| NoReceiver)
    }
}

fn unreadable(batch: &Batch, error: wire::Error) -> String {
    format!("the batch at position {} cannot be read further: {error}", batch.position)
}

fn record_row(record: &Record<'_>, header: Option<&[u8]>) -> RecordRow {
    let id = header.and_then(|name| record.header(name).ok().flatten());
    RecordRow {
        offset: record.offset,
        timestamp_ms: record.timestamp_ms,
        key_bytes: record.key.map(|key| key.len() as u64),
        value_bytes: record.value.map(|value| value.len() as u64),
        message_id: id.map(message_id),
    }
}
