//! Connections with both ends in this test, and the kernel's view of them. Each call is made by name.

use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// One end of a connection.
pub(crate) struct End(TcpStream);

/// Both ends of a connection.
pub(crate) struct Connection {
    pub(crate) client: End,
    pub(crate) server: End,
}

/// The queues whose sequence numbers the kernel reports. See `TCP_QUEUE_SEQ` in net/ipv4/tcp.c.
#[derive(Clone, Copy)]
pub(crate) enum Queue {
    Receive = 1,
    Send = 2,
}

/// A call, and how many bytes it moves.
type Call = (fn(&End, usize), usize);

/// The calls that send, and how many bytes each sends. From this size on the bytes come from a file.
pub(crate) const FROM_FILE: usize = 5_000;
pub(crate) const SENDS: [Call; 6] = [
    (End::write, 100),
    (End::write_vectored, 200),
    (End::send, 300),
    (End::send_message, 400),
    (End::send_file, FROM_FILE),
    (End::splice_file, FROM_FILE + 1),
];

/// The calls that receive, and how many bytes each receives.
pub(crate) const RECEIVES: [Call; 4] =
    [(End::read_exactly, 70), (End::read_vectored, 80), (End::receive, 90), (End::receive_message, 95)];

/// Moves this thread into a new network namespace whose loopback interface is up.
pub(crate) fn enter_own_network() {
    // SAFETY: the call takes a number only.
    done(unsafe { libc::unshare(libc::CLONE_NEWNET) } as isize);
    let any = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    // SAFETY: all zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as _;
    request.ifr_name[1] = b'o' as _;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as _;
    // SAFETY: the request is a valid ifreq, which the call reads.
    done(unsafe { libc::ioctl(any.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) } as isize);
}

/// Sets whether new connections in this namespace use window scaling (RFC 7323).
pub(crate) fn offer_window_scaling(offered: bool) {
    fs::write("/proc/sys/net/ipv4/tcp_window_scaling", if offered { "1" } else { "0" }).unwrap();
}

pub(crate) fn current_tid() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// Receives pending bytes with one `recvfrom`.
pub(crate) fn receive_from(socket: &UnixStream) {
    let mut bytes = [0u8; 100];
    // SAFETY: the buffer is writable for its length.
    done(unsafe { libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0) });
}

fn done(result: isize) -> usize {
    usize::try_from(result).unwrap_or_else(|_| panic!("{}", io::Error::last_os_error()))
}

/// A pipe's reading and writing end.
pub(crate) fn pipe() -> (File, File) {
    let mut ends = [0; 2];
    // SAFETY: there is room for two descriptors.
    done(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } as isize);
    // SAFETY: the kernel has just made these descriptors, and nothing else owns them.
    ends.map(|end| unsafe { File::from_raw_fd(end) }).into()
}

/// A file of that many bytes, positioned at its start.
fn file(bytes: usize) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![7; bytes]).unwrap();
    io::Seek::rewind(&mut file).unwrap();
    file
}

fn set_option<T>(socket: RawFd, level: i32, option: i32, value: &T) {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is readable for its size.
    done(unsafe { libc::setsockopt(socket, level, option, (&raw const *value).cast(), length) } as isize);
}

/// Makes a socket drop every arriving segment, as if it were lost.
fn drop_segments(socket: RawFd) {
    const RETURN_CONSTANT: u16 = 0x06;
    let mut accept_nothing = libc::sock_filter { code: RETURN_CONSTANT, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut accept_nothing };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program);
}

fn accept_segments(socket: RawFd) {
    set_option(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0);
}

/// A TCP counter of this thread's network namespace (`TcpExt`, net/ipv4/proc.c).
pub(crate) fn counter(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, counts) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|it| it == name).unwrap();
    counts.split(' ').nth(at).unwrap().parse().unwrap()
}

impl Connection {
    pub(crate) fn open(listen: &str, connect: &str) -> Self {
        let listener = TcpListener::bind(format!("{listen}:0")).unwrap();
        let client =
            TcpStream::connect(format!("{connect}:{}", listener.local_addr().unwrap().port())).unwrap();
        Self { client: End(client), server: End(listener.accept().unwrap().0) }
    }

