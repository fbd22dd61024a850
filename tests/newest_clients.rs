//! Tests the newest releases of nine client libraries. Two are newer than the broker: the first request of each of their
//! connections has a version that neither the broker nor brokerscope knows. See README.md.

use std::sync::MutexGuard;

use e2e::agreement;
use e2e::clients::{self, NEWEST};
use e2e::gate;
use e2e::spoken::VersionTable;
use e2e::traffic::newest_traffic;

/// Set to 1 if a Go that builds them must be there.
const MUST: &str = "BROKERSCOPE_NEWER_GO";

/// `setup/debian` installs Debian's Go, which may be too old for them.
fn live(test: &str) -> Option<MutexGuard<'static, ()>> {
    let alone = gate::live(test)?;
    if clients::newest_can_be_built() {
        return Some(alone);
    }
    assert_ne!(std::env::var(MUST).as_deref(), Ok("1"), "{MUST}=1, and `go` is older than 1.26");
    eprintln!("LEFT OUT: {test}: needs Go 1.26 or newer; {MUST}=1 makes that a failure");
    None
}

#[test]
fn requests_agree_with_kafkas_own_log() {
    let Some(_alone) = live("the newest clients against Kafka's own log") else { return };
    println!("{} requests in Kafka's log", newest_traffic().log.len());
    assert!(newest_traffic().log.len() > 1_000, "too few requests to prove much");
    agreement::of_each_request(newest_traffic());
}

#[test]
fn every_library_sent_requests() {
    let Some(_alone) = live("the newest clients by name") else { return };
    for name in NEWEST {
        let of = |id: Option<&str>| id.is_some_and(|id| id.starts_with(&format!("{name}-")));
        let logged = newest_traffic().log.iter().filter(|request| of(request.client_id.as_deref())).count();
        println!("{name}: {logged} requests in Kafka's log");
        assert!(logged > 20, "{name} sent {logged} requests");
    }
}

#[test]
fn clients_tried_an_api_version_newer_than_the_brokers() {
    let Some(_alone) = live("the variety of the newest clients") else { return };
    let spoken = VersionTable::of(&newest_traffic().log, &NEWEST);
    println!("{}", spoken.table());
    // Kafka 4.1 knows ApiVersions up to version 4: it refuses 5, and the client asks again.
    assert_eq!(spoken.lacks("API_VERSIONS", &[4, 5]), Vec::<i64>::new());
}

#[test]
fn every_record_is_counted() {
    let Some(_alone) = live("records of the newest clients") else { return };
    agreement::on_records(newest_traffic());
}
