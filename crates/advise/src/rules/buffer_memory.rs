//! Producers that hold as many records as their memory has room for by default.

use crate::words::{counted, percent, size};
use crate::{Buffered, Change, Inputs, Layer, NoAdvice, Producer, Recommendation, Rule, RuleResult, Scope};

/// Producers with fewer requests are not judged.
const LEAST_REQUESTS: u64 = 100;
/// What `buffer.memory` is by default.
const DEFAULT_BYTES: u32 = 32 << 20;
/// From this share of it on it is as good as full: what is free is less than a batch for each partition.
const FULL: f64 = 0.8;
/// What holds more than this has more memory than the default already, or its records' times say something else.
const MORE: f64 = 1.25;
/// What the public case had.
const NEW_BYTES: u32 = 64 << 20;

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "buffer-memory",
    layer: Layer::Producer,
    condition: "a producer's bytes a second, times how long they wait from when their batch's newest record was made until they are \
                answered, are 80 to 125 % of buffer.memory's default, 32 MiB, on each of its connections (brokerscope's own bounds; \
                100 requests or more, of whose batches nine in ten say when their records were made, less than 120 s ago)",
    source: "Kafka's documentation, producer configuration: buffer.memory (33554432 by default; when it is full, send() blocks) and \
             delivery.timeout.ms (120000). Little's law. A public case (IBM zSystems, 2022): 64 MiB, one of several small steps. Not \
             seen: what the producer holds for other brokers, what its setting is, and memory beyond the bytes on the wire \
             (compressed or part-filled batches); its clock must agree with the broker's",
    look_at: "requests a second (`brokerscope requests --summary`); in the producer's own metrics bufferpool-wait-ratio, which must \
              fall, and buffer-available-bytes",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let traffic = inputs.traffic()?;
    let mut producers = traffic.producers();
    producers.retain(|(_, producer)| producer.requests >= LEAST_REQUESTS);
    if !producers.is_empty() && !producers.iter().any(|(_, producer)| producer.is_timed()) {
        return Err(NoAdvice::NotKnown { input: "when producers made their records", why: NO_TIMES.into() });
    }
    let full = |producer: &Producer| -> Option<Buffered> {
        producer.held().filter(|held| (FULL..=MORE).contains(&(held.bytes / f64::from(DEFAULT_BYTES))))
    };
    let mut found = producers.iter().filter_map(|(name, producer)| Some((name, full(producer)?)));
    let Some((name, held)) = found.next() else {
        let seen = counted(producers.len() as u64, "producer");
        return Err(NoAdvice::Silent(format!(
            "none of {seen} holds about as much as buffer.memory's default"
        )));
    };
    let others = found.count() as u64;
    let more =
        if others > 0 { format!(", and so of {}", counted(others, "other producer")) } else { String::new() };
    Ok(Recommendation {
        evidence: format!(
            "records of {name} wait {} from when they are made until they are answered, at {} a second on a connection: {} held at \
             once, {} of buffer.memory's default{more}",
            held.wait,
            size(held.bytes_per_second as u64),
            size(held.bytes as u64),
            percent(held.bytes / f64::from(DEFAULT_BYTES)),
        ),
        changes: vec![
            Change::of(
                format!("buffer.memory (of {name}{more})"),
                format!("not on the wire; {DEFAULT_BYTES} by default"),
                NEW_BYTES,
            )
            .on(Scope::Producers, "buffer.memory", NEW_BYTES),
        ],
        cost: None,
        effect: "the application stands still less often while the broker is slow to answer; over longer times no more is sent than \
                 broker and network take"
            .to_owned(),
        risk: "32 MiB more of each producer's heap; where the broker is the limit, records only wait longer in the producer",
    })
}

/// Why it is not known when records were made.
const NO_TIMES: &str =
    "no batch says it: an older recording, an old message format, or clocks that do not agree";

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::RULE;
    use crate::testing::{broker, fired, lacks, produce, silent};
    use crate::{Inputs, Traffic};

    /// 100 MiB a second, each of which was made so long before it was answered; none where nothing says when.
    fn sent(waited_ms: Option<i64>) -> Inputs {
        let mut traffic = Traffic::default();
        for at in 0..101 {
            let mut request = produce("app", at * 10, 20, 1 << 20, 1_000);
            let made = waited_ms.map(|waited| request.last_seen() - Nanos::from_millis(waited));
            request.partitions[0].newest_record = made;
            traffic.add(&request);
        }
        Inputs { traffic: Ok(traffic), ..broker() }
    }

    #[test]
    fn fires_where_as_much_waits_as_there_is_room_for() {
        let finding = fired(&RULE, &sent(Some(310)));
        assert_eq!(
            finding.evidence,
            "records of app wait 310 ms from when they are made until they are answered, at 101.0 MiB a second on a connection: \
             31.3 MiB held at once, 98 % of buffer.memory's default"
        );
        let change = &finding.changes[0];
        assert_eq!((&*change.setting, &*change.new), ("buffer.memory (of app)", "67108864"));
    }

    #[test]
    fn is_silent_where_there_is_room_or_more_than_by_default() {
        for waited_ms in [20, 100, 250, 400, 2_000] {
            silent(&RULE, &sent(Some(waited_ms)));
        }
        silent(&RULE, &broker());
    }

    #[test]
    fn lacks_the_records_times_or_the_requests() {
        // No producer keeps a record for 200 s.
        for waited_ms in [None, Some(200_000), Some(-5)] {
            assert_eq!(lacks(&RULE, &sent(waited_ms)), "when producers made their records");
        }
        let unwatched = Inputs { traffic: Err("nobody watched".into()), ..broker() };
        assert_eq!(lacks(&RULE, &unwatched), Inputs::TRAFFIC);
    }
}
