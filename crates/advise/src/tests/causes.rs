//! Each rule fires when it should and is silent otherwise: causes.

use super::{
    assert_silent_without, broker, fired, fires_on, lacks, silent, with_cost, with_sample, with_setting,
    with_way,
};
use crate::rules::causes::release;
use crate::{Combination, Inputs, ReadsWithoutEgress};
use model::{Cause, Ext4, FileKind, HostScope, Nanos};

use super::rule;

#[test]
fn cold_reads_fires_on_cost() {
    let finding = fires_on(rule("cold-reads"), Cause::DiskReadInNetworkThread);
    assert!(finding.changes[2].old.contains("64.0 GiB"));
}

#[test]
fn cold_reads_is_silent_at_negligible_cost() {
    assert_silent_without(rule("cold-reads"), Cause::DiskReadInNetworkThread);
}

#[test]
fn cpu_throttled_fires_on_cost_or_throttling() {
    let mut inputs = broker();
    inputs.host_facts.cpu_quota = Ok(Some(2.0));
    with_sample(&mut inputs, HostScope::Cgroup, "/kafka", "cpu_throttled_per_second", 3.0);
    let finding = fired(rule("cpu-throttled"), &inputs);
    assert_eq!((finding.cost, &*finding.changes[0].old), (None, "2.0 CPUs"));
    with_cost(&mut inputs, Cause::CpuThrottled, 4, Nanos::from_millis(200));
    assert!(fired(rule("cpu-throttled"), &inputs).cost.is_some());
}

#[test]
fn cpu_throttled_is_silent_without_throttling_and_lacks_costs() {
    silent(rule("cpu-throttled"), &broker());
    let unseen = Inputs { costs: Err("nobody watched".into()), samples: Err("nor that".into()), ..broker() };
    assert_eq!(lacks(rule("cpu-throttled"), &unseen), Inputs::COSTS);
}

#[test]
fn dirty_throttling_fires_on_cost() {
    let finding = fires_on(rule("dirty-throttling"), Cause::DirtyThrottling);
    assert_eq!((&*finding.changes[1].setting, &*finding.changes[1].old), ("vm.dirty_ratio", "60"));
    assert!(finding.changes[1].is_together() && !finding.changes[2].is_together(), "{finding:?}");
    assert_eq!(finding.changes[2].setting, "log.dirs");
}

#[test]
fn dirty_throttling_is_silent_at_negligible_cost() {
    assert_silent_without(rule("dirty-throttling"), Cause::DirtyThrottling);
}

#[test]
fn dirty_throttling_is_silent_on_a_saturated_device() {
    let mut inputs = broker();
    with_cost(&mut inputs, Cause::DirtyThrottling, 9, Nanos::from_millis(200));
    with_sample(&mut inputs, HostScope::Device, "nvme0n1", "util_ratio", 0.99);
    assert!(silent(rule("dirty-throttling"), &inputs).contains("device-saturation"));
}

#[test]
fn down_conversion_fires_on_cost() {
    let finding = fires_on(rule("down-conversion"), Cause::DownConversion);
    assert!(finding.changes[0].new.starts_with("0.11"));
}

#[test]
fn down_conversion_is_silent_at_negligible_cost() {
    assert_silent_without(rule("down-conversion"), Cause::DownConversion);
}

#[test]
fn fast_commit_fires_on_cost() {
    let finding = fires_on(rule("fast-commit"), Cause::FastCommit);
    assert_eq!(finding.changes[0].new, "xfs");
}

#[test]
fn fast_commit_is_silent_at_negligible_cost() {
    assert_silent_without(rule("fast-commit"), Cause::FastCommit);
}

#[test]
fn fs_frozen_fires_on_cost() {
    let finding = fires_on(rule("fs-frozen"), Cause::FsFrozen);
    assert!(finding.changes[0].setting.contains("fsfreeze"));
}

#[test]
fn fs_frozen_is_silent_at_negligible_cost() {
    assert_silent_without(rule("fs-frozen"), Cause::FsFrozen);
}

#[test]
fn memory_throttled_fires_on_cost() {
    let finding = fires_on(rule("memory-throttled"), Cause::MemoryThrottled);
    assert!(finding.changes[0].setting.starts_with("memory.high"));
    assert_eq!(&*finding.changes[1].old, "none");
}

#[test]
fn memory_throttled_is_silent_at_negligible_cost() {
    assert_silent_without(rule("memory-throttled"), Cause::MemoryThrottled);
}

