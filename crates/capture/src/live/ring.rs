//! The socket and its ring: every system call and every pointer of live capture is here.
//! Does not interpret packets.
//!
//! The ring is an array of blocks shared with the kernel. A block belongs to the kernel until its status word has
//! `TP_STATUS_USER`, then to this process until the word is reset to `TP_STATUS_KERNEL`
//! (`Documentation/networking/packet_mmap.rst`).
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::error::Error;

/// Large enough for the largest packet that offload builds (512 KiB).
const BLOCK_BYTES: usize = 1 << 20;
const BLOCKS_AT_LEAST: usize = 4;
/// V3 uses it only to validate the sizes.
const FRAME_BYTES: usize = 2_048;
/// Timeout after which the kernel delivers a block that is not full. The delivery takes at most twice this time
/// (`prb_retire_rx_blk_timer_expired` in `net/packet/af_packet.c`). Not shorter, because every delivery wakes the
/// reader up; not longer, because a reader that stops reads for 100 ms more to get the packets that passed before.
const BLOCK_TIMEOUT_MS: u32 = 40;
/// Offset of a block's status word: after its version and the offset of its private area.
const STATUS_AT: usize = 8;

pub(super) struct Ring {
    interface: String,
    socket: OwnedFd,
    memory: NonNull<u8>,
    /// Number of blocks.
    pub(super) blocks: usize,
}

// SAFETY: the mapping is owned by this value alone and stays valid on any thread that uses it; no part
// of it depends on the thread that made it.
unsafe impl Send for Ring {}

impl Ring {
    pub(super) fn open(
        interface: &str,
        filter: &[libc::sock_filter],
        ring_bytes: usize,
    ) -> Result<Self, Error> {
        let index = interface_index(interface)?;
        let blocks = (ring_bytes / BLOCK_BYTES).max(BLOCKS_AT_LEAST);
        let step = |step| move |source| Error::Live { interface: interface.to_owned(), step, source };
        let socket = open_socket().map_err(step("opening a packet socket"))?;
        attach(&socket, filter).map_err(step("attaching the filter"))?;
        prepare(&socket, blocks).map_err(step("setting up the ring buffer"))?;
        let ring = Self::of_socket(interface, socket, blocks)?;
        // Packets arrive only from here on, after the filter and the ring are in place.
        bind(&ring.socket, index).map_err(step("binding to the interface"))?;
        // Binding to an interface that is down succeeds, and its error is reported next (`packet_do_bind`).
        match ring.socket_error() {
            error if error.raw_os_error() == Some(0) => Ok(ring),
            error => Err(step("binding to the interface")(error)),
        }
    }

