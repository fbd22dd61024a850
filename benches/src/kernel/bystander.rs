//! Measures the cost for other processes while a broker is watched: loops of cheap system calls and of switches between
//! two threads, in an unrelated process.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use nix::unistd::getppid;

use super::test_bed::TestBed;
use super::watcher::Watcher;
use super::{BYSTAND, stop};
use crate::table;
use crate::target::{Bound, Target};

/// Repeated operations.
const DEEDS: [&str; 3] = ["getppid", "read", "switch"];
const ROUNDS: usize = 7;
const LENGTH: Duration = Duration::from_millis(300);
/// Operations timed together, so that an interruption affects few of them.
const BUNCH: u32 = 500;
/// Maximum extra nanoseconds of a call or switch in another process.
const MOST_NANOS: f64 = 100.0;

/// Prints the nanoseconds of one operation: the median of bunches.
pub(crate) fn bystand(deed: &str) -> anyhow::Result<()> {
    let nanos = match deed {
        "getppid" => timed(|| {
            let _ = getppid();
            Ok(())
        }),
        "read" => {
            let mut zeros = File::open("/dev/zero")?;
            timed(|| Ok(zeros.read_exact(&mut [0])?))
        }
        _ => switches(),
    }?;
    println!("{nanos}");
    Ok(())
}

fn timed(mut deed: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let (start, mut bunches) = (Instant::now(), Vec::new());
    while start.elapsed() < LENGTH {
        let begun = Instant::now();
        for _ in 0..BUNCH {
            deed()?;
        }
        bunches.push(begun.elapsed().as_nanos() as f64 / f64::from(BUNCH));
    }
    bunches.sort_by(f64::total_cmp);
    bunches.get(bunches.len() / 2).copied().context("no time")
}

/// Two threads that wake each other through a socket pair: half of a round trip is one switch, with the two system
/// calls it needs.
fn switches() -> anyhow::Result<f64> {
    let (mut here, mut there) = UnixStream::pair()?;
    let echo = thread::spawn(move || {
        let mut byte = [0];
        while there.read_exact(&mut byte).is_ok() && there.write_all(&byte).is_ok() {}
    });
    let nanos = timed(|| {
        here.write_all(&[1])?;
        Ok(here.read_exact(&mut [0])?)
    });
    drop(here);
    ensure!(echo.join().is_ok(), "the other thread failed");
    nanos.map(|there_and_back| there_and_back / 2.0)
}

/// Measures all operations with and without a recorder of an idle broker, in turns.
pub(crate) fn hold(bed: &TestBed, brokerscope: &Path) -> anyhow::Result<Vec<Target>> {
    let mut pairs: Vec<Vec<(f64, f64)>> = vec![Vec::new(); DEEDS.len()];
    for _ in 0..ROUNDS {
        stop::check()?;
        let without = DEEDS.map(run);
        let recording = bed.path("bystander");
        let watcher = Watcher::brokerscope(brokerscope, &recording, bed.pid(), &[])?;
        let with = DEEDS.map(run);
        watcher.stop()?;
        std::fs::remove_dir_all(&recording)?;
        for ((pairs, without), with) in pairs.iter_mut().zip(without).zip(with) {
            pairs.push((without?, with?));
        }
    }
    table::print(
        &["another process", "without", "with a recorder"],
        DEEDS.iter().zip(&pairs).map(|(deed, pairs)| {
            let median = |of: fn(&(f64, f64)) -> f64| {
                let mut all: Vec<f64> = pairs.iter().map(of).collect();
                all.sort_by(f64::total_cmp);
                format!("{:.0} ns", all.get(all.len() / 2).copied().unwrap_or(f64::NAN))
            };
            vec![(*deed).to_owned(), median(|pair| pair.0), median(|pair| pair.1)]
        }),
    );
    println!();
    let target = |(deed, pairs): (&&str, &Vec<(f64, f64)>)| {
        let longer: Vec<f64> = pairs.iter().map(|(without, with)| with - without).collect();
        Target::of_runs(
            format!("kernel: another's {deed} takes longer by"),
            &longer,
            Bound::AtMost(MOST_NANOS),
            "ns",
        )
    };
    Ok(DEEDS.iter().zip(&pairs).map(target).collect())
}

/// Runs on one CPU, so that a round trip is two switches.
fn run(deed: &str) -> anyhow::Result<f64> {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", "0"]).arg(std::env::current_exe()?).args([BYSTAND, deed]);
    let output = command.output().context("cannot run taskset")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
}
