//! Requests to block devices, by device, direction and kind of file. Does not know who waited for them.

use model::{BlockIo, Direction, FileKind};

use crate::catalog;
use crate::encoding::Encoder;
use crate::histogram::Histogram;
use crate::label::ByLabel;

/// More devices than any broker has.
const MOST_DEVICES: usize = 64;
const DIRECTIONS: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Other];
/// Kinds of files, and none.
const KINDS: usize = FileKind::ALL.len() + 1;
/// What that is called.
const NO_FILE: &str = "unknown";

/// Block requests.
#[derive(Debug)]
pub(crate) struct BlockIos {
    devices: ByLabel<[InDirection; DIRECTIONS.len()]>,
    /// What kind of file one of that name is.
    kind_of: fn(&str) -> FileKind,
}

#[derive(Debug, Default)]
struct InDirection {
    time: Histogram,
    /// Requests and bytes.
    kinds: [(u64, u64); KINDS],
}

impl BlockIos {
    pub(crate) fn of(kind_of: fn(&str) -> FileKind) -> Self {
        Self { devices: ByLabel::of_at_most(MOST_DEVICES), kind_of }
    }

    pub(crate) fn io(&mut self, io: &BlockIo) {
        let kind = io.file.as_deref().map_or(FileKind::ALL.len(), |file| (self.kind_of)(file) as usize);
        let device = if io.device.name.is_empty() {
            self.devices.at(&io.device.to_string())
        } else {
            self.devices.at(&io.device.name)
        };
        let Some(of) = device.get_mut(io.direction as usize) else { return };
        of.time.observe_time(io.latency());
        if let Some((requests, bytes)) = of.kinds.get_mut(kind) {
            *requests += 1;
            *bytes += u64::from(io.bytes);
        }
    }

    pub(crate) fn encode(&self, out: &mut dyn Encoder) {
        let by_kind = |out: &mut dyn Encoder, family, count: fn(&(u64, u64)) -> u64| {
            out.family(family);
            for (device, direction, of) in self.each() {
                let kinds = FileKind::ALL.into_iter().map(FileKind::as_str).chain([NO_FILE]);
                for (kind, counts) in kinds.zip(&of.kinds).filter(|(_, (requests, _))| *requests > 0) {
                    out.number(&[device, direction, kind], count(counts) as f64, None);
                }
            }
        };
        by_kind(out, &catalog::BLOCK_IOS, |counts| counts.0);
        by_kind(out, &catalog::BLOCK_BYTES, |counts| counts.1);
        out.family(&catalog::BLOCK_TIME);
        for (device, direction, of) in self.each().filter(|(_, _, of)| of.time.count() > 0) {
            out.histogram(&[device, direction], &of.time);
        }
    }

    fn each(&self) -> impl Iterator<Item = (&str, &'static str, &InDirection)> {
        self.devices.iter().flat_map(|(device, directions)| {
            DIRECTIONS
                .into_iter()
                .zip(directions)
                .map(move |(direction, of)| (device, direction.as_str(), of))
        })
    }
}
