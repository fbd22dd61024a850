//! Each rule fires when it should and is silent otherwise: locks.

use super::{broker, fired, lacks, silent, with_way};
use crate::{ContendedLock, Dumps, Inputs};
use model::{Cause, Nanos};

use super::rule;

#[test]
fn partition_locks_fires_if_handlers_outnumber_partitions() {
    let mut inputs = broker();
    inputs.host_facts.partitions = Ok(2);
    with_way(
        &mut inputs,
        Cause::SlowDevice,
        &[Cause::LogLock, Cause::SlowDevice],
        5,
        Nanos::from_millis(200),
    );
    let finding = fired(rule("partition-locks"), &inputs);
    assert_eq!(finding.evidence, "2 partitions for 8 request handlers");
}

#[test]
fn partition_locks_is_silent_on_many_partitions_or_no_waits() {
    let mut inputs = broker();
    assert!(silent(rule("partition-locks"), &inputs).contains("100 partitions"));
    inputs.host_facts.partitions = Ok(2);
    assert!(silent(rule("partition-locks"), &inputs).contains("waited"));
    inputs.costs = Err("nobody watched".into());
    assert_eq!(lacks(rule("partition-locks"), &inputs), Inputs::COSTS);
    inputs.host_facts.partitions = Err("nobody counted".into());
    assert_eq!(lacks(rule("partition-locks"), &inputs), "the number of partitions");
}

fn blocked_threads_blocked(method: &str, dumps: u64, waits: u64) -> Inputs {
    let owners = vec!["data-plane-kafka-request-handler-1".into()];
    let lock =
        ContendedLock { class: "java/lang/Object".into(), method: method.into(), dumps, waits, owners };
    Inputs { dumps: Ok(Dumps { dumps: 4, blocked: vec![lock], ..Dumps::default() }), ..broker() }
}

#[test]
fn blocked_threads_fires_if_dumps_agree_on_one_lock() {
    let finding = fired(rule("blocked-threads"), &blocked_threads_blocked("kafka/log/Log.append", 2, 8));
    assert_eq!(finding.changes[0].new, "twice as many");
    assert!(finding.evidence.contains("8 waits in 2 of 4 dumps"), "{}", finding.evidence);
    let other = fired(rule("blocked-threads"), &blocked_threads_blocked("a.B.c", 4, 12));
    assert!(other.changes[0].setting.contains("request-handler-1"));
}

#[test]
fn blocked_threads_is_silent_on_too_few_dumps_or_waits() {
    silent(rule("blocked-threads"), &blocked_threads_blocked("kafka/log/Log.append", 1, 8));
    silent(rule("blocked-threads"), &blocked_threads_blocked("kafka/log/Log.append", 4, 7));
    assert_eq!(
        lacks(rule("blocked-threads"), &Inputs { dumps: Err("none given".into()), ..broker() }),
        Inputs::DUMPS
    );
}
