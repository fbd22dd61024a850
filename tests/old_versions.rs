//! Tests the last broker that supports every old version. Its clients use these versions: Produce from version 0,
//! message sets of magic 0 and 1, fetches that the broker down-converts. See README.md.

use e2e::agreement;
use e2e::clients::{CLIENTS, EVERY, PINNED};
use e2e::gate;
use e2e::spoken::VersionTable;
use e2e::traffic::old_traffic;

/// For the other APIs, the first and the last version that must have been used.
const OTHERS: [(&str, i64, i64); 16] = [
    ("LIST_OFFSETS", 0, 8),
    ("METADATA", 0, 12),
    ("OFFSET_COMMIT", 1, 8),
    ("OFFSET_FETCH", 1, 8),
    ("FIND_COORDINATOR", 0, 4),
    ("JOIN_GROUP", 0, 9),
    ("HEARTBEAT", 0, 4),
    ("LEAVE_GROUP", 0, 5),
    ("SYNC_GROUP", 0, 5),
    ("DESCRIBE_GROUPS", 0, 5),
    ("LIST_GROUPS", 0, 4),
    ("API_VERSIONS", 0, 3),
    ("CREATE_TOPICS", 0, 7),
    ("INIT_PRODUCER_ID", 0, 4),
    ("ADD_PARTITIONS_TO_TXN", 0, 3),
    ("END_TXN", 0, 3),
];

#[test]
fn requests_agree_with_kafkas_own_log() {
    let Some(_alone) = gate::live("old versions against Kafka's own log") else { return };
    agreement::with_kafkas_log(old_traffic());
}

#[test]
fn clients_used_every_old_version() {
    let Some(_alone) = gate::live("the variety of the old versions") else { return };
    agreement::has_variety(old_traffic());
    let spoken = VersionTable::of(&old_traffic().log, &[&CLIENTS[..], &PINNED[..], &EVERY[..]].concat());
    println!("{}", spoken.table());
    assert_eq!(agreement::formats(old_traffic()).into_iter().collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(spoken.lacks("PRODUCE", &(0..=11).collect::<Vec<_>>()), Vec::<i64>::new());
    assert_eq!(spoken.lacks("FETCH", &(0..=17).collect::<Vec<_>>()), Vec::<i64>::new());
    for (api, first, last) in OTHERS {
        assert_eq!(spoken.lacks(api, &(first..=last).collect::<Vec<_>>()), Vec::<i64>::new(), "{api}");
    }
}

#[test]
fn every_record_is_counted() {
    let Some(_alone) = gate::live("records of old versions") else { return };
    agreement::on_records(old_traffic());
}

#[test]
fn produce_partitions_join_their_writes() {
    let Some(_alone) = gate::live("the join of old versions") else { return };
    agreement::on_joins(old_traffic());
}

#[test]
fn recording_has_the_produce_requests_that_tcpdump_captured() {
    let Some(_alone) = gate::live("recording of old versions against capture") else { return };
    agreement::of_recorder_and_capture(old_traffic());
}