#[test]
fn io_throttled_fires_on_cost() {
    let finding = fires_on(rule("io-throttled"), Cause::IoThrottled);
    assert!(finding.changes[0].setting.contains("io.latency"));
}

#[test]
fn io_throttled_is_silent_at_negligible_cost() {
    assert_silent_without(rule("io-throttled"), Cause::IoThrottled);
}

#[test]
fn nfs_wait_fires_on_cost() {
    let finding = fires_on(rule("nfs-wait"), Cause::NfsWait);
    assert_eq!((&*finding.changes[0].old, &*finding.changes[0].new), ("nfs", "xfs"));
}

#[test]
fn nfs_wait_is_silent_at_negligible_cost() {
    assert_silent_without(rule("nfs-wait"), Cause::NfsWait);
}

#[test]
fn process_stopped_fires_on_cost() {
    let finding = fires_on(rule("process-stopped"), Cause::ProcessStopped);
    assert!(finding.changes[0].new.contains("jcmd"));
}

#[test]
fn process_stopped_is_silent_at_negligible_cost() {
    assert_silent_without(rule("process-stopped"), Cause::ProcessStopped);
}

#[test]
fn host_paused_fires_on_cost() {
    let finding = fires_on(rule("host-paused"), Cause::HostPaused);
    assert!(finding.changes[0].setting.contains("live migration"));
}

#[test]
fn host_paused_is_silent_at_negligible_cost() {
    assert_silent_without(rule("host-paused"), Cause::HostPaused);
}

#[test]
fn cpu_steal_fires_on_cost() {
    let finding = fires_on(rule("cpu-steal"), Cause::CpuSteal);
    assert!(finding.changes[0].new.contains("dedicated"));
}

#[test]
fn cpu_steal_is_silent_at_negligible_cost() {
    assert_silent_without(rule("cpu-steal"), Cause::CpuSteal);
}

#[test]
fn gc_pause_fires_on_cost() {
    let finding = fires_on(rule("gc-pause"), Cause::GcPause);
    assert_eq!((&*finding.changes[0].old, &*finding.changes[2].old), ("not set", "G1GC"));
}

#[test]
fn gc_pause_is_silent_at_negligible_cost() {
    assert_silent_without(rule("gc-pause"), Cause::GcPause);
}

#[test]
fn head_of_line_fires_on_cost() {
    let finding = fires_on(rule("head-of-line"), Cause::HeadOfLine);
    assert!(finding.changes[0].setting.starts_with("max.in.flight"));
}

#[test]
fn head_of_line_is_silent_at_negligible_cost() {
    assert_silent_without(rule("head-of-line"), Cause::HeadOfLine);
}

#[test]
fn index_page_fault_fires_on_cost() {
    let finding = fires_on(rule("index-page-fault"), Cause::IndexPageFault);
    assert!(finding.changes[0].new.contains("KAFKA-19390"));
}

#[test]
fn index_page_fault_is_silent_at_negligible_cost() {
    assert_silent_without(rule("index-page-fault"), Cause::IndexPageFault);
}

fn journal_commit_on_ext4(fast_commit: bool, kernel: &str) -> Inputs {
    let mut inputs = broker();
    with_cost(&mut inputs, Cause::JournalCommit, 20, Nanos::from_millis(200));
    inputs.host_facts.kernel = Ok(kernel.into());
    let volume = &mut inputs.host_facts.volumes.as_mut().unwrap()[0];
    volume.fs = "ext4".into();
    volume.ext4 = Ok(Some(Ext4 { journal: true, fast_commit }));
    inputs
}

#[test]
fn journal_commit_advises_only_features_that_the_file_system_lacks() {
    fires_on(rule("journal-commit"), Cause::JournalCommit);
    let settings = |inputs| {
        fired(rule("journal-commit"), &inputs)
            .changes
            .into_iter()
            .map(|change| change.setting)
            .collect::<Vec<_>>()
    };
    let all = settings(journal_commit_on_ext4(false, "6.1.0"));
    assert_eq!(all.len(), 3);
    assert!(all[1].starts_with("tune2fs -O fast_commit /dev/nvme0n1"), "{all:?}");
    assert_eq!(settings(journal_commit_on_ext4(true, "6.1.0")).len(), 2, "it has them");
    assert_eq!(settings(journal_commit_on_ext4(false, "5.4.0")).len(), 2, "its kernel has none");
}

