//! Arrays of records that overwrite the oldest. They are read while the BPF programs write them.
//!
//! Each CPU has a part of the array, in which record number N has slot N modulo the slot count and the stamp N + 1
//! (`struct part` in `bpf/always_on.h`).

use std::sync::atomic::{AtomicU64, Ordering};

use super::memory::copy_stamped;
use super::record::Record;

/// `MARKS` and `MARK_BITS` of `bpf/always_on.h`.
const MARKS: usize = 512;
const MARK_BITS: u32 = 8;
/// Words of `struct part` before its marks, and words of a mark.
const HEAD_WORDS: usize = 8;
const MARK_WORDS: usize = 2;
/// Words of `struct part`.
pub(super) const PART_WORDS: usize = HEAD_WORDS + MARKS * MARK_WORDS;

/// How long after its number was taken a record may still change: `MAX_PIECES_NS`, and as much again for a thread that
/// loses the CPU in between. A record that ended later than this may be read again, longer.
pub const MAX_CHANGE_NS: u64 = 20_000_000;
/// How often a slot that is being written is read again.
const MAX_TRIES: usize = 100;

/// What was recorded in an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Records in order of their start.
    pub records: Vec<Record>,
    /// Upper bound of the records of the interval that were overwritten; 0 means that all are here.
    pub overwritten: u64,
}

/// One array with its parts, as laid out in memory; `N` words a record.
pub(super) struct Ring<'a, const N: usize> {
    /// All slots, CPU by CPU.
    pub(super) slots: &'a [AtomicU64],
    /// The parts' heads and marks.
    pub(super) parts: &'a [AtomicU64],
    /// A part has 2^`bits` slots.
    pub(super) bits: u32,
}

