//! Numbers of system calls by their names, on this machine. Says nothing of what they do.

/// The number of a system call that works on files or sockets, where this architecture has it.
pub fn call_number(name: &str) -> Option<i32> {
    let number = match name {
        "read" => libc::SYS_read,
        "pread64" => libc::SYS_pread64,
        "readv" => libc::SYS_readv,
        "preadv" => libc::SYS_preadv,
        "preadv2" => libc::SYS_preadv2,
        "write" => libc::SYS_write,
        "pwrite64" => libc::SYS_pwrite64,
        "writev" => libc::SYS_writev,
        "pwritev" => libc::SYS_pwritev,
        "pwritev2" => libc::SYS_pwritev2,
        "fsync" => libc::SYS_fsync,
        "fdatasync" => libc::SYS_fdatasync,
        "msync" => libc::SYS_msync,
        "sync_file_range" => libc::SYS_sync_file_range,
        "sendfile" => libc::SYS_sendfile,
        "splice" => libc::SYS_splice,
        _ => return None,
    };
    i32::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::call_number;

    #[test]
    fn calls_have_their_own_numbers() {
        assert_eq!(call_number("write").map(i64::from), Some(libc::SYS_write));
        assert_ne!(call_number("write"), call_number("writev"));
        assert_eq!(call_number("vfs_write"), None);
    }
}
