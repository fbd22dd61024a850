//! What a recording takes of a disk, and what it may take. Removes nothing.

use std::time::{Duration, Instant};

use crate::{Directory, Error, WriterOptions};

/// How often the file system is asked for what is free: it may take a second to count what was removed.
const ASK_INTERVAL: Duration = Duration::from_secs(2);
/// This part of what a recording may take is left for Parquet that is being made, the manifest and the last rows.
const RESERVE: u64 = 16;
/// A part is at most this part of what a recording may take: streams of parts are not removed.
const MAX_PART: u64 = 64;

/// What keeps a recording from taking more of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskLimit {
    /// [`WriterOptions::max_bytes`].
    MaxBytes,
    /// [`WriterOptions::min_free`].
    MinFree,
}

/// The bounds, and what is known of the file system.
pub(crate) struct Space {
    max_bytes: u64,
    min_free: f64,
    asked: Option<Instant>,
    /// So many bytes more should have been free then.
    shortfall: u64,
}

impl Space {
    /// Takes the bounds, and makes parts small enough for them.
    ///
    /// # Errors
    /// [`Error::NoRoom`] where less is free already than should be.
    pub(crate) fn within(options: &mut WriterOptions, directory: &Directory) -> Result<Self, Error> {
        let WriterOptions { max_bytes, min_free, .. } = *options;
        options.rotate_bytes = options.rotate_bytes.min(max_bytes / MAX_PART);
        let (free, total) = directory.free_bytes()?;
        if shortfall(free, total, min_free) > 0 {
            let free = free as f64 / total as f64;
            return Err(Error::NoRoom { path: directory.path().to_owned(), free, min_free });
        }
        Ok(Self { max_bytes: max_bytes - max_bytes / RESERVE, min_free, asked: None, shortfall: 0 })
    }

    /// How many bytes more than it may a recording takes that has so many, and why.
    pub(crate) fn excess(
        &mut self,
        bytes: u64,
        directory: &Directory,
        now: Instant,
    ) -> Option<(u64, DiskLimit)> {
        let is_due = self.asked.is_none_or(|asked| now.saturating_duration_since(asked) >= ASK_INTERVAL);
        if is_due && self.min_free > 0.0 {
            self.asked = Some(now);
            // A file system that does not say is taken for what it was.
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

    /// So many bytes were removed.
    pub(crate) fn removed(&mut self, bytes: u64) {
        self.shortfall = self.shortfall.saturating_sub(bytes);
    }
}

/// How many bytes more should be free of a file system of this size. One that has none has no bound.
fn shortfall(free: u64, total: u64, min_free: f64) -> u64 {
    ((total as f64 * min_free) as u64).saturating_sub(free)
}

#[cfg(test)]
mod tests {
    use super::shortfall;

    #[test]
    fn what_should_be_free_is_a_share_of_the_file_system() {
        assert_eq!([100, 99, 0].map(|free| shortfall(free, 1_000, 0.1)), [0, 1, 100]);
        assert_eq!((shortfall(0, 1_000, 0.0), shortfall(0, 0, 0.1)), (0, 0));
    }
}
