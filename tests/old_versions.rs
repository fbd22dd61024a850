//! The last broker that speaks every old version, and clients made to speak them: Produce from version 0, message
//! sets of magic 0 and 1, fetches that the broker converts down. See README.md.

use e2e::agreement;
use e2e::clients::{CLIENTS, EVERY, PINNED};
use e2e::gate;
use e2e::spoken::Spoken;
use e2e::traffic::old_traffic;

#[test]
fn requests_agree_with_kafkas_own_log() {
    let Some(_alone) = gate::live("old versions against Kafka's own log") else { return };
    agreement::with_kafkas_log(old_traffic());
}

#[test]
fn every_old_version_was_spoken() {
    let Some(_alone) = gate::live("the variety of the old versions") else { return };
    agreement::has_variety(old_traffic());
    let spoken = Spoken::of(&old_traffic().log, &[&CLIENTS[..], &PINNED[..], &EVERY[..]].concat());
    println!("{}", spoken.table());
    assert_eq!(agreement::formats(old_traffic()).into_iter().collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(spoken.lacks("PRODUCE", &(0..=11).collect::<Vec<_>>()), Vec::<i64>::new());
    assert_eq!(spoken.lacks("FETCH", &(0..=17).collect::<Vec<_>>()), Vec::<i64>::new());
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
fn the_recorder_saw_what_tcpdump_saw() {
    let Some(_alone) = gate::live("recording of old versions against capture") else { return };
    agreement::of_recorder_and_capture(old_traffic());
}
