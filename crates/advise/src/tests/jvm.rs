//! Each rule fires when it should and is silent otherwise: jvm.

use super::{broker, fired, lacks, profile, silent, with_jvm, with_setting};
use crate::rules::jvm::{SLEEP_SOONER, heap_bytes};
use crate::{ContendedLock, Dumps, Inputs};

use super::rule;

fn monitor_spin_running(functions: &[(&str, u64)]) -> Inputs {
    Inputs { profile: Ok(profile(functions)), ..broker() }
}

#[test]
fn monitor_spin_advises_an_option_on_openj9() {
    let mut inputs = monitor_spin_running(&[
        ("objectMonitorEnterNonBlocking", 95),
        ("java.util.zip.CRC32C.updateBytes", 905),
    ]);
    let finding = fired(rule("monitor-spin"), &inputs);
    assert_eq!(finding.changes[0].new, SLEEP_SOONER);
    assert!(finding.evidence.contains("10 % of the CPU time (95 of 1000 samples)"), "{}", finding.evidence);
    with_jvm(&mut inputs, &["java", "-Xthr:noAdaptSpin", "-Xthr:minimizeUserCPU"]);
    assert!(
        fired(rule("monitor-spin"), &inputs).changes.iter().all(|change| change.new != SLEEP_SOONER),
        "it is set"
    );
}

#[test]
fn monitor_spin_advises_less_contention_on_hotspot() {
    let mut inputs =
        monitor_spin_running(&[("ObjectMonitor::TrySpin", 60), ("kafka.log.UnifiedLog.append", 940)]);
    with_setting(&mut inputs, "num.io.threads", "32");
    let lock = ContendedLock {
        class: "java.lang.Object".into(),
        method: "kafka.log.UnifiedLog.append".into(),
        dumps: 1,
        waits: 3,
        owners: Vec::new(),
    };
    inputs.dumps = Ok(Dumps { dumps: 1, blocked: vec![lock], ..Dumps::default() });
    let finding = fired(rule("monitor-spin"), &inputs);
    assert_eq!((&*finding.changes[0].new, &*finding.changes[1].new), ("10", "twice as many"));
    assert!(
        finding.evidence.ends_with("java.lang.Object in kafka.log.UnifiedLog.append"),
        "{}",
        finding.evidence
    );
}

#[test]
fn monitor_spin_advises_both_changes_for_an_unknown_jvm() {
    let finding = fired(rule("monitor-spin"), &monitor_spin_running(&[("monitorenter", 60), ("a.B.c", 940)]));
    assert!(finding.changes[0].setting.contains("if it is an OpenJ9"), "{finding:?}");
    assert_eq!(finding.changes.len(), 2);
}

#[test]
fn monitor_spin_marks_an_unknown_command_line() {
    let mut inputs = monitor_spin_running(&[("monitorenter", 60), ("a.B.c", 940)]);
    assert!(fired(rule("monitor-spin"), &inputs).changes[0].old.starts_with("(none"));
    inputs.host_facts.jvm_arguments = Err("another user's".into());
    assert_eq!(fired(rule("monitor-spin"), &inputs).changes[0].old, "(not known)");
}

#[test]
fn monitor_spin_is_silent_on_little_spinning_and_lacks_names() {
    assert!(silent(rule("monitor-spin"), &broker()).contains("1 %"));
    let unnamed = monitor_spin_running(&[("[libjvm.so]", 100), ("a.B.c", 900)]);
    assert_eq!(lacks(rule("monitor-spin"), &unnamed), "the JVM's functions");
    assert_eq!(
        lacks(rule("monitor-spin"), &monitor_spin_running(&[("ObjectMonitor::enter", 100)])),
        Inputs::PROFILE,
        "too few"
    );
    assert_eq!(
        lacks(rule("monitor-spin"), &Inputs { profile: Err("nobody watched".into()), ..broker() }),
        Inputs::PROFILE
    );
}

