//! The JVM's options: heap, collector, locking.

use std::sync::Arc;

use super::locks::fewer_handlers;
use crate::profile::Machine;
use crate::rule::{advise, fires, need, not_known, rules, silent};
use crate::words::{format_count, or_not_known, percent, size};
use crate::{Change, Inputs, NoAdvice, Profile, RuleResult, Scope, Work};

/// The usual heap of production brokers.
const MAX_HEAP_BYTES: u64 = 6 << 30;
const SMALL_HEAP_BYTES: u64 = 1 << 30;
const MANY_PARTITIONS: u64 = 1_000;
/// Collectors with long stop-the-world pauses.
const STOPPING: [&str; 3] = ["-XX:+UseSerialGC", "-XX:+UseParallelGC", "-XX:+UseConcMarkSweepGC"];
/// Options that make locks more expensive.
const DEAR_LOCKS: [&str; 4] =
    ["-XX:+UseHeavyMonitors", "-XX:LockingMode=0", "-XX:+UseBiasedLocking", "-Xthr:noAdaptSpin"];
/// Minimum share of samples in monitor enter, and minimum number of samples.
/// With fewer, a share of one in twenty means little.
const MIN_SPIN_SHARE: f64 = 0.05;
const MIN_SAMPLES: u64 = 200;
/// From OpenJ9's documentation of `-Xthr`.
pub(crate) const SLEEP_SOONER: &str = "-Xthr:minimizeUserCPU";
/// Options that only OpenJ9 has.
/// HotSpot's options identify nothing, because Kafka's scripts pass them to any JVM.
const OPENJ9_ONLY: [&str; 5] = ["-Xthr:", "-Xgcpolicy:", "-Xshareclasses", "-Xtune:", "-Xquickstart"];

rules! { RULES:
    "monitor-spin" in Jvm, monitor_spin => {
        condition: "at least 5 % of 200 CPU samples or more are in the JVM's monitor enter (brokerscope's own \
                    bound; the public case had 9.5 %)",
        source: "a public case (IBM zSystems, 2022): objectMonitorEnterNonBlocking took 9.5 % in perf top, -Xthr:minimizeUserCPU gave \
                 it back; OpenJ9's documentation, -Xthr. HotSpot adapts how long it spins by itself and has no option for it \
                 (runtime/objectMonitor.cpp): there only less contention helps",
        look_at: "requests a second, CPU time, and the share of monitor enter in `advise` or `stacks`",
        effect: "at most that CPU time; a small gain in the public case, after other changes",
        risk: "a waiter that sleeps sooner gets the lock later if it is released soon; with more partitions, keys map to others than before",
    }

    "page-cache" in Jvm, page_cache => {
        condition: "the heap (-Xmx) is more than half of the memory that the broker may use",
        source: "Kafka's documentation, operations: hardware and OS: memory for the page cache, by the rule of write throughput times \
                 30 s; kafka-server-start.sh gives the heap 1 GiB. The bound of a half is brokerscope's own",
        look_at: "cache-eviction and disk-read-in-network-thread among the causes, and page_cache_bytes in host_samples/",
        effect: "consumers that lag a little are served from memory; any cost of cold reads measured here is listed under cold-reads",
        risk: "a heap that is too small makes GC run all the time: watch gc-pause",
    }

    "heap" in Jvm, heap => {
        condition: "the heap (-Xmx) is at most 1 GiB, and the broker has at least 1,000 partitions",
        source: "kafka-server-start.sh: -Xmx1G -Xms1G where KAFKA_HEAP_OPTS is not set; Kafka's documentation, operations: Java \
                 version, shows 6 GiB. The bound of 1,000 partitions is brokerscope's own",
        look_at: "gc-pause among the causes; `brokerscope locks` lists each pause",
        effect: "fewer collections; any cost measured here is listed under gc-pause",
        risk: "memory of the heap is lost to the page cache",
    }

    "collector" in Jvm, collector => {
        condition: "the JVM's command line asks for the serial, the parallel or the concurrent mark-sweep collector",
        source: "Kafka's documentation, operations: Java version, and kafka-run-class.sh use G1; JEP 363 removed concurrent mark-sweep",
        look_at: "gc-pause among the causes; `brokerscope locks` lists each pause",
        effect: "shorter pauses with a heap of some GiB; any cost measured here is listed under gc-pause",
        risk: "G1 takes some more memory and CPU time",
    }

    "jvm-locking" in Jvm, locking => {
        condition: "the JVM's command line asks for a full monitor for each lock (-XX:+UseHeavyMonitors, -XX:LockingMode=0), biased locking, or, \
                    on OpenJ9, not to adapt its spinning (-Xthr:noAdaptSpin)",
        source: "HotSpot's runtime/globals.hpp: LockingMode 0 uses monitors only, 1 and 2 are fast where nobody else wants the lock; \
                 JEP 374: biased locking no longer pays, and taking a bias back stops threads; OpenJ9's documentation, -Xthr: \
                 noAdaptSpin is there for tests",
        look_at: "requests a second, safepoint among the causes, and the share of monitor enter in `advise`",
        effect: "less CPU time for each lock that a request takes; how much was not measured",
        risk: "the option may work around a bug of an older JVM: find out who set it",
    }
}

