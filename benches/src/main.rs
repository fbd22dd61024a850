//! `make bench`: how fast `brokerscope requests` reads a capture beside `tcpdump` and `tshark`, and in how
//! much memory. Ratios within one run count; absolute figures are the machine's.
//!
//! It knows the product as a user does: by its command line.

mod contest;
mod frames;
mod memory;
mod packets;
mod random;
mod run;
mod table;
mod traffic;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};

/// How many bytes the smallest capture has at least: 350 MB, some 290,000 packets of at most 1,514 bytes.
const CAPTURE_BYTES: u64 = 350_000_000;

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        // Started by itself, once for every run: see run.rs.
        [run::MEASURE, program, ref rest @ ..] => run::measure(program, rest).map(|()| ExitCode::SUCCESS),
        [brokerscope, directory] => bench(Path::new(brokerscope), Path::new(directory)),
        _ => bail!("usage: bench BROKERSCOPE DIRECTORY (where captures of up to 3.5 GB may be written)"),
    }
}

fn bench(brokerscope: &Path, directory: &Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(directory).with_context(|| format!("{}", directory.display()))?;
    let capture = Capture::make(directory, 1)?;
    let mut targets = contest::hold(brokerscope, &capture)?;
    targets.extend(memory::compare(brokerscope, directory, capture)?);
    println!();
    table::print(&["target", "measured", "wanted", ""], targets.iter().map(Target::row));
    let is_met = targets.iter().all(Target::is_met);
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A generated capture; its file goes with it.
struct Capture {
    path: PathBuf,
    contents: traffic::Contents,
}

impl Capture {
    fn make(directory: &Path, times: u64) -> anyhow::Result<Self> {
        let path = directory.join(format!("produce-{times}x.pcap"));
        let contents = traffic::write(&path, times * CAPTURE_BYTES)
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!(
            "{}: {} MB, {} packets, {} requests, {} records",
            path.display(),
            contents.bytes / 1_000_000,
            contents.packets,
            contents.requests,
            contents.records
        );
        Ok(Self { path, contents })
    }

    fn name(&self) -> &str {
        self.path.to_str().unwrap_or_default()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Nothing is lost but disk space where it cannot be removed.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// One thing that must be reached.
struct Target {
    what: String,
    measured: f64,
    bound: Bound,
    unit: &'static str,
}

#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Target {
    fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtMost(most) => self.measured <= most,
            Bound::AtLeast(least) => self.measured >= least,
        }
    }

    fn row(&self) -> Vec<String> {
        let wanted = match self.bound {
            Bound::AtMost(most) => format!("at most {most} {}", self.unit),
            Bound::AtLeast(least) => format!("at least {least} {}", self.unit),
        };
        let verdict = if self.is_met() { "reached" } else { "MISSED" };
        vec![self.what.clone(), format!("{:.2} {}", self.measured, self.unit), wanted, verdict.to_owned()]
    }
}