/// The changes are in the order of `explain`. Both come from the same declaration.
#[test]
fn journal_commit_lists_changes_in_the_order_of_explain() {
    let words = [("xfs", "XFS"), ("fast_commit", "fast_commit"), ("data=writeback", "data=writeback")];
    let spec = diagnose::causes::all().find(|spec| spec.cause == Cause::JournalCommit).unwrap();
    assert_eq!(spec.advice.len(), words.len());
    for known in [broker(), journal_commit_on_ext4(false, "6.1.0")] {
        let mut inputs = known;
        with_cost(&mut inputs, Cause::JournalCommit, 20, Nanos::from_millis(200));
        let changes = fired(rule("journal-commit"), &inputs).changes;
        for ((change, advice), (setting, word)) in changes.iter().zip(spec.advice).zip(words) {
            assert!(format!("{} {}", change.setting, change.new).contains(setting), "{change:?}");
            assert!(advice.contains(word), "{advice}");
            assert!(!change.setting.contains("LOG_DIR"), "{change:?}");
        }
        let words: Vec<Combination> = changes.iter().map(|change| change.combination).collect();
        assert_eq!(words, [Combination::Either, Combination::Alternative, Combination::Either]);
    }
}

#[test]
fn journal_commit_is_silent_at_negligible_cost() {
    assert_silent_without(rule("journal-commit"), Cause::JournalCommit);
}

#[test]
fn parses_kernel_releases() {
    assert_eq!(
        [release("6.1.0-18-amd64"), release("5.10+"), release("x")],
        [Some((6, 1)), Some((5, 10)), None]
    );
}

#[test]
fn log_cleaner_fires_on_cost() {
    let finding = fires_on(rule("log-cleaner"), Cause::LogCleaner);
    assert!(finding.changes[0].old.contains("the default"));
}

#[test]
fn log_cleaner_is_silent_at_negligible_cost() {
    assert_silent_without(rule("log-cleaner"), Cause::LogCleaner);
}

#[test]
fn log_lock_fires_on_waits_for_any_holder() {
    let mut inputs = broker();
    with_way(
        &mut inputs,
        Cause::JournalCommit,
        &[Cause::LogLock, Cause::JournalCommit],
        5,
        Nanos::from_millis(200),
    );
    with_cost(&mut inputs, Cause::LogLock, 5, Nanos::from_millis(200));
    let finding = fired(rule("log-lock"), &inputs);
    assert_eq!(finding.cost.unwrap().time, Nanos::from_millis(2_000));
    assert_eq!((&*finding.changes[0].old, &*finding.changes[0].new), ("100 in all", "twice as many"));
    inputs.host_facts.partitions = Ok(1);
    let target = fired(rule("log-lock"), &inputs).changes.remove(0).target.unwrap();
    assert_eq!(target.value, "8", "one for each handler");
}

#[test]
fn log_lock_is_silent_without_waits_for_a_log() {
    let mut inputs = broker();
    with_cost(&mut inputs, Cause::JournalCommit, 5, Nanos::from_millis(200));
    assert!(silent(rule("log-lock"), &inputs).contains("log-lock"));
}

#[test]
fn memory_reclaim_fires_on_cost() {
    let finding = fires_on(rule("memory-reclaim"), Cause::MemoryReclaim);
    assert_eq!((&*finding.changes[0].old, &*finding.changes[1].old), ("90112", "none"));
}

#[test]
fn memory_reclaim_is_silent_at_negligible_cost() {
    assert_silent_without(rule("memory-reclaim"), Cause::MemoryReclaim);
}

#[test]
fn network_threads_fires_on_cost() {
    let finding = fires_on(rule("network-threads"), Cause::NetworkThreadsBusy);
    assert_eq!((&*finding.changes[0].old, &*finding.changes[0].new), ("3", "6"));
}

#[test]
fn network_threads_is_silent_at_negligible_cost() {
    assert_silent_without(rule("network-threads"), Cause::NetworkThreadsBusy);
}

#[test]
fn page_lock_fires_on_cost() {
    let finding = fires_on(rule("page-lock"), Cause::PageLock);
    assert_eq!(finding.changes[0].old, "5");
}

#[test]
fn page_lock_is_silent_at_negligible_cost() {
    assert_silent_without(rule("page-lock"), Cause::PageLock);
}

#[test]
fn quota_fires_on_cost() {
    let finding = fires_on(rule("quota"), Cause::Quota);
    assert!(finding.changes[0].setting.contains("producer_byte_rate"));
}

#[test]
fn quota_is_silent_at_negligible_cost() {
    assert_silent_without(rule("quota"), Cause::Quota);
}

