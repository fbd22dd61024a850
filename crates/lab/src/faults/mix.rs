//! The load that most faults are planted under: small produce requests of several connections to a few partitions,
//! drawn anew for each window.

use crate::client::{Answer, Traffic};
use crate::random::Random;

/// The topic that it writes to.
pub(super) const TOPIC: &str = "orders";
/// The most partitions that are drawn; the topic has as many.
pub(super) const MOST_PARTITIONS: u32 = 6;

/// Draws it: 60 to 130 requests a second of each of 6 to 12 producers, 100 bytes to 4 KiB each, on 1 to 6 partitions,
/// one to three of a connection unanswered, acks 1.
pub(super) fn standard(random: &mut Random) -> Traffic {
    Traffic {
        client: "orders".to_owned(),
        topic: TOPIC.to_owned(),
        partitions: random.between(1, u64::from(MOST_PARTITIONS)) as u32,
        producers: random.between(6, 12) as u32,
        per_second: random.between(60, 130) as u32,
        record_bytes: random.between(100, 4096) as u32,
        in_flight: random.between(1, 3) as u32,
        acks: 1,
    }
}

/// For people.
pub(super) fn described(traffic: &Traffic) -> String {
    let Traffic { producers, per_second, record_bytes, partitions, in_flight, .. } = traffic;
    format!(
        "{producers} producers × {per_second}/s × {record_bytes} B on {partitions} partition(s), {in_flight} in flight"
    )
}

/// How many requests took at least so long, as their producers saw it.
pub(super) fn slower_than(answers: &[Answer], ms: u64) -> usize {
    let least = i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    answers.iter().filter(|answer| answer.latency_ns >= least).count()
}
