//! Packets from capture files: pcap (µs and ns, both byte orders) and pcapng, from a file or a pipe, plain or
//! compressed.
//!
//! Everything is read through one buffer, and packets are slices of it. It does not look inside packets.
//! Fuzzed by: pcap, pcapng.

mod packing;
mod pcap;
mod pcapng;
mod source;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::error::Error;
use crate::packet::{LinkType, Packet};
use packing::Packing;
use source::{FileReader, Source};

/// The largest record accepted: Wireshark's own limit for a pcapng block, and far above what any interface delivers at
/// once (BIG TCP: 512 KiB).
const RECORD_LIMIT: usize = 16 << 20;

/// A capture being read, packet by packet.
pub struct PacketFile {
    name: String,
    source: Source,
    /// Whether the source is a decompressed file.
    packed: bool,
    format: Format,
    notes: Notes,
    /// The next packet, if it has been peeked at.
    ahead: Option<PacketPlace>,
}

enum Format {
    Pcap(pcap::Layout),
    Pcapng(pcapng::Section),
}

/// Anomalies of a capture that could be read nevertheless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The file is empty, like one that tcpdump has only just started.
    /// Only reported for one among several: alone, it is not a capture.
    pub is_empty: bool,
    /// The file ended inside a record, or its compressed stream ended early. This happens when the capturing program is
    /// killed.
    pub cut_records: u64,
    /// A pcapng record was invalid and was left out. For example, its packet is longer than its block, or its interface
    /// was never described.
    pub damaged_records: u64,
}

/// The position of a record's packet in the bytes that the source just returned.
struct PacketPlace {
    time_ns: i64,
    link: LinkType,
    original_len: u32,
    /// Bytes of the whole record.
    record_len: usize,
    /// Where the packet starts in the record.
    at: usize,
    /// Bytes captured.
    len: usize,
}

/// The next record.
enum Record {
    Packet(PacketPlace),
    /// Nothing to return; skip this many bytes.
    Skip(usize),
    /// The capture ended at a record boundary.
    End,
    /// It ended inside a record.
    Cut,
    /// Nothing from here on can be parsed, for this reason.
    Damaged(&'static str),
}

impl PacketFile {
    /// Opens a capture file, or another file that the path names. That may be a named pipe or `/dev/stdin`.
    ///
    /// # Errors
    /// [`Error::Read`] if it cannot be opened, [`Error::NotACapture`] if it is something else,
    /// [`Error::Damaged`] if it is compressed and cannot be unpacked.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let read_error = |source| Error::Read { name: name.clone(), source };
        let file = File::open(path).map_err(read_error)?;
        let metadata = file.metadata().map_err(read_error)?;
        let reader: Box<dyn Read + Send> =
            if metadata.is_file() { Box::new(FileReader::new(file, metadata.len())) } else { Box::new(file) };
        Self::start(name, Source::new(reader))
    }

    /// Reads a capture from standard input or a similar stream, finite or not.
    ///
    /// # Errors
    /// Like [`Self::open`].
    pub fn from_reader(reader: Box<dyn Read + Send>) -> Result<Self, Error> {
        Self::from_named_reader("-", reader)
    }

    /// Reads a capture from a pipe that has a name.
    ///
    /// # Errors
    /// Like [`Self::open`].
    pub fn from_named_reader(name: &str, reader: Box<dyn Read + Send>) -> Result<Self, Error> {
        Self::start(name.to_owned(), Source::new(reader))
    }

    fn start(name: String, mut source: Source) -> Result<Self, Error> {
        let packing = magic(&name, &mut source, false)?.and_then(Packing::of);
        if let Some(packing) = packing {
            let unpacked = packing.unpack(source.into_reader());
            source = Source::new(unpacked.map_err(|source| Error::Read { name: name.clone(), source })?);
        }
        let packed = packing.is_some();
        let first = magic(&name, &mut source, packed)?;
        let format = match first {
            None if source.is_cut() => Err("it is compressed and truncated: no data can be decompressed"),
            None => Err("it is shorter than a file header"),
            Some(pcapng::BLOCK_SECTION) => Ok(Format::Pcapng(pcapng::Section::default())),
            Some(magic) => match source.take(pcap::HEADER_BYTES) {
                Ok(header) => pcap::Layout::parse(magic, header).map(Format::Pcap),
                Err(error) => return Err(reading(&name, 0, packed, error)),
            },
        };
        let format = match format {
            Ok(format) => format,
            Err(why) => {
                return Err(Error::NotACapture {
                    name,
                    why: first.and_then(packing::cannot_unpack).unwrap_or(why),
                });
            }
        };
        let mut file = Self { name, source, packed, format, notes: Notes::default(), ahead: None };
        file.check_first_section()?;
        Ok(file)
    }