impl<const N: usize> Ring<'_, N> {
    /// Delivers every record that may have changed at or after a time. Delivers some earlier ones too.
    ///
    /// Returns an upper bound of such records that were overwritten.
    pub(super) fn read(&self, from_ns: u64, mut out: impl FnMut([u64; N])) -> u64 {
        let parts = self.parts.chunks_exact(PART_WORDS);
        let slots = self.slots.chunks_exact(N << self.bits);
        parts.zip(slots).map(|(part, slots)| self.read_part(part, slots, from_ns, &mut out)).sum()
    }

    fn read_part(
        &self,
        part: &[AtomicU64],
        slots: &[AtomicU64],
        from_ns: u64,
        out: &mut impl FnMut([u64; N]),
    ) -> u64 {
        let head = part.first().map_or(0, |head| head.load(Ordering::Acquire));
        let first = self.first_since(part, head, from_ns.saturating_sub(MAX_CHANGE_NS));
        let oldest = head.saturating_sub(1 << self.bits);
        let mut lost = oldest.saturating_sub(first);
        for number in first.max(oldest)..head {
            match self.copy(slots, number) {
                Some(record) => out(record),
                None => lost += 1,
            }
        }
        lost
    }

    /// A record number such that all earlier records were made before that time.
    fn first_since(&self, part: &[AtomicU64], head: u64, from_ns: u64) -> u64 {
        let block_bits = self.bits - MARK_BITS;
        let blocks = head.div_ceil(1 << block_bits);
        let marks = part.get(HEAD_WORDS..).unwrap_or_default();
        let mut known = (blocks.saturating_sub(MARKS as u64)..blocks).rev().map(|block| block << block_bits);
        let is_before = |number: &u64| {
            let at = (number >> block_bits) as usize % MARKS * MARK_WORDS;
            let mark = marks.get(at..).and_then(|words| copy_stamped::<MARK_WORDS>(words, 0, number + 1));
            mark.is_some_and(|[_, ns]| ns < from_ns)
        };
        known.find(is_before).unwrap_or(0)
    }

    fn copy(&self, slots: &[AtomicU64], number: u64) -> Option<[u64; N]> {
        let slot = (number & ((1 << self.bits) - 1)) as usize;
        let words = slots.get(slot * N..)?;
        (0..MAX_TRIES).find_map(|_| {
            let copy = copy_stamped(words, 0, number + 1);
            let is_overwritten = words.first()?.load(Ordering::Relaxed) > number + 1;
            if copy.is_none() && !is_overwritten {
                std::hint::spin_loop();
            }
            copy
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::thread;

    use super::{HEAD_WORDS, MARK_BITS, MARK_WORDS, MARKS, MAX_CHANGE_NS, PART_WORDS, Ring};

    const BITS: u32 = 10;
    const SLOTS: u64 = 1 << BITS;

    /// Mimics the BPF programs with records {stamp, time}; record N is made at N milliseconds.
    struct Writer {
        slots: Vec<AtomicU64>,
        parts: Vec<AtomicU64>,
    }

    fn zeros(count: usize) -> Vec<AtomicU64> {
        (0..count).map(|_| AtomicU64::new(0)).collect()
    }

    fn ns(number: u64) -> u64 {
        number * 1_000_000
    }

    impl Writer {
        fn new(cpus: usize) -> Self {
            Self { slots: zeros(cpus * 2 * SLOTS as usize), parts: zeros(cpus * PART_WORDS) }
        }

        fn begin(&self, cpu: usize) -> u64 {
            let part = &self.parts[cpu * PART_WORDS..];
            let number = part[0].fetch_add(1, Ordering::SeqCst);
            let block_bits = BITS - MARK_BITS;
            if number % (1 << block_bits) == 0 {
                let mark = &part[HEAD_WORDS + (number >> block_bits) as usize % MARKS * MARK_WORDS..];
                mark[0].store(0, Ordering::SeqCst);
                mark[1].store(ns(number), Ordering::SeqCst);
                mark[0].store(number + 1, Ordering::SeqCst);
            }
            self.slot(cpu, number)[0].store(0, Ordering::SeqCst);
            number
        }

        fn write(&self, cpu: usize) {
            let number = self.begin(cpu);
            let slot = self.slot(cpu, number);
            slot[1].store(ns(number), Ordering::SeqCst);
            slot[0].store(number + 1, Ordering::SeqCst);
        }

        fn slot(&self, cpu: usize, number: u64) -> &[AtomicU64] {
            &self.slots[(cpu * SLOTS as usize + (number % SLOTS) as usize) * 2..]
        }

        /// Times of the records, and how many are lost.
        fn read(&self, from_ns: u64) -> (Vec<u64>, u64) {
            let ring = Ring::<2> { slots: &self.slots, parts: &self.parts, bits: BITS };
            let mut times = Vec::new();
            let lost = ring.read(from_ns, |[_, ns]| times.push(ns));
            (times, lost)
        }
    }

    fn written(count: u64) -> Writer {
        let writer = Writer::new(1);
        (0..count).for_each(|_| writer.write(0));
        writer
    }

    #[test]
    fn reads_all_records_of_all_cpus_and_counts_an_overwritten_one() {
        let writer = Writer::new(3);
        assert_eq!(writer.read(0), (vec![], 0));
        for cpu in 0..3 {
            (0..SLOTS).for_each(|_| writer.write(cpu));
        }
        let (times, lost) = writer.read(0);
        assert_eq!((times.len() as u64, lost), (3 * SLOTS, 0));
        writer.write(1);
        let (times, lost) = writer.read(0);
        assert_eq!((times.len() as u64, lost), (3 * SLOTS, 1));
    }

    #[test]
    fn records_overwritten_before_the_start_are_not_losses() {
        let writer = written(5 * SLOTS + 77);
        let oldest = 4 * SLOTS + 77;
        for number in [oldest + 30, oldest + 500, 5 * SLOTS + 76] {
            let (times, lost) = writer.read(ns(number));
            assert_eq!(lost, 0);
            assert!(times[0] <= ns(number) && *times.last().unwrap() == ns(5 * SLOTS + 76));
            assert!(times.len() as u64 <= 5 * SLOTS + 77 - number + 30, "it reads little more than it must");
        }
    }

    #[test]
    fn overwritten_records_are_never_undercounted() {
        let writer = written(5 * SLOTS + 77);
        let oldest = 4 * SLOTS + 77;
        let extra = MAX_CHANGE_NS / 1_000_000 + 2 * (1 << (BITS - MARK_BITS));
        for number in [oldest - 1, oldest - 100, oldest - 900] {
            let (times, lost) = writer.read(ns(number));
            assert_eq!(times.len() as u64, SLOTS);
            assert!((oldest - number..=oldest - number + extra).contains(&lost), "{lost} of {number}");
        }
        // Further back than the marks reach: everything that was ever written.
        assert_eq!(writer.read(0).1, oldest);
    }

    #[test]
    fn record_being_written_counts_as_lost() {
        let writer = written(10);
        writer.begin(0);
        let (times, lost) = writer.read(0);
        assert_eq!((times.len(), lost), (10, 1));
    }

    #[test]
    fn concurrent_reader_reads_only_whole_records() {
        let (writer, is_done) = (Writer::new(1), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                (0..200_000).for_each(|_| writer.write(0));
                is_done.store(true, Ordering::SeqCst);
            });
            while !is_done.load(Ordering::SeqCst) {
                let (times, _) = writer.read(0);
                assert!(times.is_sorted_by(|one, next| one < next));
            }
        });
        assert_eq!(writer.read(ns(200_000 - 1)).0.last(), Some(&ns(199_999)));
    }
}
