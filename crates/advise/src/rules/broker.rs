//! The broker's own settings: threads, segments, replication.

use crate::rule::{advise, fires, rules, silent};
use crate::{Change, Inputs, RuleResult, Scope};

const MANY_PARTITIONS: u64 = 1_000;
const DEFAULT_SEGMENT_BYTES: i64 = 1 << 30;
const MIN_SEGMENT_BYTES: i64 = 128 << 20;
const DEFAULT_REPLICA_LAG_MS: i64 = 30_000;

rules! { RULES:
    "flush-interval" in Broker, flush_interval => {
        condition: "log.flush.interval.messages or log.flush.interval.ms is set",
        source: "Kafka's documentation, operations: application against OS flush management recommends the defaults, which leave \
                 flushing to the kernel: replication keeps what was acknowledged",
        look_at: "roll-fsync among the causes, and fsync in `brokerscope io --op fsync --summary`",
        effect: "no append waits for an fsync of its log; any cost measured here is listed under roll-fsync",
        risk: "a partition without replicas loses what was not flushed when its host crashes",
    }

    "segment-size" in Broker, segment_size => {
        condition: "log.segment.bytes is below 128 MiB",
        source: "Kafka's documentation, broker configuration: 1 GiB by default; KAFKA-9693 on what a roll costs. The bound, an \
                 eighth of the default, is brokerscope's own",
        look_at: "roll-fsync among the causes; `brokerscope logs` on the lines \"Rolled new log segment\"",
        effect: "fewer rolls, files and mapped areas; any cost of rolls measured here is listed under roll-fsync",
        risk: "records are kept until their whole segment may be deleted: topics with little traffic keep more",
    }

    "replica-fetchers" in Broker, replica_fetchers => {
        condition: "num.replica.fetchers is 1, topics are replicated by default, and the broker has at least 1,000 partitions",
        source: "Kafka's documentation, broker configuration: more fetchers raise the parallelism of a follower. The bound of 1,000 \
                 partitions is brokerscope's own",
        look_at: "replication-wait among the causes of the leaders, and the stage remote",
        effect: "followers that are behind under load catch up sooner; nothing where they are not",
        risk: "four times as many connections and fetches to every leader",
    }

    "replica-lag" in Broker, replica_lag => {
        condition: "replica.lag.time.max.ms is set below 30000",
        source: "KIP-537: the default was raised from 10 s to 30 s, because a slow disk or a pause threw followers out of the in-sync \
                 replicas and back in",
        look_at: "replication-wait among the causes; IsrShrinksPerSec of the broker",
        effect: "a stall of some seconds does not shrink the in-sync replicas",
        risk: "requests with acks=all wait longer for a follower that is down",
    }

    "min-insync" in Broker, min_insync => {
        condition: "default.replication.factor is at least 2, and min.insync.replicas is no smaller, or is 1 with a factor \
                    of at least 3",
        source: "Kafka's documentation, topic configuration: a replication factor of 3 with min.insync.replicas of 2 is \
                 typical. With 1, acks=all needs the leader alone; with the replication factor, one broker that is down \
                 stops all producers",
        look_at: "replication-wait among the causes (a higher value does not change it), and NOT_ENOUGH_REPLICAS of the producers",
        effect: "",
        risk: "with a higher value fewer brokers may be down; with a lower value fewer may be lost for good",
    }

    "unclean-election" in Broker, unclean_election => {
        condition: "unclean.leader.election.enable is true",
        source: "Kafka's documentation, design: unclean leader election; false by default since 0.11 (KIP-106)",
        look_at: "UncleanLeaderElectionsPerSec of the controller, which must stay 0; a comparison does not show it",
        effect: "no out-of-sync replica becomes leader, so no record acknowledged with acks=all is lost that way",
        risk: "a partition is unavailable while all its in-sync replicas are down",
    }
}

fn flush_interval(inputs: &Inputs) -> RuleResult {
    let settings = inputs.settings()?;
    let set = ["log.flush.interval.messages", "log.flush.interval.ms"].into_iter().filter_map(|name| {
        let value = settings.text(name)?;
        Some((format!("{name}={value}"), Change::of(name, value, "not set").on(Scope::Broker, name, "")))
    });
    let (assignments, changes): (Vec<String>, Vec<Change>) = set.unzip();
    if assignments.is_empty() {
        return silent("neither is set: flushing is left to the kernel");
    }
    Ok(advise(assignments.join(", "), changes))
}

fn segment_size(inputs: &Inputs) -> RuleResult {
    at_least(inputs, "log.segment.bytes", MIN_SEGMENT_BYTES, DEFAULT_SEGMENT_BYTES)
}

fn replica_lag(inputs: &Inputs) -> RuleResult {
    at_least(inputs, "replica.lag.time.max.ms", DEFAULT_REPLICA_LAG_MS, DEFAULT_REPLICA_LAG_MS)
}

/// Advises the default for a setting that is below a bound.
fn at_least(inputs: &Inputs, name: &'static str, least: i64, default: i64) -> RuleResult {
    let number = inputs.settings()?.number(name, default)?;
    let evidence = fires(number.value < least, format!("{name} is {}", number.text))?;
    Ok(advise(evidence, [Change::of(name, number.text, default).by_name(Scope::Broker)]))
}

fn replica_fetchers(inputs: &Inputs) -> RuleResult {
    let settings = inputs.settings()?;
    let fetchers = settings.number("num.replica.fetchers", 1)?;
    let replicas = settings.number("default.replication.factor", 1)?;
    let partitions = inputs.partitions()?;
    if fetchers.value > 1 || replicas.value < 2 || partitions < MANY_PARTITIONS {
        return silent(format!(
            "num.replica.fetchers is {}, default.replication.factor is {}, of {partitions} partitions",
            fetchers.text, replicas.text
        ));
    }
    let change = Change::of("num.replica.fetchers (kafka-configs, while the broker runs)", fetchers.text, 4);
    let evidence = format!("one fetcher for each leader, of {partitions} partitions");
    Ok(advise(evidence, [change.on(Scope::Broker, "num.replica.fetchers", 4)]))
}

fn min_insync(inputs: &Inputs) -> RuleResult {
    let settings = inputs.settings()?;
    let replicas = settings.number("default.replication.factor", 1)?;
    let least = settings.number("min.insync.replicas", 1)?;
    let too_low = replicas.value >= 3 && least.value <= 1;
    let too_high = replicas.value >= 2 && least.value >= replicas.value;
    let description =
        format!("min.insync.replicas is {}, default.replication.factor is {}", least.text, replicas.text);
    let evidence = fires(too_low || too_high, description)?;
    let (new, effect) = if too_low {
        (2, "records acknowledged with acks=all survive the loss of a broker")
    } else {
        (replicas.value - 1, "producers with acks=all go on while one broker is down")
    };
    let setting = "min.insync.replicas (of the broker, and of topics that set it)";
    let change = Change::of(setting, least.text, new).on(Scope::Broker, "min.insync.replicas", new);
    Ok(advise(evidence, [change]).with_effect(effect))
}

fn unclean_election(inputs: &Inputs) -> RuleResult {
    let name = "unclean.leader.election.enable";
    let is_on = inputs.settings()?.is_on(name, false);
    let evidence = fires(is_on, format!("{name} is {is_on}"))?;
    Ok(advise(evidence, [Change::of(name, "true", "false").by_name(Scope::Broker)]))
}
