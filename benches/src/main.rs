//! `make bench`: how fast `brokerscope requests` reads a capture, compared with `tcpdump` and `tshark`, and its memory;
//! the CPU time of `requests live:`; a recorder's cost per request for a broker with many connections; the speed of
//! `segment` compared with Kafka's own `DumpLogSegments`; the time of `explain` for ten million requests, and its lag
//! behind a live broker; the cost of `export`; the time to create and to open a page of ten minutes, and to compare ten
//! million requests; which of nine brokers is the odd one; the time of `advise` for a broker of 2,000 partitions; the
//! cost of watching for a broker, and of observing its locks, and whether all waits are observed; how fast `logs` reads
//! a log, compared with `grep`. Only ratios within one run count; absolute figures depend on the machine. It uses the
//! product like a user, by its command line; only the recordings that it invents it writes itself.

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

/// Minimum size of the smallest capture: 350 MB, some 290,000 packets of at most 1,514 bytes.
const CAPTURE_BYTES: u64 = 350_000_000;
/// The parts, measured in this order, unless only some are requested.
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
        // This binary starts itself once for every run: see run.rs and live.rs.
        [run::MEASURE, program, ref rest @ ..] => run::measure(program, rest)?,
        [run::MEASURE_UNTIL_CLOSED, output_path, program, ref rest @ ..] => {
            run::measure_until_closed(output_path, program, rest)?;
        }
        // Each is a separate process, as it would be without the bench.
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
        // The other parts are still measured.
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

/// A generated capture; its file is removed when dropped.
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
        // Otherwise writing it to the disk slows the first readers.
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
        // If it cannot be removed, only disk space is lost.
        let _ = std::fs::remove_file(&self.path);
    }
}
