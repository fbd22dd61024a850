//! The device's server process: mounts the image, says `ready`, obeys orders on stdin until the mount is
//! taken away. It goes on when stdin closes: then its lab was killed, and whoever cleans up needs it to
//! unmount in order.

use std::fs::OpenOptions;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use fuser::{MountOption, Session};

use super::image::{Image, Steering};
use super::order::Order;
use crate::error::Error;

/// The longest order that is read.
const LINE_BYTES: u64 = 4096;

/// Arguments of the hidden `lab device` command.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArguments {
    /// File that holds the device's bytes; its size is the device's.
    #[arg(long)]
    pub image: PathBuf,
    /// Empty directory to mount on; the device is the file `image` in it.
    #[arg(long)]
    pub mount: PathBuf,
    /// Seed of the delays' chance.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Serves until the file system is unmounted.
///
/// # Errors
/// [`Error::Io`] when the image cannot be opened or FUSE is not to be had.
pub fn serve(arguments: &ServeArguments) -> Result<(), Error> {
    let path = &arguments.image;
    let backing = OpenOptions::new().read(true).write(true).open(path).map_err(Error::io("open", path))?;
    let size = backing.metadata().map_err(Error::io("look at", path))?.len();
    let steering = Steering::new(arguments.seed);
    let image = Image::new(backing, size, Arc::clone(&steering));
    let options = [MountOption::FSName("brokerscope-lab".to_owned()), MountOption::NoAtime];
    let mut session = Session::new(image, &arguments.mount, &options)
        .map_err(Error::io("mount a FUSE file system on", &arguments.mount))?;
    answer("ready");
    thread::spawn(move || obey(&steering));
    session.run().map_err(Error::io("serve", &arguments.mount))
}

fn obey(steering: &Steering) {
    let mut input = std::io::stdin().lock();
    let mut line = String::new();
    loop {
        line.clear();
        match std::io::Read::take(&mut input, LINE_BYTES).read_line(&mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        match Order::parse(line.trim()) {
            Ok(order) => carry_out(order, steering),
            Err(refusal) => answer(&format!("error {refusal}")),
        }
    }
}

fn carry_out(order: Order, steering: &Steering) {
    match order {
        Order::Clear => steering.clear(),
        Order::Pace(pace) => steering.keep(pace),
        Order::Trace => {
            let lines: Vec<String> = steering.take_trace().iter().map(super::Served::line).collect();
            if !lines.is_empty() {
                answer(&lines.join("\n"));
            }
        }
        Order::Delay(mut rule) => {
            let now_ms = steering.now_ms();
            let shift =
                |(from, until): (u64, u64)| (from.saturating_add(now_ms), until.saturating_add(now_ms));
            rule.window_ms = rule.window_ms.map(shift);
            steering.delays().plant(rule);
        }
    }
    answer("ok");
}

/// Nobody listening is no error: the lab may be gone.
fn answer(line: &str) {
    let mut output = std::io::stdout().lock();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}
