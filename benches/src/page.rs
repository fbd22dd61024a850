//! Measures `brokerscope report` on ten minutes of a broker under load: its time and memory, the size of the page, and
//! the time for Chromium to open it. The recording is invented like those of `explain`, with everything else that a
//! recorder records.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::explain::{RATE, SyntheticData};
use crate::run::{Cost, run};
use crate::stop;
use crate::target::{Bound, Target};

const SECONDS: u64 = 600;
const ROUNDS: usize = 3;
const MOST_SECONDS: f64 = 60.0;
const MOST_MIB: f64 = 1_024.0;
const MOST_PAGE_MIB: f64 = 15.0;
const OPENINGS: usize = 5;
const MOST_OPENING_SECONDS: f64 = 2.0;
const MIB: f64 = 1_048_576.0;

/// Writes the recording and its page, opens it, and returns the results.
pub(crate) fn hold(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let made = SyntheticData::with_host(directory, SECONDS * RATE)?;
    let page = Page(directory.join("page.html"));
    let costs = (0..ROUNDS).map(|_| reported(brokerscope, &made, &page.0)).collect::<Result<Vec<_>, _>>()?;
    let bytes = std::fs::metadata(&page.0).context("no page")?.len();
    let openings = opened(&page.0)?;
    let what = format!("report {SECONDS} s of {RATE} requests/s");
    let size = Target {
        what: format!("{what}: size of the page"),
        measured: bytes as f64 / MIB,
        spread: None,
        bound: Bound::AtMost(MOST_PAGE_MIB),
        unit: "MiB",
    };
    let opening = format!("{what}: opening the page");
    let opening = Target::of_runs(opening, &openings, Bound::AtMost(MOST_OPENING_SECONDS), "s");
    let [time, memory] = Target::of_costs(&what, &costs, MOST_SECONDS, MOST_MIB);
    Ok(vec![time, memory, size, opening])
}

/// A page; removed when dropped.
struct Page(PathBuf);

impl Drop for Page {
    fn drop(&mut self) {
        // If it cannot be removed, only disk space is lost.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn reported(brokerscope: &Path, made: &SyntheticData, page: &Path) -> anyhow::Result<Cost> {
    let (brokerscope, page) = (brokerscope.to_string_lossy(), page.to_string_lossy());
    run(&brokerscope, &["report", &made.directory.to_string_lossy(), "--quiet", "-o", &page])
}

/// Seconds of each opening, in a freshly started browser.
fn opened(page: &Path) -> anyhow::Result<Vec<f64>> {
    stop::check()?;
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web");
    let output = Command::new("node")
        .arg("scripts/opening.mjs")
        .arg(page)
        .arg(OPENINGS.to_string())
        .current_dir(web)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("node")?;
    ensure!(output.status.success(), "web/scripts/opening.mjs: {}", output.status);
    let millis = String::from_utf8_lossy(&output.stdout);
    let millis = millis.lines().map(str::parse::<f64>).collect::<Result<Vec<_>, _>>()?;
    ensure!(millis.len() == OPENINGS, "{} openings", millis.len());
    Ok(millis.into_iter().map(|millis| millis / 1_000.0).collect())
}
