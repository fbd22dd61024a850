//! Block devices as `iostat -x` counts them. Which devices those are is [`super::devices`]' business.

use std::collections::BTreeSet;

use model::HostScope;

use super::figures::{Bits, Figures};
use super::text::{self, Kernel};

/// Bytes of the unit in which the kernel counts everywhere.
const SECTOR_BYTES: f64 = 512.0;

/// Adds the figures of these devices.
pub(super) fn sample(kernel: &Kernel, wanted: &BTreeSet<(u32, u32)>, figures: &mut Figures) {
    let Some(table) = text::read(&kernel.proc.join("diskstats")) else { return };
    for disk in table.lines().filter_map(Disk::parse).filter(|disk| wanted.contains(&disk.number)) {
        disk.sample(figures);
    }
}

/// A line of `/proc/diskstats`.
struct Disk<'t> {
    number: (u32, u32),
    name: &'t str,
    /// As many as the kernel has: 11, 15 since 4.18, 17 since 5.5.
    fields: Vec<u64>,
}

impl<'t> Disk<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let number = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let name = words.next()?;
        let fields = words.map_while(|word| word.parse().ok()).collect();
        Some(Self { number, name, fields })
    }

    /// A field by its number in Documentation/admin-guide/iostats.rst.
    fn field(&self, number: usize) -> Option<u64> {
        self.fields.get(number.checked_sub(1)?).copied()
    }

    fn sample(&self, figures: &mut Figures) {
        let field = |number| self.field(number);
        let narrow = |number| (self.field(number), Bits::ThirtyTwo);
        let mut figure = figures.of(HostScope::Device, self.name);
        figure.rate_of("util_ratio", field(10), 1e-3, Bits::ThirtyTwo);
        figure.rate_of("queue_depth", field(11), 1e-3, Bits::ThirtyTwo);
        figure.stands("in_flight_count", field(9).map(|count| count as f64));
        figure.rate("reads_per_second", field(1), 1.0);
        figure.rate("writes_per_second", field(5), 1.0);
        figure.rate("flushes_per_second", field(16), 1.0);
        figure.rate("read_bytes_per_second", field(3), SECTOR_BYTES);
        figure.rate("write_bytes_per_second", field(7), SECTOR_BYTES);
        figure.mean("read_wait_ms", narrow(4), field(1));
        figure.mean("write_wait_ms", narrow(8), field(5));
        figure.mean("flush_wait_ms", narrow(17), field(16));
    }
}
