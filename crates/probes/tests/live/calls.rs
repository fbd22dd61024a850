//! System calls on files, each made once, and its expected report.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use model::FileOpKind;

/// Expected report of a call.
#[derive(Debug)]
pub(crate) struct Expectation {
    pub(crate) op: FileOpKind,
    pub(crate) result: i64,
    pub(crate) offset: u64,
    /// Relative to the directory.
    pub(crate) name: &'static str,
    pub(crate) to: Option<&'static str>,
}

/// Makes calls and collects what is expected of each.
#[derive(Default)]
struct Caller {
    expected: Vec<Expectation>,
}

impl Caller {
    /// Makes a call that must be reported.
    fn call(
        &mut self,
        op: FileOpKind,
        name: &'static str,
        offset: u64,
        number: libc::c_long,
        arguments: &[usize],
    ) -> i64 {
        let result = raw(number, arguments);
        self.expected.push(Expectation { op, result, offset, name, to: None });
        result
    }

    fn rename(&mut self, name: &'static str, to: &'static str, number: libc::c_long, arguments: &[usize]) {
        let result = raw(number, arguments);
        self.expected.push(Expectation { op: FileOpKind::Rename, result, offset: 0, name, to: Some(to) });
    }
}

/// The result as returned by the kernel.
fn raw(number: libc::c_long, arguments: &[usize]) -> i64 {
    let argument = |n: usize| arguments.get(n).copied().unwrap_or(0);
    // SAFETY: the callers pass valid arguments, with pointers to what outlives the call.
    let result = unsafe {
        libc::syscall(number, argument(0), argument(1), argument(2), argument(3), argument(4), argument(5))
    };
    if result < 0 { -i64::from(io::Error::last_os_error().raw_os_error().unwrap()) } else { result }
}

fn c(path: &Path) -> Vec<u8> {
    [path.to_str().unwrap().as_bytes(), b"\0"].concat()
}

fn at(bytes: &[u8]) -> usize {
    bytes.as_ptr() as usize
}

/// Makes all calls below an empty directory; `msync` only if it can be seen.
pub(crate) fn make(directory: &Path, mapped_syncs: bool) -> Vec<Expectation> {
    let mut caller = Caller::default();
    let (a, b) = (c(&directory.join("a")), c(&directory.join("b")));
    let dir = raw(libc::SYS_open, &[at(&c(directory)), libc::O_DIRECTORY as usize]) as usize;
    let read_write = (libc::O_RDWR | libc::O_CREAT) as usize;
    let here = libc::AT_FDCWD as usize;
    let fd =
        caller.call(FileOpKind::Open, "a", 0, libc::SYS_openat, &[here, at(&a), read_write, 0o644]) as usize;
    write(&mut caller, fd);
    read(&mut caller, fd);
    let other = caller.call(FileOpKind::Open, "b", 0, libc::SYS_creat, &[at(&b), 0o644]) as usize;
    transfer(&mut caller, fd, other);
    sync(&mut caller, fd, dir);
    if mapped_syncs {
        sync_mapped(&mut caller, fd);
    }
    resize(&mut caller, fd, &a);
    names(&mut caller, dir, &a, &b);
    for fd in [fd, other, dir] {
        raw(libc::SYS_close, &[fd]);
    }
    caller.expected
}

fn write(caller: &mut Caller, fd: usize) {
    let bytes = [0x5a_u8; 5000];
    let parts = [[at(&bytes), 100], [at(&bytes), 200]];
    let vector = parts.as_ptr() as usize;
    caller.call(FileOpKind::Write, "a", 0, libc::SYS_write, &[fd, at(&bytes), 5000]);
    caller.call(FileOpKind::Write, "a", 9000, libc::SYS_pwrite64, &[fd, at(&bytes), 10, 9000]);
    caller.call(FileOpKind::Write, "a", 5000, libc::SYS_writev, &[fd, vector, 2]);
    caller.call(FileOpKind::Write, "a", 6000, libc::SYS_pwritev, &[fd, vector, 2, 6000]);
    caller.call(FileOpKind::Write, "a", 5300, libc::SYS_pwritev2, &[fd, vector, 2, usize::MAX, usize::MAX]);
}

/// Expects 9010 bytes and position 5600.
fn read(caller: &mut Caller, fd: usize) {
    let bytes = [0_u8; 4000];
    let parts = [[at(&bytes), 100], [at(&bytes), 200]];
    let vector = parts.as_ptr() as usize;
    caller.call(FileOpKind::Read, "a", 5600, libc::SYS_read, &[fd, at(&bytes), 4000]);
    caller.call(FileOpKind::Read, "a", 9000, libc::SYS_pread64, &[fd, at(&bytes), 4000, 9000]);
    caller.call(FileOpKind::Read, "a", 9010, libc::SYS_readv, &[fd, vector, 2]);
    caller.call(FileOpKind::Read, "a", 10, libc::SYS_preadv, &[fd, vector, 2, 10]);
    caller.call(FileOpKind::Read, "a", 20, libc::SYS_preadv2, &[fd, vector, 2, 20]);
    let results: Vec<_> = caller.expected.iter().rev().take(5).map(|expected| expected.result).collect();
    assert_eq!(results, [300, 300, 0, 10, 3410]);
}

