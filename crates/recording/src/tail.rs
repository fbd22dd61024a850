//! Reads a recording while it is written: its events in the order of their times, as soon as no earlier event can come.
//! Does not wait: the caller decides how often to poll.
//!
//! The recorder flushes every table at least twice a second (`Writer::tick`), so later events are not expected. An
//! event that is late all the same is returned when it comes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arrow_array::RecordBatch;
use model::{Event, Nanos, Table};

use crate::events::Decoder;
use crate::manifest::Manifest;
use crate::notes::Notes;
use crate::parquet_part::{EVENTS_AT_ONCE, ParquetFile, ParquetPart, Rows};
use crate::part::{self, Part};
use crate::stream::GrowingPart;
use crate::table::{folder, projection};
use crate::{Error, Recording};

/// How much later than others of the same time an event may be written: half a second in its table's buffer, 0.2 s in
/// its source, and as much again for a recorder that gets no CPU.
const WRITTEN_WITHIN: Nanos = Nanos::from_millis(1_500);

/// A recording that is being read as it grows.
pub struct Tail {
    dir: PathBuf,
    lanes: Vec<Lane>,
    /// Events read and not yet returned: by time, and at the same time in the order in which they were read.
    pending: BTreeMap<(Nanos, u64), Event>,
    /// The time of the newest event that was read.
    newest: Nanos,
    /// Number of events read.
    count: u64,
    /// Whether the recorder had ended before the tables were last read.
    finished: bool,
    /// Modification time and length of the manifest when it was last read.
    manifest: Option<(SystemTime, u64)>,
    notes: Arc<Notes>,
}

impl Tail {
    /// Starts at the beginning of the recording.
    pub fn start(recording: &Recording) -> Self {
        let dir = recording.dir();
        let notes = Arc::new(Notes::on(dir));
        Self {
            dir: dir.to_owned(),
            lanes: Table::ALL.into_iter().map(|table| Lane::of(table, dir, &notes)).collect(),
            pending: BTreeMap::new(),
            newest: Nanos::MIN,
            count: 0,
            finished: false,
            manifest: None,
            notes,
        }
    }

    /// The next event; `None` if an earlier one may still come, or if all events of an ended recording were returned
    /// ([`Tail::is_finished`]).
    ///
    /// # Errors
    /// A part is damaged. Further calls return the events of the other parts.
    pub fn next_event(&mut self) -> Result<Option<Event>, Error> {
        if let Some(event) = self.pop_certain() {
            return Ok(Some(event));
        }
        // Checked first: nothing is written after the manifest says that the recorder has ended.
        self.finished = self.finished || self.has_ended();
        self.lanes.iter_mut().for_each(|lane| lane.dry_at = None);
        while self.read()? {
            if let Some(event) = self.pop_certain() {
                return Ok(Some(event));
            }
        }
        Ok(self.pop_certain())
    }

    /// Whether the recorder has ended and all events were returned.
    pub fn is_finished(&self) -> bool {
        self.finished
            && self.pending.is_empty()
            && self.lanes.iter().all(|lane| lane.known_until == Nanos::MAX)
    }

    /// Notes on the recording, one line each.
    pub fn notes(&self) -> Vec<String> {
        self.notes.all()
    }

    /// Whether the manifest says that the recorder has ended. An unchanged manifest is not read again.
    fn has_ended(&mut self) -> bool {
        let found = Manifest::version_in(&self.dir);
        if found.is_some() && found == self.manifest {
            return false;
        }
        self.manifest = found;
        Manifest::read(&self.dir).is_ok_and(|manifest| manifest.ended_ns.is_some())
    }

    /// The next event before which no other can come.
    fn pop_certain(&mut self) -> Option<Event> {
        let known_until = self.lanes.iter().map(|lane| lane.known_until).min()?;
        let next = self.pending.first_entry().filter(|next| next.key().0 <= known_until)?;
        Some(next.remove())
    }

    /// Reads more of the table that is furthest behind; returns whether to go on.
    fn read(&mut self) -> Result<bool, Error> {
        let newest = self.newest;
        let behind = self.lanes.iter_mut().filter(|lane| lane.may_have_more(newest));
        let Some(lane) = behind.min_by_key(|lane| lane.known_until) else { return Ok(false) };
        let events = lane.read(self.finished, newest, newest - WRITTEN_WITHIN)?;
        for event in events {
            self.newest = self.newest.max(event.time());
            self.pending.insert((event.time(), self.count), event);
            self.count += 1;
        }
        Ok(true)
    }
}

/// A table and how far it was read.
struct Lane {
    folder: PathBuf,
    /// The number of the part that is being read, or comes next.
    number: u32,
    open: Option<Open>,
    /// All events up to here were read; [`Nanos::MAX`] if no more can come.
    known_until: Nanos,
    /// The time of the newest event of all tables when this one had no more.
    dry_at: Option<Nanos>,
    decoder: Decoder,
}