    /// A pcapng file must start with a whole section header: four magic bytes alone prove little.
    fn check_first_section(&mut self) -> Result<(), Error> {
        if !matches!(self.format, Format::Pcapng(_)) {
            return Ok(());
        }
        match self.record()? {
            Record::Skip(len) => self.pass(len),
            _ => Err(Error::NotACapture {
                name: self.name.clone(),
                why: "its first block is not a section header",
            }),
        }
    }

    /// Returns the next packet, or `None` at the end. Blocks while the input is an empty pipe.
    ///
    /// A cut record ends the capture; [`Self::notes`] then counts it.
    ///
    /// # Errors
    /// [`Error::Read`] if the system cannot read on, [`Error::Damaged`] if the rest is invalid. Each is returned once;
    /// the capture then ends.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        let found = match self.ahead.take() {
            Some(found) => found,
            None => loop {
                match self.record()? {
                    Record::Packet(found) => break found,
                    other if self.pass_over(&other)? => {}
                    _ => return Ok(None),
                }
            },
        };
        let PacketPlace { time_ns, link, original_len, record_len, at, len } = found;
        let place = self.source.position();
        let record = match self.source.take(record_len) {
            Ok(record) => record,
            Err(error) => return Err(reading(&self.name, place, self.packed, error)),
        };
        let bytes = record.get(at..).and_then(|rest| rest.get(..len)).unwrap_or_default();
        Ok(Some(Packet { time_ns, link, original_len, bytes }))
    }

    /// The next packet's time, without consuming the packet; `None` at the end.
    ///
    /// # Errors
    /// Like [`Self::next`].
    pub fn next_time(&mut self) -> Result<Option<i64>, Error> {
        while self.ahead.is_none() {
            match self.record()? {
                Record::Packet(found) => self.ahead = Some(found),
                other if self.pass_over(&other)? => {}
                _ => return Ok(None),
            }
        }
        Ok(self.ahead.as_ref().map(|found| found.time_ns))
    }

    /// Skips a record without a packet; returns whether reading goes on.
    fn pass_over(&mut self, record: &Record) -> Result<bool, Error> {
        match record {
            Record::Packet(_) => {}
            Record::Skip(len) => {
                self.pass(*len)?;
                return Ok(true);
            }
            Record::End => self.notes.cut_records = u64::from(self.source.is_cut()),
            Record::Cut => self.notes.cut_records = 1,
            Record::Damaged(why) => {
                let at = self.source.position();
                self.source.end();
                let (name, why) = (self.name.clone(), (*why).to_owned());
                return Err(Error::Damaged { name, at, packed: self.packed, why });
            }
        }
        Ok(false)
    }

    /// Anomalies so far.
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
        record.map_err(|error| self.stopped(error))
    }

    fn pass(&mut self, len: usize) -> Result<(), Error> {
        match self.source.take(len) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.stopped(error)),
        }
    }

    #[cold]
    fn stopped(&mut self, error: io::Error) -> Error {
        let at = self.source.position();
        self.source.end();
        reading(&self.name, at, self.packed, error)
    }
}

/// A number's bytes in little-endian order, from either byte order.
fn number<const N: usize>(bytes: &[u8], at: usize, big_endian: bool) -> Option<[u8; N]> {
    let mut number = *bytes.get(at..)?.first_chunk::<N>()?;
    if big_endian {
        number.reverse();
    }
    Some(number)
}

/// The first four bytes, if there are that many.
fn magic(name: &str, source: &mut Source, packed: bool) -> Result<Option<[u8; 4]>, Error> {
    match source.peek(4) {
        Ok(bytes) => Ok(bytes.first_chunk().copied()),
        Err(error) => Err(reading(name, 0, packed, error)),
    }
}

/// Why no more bytes come: the system's errors have a number, a decoder's do not.
fn reading(name: &str, at: u64, packed: bool, error: io::Error) -> Error {
    let name = name.to_owned();
    if packed && error.raw_os_error().is_none() {
        return Error::Damaged { name, at, packed, why: packing::explain(&error) };
    }
    Error::Read { name, source: error }
}

#[cfg(test)]
mod tests;
