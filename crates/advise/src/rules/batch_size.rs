//! Producers whose batches are full: larger ones would be fewer.

use crate::words::{counted, percent};
use crate::{Change, Inputs, Layer, NoAdvice, Producer, Recommendation, Rule, RuleResult, Scope};

/// Producers with fewer requests are not judged.
const LEAST_REQUESTS: u64 = 100;
/// So many full batches are the rule and no exception.
const MOSTLY: f64 = 0.5;
/// More gave nothing in the public case.
const ENOUGH_BYTES: u32 = 65_536;

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "batch-size",
    layer: Layer::Producer,
    condition: "in at least half of a producer's batches (of 100 requests or more) another record of their own mean size had no room; \
                its batch.size is taken to be the smallest of 16 KiB, 32 KiB and so on that holds its largest batch",
    source: "a public case (IBM zSystems, 2022): batches were full at 16 KiB; batch.size 16384 to 65536, more gave nothing. Kafka's \
             documentation, producer configuration. Compressed batches are smaller on the wire than what fills them, and do not show",
    look_at: "requests a second and records in a batch (`brokerscope requests --summary`), and p99.9 of produce",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let traffic = inputs.traffic()?;
    let producers = traffic.producers();
    let full = |producer: &Producer| -> Option<(u32, f64)> {
        let size = producer
            .batch_size()
            .filter(|size| *size < ENOUGH_BYTES && producer.requests >= LEAST_REQUESTS)?;
        producer.full().filter(|full| *full >= MOSTLY).map(|full| (size, full))
    };
    let mut found = producers.iter().filter_map(|(name, producer)| Some((name, producer, full(producer)?)));
    let Some((name, producer, (size, share))) = found.next() else {
        let seen = counted(producers.len() as u64, "producer");
        return Err(NoAdvice::Silent(format!(
            "none of {seen} has mostly full batches of less than {ENOUGH_BYTES} bytes"
        )));
    };
    let others = found.count() as u64;
    let more =
        if others > 0 { format!(", and so of {}", counted(others, "other producer")) } else { String::new() };
    Ok(Recommendation {
        evidence: format!(
            "{} of the batches of {name} ({}) are full at {size} bytes{more}",
            percent(share),
            counted(producer.requests, "request"),
        ),
        changes: vec![
            Change::of(format!("batch.size (of {name}{more})"), size, ENOUGH_BYTES)
                .on(Scope::Producers, "batch.size", ENOUGH_BYTES),
        ],
        cost: None,
        effect: "up to a quarter of the requests for the same records, if they come fast enough to fill larger batches".to_owned(),
        risk: "the producer holds a batch for each partition: buffer.memory must be enough; a request brings more at once",
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, lacks, produce, silent};
    use crate::{Inputs, Traffic};

    fn sent(bytes: u32, records: u32) -> Inputs {
        let mut traffic = Traffic::default();
        for at in 0..100 {
            traffic.add(&produce("app", at, 1, bytes, records));
        }
        Inputs { traffic: Ok(traffic), ..broker() }
    }

    #[test]
    fn fires_where_batches_are_full() {
        let finding = fired(&RULE, &sent(16_300, 100));
        let change = &finding.changes[0];
        assert_eq!([&*change.setting, &*change.old, &*change.new], ["batch.size (of app)", "16384", "65536"]);
        assert!(
            finding.evidence.starts_with("100 % of the batches of app (100 requests)"),
            "{}",
            finding.evidence
        );
    }

    #[test]
    fn is_silent_where_they_have_room_or_are_large_already() {
        silent(&RULE, &sent(8_000, 100));
        silent(&RULE, &sent(1_100, 1));
        silent(&RULE, &sent(65_500, 600));
        assert_eq!(
            lacks(&RULE, &Inputs { traffic: Err("nobody watched".into()), ..broker() }),
            Inputs::TRAFFIC
        );
    }
}
