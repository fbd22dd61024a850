//! Cuts bytes into pieces, as TCP or a pipe would. Does not interpret them.

use std::io::{self, Read};

/// Piece lengths derived from one byte of the input: 0 is everything at once, others are a mixture of very short pieces
/// and longer ones.
#[derive(Clone, Debug)]
pub(crate) struct Cuts(u32);

impl Cuts {
    pub(crate) fn new(seed: u8) -> Self {
        Self(u32::from(seed))
    }

    /// The length of the next piece, at least 1.
    pub(crate) fn next_len(&mut self) -> usize {
        if self.0 == 0 {
            return usize::MAX;
        }
        // Numerical Recipes' generator; its upper bits are good enough.
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223).max(1);
        let drawn = (self.0 >> 16) as usize;
        1 + if drawn % 4 == 0 { drawn % 700 } else { drawn % 9 }
    }

    /// The pieces of `bytes`.
    pub(crate) fn of(mut self, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
        let mut rest = bytes;
        std::iter::from_fn(move || {
            let (piece, after) = rest.split_at(self.next_len().min(rest.len()));
            rest = after;
            (!piece.is_empty()).then_some(piece)
        })
    }
}

/// A pipe that delivers piece after piece.
pub(crate) struct Trickle {
    bytes: Vec<u8>,
    at: usize,
    cuts: Cuts,
}

impl Trickle {
    pub(crate) fn new(bytes: &[u8], cuts: Cuts) -> Self {
        Self { bytes: bytes.to_vec(), at: 0, cuts }
    }
}

impl Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.bytes[self.at..];
        let len = self.cuts.next_len().min(rest.len()).min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        self.at += len;
        Ok(len)
    }
}