    /// Opens a connection whose first SYN is dropped. It is retransmitted after a second.
    pub(crate) fn open_at_the_second_try() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, before) = (listener.local_addr().unwrap(), counter("TCPSynRetrans"));
        drop_segments(listener.as_raw_fd());
        let connecting = std::thread::spawn(move || TcpStream::connect(address).unwrap());
        let end = Instant::now() + Duration::from_secs(60);
        while counter("TCPSynRetrans") == before {
            assert!(Instant::now() < end, "no SYN is sent again");
            std::thread::sleep(Duration::from_millis(20));
        }
        accept_segments(listener.as_raw_fd());
        Self { server: End(listener.accept().unwrap().0), client: End(connecting.join().unwrap()) }
    }

    /// Gives the server a small buffer and the client a large one. They last for the connection's lifetime.
    pub(crate) fn fix_buffers(&self) {
        self.server.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &(32 << 10));
        self.client.set(libc::SOL_SOCKET, libc::SO_SNDBUF, &(192 << 10));
    }

    /// Closes the server's end with unread bytes and without lingering; returns the other end.
    pub(crate) fn reset_by_server(self) -> End {
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        self.server.set(libc::SOL_SOCKET, libc::SO_LINGER, &linger);
        drop(self.server);
        self.client
    }
}

impl End {
    /// This end and the other one; IPv4 addresses are not mapped.
    pub(crate) fn ends(&self) -> (SocketAddr, SocketAddr) {
        let plain = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
        (plain(self.0.local_addr().unwrap()), plain(self.0.peer_addr().unwrap()))
    }

    fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    fn set<T>(&self, level: i32, option: i32, value: &T) {
        set_option(self.fd(), level, option, value);
    }

    /// The next sequence number of a queue.
    ///
    /// The socket is temporarily in repair mode, and leaves it without a window probe.
    pub(crate) fn sequence(&self, queue: Queue) -> u32 {
        const OFF_WITHOUT_PROBE: i32 = -1;
        self.set(libc::IPPROTO_TCP, libc::TCP_REPAIR, &1);
        self.set(libc::IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, &(queue as i32));
        let (mut sequence, mut length) = (0u32, 4);
        // SAFETY: both are writable, the value for the given length.
        done(unsafe {
            let value = (&raw mut sequence).cast();
            libc::getsockopt(self.fd(), libc::IPPROTO_TCP, libc::TCP_QUEUE_SEQ, value, &raw mut length)
        } as isize);
        self.set(libc::IPPROTO_TCP, libc::TCP_REPAIR, &OFF_WITHOUT_PROBE);
        sequence
    }

    fn info(&self) -> libc::tcp_info {
        // SAFETY: all zero is a valid tcp_info.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut length = size_of_val(&info) as libc::socklen_t;
        // SAFETY: both are writable, the value for the given length.
        done(unsafe {
            let value = (&raw mut info).cast();
            libc::getsockopt(self.fd(), libc::IPPROTO_TCP, libc::TCP_INFO, value, &raw mut length)
        } as isize);
        info
    }

    pub(crate) fn retransmits(&self) -> u32 {
        self.info().tcpi_total_retrans
    }

