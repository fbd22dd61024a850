//! The host's processors and memory: where the time goes, page cache, dirty pages and their limits.

use model::HostScope;

use super::figures::Figures;
use super::text::{self, Kernel};

/// `/proc/stat` counts in ticks of 10 ms (`USER_HZ`).
const TICK_S: f64 = 0.01;

pub(super) fn sample(kernel: &Kernel, figures: &mut Figures) {
    let file = |name: &str| text::read(&kernel.proc.join(name)).unwrap_or_default();
    processors(&file("stat"), figures);
    memory(&file("meminfo"), figures);
    virtual_memory(&file("vmstat"), page_bytes(kernel), figures);
}

fn processors(stat: &str, figures: &mut Figures) {
    let count = stat.lines().filter(|line| is_processor(line)).count();
    let sums: Vec<u64> = stat
        .lines()
        .find_map(|line| line.strip_prefix("cpu "))
        .map(|line| line.split_whitespace().map_while(|word| word.parse().ok()).collect())
        .unwrap_or_default();
    // user nice system idle iowait irq softirq steal (proc_stat(5)).
    let sum = |fields: &[usize]| {
        fields.iter().try_fold(0u64, |sum, &field| sums.get(field).map(|ticks| sum.saturating_add(*ticks)))
    };
    let mut figure = figures.of(HostScope::Host, "");
    figure.stands("cpu_count", (count > 0).then_some(count as f64));
    figure.rate("user_cpu_ratio", sum(&[0, 1]), TICK_S);
    figure.rate("system_cpu_ratio", sum(&[2]), TICK_S);
    figure.rate("iowait_cpu_ratio", sum(&[4]), TICK_S);
    figure.rate("interrupt_cpu_ratio", sum(&[5, 6]), TICK_S);
    figure.rate("steal_cpu_ratio", sum(&[7]), TICK_S);
}

fn is_processor(line: &str) -> bool {
    line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn memory(meminfo: &str, figures: &mut Figures) {
    let bytes = |key| text::keyed_kib(meminfo, key);
    let mut figure = figures.of(HostScope::Host, "");
    figure.stands("memory_bytes", bytes("MemTotal"));
    figure.stands("memory_available_bytes", bytes("MemAvailable"));
    figure.stands("page_cache_bytes", bytes("Cached"));
    figure.stands("dirty_bytes", bytes("Dirty"));
    figure.stands("writeback_bytes", bytes("Writeback"));
    let swap_used = bytes("SwapTotal").zip(bytes("SwapFree")).map(|(total, free)| total - free);
    figure.stands("swap_used_bytes", swap_used);
}

fn virtual_memory(vmstat: &str, page_bytes: Option<u64>, figures: &mut Figures) {
    let bytes = |key| Some(text::keyed(vmstat, key)? as f64 * page_bytes? as f64);
    let mut figure = figures.of(HostScope::Host, "");
    figure.stands("dirty_limit_bytes", bytes("nr_dirty_threshold"));
    figure.stands("dirty_background_limit_bytes", bytes("nr_dirty_background_threshold"));
    figure.rate("direct_reclaim_pages_per_second", text::keyed(vmstat, "pgscan_direct"), 1.0);
    figure.rate("major_faults_per_second", text::keyed(vmstat, "pgmajfault"), 1.0);
}

/// The size of a page, from the pairs of words that the kernel hands to every program (getauxval(3)).
fn page_bytes(kernel: &Kernel) -> Option<u64> {
    const AT_PAGESZ: u64 = 6;
    let vector = std::fs::read(kernel.proc.join("self/auxv")).ok()?;
    let words = vector.chunks_exact(8).filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)));
    let words: Vec<u64> = words.collect();
    words.chunks_exact(2).find(|pair| pair.first() == Some(&AT_PAGESZ))?.get(1).copied()
}
