//! Compares `segment --records` with Kafka's own `DumpLogSegments`, in turns. Kafka's tool runs with
//! `--deep-iteration`. Both read the same segment, check every batch's CRC, and discard their output.

mod agreement;
mod write;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use lab::Kafka;
use lab::kafka::DEFAULT_VERSION;

use crate::contest::{middle, millis, ratios};
use crate::run::{Cost, run};
use crate::target::{Bound, Target};
use crate::{stop, table};

const SEGMENT_BYTES: u64 = 200_000_000;
/// Few, because `DumpLogSegments` takes long.
const ROUNDS: usize = 5;
const FASTER: f64 = 20.0;
/// The name contains the first offset, on which `DumpLogSegments` relies.
const NAME: &str = "00000000000000000000.log";
const MAIN_CLASS: &str = "kafka.tools.DumpLogSegments";
/// The arguments of Kafka's own script for its tools (kafka-run-class.sh). They suppress log lines among the records.
const JVM: [&str; 2] = ["-Xmx256M", "-Dlog4j2.level=ERROR"];

/// A generated segment; its file is removed when dropped.
struct Segment {
    directory: PathBuf,
    path: PathBuf,
    codec: &'static str,
    contents: write::Contents,
}

/// Runs both on segments of both kinds and prints their costs. Returns how brokerscope compares.
pub(crate) fn hold(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let kafka = Kafka::prepare(DEFAULT_VERSION)?;
    let mut targets = Vec::new();
    for codec in ["none", "lz4"] {
        let segment = Segment::make(directory, codec)?;
        targets.extend(segment.hold(brokerscope, &kafka)?);
    }
    Ok(targets)
}

impl Segment {
    fn make(directory: &Path, codec: &'static str) -> anyhow::Result<Self> {
        stop::check()?;
        let directory = directory.join(format!("{codec}-0"));
        std::fs::create_dir_all(&directory).with_context(|| format!("{}", directory.display()))?;
        let path = directory.join(NAME);
        let contents = write::write(&path, SEGMENT_BYTES, codec == "lz4")
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!(
            "{}: {} MB, {} MB before compression ({codec}), {} batches, {} records",
            path.display(),
            contents.bytes / 1_000_000,
            contents.plain_bytes / 1_000_000,
            contents.batches,
            contents.records
        );
        Ok(Self { directory, path, codec, contents })
    }

    fn hold(&self, brokerscope: &Path, kafka: &Kafka) -> anyhow::Result<Vec<Target>> {
        let (json, text) = (self.ours(brokerscope, "json"), self.ours(brokerscope, "table"));
        let dump = self.theirs(kafka);
        let (ours, theirs) = (command(&json), command(&dump));
        agreement::check(ours, theirs, self.contents.batches, self.contents.records)?;
        let mut costs: [Vec<Cost>; 3] = Default::default();
        for _ in 0..ROUNDS {
            for (costs, command) in costs.iter_mut().zip([&json, &text, &dump]) {
                let Some((program, arguments)) = command.split_first() else { continue };
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                costs.push(run(program, &arguments)?);
            }
        }
        let [json, text, dump] = costs;
        self.print(&json, &text, &dump);
        let target = |format: &str, ours: &[Cost]| {
            let what = format!("DumpLogSegments / segment --records, {}, {format}", self.codec);
            Target::of_runs(what, &ratios(&dump, ours), Bound::AtLeast(FASTER), "x")
        };
        Ok(vec![target("json", &json), target("table", &text)])
    }

    fn ours(&self, brokerscope: &Path, format: &str) -> Vec<String> {
        let arguments = ["segment", "--records", "--format", format];
        let path = [self.path.display().to_string()];
        let program = [brokerscope.display().to_string()];
        program.into_iter().chain(arguments.map(str::to_owned)).chain(path).collect()
    }

    fn theirs(&self, kafka: &Kafka) -> Vec<String> {
        let mut command = kafka.command(&JVM.map(str::to_owned), MAIN_CLASS);
        command.args(["--deep-iteration", "--files"]).arg(&self.path);
        let program = [command.get_program().to_string_lossy().into_owned()];
        let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
        program.into_iter().chain(arguments).collect()
    }

    fn print(&self, json: &[Cost], text: &[Cost], dump: &[Cost]) {
        let row = |name: &str, costs: &[Cost]| {
            let median = middle(costs, |cost| cost.wall);
            let walls = || costs.iter().map(|cost| cost.wall);
            vec![
                name.to_owned(),
                costs.len().to_string(),
                millis(median),
                millis(walls().min().unwrap_or_default()),
                millis(walls().max().unwrap_or_default()),
                millis(middle(costs, |cost| cost.cpu)),
                per_second(self.contents.bytes, 1e6, median),
                per_second(self.contents.records, 1e6, median),
            ]
        };
        println!();
        table::print(
            &["reader", "runs", "median", "fastest", "slowest", "processor", "MB/s", "million records/s"],
            [
                row("segment --records --format json", json),
                row("segment --records", text),
                row("DumpLogSegments", dump),
            ],
        );
        println!();
    }
}

fn per_second(count: u64, unit: f64, time: Duration) -> String {
    format!("{:.1}", count as f64 / unit / time.as_secs_f64())
}

fn command(words: &[String]) -> Command {
    let mut command = Command::new(words.first().map_or("", String::as_str));
    command.args(words.iter().skip(1));
    command
}

impl Drop for Segment {
    fn drop(&mut self) {
        // If it cannot be removed, only disk space is lost.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
