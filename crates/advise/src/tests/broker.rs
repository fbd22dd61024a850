//! Each rule fires when it should and is silent otherwise: broker.

use super::{broker, fired, lacks, silent, with_setting};

use super::rule;

#[test]
fn flush_interval_fires_if_set() {
    let mut inputs = broker();
    with_setting(&mut inputs, "log.flush.interval.messages", "1");
    assert_eq!(fired(rule("flush-interval"), &inputs).evidence, "log.flush.interval.messages=1");
}

#[test]
fn flush_interval_is_silent_if_not_set() {
    silent(rule("flush-interval"), &broker());
}

#[test]
fn segment_size_fires_on_small_segments() {
    let mut inputs = broker();
    with_setting(&mut inputs, "log.segment.bytes", "1048576");
    assert_eq!(fired(rule("segment-size"), &inputs).changes[0].old, "1048576");
}

#[test]
fn segment_size_is_silent_by_default_and_lacks_an_invalid_number() {
    let mut inputs = broker();
    assert!(silent(rule("segment-size"), &inputs).contains("the default"));
    with_setting(&mut inputs, "log.segment.bytes", "large");
    assert_eq!(lacks(rule("segment-size"), &inputs), "log.segment.bytes");
}

#[test]
fn replica_fetchers_fires_on_thousands_of_partitions_per_thread() {
    let mut inputs = broker();
    inputs.host_facts.partitions = Ok(2_000);
    assert_eq!(fired(rule("replica-fetchers"), &inputs).changes[0].old, "1 (the default)");
}

#[test]
fn replica_fetchers_is_silent_with_enough_threads_or_no_replicas() {
    silent(rule("replica-fetchers"), &broker());
    for (name, value) in [("num.replica.fetchers", "4"), ("default.replication.factor", "1")] {
        let mut inputs = broker();
        inputs.host_facts.partitions = Ok(2_000);
        with_setting(&mut inputs, name, value);
        silent(rule("replica-fetchers"), &inputs);
    }
}

#[test]
fn replica_lag_fires_on_a_short_time() {
    let mut inputs = broker();
    with_setting(&mut inputs, "replica.lag.time.max.ms", "10000");
    assert_eq!(fired(rule("replica-lag"), &inputs).changes[0].new, "30000");
}

#[test]
fn replica_lag_is_silent_by_default() {
    silent(rule("replica-lag"), &broker());
}

#[test]
fn min_insync_fires_if_too_low_or_equal_to_the_replica_count() {
    let mut inputs = broker();
    with_setting(&mut inputs, "min.insync.replicas", "1");
    assert_eq!(fired(rule("min-insync"), &inputs).changes[0].new, "2");
    with_setting(&mut inputs, "min.insync.replicas", "3");
    assert_eq!(fired(rule("min-insync"), &inputs).changes[0].new, "2");
}

#[test]
fn min_insync_is_silent_if_one_replica_may_fail_or_is_the_only_one() {
    let mut inputs = broker();
    silent(rule("min-insync"), &inputs);
    with_setting(&mut inputs, "default.replication.factor", "1");
    with_setting(&mut inputs, "min.insync.replicas", "1");
    silent(rule("min-insync"), &inputs);
}

#[test]
fn unclean_election_fires_if_enabled() {
    let mut inputs = broker();
    with_setting(&mut inputs, "unclean.leader.election.enable", "true");
    assert_eq!(fired(rule("unclean-election"), &inputs).changes[0].new, "false");
}

#[test]
fn unclean_election_is_silent_if_disabled() {
    silent(rule("unclean-election"), &broker());
}
