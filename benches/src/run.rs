//! One run of a program: its time and its peak memory, exact, as the kernel accounts them.
//!
//! Every run is started by a process of its own (this binary again): the kernel tells the peak memory of
//! all children together only.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nix::sys::resource::{UsageWho, getrusage};

/// The first argument that makes this binary [`measure`].
pub(crate) const MEASURE: &str = "--measure";

/// What a run took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    /// User and system time.
    pub(crate) cpu: Duration,
    pub(crate) peak_kib: u64,
}

/// Runs a program with its output going nowhere, in a process that measures it.
pub(crate) fn run(program: &str, arguments: &[&str]) -> anyhow::Result<Cost> {
    let output = Command::new(std::env::current_exe()?)
        .arg(MEASURE)
        .arg(program)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    match numbers[..] {
        [wall, cpu, peak_kib] if output.status.success() => {
            Ok(Cost { wall: Duration::from_micros(wall), cpu: Duration::from_micros(cpu), peak_kib })
        }
        _ => bail!("{program} {} failed", arguments.join(" ")),
    }
}

/// Runs a program as the only child and prints what it took: microseconds, microseconds of processor time,
/// KiB.
pub(crate) fn measure(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let start = Instant::now();
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .with_context(|| format!("cannot run {program}"))?;
    let wall = start.elapsed();
    if !output.status.success() {
        bail!("{program}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = |time: nix::sys::time::TimeVal| time.tv_sec() * 1_000_000 + time.tv_usec();
    println!(
        "{} {} {}",
        wall.as_micros(),
        micros(usage.user_time()) + micros(usage.system_time()),
        usage.max_rss()
    );
    Ok(())
}