    /// Returns once the kernel has probed the other end's window twice.
    pub(crate) fn wait_for_window_probes(&self) {
        let end = Instant::now() + Duration::from_secs(30);
        while self.info().tcpi_backoff < 2 {
            assert!(Instant::now() < end, "the window does not close");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn write(&self, bytes: usize) {
        assert_eq!((&self.0).write(&vec![1; bytes]).unwrap(), bytes);
    }

    fn write_vectored(&self, bytes: usize) {
        let (one, other) = (vec![2; bytes / 2], vec![3; bytes - bytes / 2]);
        assert_eq!((&self.0).write_vectored(&[IoSlice::new(&one), IoSlice::new(&other)]).unwrap(), bytes);
    }

    fn send(&self, bytes: usize) {
        let buffer = vec![4u8; bytes];
        // SAFETY: the buffer is readable for its length.
        assert_eq!(done(unsafe { libc::send(self.fd(), buffer.as_ptr().cast(), bytes, 0) }), bytes);
    }

    fn send_message(&self, bytes: usize) {
        let mut buffer = vec![5u8; bytes];
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: bytes };
        // SAFETY: all zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        // SAFETY: the message names one buffer, which is readable for its length.
        assert_eq!(done(unsafe { libc::sendmsg(self.fd(), &raw const message, 0) }), bytes);
    }

    fn send_file(&self, bytes: usize) {
        let file = file(bytes);
        let to = self.fd();
        // SAFETY: both descriptors are open; no offset is given.
        let sent = unsafe { libc::sendfile(to, file.as_raw_fd(), std::ptr::null_mut(), bytes) };
        assert_eq!(done(sent), bytes);
    }

    /// Sends from a file into a pipe, and from the pipe.
    fn splice_file(&self, bytes: usize) {
        let (reader, writer) = pipe();
        let none = std::ptr::null_mut();
        let file = file(bytes);
        // SAFETY: the descriptors are open; no offsets are given.
        done(unsafe { libc::splice(file.as_raw_fd(), none, writer.as_raw_fd(), none, bytes, 0) });
        // SAFETY: as above.
        assert_eq!(done(unsafe { libc::splice(reader.as_raw_fd(), none, self.fd(), none, bytes, 0) }), bytes);
    }

    /// Reads in one call, once all bytes have arrived: the kernel may leave their delivery to another thread.
    pub(crate) fn read_exactly(&self, bytes: usize) {
        let end = Instant::now() + Duration::from_secs(60);
        while usize::try_from(self.query(libc::FIONREAD)).unwrap() < bytes {
            assert!(Instant::now() < end, "{bytes} bytes do not come");
            std::thread::yield_now();
        }
        assert_eq!((&self.0).read(&mut vec![0; bytes]).unwrap(), bytes);
    }

    fn read_vectored(&self, bytes: usize) {
        let (mut one, mut other) = (vec![0; bytes / 2], vec![0; bytes - bytes / 2]);
        let parts = &mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)];
        assert_eq!((&self.0).read_vectored(parts).unwrap(), bytes);
    }

    fn receive(&self, bytes: usize) {
        let mut buffer = vec![0u8; bytes];
        // SAFETY: the buffer is writable for its length.
        assert_eq!(done(unsafe { libc::recv(self.fd(), buffer.as_mut_ptr().cast(), bytes, 0) }), bytes);
    }

    fn receive_message(&self, bytes: usize) {
        let mut buffer = vec![0u8; bytes];
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: bytes };
        // SAFETY: all zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        // SAFETY: the message names one buffer, which is writable for its length.
        assert_eq!(done(unsafe { libc::recvmsg(self.fd(), &raw mut message, 0) }), bytes);
    }

    /// Reads that many times without waiting, and finds nothing.
    pub(crate) fn find_nothing(&self, reads: usize) {
        self.0.set_nonblocking(true).unwrap();
        for _ in 0..reads {
            assert_eq!((&self.0).read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        self.0.set_nonblocking(false).unwrap();
    }

    /// Writes without waiting until the socket takes no more.
    pub(crate) fn fill(&self) {
        self.0.set_nonblocking(true).unwrap();
        let chunk = vec![6; 1 << 20];
        while (&self.0).write(&chunk).is_ok() {}
        self.0.set_nonblocking(false).unwrap();
    }

    /// Reads until the writer has nothing left to send and nothing arrives any more. Waits a while for that: a window
    /// that was closed may take long to open.
    pub(crate) fn drain(&self, writer: &Self) {
        self.0.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut buffer = vec![0; 1 << 20];
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let came = (&self.0).read(&mut buffer).is_ok_and(|bytes| bytes > 0);
            if !came && writer.unsent_bytes() == 0 {
                break;
            }
            assert!(Instant::now() < end, "{} bytes are not sent", writer.unsent_bytes());
        }
        self.0.set_read_timeout(None).unwrap();
    }

    /// Written bytes that the other end has not acknowledged.
    fn unsent_bytes(&self) -> i32 {
        self.query(libc::TIOCOUTQ)
    }

    /// Result of an ioctl that returns a number of bytes.
    fn query(&self, request: libc::c_ulong) -> i32 {
        let mut bytes = 0_i32;
        // SAFETY: both requests write an int.
        done(unsafe { libc::ioctl(self.fd(), request as _, &raw mut bytes) } as isize);
        bytes
    }

    pub(crate) fn fail_to_read(&self) -> i32 {
        (&self.0).read(&mut [0]).unwrap_err().raw_os_error().unwrap()
    }

    pub(crate) fn fail_to_write(&self) -> i32 {
        (&self.0).write(&[0]).unwrap_err().raw_os_error().unwrap()
    }

    pub(crate) fn drop_segments(&self) {
        drop_segments(self.fd());
    }

    pub(crate) fn accept_segments(&self) {
        accept_segments(self.fd());
    }
}
