//! CPU times of a process's threads. An iterator in the kernel lists them, which takes much less time than reading a file
//! in `/proc` for each. A separate BPF object, which hooks nothing.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};

use libbpf_rs::{Object, libbpf_sys};
use rustix::io::read;

use crate::bpf::thread_times::{OBJECT, types};
use crate::bpf::{self, Loader, whole};
use crate::process_ids::in_root_namespace;

/// The iterator's buffer in the kernel is 32 KiB.
const PORTION_BYTES: usize = 8 << 10;

/// The loaded program.
pub struct ThreadLister(Object);

/// A thread's times, as `/proc/PID/task/TID/schedstat` has them (Documentation/scheduler/sched-stats.rst).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadTimes {
    /// The thread.
    pub tid: u32,
    /// Nanoseconds on a CPU.
    pub ran_ns: u64,
    /// Nanoseconds waiting for a CPU.
    pub waited_ns: u64,
    /// How often it got a CPU.
    pub switches: u64,
}

impl ThreadLister {
    /// Loads the program. `None` if the kernel refuses it or has no iterator over one process (before Linux 6.1), or if
    /// this process is in a nested pid namespace: the program lists ids of the root one.
    pub fn load() -> Option<Self> {
        if !in_root_namespace() {
            return None;
        }
        let lister = Self(Loader::open("brokerscope_tt", OBJECT).ok()?.load().ok()?);
        lister.of_process(std::process::id()).ok()?;
        Some(lister)
    }

    /// Prepares listing the threads of a process.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn of_process(&self, pid: u32) -> io::Result<ThreadList> {
        let program = bpf::program(&self.0, "list_threads").map_err(io::Error::other)?;
        let task = libbpf_sys::bpf_iter_link_info__bindgen_ty_3 { pid, ..Default::default() };
        let mut process = libbpf_sys::bpf_iter_link_info { task };
        let options = libbpf_sys::bpf_link_create_opts {
            sz: size_of::<libbpf_sys::bpf_link_create_opts>() as _,
            iter_info: &raw mut process,
            iter_info_len: size_of_val(&process) as u32,
            ..Default::default()
        };
        let program = program.as_fd().as_raw_fd();
        // SAFETY: the options and what they point to live until the call returns.
        let link = unsafe {
            libbpf_sys::bpf_link_create(program, 0, libbpf_sys::BPF_TRACE_ITER, &raw const options)
        };
        owned(link).map(|link| ThreadList { link })
    }
}

/// The threads of a process.
pub struct ThreadList {
    link: OwnedFd,
}

impl ThreadList {
    /// Begins to list the threads.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn begin(&self) -> io::Result<Portions> {
        // SAFETY: a system call on a descriptor.
        let iterator = unsafe { libbpf_sys::bpf_iter_create(self.link.as_raw_fd()) };
        Ok(Portions { iterator: owned(iterator)?, bytes: Box::new([0; PORTION_BYTES]) })
    }
}

/// Threads, some hundreds at a time.
///
/// If a thread ends while it is listed, the kernel may leave out those after it.
pub struct Portions {
    iterator: OwnedFd,
    bytes: Box<[u8; PORTION_BYTES]>,
}

impl Portions {
    /// Lists the next threads; none at the end, or if the process has ended.
    ///
    /// # Errors
    /// The kernel has no memory.
    pub fn next_portion(&mut self) -> io::Result<impl Iterator<Item = ThreadTimes>> {
        let length = read(&self.iterator, &mut self.bytes[..])?;
        let listed = self.bytes.get(..length).unwrap_or_default();
        Ok(listed
            .chunks_exact(size_of::<types::thread_times>())
            .filter_map(whole::<types::thread_times>)
            .map(ThreadTimes::from))
    }
}

impl From<types::thread_times> for ThreadTimes {
    fn from(times: types::thread_times) -> Self {
        let types::thread_times { ran_ns, waited_ns, switches, tid, .. } = times;
        Self { tid, ran_ns, waited_ns, switches }
    }
}

/// A descriptor that libbpf returned, or its error.
fn owned(descriptor: i32) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(-descriptor));
    }
    // SAFETY: the kernel has just opened it for this process.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
