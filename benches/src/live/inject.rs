//! Sends the packets of a capture to an interface at an even rate. Reads only captures that packets.rs wrote.

use std::fs::File;
use std::io::{BufReader, Read};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, bind, send, socket};

/// Packets per second.
pub(crate) const RATE: u64 = 100_000;
const PAUSE: Duration = Duration::from_micros(50);
/// Timeout for a reader to start.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time for a reader to finish its preparations after it has opened its socket.
const GRACE: Duration = Duration::from_millis(300);

/// Waits until a process reads the interface `watched`, and sends everything. Prints the number of packets and the
/// microseconds it took.
pub(crate) fn inject(interface: &str, watched: &str, capture: &Path) -> anyhow::Result<()> {
    let socket = open(interface)?;
    let mut packets = Packets::open(capture)?;
    await_reader(watched)?;
    let start = Instant::now();
    let mut sent = 0;
    while let Some(packet) = packets.next()? {
        while sent >= due(start) {
            sleep(PAUSE);
        }
        send(socket.as_raw_fd(), packet, MsgFlags::empty()).context("the kernel took no packet")?;
        sent += 1;
    }
    println!("{sent} {}", start.elapsed().as_micros());
    Ok(())
}

/// Number of packets due by now.
fn due(start: Instant) -> u64 {
    (start.elapsed().as_nanos() as u64).saturating_mul(RATE) / 1_000_000_000 + 1
}

/// A packet socket of protocol 0: it sends, and receives nothing.
fn open(interface: &str) -> anyhow::Result<OwnedFd> {
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
    let address = getifaddrs()?
        .filter(|found| found.interface_name == interface)
        .find_map(|found| found.address.filter(|address| address.as_link_addr().is_some()))
        .with_context(|| format!("there is no interface {interface}"))?;
    bind(socket.as_raw_fd(), &address)?;
    Ok(socket)
}

/// Waits for a running packet socket on an interface: `/proc/net/packet` has its
/// index in the fifth column and 1 in the sixth (`packet_seq_show` in net/packet).
fn await_reader(watched: &str) -> anyhow::Result<()> {
    let index = if_nametoindex(watched)?.to_string();
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let sockets = std::fs::read_to_string("/proc/net/packet")?;
        let is_reader = |line: &str| {
            let mut columns = line.split_whitespace().skip(4);
            columns.next() == Some(&index) && columns.next() == Some("1")
        };
        if sockets.lines().any(is_reader) {
            sleep(GRACE);
            return Ok(());
        }
        sleep(Duration::from_millis(20));
    }
    bail!("nobody began to read {watched}")
}

struct Packets {
    file: BufReader<File>,
    packet: Vec<u8>,
}

impl Packets {
    fn open(capture: &Path) -> anyhow::Result<Self> {
        let mut file = BufReader::with_capacity(1 << 20, File::open(capture)?);
        file.read_exact(&mut [0; 24])?;
        Ok(Self { file, packet: Vec::new() })
    }

    fn next(&mut self) -> anyhow::Result<Option<&[u8]>> {
        let mut head = [0; 16];
        let read = self.file.by_ref().take(16).read(&mut head)?;
        if read == 0 {
            return Ok(None);
        }
        self.file.read_exact(head.get_mut(read..).unwrap_or_default())?;
        let [.., a, b, c, d] = head;
        self.packet.resize(u32::from_le_bytes([a, b, c, d]) as usize, 0);
        self.file.read_exact(&mut self.packet)?;
        Ok(Some(&self.packet))
    }
}
