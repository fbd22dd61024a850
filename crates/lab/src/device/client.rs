//! The lab's end of a device: starts its server as a process and steers it.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Deserializer, json};

use super::delay::{Delay, Pace};
use super::order::{Answer, DeviceOperation, Order};
use super::server::NAME;
use crate::clean::{DEVICE, ROLE};
use crate::error::Error;
use crate::process::Process;
use crate::site::Site;
use crate::{clean, process, program};

/// How long the server may take to mount or to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// What a device is made of.
#[derive(Clone, Copy, Debug)]
pub struct DeviceOptions {
    /// Its size; the image is sparse.
    pub size_bytes: u64,
    /// Seed of the delays' chance.
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
    /// Makes an image in `site` and serves it by a process of `brokerscope-lab device`. Of
    /// several in a site each has a `number`.
    ///
    /// # Errors
    /// [`Error::Tool`] with the server's own words when FUSE is not permitted.
    pub fn start(site: &Site, number: u32, options: DeviceOptions) -> Result<Self, Error> {
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
            _ => Err(Error::Tool { tool: "the device's server".to_owned(), said: process::tail(&log) }),
        }
    }

    /// The file that stands for the device.
    pub fn image(&self) -> PathBuf {
        self.mount.join(NAME)
    }

    /// The server's process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Delays operations; a window, if any, counts from now.
    pub fn delay(&mut self, rule: Delay) -> Result<(), Error> {
        self.order(&Order::Delay(rule)).map(drop)
    }

    /// Has it do one write after the other, at this pace.
    pub fn keep(&mut self, pace: Pace) -> Result<(), Error> {
        self.order(&Order::Pace(pace)).map(drop)
    }

    /// Takes all delays and the pace back.
    pub fn clear(&mut self) -> Result<(), Error> {
        self.order(&Order::Clear).map(drop)
    }

    /// What was served since the last call (the newest 65,536 operations), oldest first.
    pub fn trace(&mut self) -> Result<Vec<DeviceOperation>, Error> {
        self.order(&Order::Trace)
    }

    fn order(&mut self, order: &Order) -> Result<Vec<DeviceOperation>, Error> {
        writeln!(self.orders, "{}", json!(order)).map_err(Error::system("steer the device"))?;
        match self.answer()? {
            Answer::Done(served) => Ok(served),
            other => Err(Error::Unusable(format!("the device answered {other:?}"))),
        }
    }

    fn answer(&self) -> Result<Answer, Error> {
        let (what, limit, hint) = ("the device's answer".to_owned(), ANSWER_TIMEOUT, String::new());
        self.answers.recv_timeout(limit).map_err(|silence| match silence {
            RecvTimeoutError::Timeout => Error::TooSlow { what, limit, hint },
            RecvTimeoutError::Disconnected => Error::Unusable("the device's server has gone".to_owned()),
        })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // EINVAL: never mounted, or the mount went with its server.
        let _ = clean::unmount(&self.mount);
    }
}

fn pipes(process: &mut Process) -> Result<(ChildStdin, Receiver<Answer>), Error> {
    let child = process.child_mut();
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::Unusable("the device's server has no pipes".to_owned()));
    };
    let (sender, answers) = channel();
    thread::spawn(move || {
        let read = Deserializer::from_reader(BufReader::new(output)).into_iter();
        read.map_while(Result::ok).try_for_each(|answer| sender.send(answer))
    });
    Ok((input, answers))
}
