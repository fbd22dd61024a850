//! An inode's generation, which tells apart successive files with the same number.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// Reads a file's generation, to compare with [`super::Append::generation`].
///
/// A file system gives the number of a deleted file's inode to the next file, with another generation.
///
/// # Errors
/// The file system does not report generations.
pub fn generation(file: &File) -> io::Result<u32> {
    let mut generation = 0_u32;
    // SAFETY: file systems write an int there, not the long that the request's number encodes (`ext4_ioctl`,
    // `xfs_file_ioctl`).
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETVERSION, &raw mut generation) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(generation) }
}
