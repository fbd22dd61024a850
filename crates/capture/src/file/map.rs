//! A window of a regular file mapped read-only. The only `unsafe` of the file reader.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;

use memmap2::{Mmap, MmapOptions};

/// Maps `len` bytes of `file` from `offset` (which need not be aligned).
///
/// # Errors
/// The system's, if it will not map the file.
pub(super) fn window(file: &File, offset: u64, len: usize) -> io::Result<Mmap> {
    // SAFETY: the map is private to the reader and read-only, and its bytes are only ever read as
    // plain bytes. Another process that writes into the file can change what is read, which every
    // parser here bears: each length is read once and checked against the window. The
    // caller asks for the file's length before each window; one that is truncated while its window is read
    // raises SIGBUS, which ends the program without corrupting anything.
    let map = unsafe { MmapOptions::new().offset(offset).len(len).map(file)? };
    #[cfg(unix)]
    map.advise(memmap2::Advice::Sequential)?;
    Ok(map)
}
