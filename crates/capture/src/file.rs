//! Packets from capture files: pcap (µs and ns, both byte orders) and pcapng, from a file or a pipe.
//!
//! A regular file is mapped and its packets are slices of the map; anything else is read through one
//! buffer. It does not look inside packets.

mod map;
mod pcap;
mod pcapng;
mod source;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::Error;
use crate::packet::{LinkType, Packet};
use source::Source;

/// The largest record believed: Wireshark's own limit on a pcapng block, and far above what any
/// interface hands over at once (BIG TCP: 512 KiB).
const RECORD_LIMIT: usize = 16 << 20;

/// A capture being read, packet by packet.
pub struct PacketFile {
    name: String,
    source: Source,
    format: Format,
    notes: Notes,
}

enum Format {
    Pcap(pcap::Layout),
    Pcapng(pcapng::Section),
}

/// What was odd about a capture that could be read nevertheless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The file ended inside a record: as it does when the capturing program was killed.
    pub cut_records: u64,
    /// A record made no sense (a length or an interface that cannot be); for pcap and for lengths
    /// nothing after it can be read.
    pub damaged_records: u64,
}

/// Where one record's packet lies in the bytes the source has just handed over.
struct Found {
    time_ns: i64,
    link: LinkType,
    original_len: u32,
    /// Bytes of the whole record.
    record_len: usize,
    /// Where the packet begins in the record.
    at: usize,
    /// Bytes captured.
    len: usize,
}

/// What the next record turned out to be.
enum Record {
    Packet(Found),
    /// Nothing to hand over; so many bytes to pass over.
    Skip(usize),
    /// The capture ended where a record would begin.
    End,
    /// It ended inside a record.
    Cut,
    /// Nothing from here on can be understood.
    Damaged,
}

impl PacketFile {
    /// Opens a capture file, or whatever else the path names (a named pipe, `/dev/stdin`).
    ///
    /// # Errors
    /// [`Error::Read`] if it cannot be opened, [`Error::NotACapture`] if it is something else.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let read_error = |source| Error::Read { name: name.clone(), source };
        let file = File::open(path).map_err(read_error)?;
        let metadata = file.metadata().map_err(read_error)?;
        let source = if metadata.is_file() {
            Source::mapped(file, metadata.len())
        } else {
            Source::streamed(Box::new(file))
        };
        Self::start(name, source)
    }

    /// Reads a capture from a pipe, endless or not.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_reader(reader: Box<dyn Read + Send>) -> Result<Self, Error> {
        Self::start("-".to_owned(), Source::streamed(reader))
    }

    fn start(name: String, mut source: Source) -> Result<Self, Error> {
        let magic = match source.peek(4) {
            Ok(bytes) => bytes.first_chunk::<4>().copied(),
            Err(source) => return Err(Error::Read { name, source }),
        };
        let format = match magic {
            None => Err("it is shorter than any header"),
            Some(pcapng::BLOCK_SECTION) => Ok(Format::Pcapng(pcapng::Section::default())),
            Some(magic) => match source.take(pcap::HEADER_BYTES) {
                Ok(header) => pcap::Layout::parse(magic, header).map(Format::Pcap),
                Err(source) => return Err(Error::Read { name, source }),
            },
        };
        let format = match format {
            Ok(format) => format,
            Err(why) => return Err(Error::NotACapture { name, why }),
        };
        let mut file = Self { name, source, format, notes: Notes::default() };
        file.check_first_section()?;
        Ok(file)
    }

    /// A pcapng file must open with a whole section header: four magic bytes alone prove little.
    fn check_first_section(&mut self) -> Result<(), Error> {
        if !matches!(self.format, Format::Pcapng(_)) {
            return Ok(());
        }
        match self.record()? {
            Record::Skip(len) => self.pass(len),
            _ => Err(Error::NotACapture {
                name: self.name.clone(),
                why: "its first block is no section header",
            }),
        }
    }

    /// The next packet, or nothing at the end. Blocks where the input is a pipe with nothing in it.
    ///
    /// A cut or damaged record ends the capture; [`Self::notes`] then counts it.
    ///
    /// # Errors
    /// [`Error::Read`] if the system cannot read on.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        let found = loop {
            match self.record()? {
                Record::Packet(found) => break found,
                Record::Skip(len) => self.pass(len)?,
                Record::End => return Ok(None),
                Record::Cut => {
                    self.notes.cut_records = 1;
                    return Ok(None);
                }
                Record::Damaged => {
                    self.notes.damaged_records += 1;
                    self.source.end();
                    return Ok(None);
                }
            }
        };
        let Found { time_ns, link, original_len, record_len, at, len } = found;
        let record = match self.source.take(record_len) {
            Ok(record) => record,
            Err(source) => return Err(Error::Read { name: self.name.clone(), source }),
        };
        let bytes = record.get(at..).and_then(|rest| rest.get(..len)).unwrap_or_default();
        Ok(Some(Packet { time_ns, link, original_len, bytes }))
    }

    /// What was odd so far.
    pub fn notes(&self) -> Notes {
        self.notes
    }

    /// The file's name, or `-`.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn record(&mut self) -> Result<Record, Error> {
        let record = match &mut self.format {
            Format::Pcap(layout) => layout.record(&mut self.source),
            Format::Pcapng(section) => section.record(&mut self.source, &mut self.notes),
        };
        record.map_err(|source| Error::Read { name: self.name.clone(), source })
    }

    fn pass(&mut self, len: usize) -> Result<(), Error> {
        match self.source.take(len) {
            Ok(_) => Ok(()),
            Err(source) => Err(Error::Read { name: self.name.clone(), source }),
        }
    }
}

#[cfg(test)]
mod tests;