/// The maximum heap in a JVM's command line; the last of several options counts.
pub(crate) fn heap_bytes(words: &[Arc<str>]) -> Option<u64> {
    let value = |word: &Arc<str>| {
        word.strip_prefix("-Xmx").or_else(|| word.strip_prefix("-XX:MaxHeapSize=")).and_then(bytes)
    };
    words.iter().filter_map(value).next_back()
}

/// Parses `6g`, `512m`, `1048576`.
fn bytes(text: &str) -> Option<u64> {
    let shift = match text.bytes().next_back()?.to_ascii_lowercase() {
        b'k' => 10,
        b'm' => 20,
        b'g' => 30,
        b't' => 40,
        _ => 0,
    };
    let digits = if shift > 0 { text.get(..text.len() - 1)? } else { text };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn set_heap(inputs: &Inputs) -> Result<u64, NoAdvice> {
    let unset = || silent("no -Xmx is set: the JVM takes a quarter of the memory at most");
    heap_bytes(inputs.jvm()?).map_or_else(unset, Ok)
}

fn page_cache(inputs: &Inputs) -> RuleResult {
    let (memory, heap) = (inputs.memory()?, set_heap(inputs)?);
    let evidence = fires(heap > memory / 2, format!("the heap may have {} of {}", size(heap), size(memory)))?;
    let new = format!("{}m", (memory / 4).min(MAX_HEAP_BYTES) >> 20);
    let change = Change::of("-Xmx (KAFKA_HEAP_OPTS)", format!("{}m", heap >> 20), &new);
    Ok(advise(evidence, [change.on(Scope::Jvm, "-Xmx", new)]))
}

fn heap(inputs: &Inputs) -> RuleResult {
    let heap = set_heap(inputs)?;
    let partitions = inputs.partitions()?;
    let description = format!("the heap may have {}, for {partitions} partitions", size(heap));
    let evidence = fires(heap <= SMALL_HEAP_BYTES && partitions >= MANY_PARTITIONS, description)?;
    let change = Change::of("KAFKA_HEAP_OPTS", format!("-Xmx{}m", heap >> 20), "-Xms4g -Xmx4g");
    Ok(advise(evidence, [change.on(Scope::Jvm, "-Xmx", "4g")]))
}

fn collector(inputs: &Inputs) -> RuleResult {
    let words = inputs.jvm()?;
    let old = words.iter().find_map(|word| STOPPING.into_iter().find(|option| &**word == *option));
    let Some(old) = old else { return silent("none of them is on its command line") };
    let change = Change::of("KAFKA_JVM_PERFORMANCE_OPTS", old, "-XX:+UseG1GC -XX:MaxGCPauseMillis=20");
    Ok(advise(format!("the JVM's command line has {old}"), [change.on(Scope::Jvm, "-XX:+UseG1GC", "")]))
}

fn locking(inputs: &Inputs) -> RuleResult {
    let words = inputs.jvm()?;
    let options = DEAR_LOCKS.into_iter().filter(|option| is_on(words, option)).collect::<Vec<_>>();
    if options.is_empty() {
        return silent("no option on the JVM's command line makes locks slower");
    }
    let changes: Vec<_> =
        options.iter().map(|option| Change::of("KAFKA_OPTS", option, "(without it)")).collect();
    Ok(advise(format!("the JVM's command line has {}", options.join(" ")), changes))
}

/// Whether an option is in force: the last of `+` and `-`, or of several values, counts.
fn is_on(words: &[Arc<str>], option: &str) -> bool {
    let name = |word: &str| match word.split_once('=') {
        Some((name, _)) => name.to_owned(),
        None => word.replacen("-XX:+", "-XX:", 1).replacen("-XX:-", "-XX:", 1),
    };
    words.iter().rev().find(|word| name(word) == name(option)).is_some_and(|last| **last == *option)
}

fn monitor_spin(inputs: &Inputs) -> RuleResult {
    let profile = need(Inputs::PROFILE, &inputs.profile)?;
    let samples = format_count(profile.seen(), "sample");
    if profile.seen() < MIN_SAMPLES {
        let why = format!("only {samples}: too few for a share");
        return not_known(Inputs::PROFILE, why);
    }
    let entering = profile.of(Work::MonitorEnter);
    let share = profile.share(entering);
    let description = format!("monitor enter takes {} of the CPU time", percent(share));
    if share < MIN_SPIN_SHARE {
        let unnamed = profile.share(profile.unnamed);
        if share + unnamed < MIN_SPIN_SHARE {
            return silent(description);
        }
        let why = format!(
            "{} of the samples are in the JVM's library, which has no symbol table: a JVM that is not stripped would name them",
            percent(unnamed)
        );
        return not_known("the JVM's functions", why);
    }
    let contended =
        inputs.dumps.as_ref().ok().and_then(|dumps| dumps.blocked.iter().max_by_key(|lock| lock.waits));
    let contended = contended.filter(|lock| !lock.method.is_empty()).map_or_else(String::new, |lock| {
        format!("; in thread dumps most wait for {} in {}", lock.class, lock.method)
    });
    Ok(advise(format!("{description} ({entering} of {samples}){contended}"), less_spinning(inputs, profile)))
}

fn less_spinning(inputs: &Inputs, profile: &Profile) -> Vec<Change> {
    let mut changes = Vec::new();
    let arguments = inputs.host_facts.jvm_arguments.as_deref();
    let words = arguments.unwrap_or_default();
    let is_openj9 = words.iter().any(|word| OPENJ9_ONLY.iter().any(|option| word.starts_with(option)));
    let machine = profile.machine().or(is_openj9.then_some(Machine::OpenJ9));
    let sleeps_sooner = words.iter().any(|word| word.eq_ignore_ascii_case(SLEEP_SOONER));
    if machine != Some(Machine::HotSpot) && !sleeps_sooner {
        let old = words.iter().rev().find(|word| word.starts_with("-Xthr:"));
        let none = if arguments.is_ok() { "(none: OpenJ9 spins first)" } else { "(not known)" };
        let old = old.map_or(none, |old| old);
        let setting = if machine.is_none() { "KAFKA_OPTS (if it is an OpenJ9)" } else { "KAFKA_OPTS" };
        changes.push(Change::of(setting, old, SLEEP_SOONER));
    }
    changes.extend(fewer_handlers(inputs).map(|(change, _)| change));
    let setting = "partitions of the topics that are written to most";
    changes.push(Change::of(setting, or_not_known(inputs.partitions()), "twice as many"));
    changes
}