#[test]
fn page_cache_fires_if_the_heap_takes_most_of_the_memory() {
    let mut inputs = broker();
    inputs.host_facts.memory_limit_bytes = Ok(Some(8 << 30));
    let change = fired(rule("page-cache"), &inputs).changes.remove(0);
    assert_eq!((&*change.old, &*change.new), ("6144m", "2048m"));
}

#[test]
fn page_cache_is_silent_on_a_small_or_unset_heap() {
    let mut inputs = broker();
    silent(rule("page-cache"), &inputs);
    with_jvm(&mut inputs, &["java", "kafka.Kafka"]);
    assert!(silent(rule("page-cache"), &inputs).contains("no -Xmx"));
    inputs.host_facts.jvm_arguments = Err("another user's".into());
    assert_eq!(lacks(rule("page-cache"), &inputs), "the JVM's command line");
}

#[test]
fn heap_fires_on_thousands_of_partitions_per_gigabyte() {
    let mut inputs = broker();
    inputs.host_facts.partitions = Ok(2_000);
    with_jvm(&mut inputs, &["java", "-Xmx6g", "-Xmx1G"]);
    assert_eq!(fired(rule("heap"), &inputs).changes[0].old, "-Xmx1024m", "the last one counts");
}

#[test]
fn heap_is_silent_on_a_larger_heap_or_few_partitions() {
    silent(rule("heap"), &broker());
    let mut inputs = broker();
    with_jvm(&mut inputs, &["java", "-Xmx512m"]);
    silent(rule("heap"), &inputs);
}

#[test]
fn parses_heap_options_like_the_jvm() {
    for (word, bytes) in [
        ("-Xmx6g", Some(6 << 30)),
        ("-Xmx512m", Some(512 << 20)),
        ("-Xmx1024", Some(1024)),
        ("-XX:MaxHeapSize=2G", Some(2 << 30)),
        ("-Xmxlots", None),
        ("-Xmx99999999999999t", None),
    ] {
        assert_eq!(heap_bytes(&[word.into()]), bytes, "{word}");
    }
}

#[test]
fn collector_fires_on_a_stop_the_world_collector() {
    let mut inputs = broker();
    with_jvm(&mut inputs, &["java", "-XX:+UseParallelGC", "kafka.Kafka"]);
    assert_eq!(fired(rule("collector"), &inputs).changes[0].old, "-XX:+UseParallelGC");
}

#[test]
fn collector_is_silent_on_other_collectors() {
    silent(rule("collector"), &broker());
    let mut inputs = broker();
    inputs.host_facts.jvm_arguments = Err("another user's".into());
    assert_eq!(lacks(rule("collector"), &inputs), "the JVM's command line");
}

#[test]
fn jvm_locking_fires_on_options_that_slow_locks_down() {
    let mut inputs = broker();
    with_jvm(
        &mut inputs,
        &["java", "-XX:LockingMode=1", "-XX:LockingMode=0", "-XX:+UseHeavyMonitors", "kafka.Kafka"],
    );
    let finding = fired(rule("jvm-locking"), &inputs);
    let old: Vec<_> = finding.changes.iter().map(|change| &*change.old).collect();
    assert_eq!(old, ["-XX:+UseHeavyMonitors", "-XX:LockingMode=0"]);
    with_jvm(&mut inputs, &["java", "-Xthr:noAdaptSpin"]);
    assert!(fired(rule("jvm-locking"), &inputs).evidence.ends_with("-Xthr:noAdaptSpin"));
}

#[test]
fn jvm_locking_is_silent_on_other_or_overridden_options() {
    silent(rule("jvm-locking"), &broker());
    let mut inputs = broker();
    with_jvm(&mut inputs, &["java", "-XX:+UseBiasedLocking", "-XX:-UseBiasedLocking", "-XX:LockingMode=2"]);
    silent(rule("jvm-locking"), &inputs);
    inputs.host_facts.jvm_arguments = Err("another user's".into());
    assert_eq!(lacks(rule("jvm-locking"), &inputs), "the JVM's command line");
}