fn transfer(caller: &mut Caller, fd: usize, other: usize) {
    let (socket, _peer) = UnixStream::pair().unwrap();
    let mut offsets = [1000_u64, 2000, 7000, 100, 0];
    let base = offsets.as_mut_ptr() as usize;
    let pointers: [usize; 5] = std::array::from_fn(|n| base + 8 * n);
    let out = socket.as_raw_fd() as usize;
    caller.call(FileOpKind::Sendfile, "a", 1000, libc::SYS_sendfile, &[out, fd, pointers[0], 500]);
    let mut pipe = [0_i32; 2];
    assert_eq!(raw(libc::SYS_pipe2, &[pipe.as_mut_ptr() as usize, 0]), 0);
    let (from, to) = (pipe[0] as usize, pipe[1] as usize);
    caller.call(FileOpKind::Splice, "a", 2000, libc::SYS_splice, &[fd, pointers[1], to, 0, 600, 0]);
    caller.call(FileOpKind::Splice, "b", 7000, libc::SYS_splice, &[from, 0, other, pointers[2], 600, 0]);
    caller.call(
        FileOpKind::Copy,
        "a",
        100,
        libc::SYS_copy_file_range,
        &[fd, pointers[3], other, pointers[4], 700, 0],
    );
    for end in [from, to] {
        raw(libc::SYS_close, &[end]);
    }
    let results: Vec<_> = caller.expected.iter().rev().take(4).map(|expected| expected.result).collect();
    assert_eq!(results, [700, 600, 600, 500]);
}

fn sync(caller: &mut Caller, fd: usize, dir: usize) {
    caller.call(FileOpKind::Fsync, "a", 0, libc::SYS_fsync, &[fd]);
    caller.call(FileOpKind::Fdatasync, "a", 0, libc::SYS_fdatasync, &[fd]);
    caller.call(FileOpKind::Fsync, "", 0, libc::SYS_fsync, &[dir]);
}

fn sync_mapped(caller: &mut Caller, fd: usize) {
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let map = raw(libc::SYS_mmap, &[0, 8192, access, libc::MAP_SHARED as usize, fd, 0]) as usize;
    let second_page = map + 4096;
    caller.call(FileOpKind::Msync, "a", 4096, libc::SYS_msync, &[second_page, 4096, libc::MS_SYNC as usize]);
    assert_eq!(raw(libc::SYS_munmap, &[map, 8192]), 0);
}

fn resize(caller: &mut Caller, fd: usize, path: &[u8]) {
    caller.call(FileOpKind::Truncate, "a", 3000, libc::SYS_ftruncate, &[fd, 3000]);
    caller.call(FileOpKind::Truncate, "a", 2000, libc::SYS_truncate, &[at(path), 2000]);
    caller.call(FileOpKind::Allocate, "a", 4096, libc::SYS_fallocate, &[fd, 0, 4096, 8192]);
}

fn names(caller: &mut Caller, dir: usize, a: &[u8], b: &[u8]) {
    let (c, d) = (b"c\0", b"d\0");
    let here = libc::AT_FDCWD as usize;
    caller.rename("b", "a", libc::SYS_rename, &[at(b), at(a)]);
    caller.rename("a", "c", libc::SYS_renameat, &[here, at(a), dir, at(c)]);
    caller.rename("c", "d", libc::SYS_renameat2, &[dir, at(c), dir, at(d), 0]);
    caller.rename("c", "d", libc::SYS_renameat2, &[dir, at(c), dir, at(d), 0]);
    let opened = caller.call(FileOpKind::Open, "d", 0, libc::SYS_openat, &[dir, at(d), 0]);
    raw(libc::SYS_close, &[opened as usize]);
    // struct open_how: flags, mode, resolve
    let how = [0_u64; 3];
    let opened =
        caller.call(FileOpKind::Open, "d", 0, libc::SYS_openat2, &[dir, at(d), how.as_ptr() as usize, 24]);
    raw(libc::SYS_close, &[opened as usize]);
    caller.call(FileOpKind::Open, "a", 0, libc::SYS_open, &[at(a), 0]);
    caller.call(FileOpKind::Unlink, "d", 0, libc::SYS_unlinkat, &[dir, at(d), 0]);
    caller.call(FileOpKind::Unlink, "a", 0, libc::SYS_unlink, &[at(a)]);
    let results: Vec<_> = caller.expected.iter().rev().take(2).map(|expected| expected.result).collect();
    assert_eq!(results, [-i64::from(libc::ENOENT), 0]);
}

/// Sends bytes of a file to a socket, at an explicit offset.
pub(crate) fn send(file: &File, mut offset: u64, bytes: u64) {
    let (socket, peer) = UnixStream::pair().unwrap();
    let pointer = &raw mut offset as usize;
    let (out, from) = (socket.as_raw_fd() as usize, file.as_raw_fd() as usize);
    assert_eq!(raw(libc::SYS_sendfile, &[out, from, pointer, bytes as usize]), bytes as i64);
    drop(peer);
}

/// Maps a file, loads one byte of it and unmaps it again.
pub(crate) fn load_mapped(file: &File, length: u64, offset: u64) {
    let (length, fd) = (length as usize, file.as_raw_fd() as usize);
    let map = raw(libc::SYS_mmap, &[0, length, libc::PROT_READ as usize, libc::MAP_SHARED as usize, fd, 0]);
    assert!(map > 0, "{map}");
    let byte = (map as usize + offset as usize) as *const u8;
    // SAFETY: within the mapping just made.
    assert_eq!(unsafe { byte.read_volatile() }, 7);
    assert_eq!(raw(libc::SYS_munmap, &[map as usize, length]), 0);
}
