//! Ten times the events: a process that only writes, watched like a broker. Every write must be recorded or counted as
//! lost, and the recorder must stay within its memory limit.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::stand_in::StandIn;
use super::test_bed::TestBed;
use super::watcher::Watcher;
use super::{FLOOD, accounts, recorded};
use crate::table;
use crate::target::{Bound, Target};

const SECONDS: u64 = 5;
/// Ten times the requests that a broker must sustain.
const LEAST_RATE: f64 = 50_000.0;
/// The recorder's memory limit: the minimum.
const CEILING_MIB: u64 = 96;
/// A write as small as an append of the load.
const BYTES: [u8; 180] = [0x5a; 180];

/// Waits until standard input is closed, and writes for [`SECONDS`]. Prints how many writes and microseconds that were.
pub(crate) fn flood(file: &Path) -> anyhow::Result<()> {
    let file = File::create(file).with_context(|| file.display().to_string())?;
    std::io::stdin().lock().read_to_end(&mut Vec::new())?;
    let (start, mut count) = (Instant::now(), 0_u64);
    while start.elapsed() < Duration::from_secs(SECONDS) {
        for _ in 0..100 {
            file.write_all_at(&BYTES, count % 1000 * BYTES.len() as u64)?;
            count += 1;
        }
    }
    println!("{count} {}", start.elapsed().as_micros());
    Ok(())
}

/// Records a flood and prints the results.
pub(crate) fn hold(bed: &TestBed, brokerscope: &Path) -> anyhow::Result<Vec<Target>> {
    let recording = bed.path("flood");
    let mut flood = StandIn::start(bed, [OsStr::new(FLOOD), bed.path("flooded.log").as_os_str()])?;
    let ceiling = format!("{CEILING_MIB}MiB");
    let watcher = Watcher::brokerscope(brokerscope, &recording, flood.pid(), &["--max-memory", &ceiling])?;
    let answer = flood.go_on()?;
    let peak = accounts::peak_memory(watcher.pid());
    // It may have ended by itself, because the watched process has ended.
    let ended = watcher.stop();
    let numbers: Vec<u64> = answer.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [writes, micros] = numbers[..] else { anyhow::bail!("the flood said {answer}") };
    let (_, recorded) =
        recorded::file_ops(brokerscope, &recording, |op| recorded::text(op, "op") == "write")?;
    let lost = recorded::all_lost(&recording)?;
    let rate = writes as f64 * 1e6 / micros as f64;
    let peak_mib = peak? as f64 / f64::from(1 << 20);
    table::print(
        &["flood", "writes/s", "recorded", "lost and counted", "neither", "peak MiB"],
        [vec![
            writes.to_string(),
            format!("{rate:.0}"),
            recorded.to_string(),
            lost.to_string(),
            (writes as i64 - recorded as i64 - lost as i64).to_string(),
            format!("{peak_mib:.1}"),
        ]],
    );
    println!("{}", ended.map_or_else(|error| error.to_string(), |text| text.trim().to_owned()));
    let one = |what: &str, measured, bound, unit| Target {
        what: format!("kernel: flood: {what}"),
        measured,
        spread: None,
        bound,
        unit,
    };
    Ok(vec![
        one("writes a second", rate, Bound::AtLeast(LEAST_RATE), "/s"),
        one(
            "neither recorded nor counted",
            writes.saturating_sub(recorded + lost) as f64,
            Bound::AtMost(0.0),
            "",
        ),
        one("the recorder's peak memory", peak_mib, Bound::AtMost(CEILING_MIB as f64), "MiB"),
    ])
}