/// A part that is being read.
enum Open {
    /// Still written, as far as is known.
    Growing(GrowingPart),
    /// No longer written.
    Closed(GrowingPart),
    Whole(PathBuf, ParquetPart),
}

impl Lane {
    /// A table of the recording at `dir`, from its beginning.
    fn of(table: Table, dir: &Path, notes: &Arc<Notes>) -> Self {
        Self {
            folder: folder(table, dir),
            number: 1,
            open: None,
            known_until: Nanos::MIN,
            dry_at: None,
            decoder: Decoder::new(table, notes),
        }
    }

    /// Whether the table may have more events, given the newest one of all tables.
    fn may_have_more(&self, newest: Nanos) -> bool {
        self.known_until < Nanos::MAX && self.dry_at.is_none_or(|at| at < newest)
    }

    /// Reads the next events.
    /// If there are none now, all events up to `certain` have been read; if the recording has `ended`, no more will
    /// come.
    fn read(&mut self, ended: bool, newest: Nanos, certain: Nanos) -> Result<Vec<Event>, Error> {
        // A part ends with its first error.
        self.next_events(ended, newest, certain).inspect_err(|_| self.next_part())
    }

    fn next_events(&mut self, ended: bool, newest: Nanos, certain: Nanos) -> Result<Vec<Event>, Error> {
        while let Some((path, batch)) = self.next_batch(ended)? {
            let (events, failed) = self.decoder.decode(&path, &batch);
            if let Some(error) = failed {
                return Err(error);
            }
            if let Some(last) = events.iter().map(Event::time).max() {
                self.known_until = self.known_until.max(last);
                self.dry_at = None;
                return Ok(events);
            }
        }
        self.known_until = if ended { Nanos::MAX } else { self.known_until.max(certain) };
        self.dry_at = Some(newest);
        Ok(Vec::new())
    }

    fn next_batch(&mut self, ended: bool) -> Result<Option<(PathBuf, RecordBatch)>, Error> {
        loop {
            let Some(open) = &mut self.open else {
                self.open = self.open()?;
                if self.open.is_none() {
                    return Ok(None);
                }
                continue;
            };
            let next = match open {
                Open::Growing(part) | Open::Closed(part) => {
                    part.next_batch().map(|batch| batch.map(|batch| (part.path.clone(), batch)))
                }
                Open::Whole(path, part) => {
                    part.next().transpose().map(|batch| batch.map(|batch| (path.clone(), batch)))
                }
            };
            if let Some(batch) = next? {
                return Ok(Some(batch));
            }
            if !self.go_on(ended) {
                return Ok(None);
            }
        }
    }

    /// Decides what to read when a part has no more for now; returns whether there is anything.
    fn go_on(&mut self, ended: bool) -> bool {
        match self.open.take() {
            Some(Open::Growing(part)) if ended || self.is_closed() => {
                // Read it once more: its last rows may have been written since.
                self.open = Some(Open::Closed(part));
                true
            }
            Some(Open::Growing(part)) => {
                self.open = Some(Open::Growing(part));
                false
            }
            _ => {
                self.next_part();
                true
            }
        }
    }

    fn next_part(&mut self) {
        self.open = None;
        self.number = self.number.saturating_add(1);
        self.decoder.next_part();
    }

    /// Whether the writer has closed this part.
    /// It then started another part, converted this one to Parquet, or removed it.
    fn is_closed(&self) -> bool {
        let (this, later) = (self.part(self.number), self.part(self.number.saturating_add(1)));
        !this.stream().exists()
            || [this.parquet(), later.stream(), later.parquet()].iter().any(|path| path.exists())
    }

    /// The next part, if there is any; the oldest may have been removed.
    fn open(&mut self) -> Result<Option<Open>, Error> {
        let next = part::list(&self.folder)?.into_iter().find(|part| part.number() >= self.number);
        let Some(part) = next else { return Ok(None) };
        self.number = part.number();
        let (stream, parquet) = (part.stream(), part.parquet());
        // The stream first: it is removed once its Parquet exists.
        if let Ok(growing) = GrowingPart::open(&stream) {
            return Ok(Some(Open::Growing(growing)));
        }
        if !parquet.exists() {
            return Ok(None);
        }
        let whole =
            ParquetFile::open(&parquet)?.read(&projection(self.decoder.table), Rows::All, EVENTS_AT_ONCE)?;
        Ok(Some(Open::Whole(parquet, whole)))
    }

    fn part(&self, number: u32) -> Part {
        Part::new(self.folder.clone(), number)
    }
}
