//! Every rule, one file each. The order is that of worth where nothing was measured: what loses requests' time first, then
//! what protects from it.

use crate::Rule;

mod batch_size;
mod blocked_threads;
mod buffer_memory;
mod cold_reads;
mod collector;
mod cpu_throttled;
mod device_saturation;
mod dirty_ratio;
mod dirty_throttling;
mod down_conversion;
mod fast_commit;
mod flush_interval;
mod gc_pause;
mod head_of_line;
mod heap;
mod huge_pages;
mod index_page_fault;
mod journal_commit;
mod jvm_locking;
mod linger;
mod link_saturation;
mod log_cleaner;
mod log_lock;
mod map_count;
mod memory_reclaim;
mod min_insync;
mod monitor_spin;
mod mtu;
mod network_threads;
mod noatime;
mod open_files;
mod page_cache;
mod page_lock;
mod partition_locks;
mod quota;
mod recompression;
mod replica_fetchers;
mod replica_lag;
mod replication_wait;
mod request_handlers;
mod request_timeout;
mod roll_fsync;
mod run_queue;
mod safepoint;
mod segment_size;
mod slow_client;
mod slow_device;
mod stable_page;
mod swappiness;
mod tier_state;
mod txn_verification;
mod unclean_election;
mod xfs_inode_lock;
mod xfs_log_space;

/// Every rule.
pub static RULES: &[Rule] = &[
    journal_commit::RULE,
    fast_commit::RULE,
    xfs_log_space::RULE,
    xfs_inode_lock::RULE,
    stable_page::RULE,
    page_lock::RULE,
    slow_device::RULE,
    device_saturation::RULE,
    tier_state::RULE,
    log_cleaner::RULE,
    dirty_throttling::RULE,
    memory_reclaim::RULE,
    cold_reads::RULE,
    index_page_fault::RULE,
    roll_fsync::RULE,
    log_lock::RULE,
    partition_locks::RULE,
    blocked_threads::RULE,
    monitor_spin::RULE,
    request_handlers::RULE,
    network_threads::RULE,
    gc_pause::RULE,
    safepoint::RULE,
    cpu_throttled::RULE,
    run_queue::RULE,
    replication_wait::RULE,
    txn_verification::RULE,
    recompression::RULE,
    down_conversion::RULE,
    quota::RULE,
    slow_client::RULE,
    head_of_line::RULE,
    link_saturation::RULE,
    mtu::RULE,
    batch_size::RULE,
    linger::RULE,
    buffer_memory::RULE,
    request_timeout::RULE,
    flush_interval::RULE,
    segment_size::RULE,
    replica_fetchers::RULE,
    replica_lag::RULE,
    min_insync::RULE,
    unclean_election::RULE,
    page_cache::RULE,
    heap::RULE,
    collector::RULE,
    jvm_locking::RULE,
    open_files::RULE,
    map_count::RULE,
    swappiness::RULE,
    dirty_ratio::RULE,
    huge_pages::RULE,
    noatime::RULE,
];
