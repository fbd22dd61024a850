//! The interfaces of a process's network namespace, asked of that namespace's own netlink as `ip link` does: what a sysfs shows is the
//! namespace of whoever mounted it. Changes nothing, and knows no speeds.
//!
//! A message is `nlmsghdr` (length u32, type u16, flags u16, sequence u32, port u32), then `ifinfomsg` (family u8, padding u8,
//! device type u16, index i32, flags u32, change u32), then attributes (length u16, type u16, value), each at a multiple of four bytes
//! and in the machine's byte order: `include/uapi/linux/netlink.h` and `rtnetlink.h`.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use model::{Interface, Pid};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

use super::links::MOST_INTERFACES;
use crate::network;

/// The kernel answers at once, or not at all.
const PATIENCE: Duration = Duration::from_secs(1);
/// What the kernel puts into one datagram at most (`netlink_dump` in `net/netlink/af_netlink.c`), twice.
const DATAGRAM_BYTES: usize = 64 << 10;
/// Datagrams that are read: an interface takes some 1,500 bytes.
const MOST_DATAGRAMS: usize = 64;

const HEADER_BYTES: usize = 16;
const INFO_BYTES: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
/// Without its two highest bits, which are flags.
const TYPE_MASK: u16 = 0x3fff;
/// `IFF_LOOPBACK`, include/uapi/linux/if.h.
const LOOPBACK: u32 = 0x8;

/// Those that are no loopback, by name. Of another namespace than this process's it takes `CAP_SYS_ADMIN`.
///
/// # Errors
/// The operating system's.
pub(super) fn interfaces(pid: Pid) -> io::Result<Vec<Interface>> {
    // A socket stays in the namespace in which it was made.
    let open = || socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None);
    let socket = network::within(pid, open)??;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    send(&socket, &request(), SendFlags::empty())?;
    let mut found = Vec::new();
    for _ in 0..MOST_DATAGRAMS {
        if take(&receive(&socket)?, &mut found)? {
            break;
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found.truncate(MOST_INTERFACES);
    Ok(found)
}

fn receive(socket: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut datagram = vec![0; DATAGRAM_BYTES];
    let (read, _) = recv(socket, datagram.as_mut_slice(), RecvFlags::empty())?;
    datagram.truncate(read);
    Ok(datagram)
}

/// Asks for all links.
fn request() -> Vec<u8> {
    let length = (HEADER_BYTES + INFO_BYTES) as u32;
    let mut request = length.to_ne_bytes().to_vec();
    request.extend(RTM_GETLINK.to_ne_bytes());
    request.extend(DUMP.to_ne_bytes());
    request.resize(HEADER_BYTES + INFO_BYTES, 0);
    request
}

/// Takes the interfaces of a datagram; whether it was the last.
fn take(datagram: &[u8], found: &mut Vec<Interface>) -> io::Result<bool> {
    for (kind, body) in messages(datagram) {
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let errno = u32_at(body, 0).unwrap_or(0) as i32;
                return Err(io::Error::from_raw_os_error(errno.saturating_neg()));
            }
            RTM_NEWLINK => found.extend(interface(body)),
            _ => {}
        }
    }
    Ok(false)
}

fn interface(body: &[u8]) -> Option<Interface> {
    if u32_at(body, 8)? & LOOPBACK != 0 {
        return None;
    }
    let (mut name, mut mtu_bytes) = (None, None);
    for (kind, value) in attributes(body.get(INFO_BYTES..)?) {
        match kind & TYPE_MASK {
            IFLA_IFNAME => name = value.split(|byte| *byte == 0).next(),
            IFLA_MTU => mtu_bytes = u32_at(value, 0),
            _ => {}
        }
    }
    let name = String::from_utf8_lossy(name?).into_owned().into();
    Some(Interface { name, mtu_bytes: mtu_bytes?, speed_bits_per_second: None })
}

/// The messages of a datagram, each with its type.
fn messages(datagram: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    pieces(datagram, |rest| Some((u32_at(rest, 0)? as usize, u16_at(rest, 4)?)), HEADER_BYTES)
}

/// The attributes of a message, each with its type.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    pieces(bytes, |rest| Some((usize::from(u16_at(rest, 0)?), u16_at(rest, 2)?)), 4)
}

/// Pieces that begin with their length, the head included, and their type; up to the first that is not whole.
fn pieces(
    mut rest: &[u8],
    head: impl Fn(&[u8]) -> Option<(usize, u16)>,
    head_bytes: usize,
) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = head(rest)?;
        let body = rest.get(head_bytes..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|chunk| u16::from_ne_bytes(*chunk))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::{NLMSG_DONE, NLMSG_ERROR, RTM_NEWLINK, take};

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.resize(16, 0);
        message.extend(body);
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut attribute = (4 + value.len() as u16).to_ne_bytes().to_vec();
        attribute.extend(kind.to_ne_bytes());
        attribute.extend(value);
        attribute.resize(attribute.len().next_multiple_of(4), 0);
        attribute
    }

    fn link(name: &str, mtu: u32, flags: u32) -> Vec<u8> {
        let mut body = vec![0; 8];
        body.extend(flags.to_ne_bytes());
        body.extend([0; 4]);
        // The hardware's address, six bytes and two more.
        body.extend(attribute(1, &[2; 6]));
        body.extend(attribute(3, format!("{name}\0").as_bytes()));
        body.extend(attribute(4, &mtu.to_ne_bytes()));
        message(RTM_NEWLINK, &body)
    }

    #[test]
    fn interfaces_come_with_their_largest_packets() {
        let (mut found, first) =
            (Vec::new(), [link("lo", 65_536, 0x9), link("uplink", 1_400, 0x1003)].concat());
        assert!(!take(&first, &mut found).unwrap());
        let last = [link("veth1", 9_000, 0x1002), message(NLMSG_DONE, &[0; 4])].concat();
        assert!(take(&last, &mut found).unwrap());
        let told: Vec<_> = found.iter().map(|one| (&*one.name, one.mtu_bytes)).collect();
        assert_eq!(told, [("uplink", 1_400), ("veth1", 9_000)]);
        let refused = take(&message(NLMSG_ERROR, &(-1_i32).to_ne_bytes()), &mut found).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn what_is_not_whole_is_left_out() {
        let whole = link("uplink", 1_400, 0);
        for end in 0..whole.len() {
            let mut found = Vec::new();
            assert!(!take(&whole[..end], &mut found).unwrap());
            assert!(found.is_empty(), "{end} bytes: {found:?}");
        }
        let mut endless = link("uplink", 1_400, 0);
        endless[..4].copy_from_slice(&0_u32.to_ne_bytes());
        assert!(!take(&endless, &mut Vec::new()).unwrap());
    }
}