    /// The ring of a socket that is already set up.
    pub(super) fn of_socket(interface: &str, socket: OwnedFd, blocks: usize) -> Result<Self, Error> {
        let failed =
            |source| Error::Live { interface: interface.to_owned(), step: "mapping the ring buffer", source };
        let memory = map(&socket, blocks).map_err(failed)?;
        Ok(Self { interface: interface.to_owned(), socket, memory, blocks })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// A block's bytes, if the kernel has delivered it.
    pub(super) fn block(&self, index: usize) -> Option<&[u8]> {
        if !self.is_ready(index) {
            return None;
        }
        let start = self.memory.as_ptr().wrapping_add(index * BLOCK_BYTES);
        // SAFETY: `is_ready` checked that the index is within the mapping, which lives as long as `self`. The
        // kernel does not write into a block that it has handed over, and giving it back takes `&mut self`,
        // which ends this borrow first.
        Some(unsafe { std::slice::from_raw_parts(start, BLOCK_BYTES) })
    }

    /// Whether the kernel has delivered a block; false for one that does not exist.
    pub(super) fn is_ready(&self, index: usize) -> bool {
        self.status(index).is_some_and(|status| status.load(Ordering::Acquire) & libc::TP_STATUS_USER != 0)
    }

    /// Returns a block to the kernel.
    pub(super) fn release(&mut self, index: usize) {
        if let Some(status) = self.status(index) {
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
    }

    fn status(&self, index: usize) -> Option<&AtomicU32> {
        if index >= self.blocks {
            return None;
        }
        let word = self.memory.as_ptr().wrapping_add(index * BLOCK_BYTES + STATUS_AT);
        // SAFETY: the word is within the mapping and aligned, since blocks begin at page boundaries. Both
        // sides access it as one 32-bit word; while a slice of the block exists nobody writes it.
        Some(unsafe { AtomicU32::from_ptr(word.cast()) })
    }

    /// Waits until a block is delivered, `timeout` has passed or a signal arrives.
    pub(super) fn wait(&self, timeout: Duration) -> Result<(), Error> {
        let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        let mut poll = libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` is one valid pollfd for the time of the call.
        let ready = unsafe { libc::poll(&raw mut poll, 1, millis) };
        let failed = match ready {
            -1 => io::Error::last_os_error(),
            _ if poll.revents & libc::POLLERR != 0 => self.socket_error(),
            _ => return Ok(()),
        };
        if failed.kind() == io::ErrorKind::Interrupted || failed.raw_os_error() == Some(0) {
            return Ok(());
        }
        Err(self.failed("waiting for packets", failed))
    }

    fn failed(&self, step: &'static str, source: io::Error) -> Error {
        Error::Live { interface: self.interface.clone(), step, source }
    }

    fn socket_error(&self) -> io::Error {
        let mut number: libc::c_int = 0;
        match read_option(&self.socket, libc::SOL_SOCKET, libc::SO_ERROR, &mut number) {
            Ok(()) => io::Error::from_raw_os_error(number),
            Err(error) => error,
        }
    }

    /// Packets dropped since the last call.
    pub(super) fn take_drops(&mut self) -> Result<u32, Error> {
        let mut statistics = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        read_option(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut statistics)
            .map_err(|source| self.failed("reading the drop count", source))?;
        Ok(statistics.tp_drops)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and length and nothing refers to it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.blocks * BLOCK_BYTES) };
    }
}

/// Zero means all interfaces.
fn interface_index(name: &str) -> Result<u32, Error> {
    if name == "any" {
        return Ok(0);
    }
    let unknown = || Error::NoInterface { name: name.to_owned() };
    let c_name = CString::new(name).map_err(|_| unknown())?;
    // SAFETY: `c_name` is a valid string that ends in a zero byte.
    match unsafe { libc::if_nametoindex(c_name.as_ptr()) } {
        0 => Err(unknown()),
        index => Ok(index),
    }
}

/// Opens a socket that receives nothing yet: its protocol is zero. `SOCK_DGRAM` strips link headers.
fn open_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn attach(socket: &OwnedFd, filter: &[libc::sock_filter]) -> io::Result<()> {
    let mut program = filter.to_vec();
    let len = u16::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
    // A process that takes over the socket must not be able to widen the filter.
    let locked: libc::c_int = 1;
    set_option(socket, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, &locked)
}

fn prepare(socket: &OwnedFd, blocks: usize) -> io::Result<()> {
    let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
    let request = libc::tpacket_req3 {
        tp_block_size: BLOCK_BYTES as u32,
        tp_block_nr: blocks as u32,
        tp_frame_size: FRAME_BYTES as u32,
        tp_frame_nr: (blocks * (BLOCK_BYTES / FRAME_BYTES)) as u32,
        tp_retire_blk_tov: BLOCK_TIMEOUT_MS,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
}

fn map(socket: &OwnedFd, blocks: usize) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let len = blocks * BLOCK_BYTES;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
    let memory =
        unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, socket.as_raw_fd(), 0) };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(memory.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
}

fn bind(socket: &OwnedFd, interface_index: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: interface_index as libc::c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is a valid sockaddr_ll of that length for the time of the call.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if bound == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_option<T>(socket: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of a value that is valid for the time of the call; a filter
    // program's own pointer is valid too, since its caller keeps the instructions.
    let set =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), len) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `T` is plain numbers: the kernel may write any bytes into it.
fn read_option<T>(socket: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into a value of that size; the types used are C
    // structs of integers, for which every bit pattern is valid.
    let read = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, std::ptr::from_mut(value).cast(), &raw mut len)
    };
    if read == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
