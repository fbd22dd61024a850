//! One connection of the producer, with its unanswered requests.

use std::collections::VecDeque;
use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use lab::client::{Endpoint, Transport};

use super::{WINDOW, frame};
use crate::kernel::TOPIC;

pub(super) struct Connection {
    transport: Transport,
    request: Vec<u8>,
    /// Requests to write at once.
    going: Vec<u8>,
    /// Incomplete answers.
    coming: Vec<u8>,
    /// Due times of unanswered requests, oldest first: a broker answers a connection in order.
    unanswered: VecDeque<Instant>,
    /// Due times of unsent requests. A broker that cannot write its answers reads no requests, so sending without
    /// reading would deadlock.
    unsent: VecDeque<Instant>,
    sent: i32,
}

impl Connection {
    pub(super) fn open(broker: Endpoint, partition: i32, records: i32) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(broker.address).context("cannot reach the broker")?;
        socket.set_nodelay(true)?;
        let transport = Transport::open(socket, broker)?;
        let request = frame::request(TOPIC, partition, records);
        let (going, coming) = (Vec::new(), Vec::new());
        let (unanswered, unsent) = (VecDeque::new(), VecDeque::new());
        Ok(Self { transport, request, going, coming, unanswered, unsent, sent: 0 })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        self.transport.socket()
    }

    /// Whether every request has its answer.
    pub(super) fn is_answered(&self) -> bool {
        self.oldest_unanswered().is_none()
    }

    /// Due time of the oldest unanswered request.
    pub(super) fn oldest_unanswered(&self) -> Option<Instant> {
        self.unanswered.front().or_else(|| self.unsent.front()).copied()
    }

    /// Sends `count` requests due at `due`, or keeps them until others are answered.
    pub(super) fn send(&mut self, count: usize, due: Instant) -> anyhow::Result<()> {
        self.unsent.extend(std::iter::repeat_n(due, count));
        self.send_unsent()
    }

    fn send_unsent(&mut self) -> anyhow::Result<()> {
        let count = WINDOW.saturating_sub(self.unanswered.len()).min(self.unsent.len());
        self.going.clear();
        for due in self.unsent.drain(..count) {
            self.sent = self.sent.wrapping_add(1);
            frame::number(&mut self.request, self.sent);
            self.going.extend_from_slice(&self.request);
            self.unanswered.push_back(due);
        }
        (&self.transport).write_all(&self.going).context("the broker takes no request")
    }

    /// Reads available answers; `each` gets the due time and the latency of each one's request. Returns their number.
    pub(super) fn receive(&mut self, mut each: impl FnMut(Instant, Duration)) -> anyhow::Result<usize> {
        ensure!(self.transport.read_available(&mut self.coming)?, "the broker closed a connection");
        let now = Instant::now();
        let (mut taken, mut answers) = (0, 0);
        while let Some((length, error)) = frame::answer(self.coming.get(taken..).unwrap_or_default(), TOPIC) {
            ensure!(error == 0, "the broker refused a batch with error {error}");
            let due = self.unanswered.pop_front().context("an answer to nothing")?;
            each(due, now.saturating_duration_since(due));
            taken += length;
            answers += 1;
        }
        self.coming.drain(..taken);
        self.send_unsent()?;
        Ok(answers)
    }
}
