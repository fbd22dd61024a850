//! `make bench`: how fast `brokerscope requests` reads a capture beside `tcpdump` and `tshark`, and in how
//! much memory; what `requests live:` takes of a processor; what a recorder takes for a request of a broker with many connections; how fast `segment` is beside Kafka's own
//! `DumpLogSegments`; how long `explain` takes for ten million requests, and how far behind
//! a live broker it is; what `export` takes; what a page of ten minutes takes to make and to open, and what a comparison of ten million requests; which of
//! nine brokers is the odd one; how long `advise` takes beside a broker of 2,000 partitions; what watching costs a broker; what seeing its
//! locks does, and whether all of them are seen; how fast `logs` reads a log beside `grep`. Ratios within one run count; absolute figures are the machine's.
//!
//! It knows the product as a user does, by its command line; only the recordings that it makes up it writes itself.

mod advise;
mod compare;
mod connections;
mod contest;
mod explain;
mod export;
mod fleet;
mod frames;
mod kernel;
mod live;
mod live_verdicts;
mod locks;
mod logs;
mod memory;
mod overhead;
mod packets;
mod page;
mod records;
mod rows;
mod run;
mod segments;
mod stop;
mod table;
mod target;
mod traffic;
mod wakeups;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use lab::client::Endpoint;

use crate::target::Target;

/// How many bytes the smallest capture has at least: 350 MB, some 290,000 packets of at most 1,514 bytes.
const CAPTURE_BYTES: u64 = 350_000_000;
/// What is measured, in this order, unless only some of it is asked for.
const PARTS: [&str; 20] = [
    "files",
    "memory",
    "live",
    "connections",
    "segment",
    "explain",
    "live-verdicts",
    "export",
    "page",
    "compare",
    "fleet",
    "advise",
    "kernel",
    "overhead",
    "always-on",
    "overhead-hooks",
    "overhead-tls",
    "wakeups",
    "locks",
    "logs",
];

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        // Started by itself, once for every run: see run.rs and live.rs.
        [run::MEASURE, program, ref rest @ ..] => run::measure(program, rest)?,
        [run::MEASURE_UNTIL_TOLD, kept, program, ref rest @ ..] => {
            run::measure_until_told(kept, program, rest)?;
        }
        // Each is its own process, as it would be without the bench.
        [kernel::PRODUCE, port, partitions, records, rate, seconds] => {
            let (partitions, records) = (partitions.parse()?, records.parse()?);
            kernel::produce(port.parse()?, partitions, records, rate.parse()?, seconds.parse()?)?;
        }
        [overhead::PACE, port, is_tls, partitions, records, rate, connections] => {
            let (partitions, records) = (partitions.parse()?, records.parse()?);
            let broker =
                Endpoint { address: (Ipv4Addr::LOCALHOST, port.parse()?).into(), is_tls: is_tls.parse()? };
            kernel::pace(broker, partitions, records, rate.parse()?, connections.parse()?)?;
        }
        [overhead::ATTACH, hooks, process, port] => {
            overhead::attach(hooks, process.parse()?, port.parse()?)?;
        }
        [kernel::BYSTAND, deed] => kernel::bystand(deed)?,
        [kernel::IDLE, ..] => kernel::idle()?,
        [kernel::FLOOD, file, ..] => kernel::flood(Path::new(file))?,
        [live::INJECT, interface, watched, capture] => live::inject(interface, watched, Path::new(capture))?,
        [brokerscope, directory, ref parts @ ..]
            if parts.iter().all(|part| PARTS.contains(part) || locks::PARTS.contains(part)) =>
        {
            return bench(Path::new(brokerscope), Path::new(directory), parts);
        }
        _ => bail!(
            "usage: bench BROKERSCOPE DIRECTORY [{}]... (up to 5 GB are written into DIRECTORY for a while)",
            [&PARTS[..], &locks::PARTS].concat().join("|")
        ),
    }
    Ok(ExitCode::SUCCESS)
}

fn bench(brokerscope: &Path, directory: &Path, parts: &[&str]) -> anyhow::Result<ExitCode> {
    stop::catch()?;
    std::fs::create_dir_all(directory).with_context(|| format!("{}", directory.display()))?;
    let directory = directory.canonicalize()?;
    let parts = if parts.is_empty() { &PARTS } else { parts };
    let (mut targets, mut failures) = (Vec::new(), Vec::new());
    for part in parts {
        let measured = measure(part, brokerscope, &directory);
        stop::check()?;
        // The others are worth knowing all the same.
        measured.map_or_else(|error| failures.push((part, error)), |measured| targets.extend(measured));
        println!();
    }
    table::print(&Target::HEADINGS, targets.iter().map(Target::row));
    for (part, error) in &failures {
        println!("NOT MEASURED: {part}: {error:#}");
    }
    let is_met = failures.is_empty() && targets.iter().all(Target::is_met);
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn measure(part: &str, brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    match part {
        "files" => contest::hold(brokerscope, &Capture::make(directory, 1)?),
        "memory" => memory::compare(brokerscope, directory),
        "live" => live::hold(brokerscope, directory),
        "connections" => connections::hold(directory),
        "explain" => explain::hold(brokerscope, directory),
        "export" => export::hold(brokerscope, directory),
        "live-verdicts" => live_verdicts::hold(brokerscope, directory),
        "page" => page::hold(brokerscope, directory),
        "compare" => compare::hold(brokerscope, directory),
        "fleet" => fleet::hold(brokerscope, directory),
        "advise" => advise::hold(brokerscope, directory),
        "kernel" => kernel::hold(brokerscope, directory),
        "overhead" | "always-on" | "overhead-hooks" | "overhead-tls" => {
            overhead::hold(part, brokerscope, directory)
        }
        "logs" => logs::hold(brokerscope, directory),
        "wakeups" => wakeups::hold(brokerscope, directory),
        part if part.starts_with("locks") => locks::hold(part, brokerscope, directory),
        _ => segments::hold(brokerscope, directory),
    }
}

/// A generated capture; its file goes with it.
struct Capture {
    path: PathBuf,
    contents: traffic::Contents,
}

impl Capture {
    fn make(directory: &Path, times: u64) -> anyhow::Result<Self> {
        let path = directory.join(format!("produce-{times}x.pcap"));
        stop::check()?;
        let contents = traffic::write(&path, times * CAPTURE_BYTES)
            .with_context(|| format!("cannot write {}", path.display()))?;
        // Else its way to the disk takes of the first readers' time.
        std::fs::File::open(&path)?.sync_all()?;
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
