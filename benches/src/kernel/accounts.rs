//! Costs of processes and BPF programs so far. Read from the kernel's accounting in `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::Context as _;
use lab::program::children;

/// `USER_HZ`: the unit of times in `/proc/PID/stat` on every architecture Debian has.
const TICKS_PER_SECOND: u32 = 100;
const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// User and system time of a process with all its threads, and of its children. Includes threads that have ended. The
/// kernel scales both times so that their sum is what the process's threads ran, to the nanosecond, independent of
/// which code the ticks hit (`cputime_adjust` in kernel/sched/cputime.c).
pub(crate) fn processor_time(pid: u32) -> anyhow::Result<Duration> {
    children(pid)
        .into_iter()
        .try_fold(own_processor_time(pid)?, |sum, child| Ok(sum + processor_time(child)?))
}

fn own_processor_time(pid: u32) -> anyhow::Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| path.clone())?;
    // The name in parentheses may contain anything; utime and stime are the 14th and 15th field of all.
    let rest = stat.rsplit_once(')').context("no name")?.1;
    let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
    let ticks = ticks.sum::<Result<u32, _>>().with_context(|| path)?;
    Ok(Duration::from_secs(ticks.into()) / TICKS_PER_SECOND)
}

/// Peak resident memory of a process and its children, in bytes; shared memory counts for each.
pub(crate) fn peak_memory(pid: u32) -> anyhow::Result<u64> {
    children(pid).into_iter().try_fold(own_peak_memory(pid)?, |sum, child| Ok(sum + peak_memory(child)?))
}

fn own_peak_memory(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).with_context(|| path)?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? * 1024)
}

/// Enables the kernel's count of BPF programs' run time; restores the setting when dropped.
pub(crate) struct Counting(String);

impl Counting {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let before = fs::read_to_string(SWITCH).context(SWITCH)?;
        fs::write(SWITCH, "1").context(SWITCH)?;
        Ok(Self(before))
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        // It could be written before.
        let _ = fs::write(SWITCH, self.0.trim());
    }
}

/// Run time of BPF programs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ran {
    pub(crate) time: Duration,
    pub(crate) count: u64,
    /// Runs skipped because another was running on that CPU.
    pub(crate) skipped: u64,
}

impl Ran {
    pub(crate) fn add(&mut self, more: Self) {
        self.time += more.time;
        self.count += more.count;
        self.skipped += more.skipped;
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            time: self.time.saturating_sub(before.time),
            count: self.count - before.count,
            skipped: self.skipped - before.skipped,
        }
    }
}

/// Run times so far of the BPF programs that a process holds open, by name.
///
/// The counts are in the descriptors' `fdinfo`, which has no name but a tag; `/proc/kallsyms` has both
/// (`bpf_prog_TAG_NAME`) for programs that were compiled.
pub(crate) fn programs(pid: u32) -> anyhow::Result<BTreeMap<String, Ran>> {
    let path = format!("/proc/{pid}/fdinfo");
    let names = names()?;
    let mut programs: BTreeMap<String, Ran> = BTreeMap::new();
    let mut known = Vec::new();
    for entry in fs::read_dir(&path).with_context(|| path.clone())? {
        // A descriptor may be closed meanwhile.
        let Ok(text) = fs::read_to_string(entry?.path()) else { continue };
        let field = |name: &str| text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim()));
        let number = |name: &str| field(name).and_then(|number| number.parse::<u64>().ok());
        let (Some(tag), Some(id)) = (field("prog_tag:"), number("prog_id:")) else { continue };
        let Some(time) = number("run_time_ns:") else { continue };
        if known.contains(&id) {
            continue;
        }
        known.push(id);
        let name = names.get(tag).cloned().unwrap_or_else(|| tag.to_owned());
        let ran = programs.entry(name).or_default();
        ran.time += Duration::from_nanos(time);
        ran.count += number("run_cnt:").unwrap_or(0);
        ran.skipped += number("recursion_misses:").unwrap_or(0);
    }
    Ok(programs)
}

/// Programs of the same code share a tag: their names are joined.
fn names() -> anyhow::Result<BTreeMap<String, String>> {
    let symbols = fs::read_to_string("/proc/kallsyms").context("/proc/kallsyms")?;
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for line in symbols.lines() {
        let found = line.split_whitespace().nth(2).and_then(|symbol| symbol.strip_prefix("bpf_prog_"));
        let Some((tag, name)) = found.and_then(|found| found.split_once('_')) else { continue };
        if tag.len() != 16 || !tag.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            continue;
        }
        let known = names.entry(tag.to_owned()).or_default();
        if !known.split('|').any(|one| one == name) {
            known.push_str(if known.is_empty() { "" } else { "|" });
            known.push_str(name);
        }
    }
    Ok(names)
}
