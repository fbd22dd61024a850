//! Each rule fires when it should and is silent otherwise: clients.

use super::{broker, fired, lacks, produce, silent};
use crate::{Inputs, Traffic};
use model::Nanos;

use super::rule;

fn batch_size_sent(bytes: u32, records: u32) -> Inputs {
    let mut traffic = Traffic::default();
    for at in 0..100 {
        traffic.add(&(&produce("app", at, 1, bytes, records)).into());
    }
    Inputs { traffic: Ok(traffic), ..broker() }
}

#[test]
fn batch_size_fires_on_full_batches() {
    let finding = fired(rule("batch-size"), &batch_size_sent(16_300, 100));
    let change = &finding.changes[0];
    assert_eq!([&*change.setting, &*change.old, &*change.new], ["batch.size (of app)", "16384", "65536"]);
    assert!(
        finding.evidence.starts_with("100 % of the batches of app (100 requests)"),
        "{}",
        finding.evidence
    );
}

#[test]
fn batch_size_is_silent_on_batches_with_room_or_large_batches() {
    silent(rule("batch-size"), &batch_size_sent(8_000, 100));
    silent(rule("batch-size"), &batch_size_sent(1_100, 1));
    silent(rule("batch-size"), &batch_size_sent(65_500, 600));
    assert_eq!(
        lacks(rule("batch-size"), &Inputs { traffic: Err("nobody watched".into()), ..broker() }),
        Inputs::TRAFFIC
    );
}

fn linger_sent(every_ms: i64, bytes: u32, records: u32) -> Inputs {
    let mut traffic = Traffic::default();
    for at in 0..200 {
        traffic.add(&(&produce("app", at * every_ms, 1, bytes, records)).into());
    }
    Inputs { traffic: Ok(traffic), ..broker() }
}

#[test]
fn linger_fires_on_frequent_small_batches() {
    let finding = fired(rule("linger"), &linger_sent(1, 1_100, 1));
    assert_eq!(finding.changes[0].setting, "linger.ms (of app)");
    assert!(finding.evidence.contains("1.0 records (1.1 KiB, 7 %"), "{}", finding.evidence);
}

#[test]
fn linger_is_silent_on_rare_or_large_batches() {
    silent(rule("linger"), &linger_sent(20, 1_100, 1));
    silent(rule("linger"), &linger_sent(1, 1_100, 11));
    silent(rule("linger"), &linger_sent(1, 16_000, 2));
    assert_eq!(
        lacks(rule("linger"), &Inputs { traffic: Err("nobody watched".into()), ..broker() }),
        Inputs::TRAFFIC
    );
}

/// 100 MiB per second, created this long before the response; without timestamps if `None`.
fn buffer_memory_sent(waited_ms: Option<i64>) -> Inputs {
    let mut traffic = Traffic::default();
    for at in 0..101 {
        let mut request = produce("app", at * 10, 20, 1 << 20, 1_000);
        let made = waited_ms.map(|waited| request.last_seen() - Nanos::from_millis(waited));
        request.partitions[0].newest_record = made;
        traffic.add(&(&request).into());
    }
    Inputs { traffic: Ok(traffic), ..broker() }
}

#[test]
fn buffer_memory_fires_if_the_default_buffer_is_full() {
    let finding = fired(rule("buffer-memory"), &buffer_memory_sent(Some(310)));
    assert_eq!(
        finding.evidence,
        "records of app wait 310 ms from when they are made until they are answered, at 101.0 MiB a second on a connection: \
         31.3 MiB held at once, 98 % of buffer.memory's default"
    );
    let change = &finding.changes[0];
    assert_eq!((&*change.setting, &*change.new), ("buffer.memory (of app)", "67108864"));
}

#[test]
fn buffer_memory_is_silent_below_and_above_the_default_size() {
    for waited_ms in [20, 100, 250, 400, 2_000] {
        silent(rule("buffer-memory"), &buffer_memory_sent(Some(waited_ms)));
    }
    silent(rule("buffer-memory"), &broker());
}

#[test]
fn buffer_memory_lacks_record_timestamps_or_requests() {
    // No producer holds a record for 200 s.
    for waited_ms in [None, Some(200_000), Some(-5)] {
        assert_eq!(
            lacks(rule("buffer-memory"), &buffer_memory_sent(waited_ms)),
            "when producers made their records"
        );
    }
    let unwatched = Inputs { traffic: Err("nobody watched".into()), ..broker() };
    assert_eq!(lacks(rule("buffer-memory"), &unwatched), Inputs::TRAFFIC);
}

fn request_timeout_took(slowest_ms: i64, requests: i64) -> Inputs {
    let mut traffic = Traffic::default();
    for at in 0..requests {
        traffic.add(&(&produce("app", at, if at < 20 { slowest_ms } else { 2 }, 100, 1)).into());
    }
    Inputs { traffic: Ok(traffic), ..broker() }
}

#[test]
fn request_timeout_fires_if_requests_take_longer_than_the_timeout() {
    let finding = fired(rule("request-timeout"), &request_timeout_took(31_000, 2_000));
    assert!(finding.changes[0].new.parse::<u64>().unwrap() >= 62_000, "{finding:?}");
}

#[test]
fn request_timeout_is_silent_on_fast_or_too_few_requests() {
    silent(rule("request-timeout"), &request_timeout_took(29_000, 2_000));
    assert!(silent(rule("request-timeout"), &request_timeout_took(31_000, 900)).contains("fewer"));
    assert_eq!(
        lacks(rule("request-timeout"), &Inputs { traffic: Err("nobody watched".into()), ..broker() }),
        Inputs::TRAFFIC
    );
}
