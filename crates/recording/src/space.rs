//! How much of a disk a recording takes, and how much it may take. Does not remove anything.

use std::time::{Duration, Instant};

use crate::{Directory, Error, WriterOptions};

/// Interval between readings of the free space: a file system may take a second to count what was removed.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Divisor of the maximum size: this share is reserved for unfinished Parquet, the manifest and the last rows.
const RESERVE: u64 = 16;
/// Divisor of the maximum size: a part takes at most this share, because open parts are not removed.
const MAX_PART: u64 = 64;

/// The limit that keeps a recording from taking more of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskLimit {
    /// [`WriterOptions::max_bytes`].
    MaxBytes,
    /// [`WriterOptions::min_free`].
    MinFree,
}

/// The limits, and what is known of the file system.
pub(crate) struct Space {
    max_bytes: u64,
    min_free: f64,
    checked_at: Option<Instant>,
    /// Bytes by which the free space fell short of its minimum then.
    shortfall: u64,
}

impl Space {
    /// Takes the limits and makes parts small enough for them.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if less is free already than should be.
    pub(crate) fn within(options: &mut WriterOptions, directory: &Directory) -> Result<Self, Error> {
        let WriterOptions { max_bytes, min_free, .. } = *options;
        options.rotate_bytes = options.rotate_bytes.min(max_bytes / MAX_PART);
        let (free, total) = directory.free_bytes()?;
        if shortfall(free, total, min_free) > 0 {
            let free = free as f64 / total as f64;
            return Err(Error::NoRoom { path: directory.path().to_owned(), free, min_free });
        }
        Ok(Self { max_bytes: max_bytes - max_bytes / RESERVE, min_free, checked_at: None, shortfall: 0 })
    }

    /// How far a recording of `bytes` exceeds a limit, in bytes, and which one.
    pub(crate) fn excess(
        &mut self,
        bytes: u64,
        directory: &Directory,
        now: Instant,
    ) -> Option<(u64, DiskLimit)> {
        let is_due = self.checked_at.is_none_or(|then| now.saturating_duration_since(then) >= CHECK_INTERVAL);
        if is_due && self.min_free > 0.0 {
            self.checked_at = Some(now);
            // If the file system gives no answer, the last one stands.
            if let Ok((free, total)) = directory.free_bytes() {
                self.shortfall = shortfall(free, total, self.min_free);
            }
        }
        let of_own = (bytes.saturating_sub(self.max_bytes), DiskLimit::MaxBytes);
        [of_own, (self.shortfall, DiskLimit::MinFree)]
            .into_iter()
            .filter(|(excess, _)| *excess > 0)
            .max_by_key(|(excess, _)| *excess)
    }

    /// Takes note that `bytes` were removed.
    pub(crate) fn note_removed(&mut self, bytes: u64) {
        self.shortfall = self.shortfall.saturating_sub(bytes);
    }
}

/// Bytes by which the free space falls short of its minimum. A file system of size 0 has no minimum.
fn shortfall(free: u64, total: u64, min_free: f64) -> u64 {
    ((total as f64 * min_free) as u64).saturating_sub(free)
}

#[cfg(test)]
mod tests {
    use super::shortfall;

    #[test]
    fn shortfall_is_computed_from_a_share_of_the_file_system() {
        assert_eq!([100, 99, 0].map(|free| shortfall(free, 1_000, 0.1)), [0, 1, 100]);
        assert_eq!((shortfall(0, 1_000, 0.0), shortfall(0, 0, 0.1)), (0, 0));
    }
}
