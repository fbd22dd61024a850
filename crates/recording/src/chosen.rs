//! Which rows of a part are read, where not all are: those that a [`RowFilter`] wants by their outlines, and of each kind the
//! last before a stretch of which everything is read, and the first after one. Does not know what stretches those are.
//!
//! Between two stretches there are many row groups of which nothing else is wanted: of these only what tells kinds apart is
//! looked at, and not when each row was.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use ahash::RandomState;
use model::Nanos;
use model::row_summary::{RowChoice, RowFilter};
use parquet::arrow::arrow_reader::RowSelection;

use crate::Error;
use crate::fence::fenced;
use crate::outlines::{self, Outlines, Purpose, Stretch};
use crate::parquet_part::{ParquetFile, Rows};
use crate::table::Table;
use crate::text::TextPool;

/// Outlines are small, and their batches may be larger than those of events.
pub(crate) const OUTLINES_AT_ONCE: usize = 8_192;
/// More kinds than this are not told apart: then everything is read.
const MOST_KINDS: usize = 1 << 20;

/// The rows of a part that are read; none where all of them are: also where outlines cannot be had of it, so that its
/// faults are found where they always are.
pub(crate) fn rows(
    file: &ParquetFile,
    table: Table,
    choose: &dyn RowFilter,
) -> Result<Option<RowSelection>, Error> {
    let total = file.rows();
    let mut chosen = Chosen::default();
    let (mut pool, numbers) = (TextPool::default(), RandomState::new());
    let mut row = 0;
    for Run { groups, within } in runs(file, table, choose) {
        let purpose = within.map_or(Purpose::Places, |within| Purpose::Within(within.stretch));
        let need = |column: &str| Outlines::need(table, purpose, column);
        for batch in file.read(&need, Rows::OfGroups(groups), OUTLINES_AT_ONCE)? {
            let Ok(batch) = batch else { return Ok(None) };
            let Ok(Ok(outlines)) = fenced(|| Outlines::of(table, purpose, &batch)) else { return Ok(None) };
            for i in 0..batch.num_rows() {
                match outlines.at(i, &mut pool, &numbers).map(|sketch| choose.choose(&sketch)) {
                    Ok(RowChoice::Edge { kind, gap }) => chosen.beside(row, kind, gap),
                    // What is wrong with it is said when it is read.
                    Ok(RowChoice::Read) | Err(_) => chosen.read(row),
                }
                row += 1;
            }
            if chosen.last.len() > MOST_KINDS {
                return Ok(None);
            }
        }
    }
    // A footer that says otherwise is not to be trusted with a selection.
    Ok((row == total).then(|| RowSelection::from_consecutive_ranges(chosen.ranges(), total)))
}

/// Row groups one after the other.
struct Run {
    groups: Range<usize>,
    /// Where all of them lie in one gap.
    within: Option<Within>,
}

/// A stretch of time of which no row is wanted for itself.
#[derive(Clone, Copy)]
struct Within {
    gap: u32,
    stretch: Stretch,
}

/// A file's row groups; those that lie in the same gap together.
fn runs(file: &ParquetFile, table: Table, choose: &dyn RowFilter) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for group in 0..file.groups() {
        let within = within(file, group, table, choose);
        let gap = |within: Option<Within>| within.map(|within| within.gap);
        match runs.last_mut().filter(|run| gap(run.within) == gap(within)) {
            Some(run) => run.groups.end = group + 1,
            None => runs.push(Run { groups: group..group + 1, within }),
        }
    }
    runs
}

/// The gap that a row group lies in, where its statistics say so, and where they can.
fn within(file: &ParquetFile, group: usize, table: Table, choose: &dyn RowFilter) -> Option<Within> {
    let (starts, ends) = (file.bounds(group, "start_ns")?, file.bounds(group, "end_ns")?);
    // Of what ends before it begins nothing can be said.
    let is_whole = starts.0 <= ends.0 && starts.1 <= ends.1;
    let stretch = (Nanos(starts.0), Nanos(ends.1));
    let sketch = outlines::most_wanted(table, stretch).filter(|_| is_whole)?;
    match choose.choose(&sketch) {
        RowChoice::Edge { gap, .. } => Some(Within { gap, stretch }),
        RowChoice::Read => None,
    }
}

/// Rows that were chosen.
#[derive(Default)]
struct Chosen {
    /// In order, each as long as may be.
    runs: Vec<Range<usize>>,
    /// Others, in no order.
    single: Vec<usize>,
    /// The last row of each kind that was not wanted for itself, and its gap; whether it was chosen all the same.
    last: HashMap<u64, (usize, u32, bool), RandomState>,
}

impl Chosen {
    fn read(&mut self, row: usize) {
        match self.runs.last_mut().filter(|run| run.end == row) {
            Some(run) => run.end += 1,
            None => self.runs.push(row..row + 1),
        }
    }

    /// Two of a kind in one gap are alike but for its first and last.
    fn beside(&mut self, row: usize, kind: u64, gap: u32) {
        let is_first = match self.last.entry(kind) {
            Entry::Occupied(mut last) => {
                let (before, known, chosen) = *last.get();
                let is_first = known != gap;
                if is_first && !chosen {
                    self.single.push(before);
                }
                last.insert((row, gap, is_first));
                is_first
            }
            Entry::Vacant(none) => {
                none.insert((row, gap, true));
                true
            }
        };
        if is_first {
            self.single.push(row);
        }
    }

    fn ranges(mut self) -> impl Iterator<Item = Range<usize>> {
        // Of the next part nothing is known here.
        self.single.extend(self.last.values().filter(|(_, _, chosen)| !chosen).map(|(row, _, _)| *row));
        self.runs.extend(self.single.into_iter().map(|row| row..row + 1));
        self.runs.sort_unstable_by_key(|run| run.start);
        let mut merged: Vec<Range<usize>> = Vec::with_capacity(self.runs.len());
        for run in self.runs {
            match merged.last_mut().filter(|last| last.end >= run.start) {
                Some(last) => last.end = last.end.max(run.end),
                None => merged.push(run),
            }
        }
        merged.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::Chosen;

    #[test]
    fn of_each_kind_the_first_and_the_last_in_a_gap_are_read() {
        let mut chosen = Chosen::default();
        for (row, wish) in [
            Some((1, 0)),
            Some((2, 0)),
            Some((1, 0)),
            Some((1, 0)),
            None,
            None,
            Some((1, 1)),
            Some((1, 1)),
            Some((1, 2)),
            Some((2, 2)),
        ]
        .into_iter()
        .enumerate()
        {
            match wish {
                Some((kind, gap)) => chosen.beside(row, kind, gap),
                None => chosen.read(row),
            }
        }
        // 0, 3: the first and last of kind 1 before what is read; 1: all there is of kind 2; 6, 7: its next gap; 8, 9: after that.
        assert_eq!(chosen.ranges().collect::<Vec<_>>(), [0..2, 3..10]);
    }

    #[test]
    fn what_is_in_between_is_not() {
        let mut chosen = Chosen::default();
        (0..10).for_each(|row| chosen.beside(row, 7, 0));
        (10..12).for_each(|row| chosen.read(row));
        (12..20).for_each(|row| chosen.beside(row, 7, 1));
        assert_eq!(chosen.ranges().collect::<Vec<_>>(), [0..1, 9..13, 19..20]);
    }
}
