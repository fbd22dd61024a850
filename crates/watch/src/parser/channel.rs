//! Messages between a watch and its parser process over a Unix socket: a kind, a body, and optionally a descriptor. Does not
//! interpret them. Fuzzed by: rows.
//!
//! The other end may have been compromised by what it parsed: a message has at most [`MAX_MESSAGE`] bytes, and anything else
//! is an error.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;

/// Limit of a message in bytes, without its head.
pub(crate) const MAX_MESSAGE: usize = 4 << 20;
/// Bytes of one read.
const PIECE: usize = 128 << 10;
/// Bytes of the head: the body's length and the message's kind.
const HEAD: usize = 5;
/// Limit of received descriptors that were not taken; more are closed.
const MAX_DESCRIPTORS: usize = 2;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An order or a response, as JSON.
    Json,
    /// Rows, one after another ([`super::transfer`]).
    Rows,
    /// A time of `CLOCK_MONOTONIC` in nanoseconds, as `u64`.
    Time,
    /// The next piece of a log or a thread dump.
    Log,
}

/// One end of the connection.
pub(crate) struct Channel {
    socket: UnixStream,
    /// Received bytes; those before `at` have been taken.
    bytes: Vec<u8>,
    at: usize,
    descriptors: VecDeque<OwnedFd>,
}

impl Channel {
    pub(crate) fn new(socket: UnixStream) -> Self {
        Self { socket, bytes: Vec::new(), at: 0, descriptors: VecDeque::new() }
    }

    /// Sends a message; waits while the other end has not read earlier ones.
    pub(crate) fn send(&self, kind: Kind, body: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let [a, b, c, d] = (body.len() as u32).to_ne_bytes();
        let head = [a, b, c, d, kind as u8];
        let descriptors: Vec<_> = descriptor.into_iter().collect();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let parts = [IoSlice::new(&head), IoSlice::new(body)];
        let sent = sendmsg(&self.socket, &parts, &mut control, SendFlags::NOSIGNAL)?;
        let mut socket = &self.socket;
        socket.write_all(head.get(sent..).unwrap_or_default())?;
        socket.write_all(body.get(sent.saturating_sub(HEAD)..).unwrap_or_default())
    }

    /// Sends an order or a response.
    pub(crate) fn send_json(
        &self,
        message: &impl Serialize,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        self.send(Kind::Json, &serde_json::to_vec(message)?, descriptor)
    }

    /// Returns the next message if all of it arrives within the timeout.
    ///
    /// # Errors
    /// The other end has hung up, or sent an invalid message.
    pub(crate) fn receive(&mut self, timeout: Duration) -> io::Result<Option<(Kind, &[u8])>> {
        let mut wait = timeout;
        while self.next_end()?.is_none() {
            if !self.read(wait)? {
                return Ok(None);
            }
            wait = Duration::ZERO;
        }
        let Some((kind, end)) = self.next_end()? else { return Ok(None) };
        let begin = std::mem::replace(&mut self.at, end) + HEAD;
        Ok(self.bytes.get(begin..end).map(|body| (kind, body)))
    }

    /// Takes the descriptor that came with a message.
    pub(crate) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }

    /// Kind and end of the next message, if it is complete.
    fn next_end(&self) -> io::Result<Option<(Kind, usize)>> {
        let head = self.bytes.get(self.at..self.at + HEAD);
        let Some(&[a, b, c, d, kind]) = head else { return Ok(None) };
        let length = u32::from_ne_bytes([a, b, c, d]) as usize;
        let kinds = [Kind::Json, Kind::Rows, Kind::Time, Kind::Log];
        let kind = kinds.into_iter().find(|known| *known as u8 == kind);
        let Some(kind) = kind.filter(|_| length <= MAX_MESSAGE) else { return Err(invalid()) };
        let end = self.at + HEAD + length;
        Ok((end <= self.bytes.len()).then_some((kind, end)))
    }

    /// Reads available bytes. Returns whether there were any.
    fn read(&mut self, timeout: Duration) -> io::Result<bool> {
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        let is_ready = match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => ready > 0,
            Err(rustix::io::Errno::INTR) => false,
            Err(error) => return Err(error.into()),
        };
        if !is_ready {
            return Ok(false);
        }
        self.bytes.drain(..std::mem::take(&mut self.at));
        let length = self.bytes.len();
        self.bytes.resize(length + PIECE, 0);
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let (_, buffer) = self.bytes.split_at_mut(length);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received = recvmsg(&self.socket, &mut [IoSliceMut::new(buffer)], &mut control, flags);
        let bytes = received.as_ref().map_or(0, |received| received.bytes);
        self.bytes.truncate(length + bytes);
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                let capacity = MAX_DESCRIPTORS.saturating_sub(self.descriptors.len());
                self.descriptors.extend(descriptors.take(capacity));
            }
        }
        match received {
            Ok(_) if bytes == 0 => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// The error for an invalid message.
pub(crate) fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it said something that it never says")
}

#[cfg(test)]
mod tests {
    use super::{Channel, Duration, HEAD, Kind, MAX_MESSAGE, UnixStream};
    use std::io::{ErrorKind, Write as _};
    use std::os::fd::AsFd as _;

    const NOW: Duration = Duration::ZERO;

    fn pair() -> (Channel, Channel) {
        let (one, other) = UnixStream::pair().unwrap();
        (Channel::new(one), Channel::new(other))
    }

    #[test]
    fn messages_round_trip() {
        let (from, mut to) = pair();
        let large = vec![7; 3 * super::PIECE];
        let sent = [(Kind::Time, &b"12345678"[..]), (Kind::Rows, &large), (Kind::Json, b"")];
        std::thread::scope(|scope| {
            scope.spawn(|| sent.iter().for_each(|(kind, body)| from.send(*kind, body, None).unwrap()));
            for (kind, body) in sent {
                let received = loop {
                    if let Some(received) = to.receive(Duration::from_secs(10)).unwrap() {
                        break received.0 == kind && received.1 == body;
                    }
                };
                assert!(received, "{kind:?}");
            }
        });
        assert_eq!(to.receive(NOW).unwrap(), None);
        drop(from);
        assert_eq!(to.receive(NOW).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn descriptor_arrives_with_its_message() {
        let (from, mut to) = pair();
        let (sent_end, mut handed_over) = UnixStream::pair().unwrap();
        from.send(Kind::Json, b"{}", Some(sent_end.as_fd())).unwrap();
        drop(sent_end);
        assert!(to.receive(NOW).unwrap().is_some());
        let socket = UnixStream::from(to.take_descriptor().unwrap());
        handed_over.write_all(b"x").unwrap();
        assert_eq!(std::io::Read::read(&mut &socket, &mut [0; 2]).unwrap(), 1);
        assert!(to.take_descriptor().is_none());
    }

    #[test]
    fn refuses_a_wrong_message_length_or_kind() {
        for head in [[0xff; HEAD], [0, 0, 0, 0, 9]] {
            let (from, mut to) = pair();
            (&from.socket).write_all(&head).unwrap();
            assert_eq!(to.receive(NOW).unwrap_err().kind(), ErrorKind::InvalidData, "{head:?}");
        }
        assert!(MAX_MESSAGE < u32::MAX as usize);
    }
}
