//! The process that parses what a JVM's Flight Recorder writes: follows the folder of its chunks, the only one that it may read, as
//! the broker's user. It is started in that folder: the way there leads through `/proc/PID/root`, which takes a capability.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use jvm::jfr::Tail;
use model::{ClockOffset, Nanos, Pid};
use serde::{Deserialize, Serialize};

use super::channel::{Channel, invalid};
use super::{Rows, receive_order, until_alone};

/// What a watch says to its parser of Flight Recorder's files.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// First of all; `since` is the time in nanoseconds before which nothing is wanted.
    Begin { pid: Pid, clock: ClockOffset, since: i64 },
    /// Hands over what the JVM has written since the last time.
    Poll,
    /// The same, and what was held back because it might not have been whole.
    Finish,
}

/// What that says when it has handed over all that there is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// What could not be read so far, in events and tries.
    pub(crate) damaged: u64,
}

/// Parses Flight Recorder's files in the current directory for the watch at the other end of the socket, until that has enough or
/// is gone. The caller has given away all that this process could do otherwise.
///
/// # Errors
/// The socket cannot be read or written, or what comes is no order.
pub fn parse_flight(socket: OwnedFd) -> io::Result<()> {
    let _ = rustix::thread::set_name(c"brokerscope-jfr");
    let _ = probes::set_sched_batch();
    until_alone(parse(Channel::new(UnixStream::from(socket))))
}

fn next(channel: &mut Channel) -> io::Result<Order> {
    loop {
        if let Some(order) = receive_order(channel, Duration::from_secs(60))? {
            return Ok(order);
        }
    }
}

fn parse(mut channel: Channel) -> io::Result<()> {
    let Order::Begin { pid, clock, since } = next(&mut channel)? else { return Err(invalid()) };
    let mut tail = Tail::of(Path::new("."), pid, clock, Nanos(since));
    let (mut rows, mut failures) = (Rows::default(), 0);
    loop {
        let order = next(&mut channel)?;
        let mut sent = Ok(());
        let mut push = |event| {
            rows.push(&event);
            if rows.is_full() && sent.is_ok() {
                sent = rows.send(&channel);
            }
        };
        failures += u64::from(tail.poll(crate::now(), &mut push).is_err());
        let is_last = match order {
            Order::Begin { .. } => return Err(invalid()),
            Order::Poll => false,
            Order::Finish => true,
        };
        if is_last {
            tail.finish(&mut push);
        }
        sent?;
        rows.send(&channel)?;
        let summary = tail.summary();
        let damaged = summary.damaged + summary.lost + failures + rows.dropped;
        channel.say(&Answer { damaged }, None)?;
        if is_last {
            return Ok(());
        }
    }
}
