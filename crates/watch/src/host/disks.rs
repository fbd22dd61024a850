//! Block devices as `iostat -x` counts them. Which devices those are is [`super::devices`]' business.

use std::collections::BTreeSet;

use model::HostScope;

use super::figures::Figures;
use super::text::{self, Kernel};

/// Adds the figures of these devices.
pub(super) fn sample(kernel: &Kernel, wanted: &BTreeSet<(u32, u32)>, figures: &mut Figures) {
    let Some(table) = text::read(&kernel.proc.join("diskstats")) else { return };
    for disk in table.lines().filter_map(Disk::parse).filter(|disk| wanted.contains(&disk.number)) {
        let mut field = |number: &str| disk.field(number.parse().ok()?);
        figures.of(HostScope::Device, disk.name).sample(&mut field);
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
}
