//! How much room a file system has. Takes none.

use std::io;
use std::path::Path;

/// The bytes that are free for this user in the file system of a directory.
///
/// # Errors
/// The operating system's.
pub fn free_bytes(directory: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(directory)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::free_bytes;

    #[test]
    fn a_directory_has_room_and_nothing_has_none() {
        let directory = tempfile::tempdir().unwrap();
        assert!(free_bytes(directory.path()).unwrap() > 0);
        assert!(free_bytes(&directory.path().join("nothing")).is_err());
    }
}
