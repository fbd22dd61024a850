//! A text in pieces as blocks of whole lines, in bounded memory and without copying what is whole. Does not look at
//! what lines say.

use memchr::{memchr, memchr_iter, memrchr};

use super::Counts;

/// What is kept of a line. A line of the request log names every partition of the request.
pub(super) const LONGEST_LINE: usize = 1 << 20;

/// What is left of the pieces so far: the beginning of a line.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    carried: Vec<u8>,
    /// Whether a line has begun and not ended.
    open: bool,
    counts: Counts,
}

/// Where a line lies in a block: its end is that of its text, or of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Span {
    /// The line that `at` is in; no line before `from` is looked at.
    pub(super) fn around(block: &[u8], from: usize, at: usize) -> Self {
        let before = block.get(from..at).unwrap_or_default();
        let start = memrchr(b'\n', before).map_or(from, |end| from + end + 1);
        let after = block.get(at..).unwrap_or_default();
        let end = memchr(b'\n', after).map_or(block.len(), |end| at + end);
        Self { start, end }
    }

    /// What is kept of it. Of a line that is cut, a number at the end would lack digits.
    pub(super) fn kept(self, block: &[u8]) -> &[u8] {
        let end = self.end.min(self.start.saturating_add(LONGEST_LINE));
        let kept = block.get(self.start..end).unwrap_or_default();
        if end < self.end { but_the_last_word(kept) } else { kept }
    }
}

fn but_the_last_word(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(u8::is_ascii_whitespace).unwrap_or(0);
    line.get(..end).unwrap_or_default()
}

impl Lines {
    /// Takes the next piece. What is handed on are whole lines, those in between with the end of each.
    pub(super) fn feed<E>(
        &mut self,
        piece: &[u8],
        each: &mut impl FnMut(&[u8], &mut Counts) -> Result<(), E>,
    ) -> Result<(), E> {
        self.counts.bytes += piece.len() as u64;
        self.counts.lines += memchr_iter(b'\n', piece).count() as u64;
        let rest = if self.open { self.complete(piece, each)? } else { piece };
        let whole = memrchr(b'\n', rest).map_or(0, |end| end + 1);
        let (whole, tail) = rest.split_at_checked(whole).unwrap_or((rest, &[]));
        if !whole.is_empty() {
            each(whole, &mut self.counts)?;
        }
        self.carry(tail);
        Ok(())
    }

    /// The text is over. A number at the end of a line that has none may lack digits: the last word is left out.
    pub(super) fn finish<E>(
        &mut self,
        each: &mut impl FnMut(&[u8], &mut Counts) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.open {
            return Ok(());
        }
        self.counts.lines += 1;
        if self.carried.len() <= LONGEST_LINE {
            let words = but_the_last_word(&self.carried).len();
            self.carried.truncate(words);
        }
        self.hand_over(each)
    }

    /// Ends the line that was begun, if this piece has its end, and gives what follows it.
    fn complete<'p, E>(
        &mut self,
        piece: &'p [u8],
        each: &mut impl FnMut(&[u8], &mut Counts) -> Result<(), E>,
    ) -> Result<&'p [u8], E> {
        let Some(end) = memchr(b'\n', piece) else {
            self.carry(piece);
            return Ok(&[]);
        };
        let (line, rest) = piece.split_at_checked(end).unwrap_or((piece, &[]));
        self.carry(line);
        self.hand_over(each)?;
        Ok(rest.get(1..).unwrap_or_default())
    }

    fn hand_over<E>(&mut self, each: &mut impl FnMut(&[u8], &mut Counts) -> Result<(), E>) -> Result<(), E> {
        let handed_over = each(&self.carried, &mut self.counts);
        self.carried.clear();
        self.open = false;
        handed_over
    }

    fn carry(&mut self, part: &[u8]) {
        self.open |= !part.is_empty();
        // A byte more than is kept: whoever gets the line sees that it was longer.
        let room = (LONGEST_LINE + 1).saturating_sub(self.carried.len());
        self.carried.extend_from_slice(part.get(..room).unwrap_or(part));
    }

    /// What came so far.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }
}
