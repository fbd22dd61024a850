//! The kernel's settings and limits.

use crate::rule::{advise, fires, need, rules, silent};
use crate::words::size;
use crate::{Change, Inputs, RuleResult, Scope};

const ENOUGH_FILES: u64 = 100_000;
const MAX_SWAPPINESS: i64 = 10;
const DEFAULT_BACKGROUND_RATIO: i64 = 10;
const MUCH_DIRTY_BYTES: u64 = 2 << 30;

rules! { RULES:
    "open-files" in Os, open_files => {
        condition: "the limit of open files is below 100,000, and half of it is used, or would be by two files for each partition",
        source: "Kafka's documentation, operations: file descriptor limits: a file for each segment and a socket for each connection, \
                 100000 as a start",
        look_at: "the broker's open files against the limit; a comparison does not show it: a broker that runs out of files stops",
        effect: "the broker does not run out of file descriptors",
        risk: "none that is known",
    }

    "map-count" in Os, map_count => {
        condition: "half of vm.max_map_count is used, or would be by two areas (index, time index) for one segment of each partition",
        source: "Kafka's documentation, operations: virtual memory: two areas a segment, the default of about 65535 is enough for some \
                 50,000 partitions less what else is mapped; Documentation/admin-guide/sysctl/vm.rst",
        look_at: "the broker's mapped areas against the limit; a comparison does not show it: a broker that runs out of them stops with \"Map failed\"",
        effect: "the broker does not run out of mapped areas",
        risk: "none that is known; each area takes some memory of the kernel",
    }

    "swappiness" in Os, swappiness => {
        condition: "vm.swappiness is above 10, and the host has swap space",
        source: "vm.swappiness=1 is what Confluent's and Cloudera's deployment guides for Kafka say; \
                 Documentation/admin-guide/sysctl/vm.rst. The bound of 10 is brokerscope's own",
        look_at: "safepoint and memory-reclaim among the causes, and swapped_bytes of the process in host_samples/",
        effect: "the heap stays in memory while there is page cache to drop",
        risk: "a host that runs out of memory ends a process sooner instead of getting slow",
    }

    "dirty-ratio" in Os, dirty_ratio => {
        condition: "vm.dirty_background_ratio is 10 or more, which is 2 GiB or more of this host, and vm.dirty_background_bytes is \
                    not set",
        source: "Documentation/admin-guide/sysctl/vm.rst; vm.dirty_background_ratio=5 is what deployment guides for Kafka say. The bound \
                 of 2 GiB is brokerscope's own",
        look_at: "dirty-throttling and journal-commit among the causes, and the greatest write_wait_ms in host_samples/",
        effect: "writes reach the device more evenly: commits and flushes have less to wait for",
        risk: "data that is soon overwritten or deleted is written needlessly; a device that is always busy anyway gains nothing",
    }

    "huge-pages" in Os, huge_pages => {
        condition: "/sys/kernel/mm/transparent_hugepage/enabled is always",
        source: "Documentation/admin-guide/mm/transhuge.rst: with always, a fault may have to compact memory first; with \
                 madvise only in memory for which a program asks, as a JVM does with -XX:+UseTransparentHugePages",
        look_at: "memory-reclaim and safepoint among the causes, and p99.9 of produce: a small difference at most",
        effect: "no thread compacts memory for a huge page that it did not ask for; no slow request was seen to wait for that",
        risk: "other programs on this host lose huge pages; the JVM keeps them with -XX:+UseTransparentHugePages",
    }
}

/// Number used of a limit, at least two per partition, and its description.
fn used(known: &model::Known<u64>, partitions: u64, words: impl FnOnce(String) -> String) -> (u64, String) {
    let known = known.as_ref().ok().copied();
    let count = known.map_or_else(|| "not known how many".to_owned(), |known| known.to_string());
    let description = format!("{}, and there are {partitions} partitions", words(count));
    (known.unwrap_or(0).max(partitions.saturating_mul(2)), description)
}

fn open_files(inputs: &Inputs) -> RuleResult {
    let limits = need("the process's limits", &inputs.host_facts.limits)?;
    let Some(limit) = limits.open_files.filter(|limit| *limit < ENOUGH_FILES) else {
        return silent(format!("the limit is at least {ENOUGH_FILES}"));
    };
    let open = &inputs.host_facts.open_files;
    let (used, description) =
        used(open, inputs.partitions()?, |open| format!("of {limit} files {open} are open"));
    let evidence = fires(used >= limit / 2, description)?;
    Ok(advise(evidence, [Change::of("LimitNOFILE= (systemd), nofile (limits.conf)", limit, ENOUGH_FILES)]))
}

fn map_count(inputs: &Inputs) -> RuleResult {
    let most = u64::try_from(inputs.sysctl("vm.max_map_count")?).unwrap_or(0);
    let areas = &inputs.host_facts.mapped_areas;
    let (used, description) =
        used(areas, inputs.partitions()?, |mapped| format!("of {most} areas {mapped} are mapped"));
    let evidence = fires(used >= most / 2, description)?;
    let new = used.saturating_mul(4).max(262_144);
    Ok(advise(evidence, [Change::of("vm.max_map_count", most, new).by_name(Scope::Kernel)]))
}

fn swappiness(inputs: &Inputs) -> RuleResult {
    let swappiness = inputs.sysctl("vm.swappiness")?;
    let swap = *need("the host's swap space", &inputs.host_facts.swap_bytes)?;
    if swap == 0 {
        return silent("the host has no swap space");
    }
    let description = fires(swappiness > MAX_SWAPPINESS, format!("vm.swappiness is {swappiness}"))?;
    let change = Change::of("vm.swappiness", swappiness, 1).by_name(Scope::Kernel);
    Ok(advise(format!("{description}, with {} of swap space", size(swap)), [change]))
}

fn dirty_ratio(inputs: &Inputs) -> RuleResult {
    let ratio = inputs.sysctl("vm.dirty_background_ratio")?;
    let bytes = inputs.sysctl("vm.dirty_background_bytes").unwrap_or(0);
    let memory = *need("the host's memory", &inputs.host_facts.memory_bytes)?;
    let begins = memory / 100 * u64::try_from(ratio).unwrap_or(0);
    if bytes > 0 {
        return silent(format!("vm.dirty_background_bytes is {bytes}"));
    }
    if ratio < DEFAULT_BACKGROUND_RATIO || begins < MUCH_DIRTY_BYTES {
        return silent(format!("vm.dirty_background_ratio is {ratio} of {}", size(memory)));
    }
    let (begins, memory) = (size(begins), size(memory));
    let evidence = format!("write-back begins when up to {begins} are dirty ({ratio} % of {memory})");
    Ok(advise(evidence, [Change::of("vm.dirty_background_ratio", ratio, 5).by_name(Scope::Kernel)]))
}

fn huge_pages(inputs: &Inputs) -> RuleResult {
    let mode = need("the mode of transparent huge pages", &inputs.host_facts.huge_pages)?;
    let evidence = fires(&**mode == "always", format!("transparent huge pages are set to {mode}"))?;
    Ok(advise(evidence, [Change::of("/sys/kernel/mm/transparent_hugepage/enabled", "always", "madvise")]))
}
