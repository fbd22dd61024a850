//! Producers: batches, linger, memory, timeouts.

use std::sync::Arc;

use model::Nanos;

use crate::rule::{advise, fires, not_known, rules, silent};
use crate::words::{format_count, percent, size};
use crate::{Change, Inputs, NoAdvice, Producer, RuleResult, Scope};

/// Producers with fewer requests are not judged.
const MIN_REQUESTS: u64 = 100;
/// From this share on, full batches are the rule.
const MOSTLY_FULL: f64 = 0.5;
/// Larger batches gave nothing in the public case.
const LARGE_BATCH_BYTES: u32 = 65_536;
/// Default of `batch.size`.
const DEFAULT_BATCH_BYTES: u64 = 16_384;
/// Requests per second on one connection from which lingering for 5 ms merges some.
const OFTEN_PER_SECOND: f64 = 200.0;
/// Batching works if batches have at least this many records.
const FEW_RECORDS: f64 = 10.0;
/// Default of `buffer.memory`.
const DEFAULT_BUFFER_BYTES: u32 = 32 << 20;
/// Value in the public case.
const LARGE_BUFFER_BYTES: u32 = 64 << 20;
/// From 80 % on, memory is practically full: less than a batch per partition is free.
/// Above 125 %, the producer has more memory than the default, or its records' timestamps mean something else.
const FULL_BUFFER: std::ops::RangeInclusive<f64> = 0.8..=1.25;
/// Default of `request.timeout.ms`.
const DEFAULT_TIMEOUT: Nanos = Nanos::from_millis(30_000);

rules! { RULES:
    "batch-size" in Producer, batch_size => {
        condition: "at least half of a producer's batches (of 100 requests or more) have no room for another record of mean size; \
                    its batch.size is taken to be the smallest of 16 KiB, 32 KiB and so on that holds its largest batch",
        source: "a public case (IBM zSystems, 2022): batches were full at 16 KiB; batch.size 16384 to 65536, more gave nothing. Kafka's \
                 documentation, producer configuration. Compressed batches are smaller on the wire than what fills them, and do not show",
        look_at: "requests a second and records in a batch (`brokerscope requests --summary`), and p99.9 of produce",
        effect: "down to a quarter of the requests for the same records, if they come fast enough to fill larger batches",
        risk: "the producer holds a batch for each partition: buffer.memory must be enough; each request is larger",
    }

    "linger" in Producer, linger => {
        condition: "a producer sends at least 200 requests a second on a connection, with fewer than 10 records in a batch, which is less \
                    than half of batch.size's default (100 requests or more)",
        source: "a public case (IBM zSystems, 2022): linger.ms only where batches are not full. KIP-1030: linger.ms is 5 by default since \
                 Kafka 4.0. The bounds are brokerscope's own: 200 a second is one in 5 ms",
        look_at: "requests a second and records in a batch (`brokerscope requests --summary`), and the median of produce",
        effect: "",
        risk: "a record may wait 5 ms longer in the producer; a producer that waits for each response before it sends the \
               next record gains nothing, and every record waits",
    }

    "buffer-memory" in Producer, buffer_memory => {
        condition: "a producer's bytes a second, times how long they wait from when their batch's newest record was made until they are \
                    answered, are 80 to 125 % of buffer.memory's default, 32 MiB, on each of its connections (brokerscope's own bounds; \
                    100 requests or more, of whose batches nine in ten say when their records were made, less than 120 s ago)",
        source: "Kafka's documentation, producer configuration: buffer.memory (33554432 by default; when it is full, send() blocks) and \
                 delivery.timeout.ms (120000). Little's law. A public case (IBM zSystems, 2022): 64 MiB, one of several small steps. Not \
                 seen: what the producer holds for other brokers, what its setting is, and memory beyond the bytes on the wire \
                 (compressed or part-filled batches); its clock must agree with the broker's",
        look_at: "requests a second (`brokerscope requests --summary`); in the producer's own metrics bufferpool-wait-ratio, which must \
                  fall, and buffer-available-bytes",
        effect: "send() blocks less often while the broker is slow to answer; the mean throughput stays what broker and \
                 network take",
        risk: "32 MiB more of each producer's heap; where the broker is the limit, records only wait longer in the producer",
    }

    "request-timeout" in Producer, request_timeout => {
        condition: "p99.9 of produce requests (of 1,000 or more) is at or above 30 s, the default of request.timeout.ms",
        source: "Kafka's documentation, producer configuration: request.timeout.ms is 30000 and must be above the broker's \
                 replica.lag.time.max.ms; delivery.timeout.ms is 120000. What a producer has set is not read",
        look_at: "p99.9 of produce, and record-retry-rate of the producers",
        effect: "no retry of a request that the broker is still processing; first remove what makes it so slow",
        risk: "a broker that is down is noticed later",
    }
}

/// The busiest producer with some property, and the number of others that have it.
struct Match<'p, T> {
    name: &'p Arc<str>,
    producer: &'p Producer,
    what: T,
    more: String,
}

