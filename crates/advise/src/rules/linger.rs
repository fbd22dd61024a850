//! Producers that send many small batches: waiting a little would join them.

use crate::words::{counted, percent, size};
use crate::{Change, Inputs, Layer, NoAdvice, Producer, Recommendation, Rule, RuleResult, Scope};

/// Producers with fewer requests are not judged.
const LEAST_REQUESTS: u64 = 100;
/// Requests a second on one connection from which on waiting 5 ms joins some.
const OFTEN_PER_SECOND: f64 = 200.0;
/// Records in a batch above which batching works.
const FEW_RECORDS: f64 = 10.0;
/// What `batch.size` is by default.
const DEFAULT_BATCH_BYTES: u64 = 16_384;

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "linger",
    layer: Layer::Producer,
    condition: "a producer sends at least 200 requests a second on a connection, with fewer than 10 records in a batch, which is less \
                than half of batch.size's default (100 requests or more)",
    source: "a public case (IBM zSystems, 2022): linger.ms only where batches are not full. KIP-1030: linger.ms is 5 by default since \
             Kafka 4.0. The bounds are brokerscope's own: 200 a second is one in 5 ms",
    look_at: "requests a second and records in a batch (`brokerscope requests --summary`), and the median of produce",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let traffic = inputs.traffic()?;
    let producers = traffic.producers();
    let small = |producer: &Producer| -> Option<(f64, f64)> {
        let often = producer.requests_per_second().filter(|often| *often >= OFTEN_PER_SECOND)?;
        let records = producer.records_per_batch().filter(|records| *records < FEW_RECORDS)?;
        let small =
            producer.bytes_per_batch() * 2 < DEFAULT_BATCH_BYTES && producer.requests >= LEAST_REQUESTS;
        small.then_some((often, records))
    };
    let mut found = producers.iter().filter_map(|(name, producer)| Some((name, producer, small(producer)?)));
    let Some((name, producer, (often, records))) = found.next() else {
        let seen = counted(producers.len() as u64, "producer");
        return Err(NoAdvice::Silent(format!("none of {seen} sends small batches that often")));
    };
    let others = found.count() as u64;
    let more =
        if others > 0 { format!(", and so of {}", counted(others, "other producer")) } else { String::new() };
    let fill = producer.bytes_per_batch() as f64 / DEFAULT_BATCH_BYTES as f64;
    Ok(Recommendation {
        evidence: format!(
            "{name} sends {often:.0} requests a second on each connection, with {records:.1} records ({}, {} of batch.size's default) \
             in a batch{more}",
            size(producer.bytes_per_batch()),
            percent(fill),
        ),
        changes: vec![
            Change::of(
                format!("linger.ms (of {name}{more})"),
                "not on the wire; 0 by default before Kafka 4.0",
                5,
            )
            .on(Scope::Producers, "linger.ms", 5),
        ],
        cost: None,
        effect: format!(
            "200 requests a second on a connection at most, instead of {often:.0}, for the same records"
        ),
        risk: "a record may wait 5 ms longer in the producer; where it waits for each answer before it sends the next record, nothing is \
               joined and every record waits",
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, lacks, produce, silent};
    use crate::{Inputs, Traffic};

    fn sent(every_ms: i64, bytes: u32, records: u32) -> Inputs {
        let mut traffic = Traffic::default();
        for at in 0..200 {
            traffic.add(&produce("app", at * every_ms, 1, bytes, records));
        }
        Inputs { traffic: Ok(traffic), ..broker() }
    }

    #[test]
    fn fires_where_small_batches_come_often() {
        let finding = fired(&RULE, &sent(1, 1_100, 1));
        assert_eq!(finding.changes[0].setting, "linger.ms (of app)");
        assert!(finding.evidence.contains("1.0 records (1.1 KiB, 7 %"), "{}", finding.evidence);
    }

    #[test]
    fn is_silent_where_they_come_seldom_or_are_not_small() {
        silent(&RULE, &sent(20, 1_100, 1));
        silent(&RULE, &sent(1, 1_100, 11));
        silent(&RULE, &sent(1, 16_000, 2));
        assert_eq!(
            lacks(&RULE, &Inputs { traffic: Err("nobody watched".into()), ..broker() }),
            Inputs::TRAFFIC
        );
    }
}
