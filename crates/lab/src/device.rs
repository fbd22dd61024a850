//! A block device with injected latency: a FUSE file system that serves one image file and delays reads or writes by
//! offset range and time.
//!
//! [`serve`] is the server, in its own process (`brokerscope-lab device`), because a process must not wait on a file
//! system that it serves. [`Device`] starts one and controls it over stdin: one order per line, each answered by a
//! line.

mod delay;
mod server;

pub use delay::{Delay, Direction, Pace};
pub use server::{ServeArguments, serve};

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Deserializer, json};

use crate::error::{Error, Result};
use crate::process::Process;
use crate::site::Site;
use crate::site::{DEVICE, ROLE};
use crate::{process, program, site};

/// An order to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Order {
    /// Add a rule; its window starts when the order is read.
    Delay(Delay),
    /// Do one write after the other, at this pace, in addition to the rules.
    Pace(Pace),
    /// Drop all rules and the pace.
    Clear,
    /// Report the recently served operations, and forget them.
    Trace,
    /// Append every write from now on to a file.
    Log(PathBuf),
}

/// The server's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Answer {
    /// The device is mounted.
    Ready,
    /// An order was carried out; for [`Order::Trace`], with the served operations, oldest first.
    Done(Vec<DeviceOperation>),
    /// The line was not an order.
    Refused(String),
}

/// One operation that the server answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceOperation {
    /// Read or write.
    pub direction: Direction,
    /// Offset on the device.
    pub offset: u64,
    /// Size in bytes.
    pub length: u64,
    /// When it reached the server, UTC nanoseconds.
    pub start_ns: i64,
    /// How long it was delayed.
    pub held_ms: u64,
}

/// Timeout for the server to mount or to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Parameters of a device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceOptions {
    /// Its size; the image is sparse.
    pub size_bytes: u64,
    /// Seed of the random delays.
    pub seed: u64,
}

/// A running device; dropping it unmounts the FUSE file system, which ends the server.
#[derive(Debug)]
pub struct Device {
    mount: PathBuf,
    orders: ChildStdin,
    answers: Receiver<Answer>,
    process: Process,
}

impl Device {
    /// Makes an image in `site` and serves it. The server is a process of `brokerscope-lab device`. Each device of a
    /// site has its own `number`.
    ///
    /// # Errors
    /// [`Error::Tool`] with the server's output if FUSE is not permitted.
    pub fn start(site: &Site, number: u32, options: DeviceOptions) -> Result<Self> {
        let backing = site.path().join(format!("backing-{number}.img"));
        let file = File::create(&backing).map_err(Error::io("write", &backing))?;
        file.set_len(options.size_bytes).map_err(Error::io("size", &backing))?;
        let mount = site.directory(&format!("device-{number}"))?;
        let log = site.path().join(format!("device-{number}.log"));
        let errors = File::create(&log).map_err(Error::io("write", &log))?;
        let mut command = Command::new(program::lab()?);
        command.args(["device", "--image"]).arg(&backing).arg("--mount").arg(&mount);
        command.arg("--seed").arg(options.seed.to_string()).env(ROLE, DEVICE);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut process = Process::spawn(&mut command, Some(site.path()))?;
        let (orders, answers) = pipes(&mut process)?;
        let device = Self { mount, orders, answers, process };
        match device.answer() {
            Ok(Answer::Ready) => Ok(device),
            _ => Err(Error::Tool { tool: "the device's server".to_owned(), output: process::tail(&log) }),
        }
    }

    /// The file that represents the device.
    pub fn image(&self) -> PathBuf {
        self.mount.join(server::NAME)
    }

    /// The server's process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Delays operations; a window, if any, starts now.
    pub fn delay(&mut self, rule: Delay) -> Result<()> {
        self.order(&Order::Delay(rule)).map(drop)
    }

    /// Makes it do one write after the other, at this pace.
    pub fn keep(&mut self, pace: Pace) -> Result<()> {
        self.order(&Order::Pace(pace)).map(drop)
    }

    /// Removes all delays and the pace.
    pub fn clear(&mut self) -> Result<()> {
        self.order(&Order::Clear).map(drop)
    }

    /// Operations served since the last call (the newest 65,536), oldest first.
    pub fn trace(&mut self) -> Result<Vec<DeviceOperation>> {
        self.order(&Order::Trace)
    }

    /// Appends every write from now on to a file before answering it: its time (`CLOCK_MONOTONIC`, nanoseconds), its
    /// offset and its length, 8 bytes each, little-endian; then its bytes. A power cut may leave on the device what any
    /// first part of these writes leaves.
    pub fn log_writes(&mut self, path: &Path) -> Result<()> {
        self.order(&Order::Log(path.to_owned())).map(drop)
    }

    fn order(&mut self, order: &Order) -> Result<Vec<DeviceOperation>> {
        writeln!(self.orders, "{}", json!(order)).map_err(Error::system("control the device"))?;
        match self.answer()? {
            Answer::Done(served) => Ok(served),
            other => Err(Error::Unusable(format!("unexpected answer of the device: {other:?}"))),
        }
    }

    fn answer(&self) -> Result<Answer> {
        let (what, limit, hint) = ("the device's answer".to_owned(), ANSWER_TIMEOUT, String::new());
        self.answers.recv_timeout(limit).map_err(|silence| match silence {
            RecvTimeoutError::Timeout => Error::TooSlow { what, limit, hint },
            RecvTimeoutError::Disconnected => Error::Unusable("the device's server has gone".to_owned()),
        })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // EINVAL: never mounted, or unmounted together with its server.
        let _ = site::unmount(&self.mount);
    }
}

fn pipes(process: &mut Process) -> Result<(ChildStdin, Receiver<Answer>)> {
    let child = process.child_mut();
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::Unusable("the device's server has no pipes".to_owned()));
    };
    let (sender, answers) = channel();
    thread::spawn(move || {
        let read = Deserializer::from_reader(BufReader::new(output)).into_iter();
        read.map_while(std::result::Result::ok).try_for_each(|answer| sender.send(answer))
    });
    Ok((input, answers))
}

#[cfg(test)]
mod order_tests {
    use super::*;

    #[test]
    fn orders_round_trip_as_single_lines() {
        let delay =
            Delay { direction: Direction::Write, offset: 4096, length: u64::MAX, least_ms: 1, most_ms: 2 };
        for order in [
            Order::Delay(delay),
            Order::Pace(Pace { write_us: 5, bytes_per_second: 6 }),
            Order::Clear,
            Order::Trace,
        ] {
            let line = serde_json::to_string(&order).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Order>(&line).unwrap(), order);
        }
        for bad in ["", "clear", "\"Clean\"", "{\"Delay\":{\"offset\":1}}", "{\"Pace\":{\"write_us\":-1}}"] {
            assert!(serde_json::from_str::<Order>(bad).is_err(), "{bad}");
        }
    }
}
