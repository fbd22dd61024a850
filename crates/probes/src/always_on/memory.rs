//! Memory that the BPF programs write and this process maps: words, read one at a time.
//!
//! Does not know what they mean.

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use libbpf_rs::{MapCore as _, Object};

use crate::bpf::{self, MapName};
use crate::error::Error;

/// A mapped array of a loaded object, unmapped on drop.
pub(super) struct Mapping {
    words: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: only this value owns the mapping, and its content is only read, as atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps all entries of an array, read-only.
    pub(super) fn new(object: &Object, name: MapName) -> Result<Self, Error> {
        let map = bpf::map(object, name)?;
        let bytes = map.value_size() as usize * map.max_entries() as usize;
        // SAFETY: a new mapping at an address of the kernel's choice; the kernel refuses more than the array has.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        let refused = || Error::Read(std::io::Error::last_os_error());
        if address == libc::MAP_FAILED {
            return Err(refused());
        }
        let words = NonNull::new(address.cast()).ok_or_else(refused)?;
        Ok(Self { words, count: bytes / size_of::<AtomicU64>() })
    }

    /// The mapped words. Pages are resident from the start: the array is never swapped.
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped for as long as this value, page-aligned and that many words long; the only other writers are
        // the BPF programs, and loading a word is atomic on both sides.
        unsafe { slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value made the mapping with that size, and nothing borrows it any more.
        unsafe { libc::munmap(self.words.as_ptr().cast(), self.count * size_of::<AtomicU64>()) };
    }
}

/// Loads a word without ordering.
pub(super) fn load(words: &[AtomicU64], at: usize) -> u64 {
    words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
}

/// Copies words; `None` unless the one at `stamp_at` is `stamp` before and after.
pub(super) fn copy_stamped<const N: usize>(
    words: &[AtomicU64],
    stamp_at: usize,
    stamp: u64,
) -> Option<[u64; N]> {
    let words: &[AtomicU64; N] = words.first_chunk()?;
    let stamp_word = words.get(stamp_at)?;
    if stamp_word.load(Ordering::Acquire) != stamp {
        return None;
    }
    let copy = std::array::from_fn(|at| load(words, at));
    // The words are read before the stamp is read again.
    fence(Ordering::Acquire);
    (stamp_word.load(Ordering::Relaxed) == stamp).then_some(copy)
}

/// The bytes of words, in memory order.
pub(super) fn bytes_of<const N: usize>(words: &[u64; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::{bytes_of, copy_stamped};

    #[test]
    fn copies_only_words_with_the_expected_stamp() {
        let words: Vec<AtomicU64> = [7, 1, 2].map(AtomicU64::new).into();
        assert_eq!(copy_stamped(&words, 0, 7), Some([7, 1, 2]));
        assert_eq!(copy_stamped::<3>(&words, 0, 8), None);
        assert_eq!(copy_stamped::<4>(&words, 0, 7), None);
        assert_eq!(copy_stamped::<3>(&words, 3, 7), None);
        words[0].store(0, Ordering::Relaxed);
        assert_eq!(copy_stamped::<3>(&words, 0, 7), None);
        assert_eq!(bytes_of(&[1, 0])[..2], 1_u16.to_ne_bytes());
    }
}
