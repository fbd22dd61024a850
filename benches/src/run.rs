//! One run of a program: its time and its peak memory, exact, from the kernel's accounting.
//!
//! Every run is started by a separate process (this binary again), because the kernel reports the peak memory only of
//! all children together.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::stop;

/// The first argument that makes this binary [`measure`].
pub(crate) const MEASURE: &str = "--measure";
/// The first argument that makes this binary [`measure_until_closed`].
pub(crate) const MEASURE_UNTIL_CLOSED: &str = "--measure-until-told";

/// Costs of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    /// User and system time.
    pub(crate) cpu: Duration,
    pub(crate) peak_kib: u64,
}

/// Runs a program with its output discarded, in a process that measures it.
pub(crate) fn run(program: &str, arguments: &[&str]) -> anyhow::Result<Cost> {
    stop::check()?;
    let output = Command::new(std::env::current_exe()?)
        .arg(MEASURE)
        .arg(program)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()?;
    stop::check()?;
    cost(&output).with_context(|| format!("{program} {}", arguments.join(" ")))
}

fn cost(output: &Output) -> anyhow::Result<Cost> {
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    match numbers[..] {
        [wall, cpu, peak_kib] if output.status.success() => {
            Ok(Cost { wall: Duration::from_micros(wall), cpu: Duration::from_micros(cpu), peak_kib })
        }
        _ => bail!("failed"),
    }
}

/// A program that is measured until it is stopped.
pub(crate) struct Running(Child);

impl Running {
    /// Starts `command`, which runs this binary with [`MEASURE_UNTIL_CLOSED`].
    pub(crate) fn start(mut command: Command) -> anyhow::Result<Self> {
        Ok(Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?))
    }

    /// Stops it, as Ctrl-C does, and returns its costs.
    pub(crate) fn stop(mut self) -> anyhow::Result<Cost> {
        drop(self.0.stdin.take());
        cost(&self.0.wait_with_output()?)
    }
}

/// Runs a program as the only child and prints its costs: microseconds, microseconds of CPU time, KiB.
pub(crate) fn measure(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let start = Instant::now();
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .and_then(Child::wait_with_output)
        .with_context(|| format!("cannot run {program}"))?;
    print_cost(program, output.status, start, &String::from_utf8_lossy(&output.stderr))
}

/// As [`measure`], but ends the program when standard input is closed. Ends it with SIGINT, and saves its output:
/// standard output in `output_path`, standard error next to it.
pub(crate) fn measure_until_closed(
    output_path: &str,
    program: &str,
    arguments: &[&str],
) -> anyhow::Result<()> {
    let start = Instant::now();
    let error_path = errors_of(output_path);
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(File::create(output_path)?)
        .stderr(File::create(&error_path)?)
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    std::io::stdin().lock().read_to_end(&mut Vec::new())?;
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT)?;
    let status = child.wait()?;
    print_cost(program, status, start, &std::fs::read_to_string(error_path)?)
}

/// Path at which [`measure_until_closed`] saves standard error.
pub(crate) fn errors_of(output_path: impl AsRef<Path>) -> PathBuf {
    output_path.as_ref().with_extension("err")
}

fn print_cost(program: &str, status: ExitStatus, start: Instant, stderr: &str) -> anyhow::Result<()> {
    let wall = start.elapsed();
    ensure!(status.success(), "{program}: {status}: {stderr}");
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