#[test]
fn recompression_fires_on_cost_or_if_configured() {
    let mut inputs = broker();
    with_cost(&mut inputs, Cause::Recompression, 5, model::Nanos::from_millis(200));
    assert!(fired(rule("recompression"), &inputs).cost.is_some());
    let mut unwatched = Inputs { costs: Err("nobody watched".into()), ..broker() };
    with_setting(&mut unwatched, "compression.type", "gzip");
    let finding = fired(rule("recompression"), &unwatched);
    assert_eq!((finding.cost, &*finding.changes[0].old), (None, "gzip"));
}

#[test]
fn recompression_is_silent_at_negligible_cost_or_if_not_configured() {
    assert_silent_without(rule("recompression"), Cause::Recompression);
    silent(rule("recompression"), &Inputs { costs: Err("nobody watched".into()), ..broker() });
}

#[test]
fn replication_wait_fires_on_cost() {
    let finding = fires_on(rule("replication-wait"), Cause::ReplicationWait);
    assert_eq!(finding.changes[1].old, "1 (the default)");
}

#[test]
fn replication_wait_is_silent_at_negligible_cost() {
    assert_silent_without(rule("replication-wait"), Cause::ReplicationWait);
}

fn request_handlers_waited(handlers: &str) -> Inputs {
    let mut inputs = broker();
    with_way(
        &mut inputs,
        Cause::SlowDevice,
        &[Cause::HandlersBusy, Cause::SlowDevice],
        5,
        Nanos::from_millis(200),
    );
    with_setting(&mut inputs, "num.io.threads", handlers);
    inputs
}

#[test]
fn request_handlers_fires_on_idle_cpus_up_to_the_partition_count() {
    let mut inputs = request_handlers_waited("4");
    let change = fired(rule("request-handlers"), &inputs).changes.remove(0);
    assert_eq!((&*change.old, &*change.new), ("4", "10"));
    inputs.host_facts.partitions = Ok(6);
    assert_eq!(fired(rule("request-handlers"), &inputs).changes[0].new, "6");
    inputs.host_facts.cpu_quota = Ok(Some(1.5));
    silent(rule("request-handlers"), &inputs);
}

#[test]
fn request_handlers_is_silent_with_enough_handlers_or_no_waits() {
    assert!(silent(rule("request-handlers"), &request_handlers_waited("8")).contains("enough"));
    assert!(silent(rule("request-handlers"), &broker()).contains("no request was slow"));
}

#[test]
fn roll_fsync_fires_on_cost() {
    let finding = fires_on(rule("roll-fsync"), Cause::RollFsync);
    assert_eq!(finding.changes[1].old, "1073741824 (the default)");
}

#[test]
fn roll_fsync_is_silent_at_negligible_cost() {
    assert_silent_without(rule("roll-fsync"), Cause::RollFsync);
}

#[test]
fn run_queue_fires_on_cost_and_reduces_excess_handlers() {
    assert_eq!(fires_on(rule("run-queue"), Cause::RunQueue).changes.len(), 2);
    let mut inputs = broker();
    with_cost(&mut inputs, Cause::RunQueue, 5, Nanos::from_millis(200));
    with_setting(&mut inputs, "num.io.threads", "32");
    assert_eq!(fired(rule("run-queue"), &inputs).changes[0].new, "10");
}

#[test]
fn run_queue_is_silent_at_negligible_cost() {
    assert_silent_without(rule("run-queue"), Cause::RunQueue);
}

#[test]
fn safepoint_fires_on_cost() {
    let finding = fires_on(rule("safepoint"), Cause::Safepoint);
    assert_eq!(finding.changes[0].old, "not set");
}

#[test]
fn safepoint_is_silent_at_negligible_cost() {
    assert_silent_without(rule("safepoint"), Cause::Safepoint);
}

#[test]
fn slow_client_fires_on_cost() {
    let finding = fires_on(rule("slow-client"), Cause::SlowClient);
    assert_eq!(finding.changes[1].old, "50 (the default)");
}

#[test]
fn slow_client_is_silent_at_negligible_cost() {
    assert_silent_without(rule("slow-client"), Cause::SlowClient);
}

#[test]
fn slow_device_fires_on_cost() {
    let finding = fires_on(rule("slow-device"), Cause::SlowDevice);
    assert_eq!((&*finding.changes[0].setting, &*finding.changes[0].old), ("log.dirs", "/data (on one disk)"));
}

#[test]
fn slow_device_is_silent_at_negligible_cost() {
    assert_silent_without(rule("slow-device"), Cause::SlowDevice);
}