fn find<'p, T>(
    producers: &[(&'p Arc<str>, &'p Producer)],
    what: impl Fn(&Producer) -> Option<T>,
    why_not: &str,
) -> Result<Match<'p, T>, NoAdvice> {
    let holds = |(name, producer): &(&'p Arc<str>, &'p Producer)| {
        let what = what(producer).filter(|_| producer.requests >= MIN_REQUESTS)?;
        Some((*name, *producer, what))
    };
    let mut matches = producers.iter().filter_map(holds);
    let Some((name, producer, what)) = matches.next() else {
        let examined = format_count(producers.len() as u64, "producer");
        return silent(format!("none of {examined} {why_not}"));
    };
    let more = match matches.count() as u64 {
        0 => String::new(),
        others => format!(", and so of {}", format_count(others, "other producer")),
    };
    Ok(Match { name, producer, what, more })
}

fn batch_size(inputs: &Inputs) -> RuleResult {
    let full = |producer: &Producer| {
        let size = producer.batch_size().filter(|size| *size < LARGE_BATCH_BYTES)?;
        producer.full().filter(|full| *full >= MOSTLY_FULL).map(|full| (size, full))
    };
    let why_not = format!("has mostly full batches of less than {LARGE_BATCH_BYTES} bytes");
    let Match { name, producer, what: (size, share), more } =
        find(&inputs.traffic()?.producers(), full, &why_not)?;
    let evidence = format!(
        "{} of the batches of {name} ({}) are full at {size} bytes{more}",
        percent(share),
        format_count(producer.requests, "request"),
    );
    let change = Change::of(format!("batch.size (of {name}{more})"), size, LARGE_BATCH_BYTES);
    Ok(advise(evidence, [change.on(Scope::Producers, "batch.size", LARGE_BATCH_BYTES)]))
}

fn linger(inputs: &Inputs) -> RuleResult {
    let small = |producer: &Producer| {
        let often = producer.requests_per_second().filter(|often| *often >= OFTEN_PER_SECOND)?;
        let records = producer.records_per_batch().filter(|records| *records < FEW_RECORDS)?;
        (producer.bytes_per_batch() * 2 < DEFAULT_BATCH_BYTES).then_some((often, records))
    };
    let Match { name, producer, what: (often, records), more } =
        find(&inputs.traffic()?.producers(), small, "sends small batches that often")?;
    let evidence = format!(
        "{name} sends {often:.0} requests a second on each connection, with {records:.1} records ({}, {} of batch.size's default) \
         in a batch{more}",
        size(producer.bytes_per_batch()),
        percent(producer.bytes_per_batch() as f64 / DEFAULT_BATCH_BYTES as f64),
    );
    let old = "not on the wire; 0 by default before Kafka 4.0";
    let change =
        Change::of(format!("linger.ms (of {name}{more})"), old, 5).on(Scope::Producers, "linger.ms", 5);
    let effect =
        format!("200 requests a second on a connection at most, instead of {often:.0}, for the same records");
    Ok(advise(evidence, [change]).with_effect(effect))
}

fn buffer_memory(inputs: &Inputs) -> RuleResult {
    let mut producers = inputs.traffic()?.producers();
    producers.retain(|(_, producer)| producer.requests >= MIN_REQUESTS);
    if !producers.is_empty() && !producers.iter().any(|(_, producer)| producer.is_timed()) {
        let why = "no batch has a usable time: an older recording, an old message format, or clocks that do not agree";
        return not_known("when producers made their records", why);
    }
    let share = |bytes: f64| bytes / f64::from(DEFAULT_BUFFER_BYTES);
    let full = |producer: &Producer| {
        producer.buffer_use().filter(|buffer| FULL_BUFFER.contains(&share(buffer.bytes)))
    };
    let Match { name, what: buffer, more, .. } =
        find(&producers, full, "holds about as much as buffer.memory's default")?;
    let evidence = format!(
        "records of {name} wait {} from when they are made until they are answered, at {} a second on a connection: {} held at \
         once, {} of buffer.memory's default{more}",
        buffer.wait,
        size(buffer.bytes_per_second as u64),
        size(buffer.bytes as u64),
        percent(share(buffer.bytes)),
    );
    let old = format!("not on the wire; {DEFAULT_BUFFER_BYTES} by default");
    let change = Change::of(format!("buffer.memory (of {name}{more})"), old, LARGE_BUFFER_BYTES);
    Ok(advise(evidence, [change.on(Scope::Producers, "buffer.memory", LARGE_BUFFER_BYTES)]))
}

fn request_timeout(inputs: &Inputs) -> RuleResult {
    let Some(p999) = inputs.traffic()?.p999() else {
        return silent("fewer than 1,000 produce requests were seen: their p99.9 is not known");
    };
    let description = format!("p99.9 of produce requests is {p999}, and producers wait 30 s by default");
    let evidence = fires(p999 >= DEFAULT_TIMEOUT, description)?;
    let request = (p999.0 / 1_000_000).saturating_mul(2);
    let delivery = request.saturating_mul(4).max(120_000);
    let timeouts = [("request.timeout.ms", 30_000, request), ("delivery.timeout.ms", 120_000, delivery)];
    let change = |(name, default, new): (&str, i64, i64)| {
        let old = format!("not known; {default} by default");
        Change::of(format!("{name} (of the producers)"), old, new).on(Scope::Producers, name, new)
    };
    Ok(advise(evidence, timeouts.map(change)))
}