#[test]
fn slow_device_is_silent_on_a_saturated_device() {
    let mut inputs = broker();
    with_cost(&mut inputs, Cause::SlowDevice, 9, Nanos::from_millis(200));
    with_sample(&mut inputs, HostScope::Device, "nvme0n1", "util_ratio", 0.99);
    assert!(silent(rule("slow-device"), &inputs).contains("device-saturation"));
}

#[test]
fn stable_page_fires_on_cost() {
    let finding = fires_on(rule("stable-page"), Cause::StablePage);
    assert_eq!(finding.changes[0].old, "1");
}

#[test]
fn stable_page_is_silent_at_negligible_cost() {
    assert_silent_without(rule("stable-page"), Cause::StablePage);
}

fn tier_state_unsent(kind: FileKind) -> ReadsWithoutEgress {
    ReadsWithoutEgress {
        window: Nanos::from_millis(60_000),
        read_bytes: 361 << 20,
        sent_bytes: 0,
        kind: kind.as_str(),
        share: 0.99,
        file: Some("m-53/0.tierstate.mutable".into()),
    }
}

#[test]
fn tier_state_fires_on_cost() {
    let finding = fires_on(rule("tier-state"), Cause::TierStateIo);
    assert!(finding.changes.len() == 3 && finding.changes[0].new == "true");
}

#[test]
fn tier_state_is_silent_at_negligible_cost() {
    assert_silent_without(rule("tier-state"), Cause::TierStateIo);
}

#[test]
fn tier_state_fires_on_reads_without_egress_even_without_cost() {
    let mut inputs = broker();
    inputs.unsent = Ok(Some(tier_state_unsent(FileKind::TierState)));
    let finding = fired(rule("tier-state"), &inputs);
    assert_eq!(finding.cost, None);
    assert_eq!(
        finding.evidence,
        "reads without egress: 361.0 MiB read from disk in 60.0 s, 0 B of it sent; 99 % of the rest is tierstate \
         files, most of it m-53/0.tierstate.mutable"
    );
    assert!(finding.effect.starts_with("these reads stop") && finding.risk.starts_with("ages count from"));
    with_cost(&mut inputs, Cause::TierStateIo, 20, Nanos::from_millis(200));
    let both = fired(rule("tier-state"), &inputs);
    assert_eq!(both.cost.map(|cost| cost.requests), Some(20));
    assert!(both.evidence.starts_with("tier-state-io cost") && both.evidence.ends_with(&finding.evidence));
    inputs.costs = Err("nobody watched requests".into());
    assert_eq!(fired(rule("tier-state"), &inputs).cost, None);
}

#[test]
fn tier_state_is_silent_on_reads_of_other_files() {
    let mut inputs = broker();
    inputs.unsent = Ok(Some(tier_state_unsent(FileKind::Log)));
    assert!(silent(rule("tier-state"), &inputs).contains("to nobody is log files, not tierstate"));
    inputs.unsent = Ok(Some(ReadsWithoutEgress { share: 0.4, ..tier_state_unsent(FileKind::TierState) }));
    silent(rule("tier-state"), &inputs);
    inputs.unsent = Err("files were not watched".into());
    assert_eq!(lacks(rule("tier-state"), &inputs), Inputs::UNSENT);
}

#[test]
fn txn_verification_fires_on_cost() {
    let finding = fires_on(rule("txn-verification"), Cause::TxnVerification);
    assert_eq!(finding.changes[1].old, "true (the default)");
}

#[test]
fn txn_verification_is_silent_at_negligible_cost() {
    assert_silent_without(rule("txn-verification"), Cause::TxnVerification);
}

#[test]
fn xfs_inode_lock_fires_on_cost() {
    let finding = fires_on(rule("xfs-inode-lock"), Cause::XfsInodeLock);
    assert_eq!(
        (&*finding.changes[0].old, &*finding.changes[0].new),
        ("1073741824 (the default)", "268435456")
    );
}

#[test]
fn xfs_inode_lock_is_silent_at_negligible_cost() {
    assert_silent_without(rule("xfs-inode-lock"), Cause::XfsInodeLock);
}

#[test]
fn xfs_log_space_fires_on_cost() {
    let finding = fires_on(rule("xfs-log-space"), Cause::XfsLogSpace);
    assert!(finding.changes[0].new.ends_with("2g"));
}

#[test]
fn xfs_log_space_is_silent_at_negligible_cost() {
    assert_silent_without(rule("xfs-log-space"), Cause::XfsLogSpace);
}
