//! Partitions' locks and the threads that wait for them.

use model::Cause;

use crate::costs::costly_as_link;
use crate::rule::{advise, need, rules, silent};
use crate::words::format_count;
use crate::{Change, ContendedLock, Inputs, RuleResult, Scope};

/// Fewer waits per thread dump are normal.
const MIN_WAITS_PER_DUMP: u64 = 2;

pub(super) const HANDLERS: &str = "num.io.threads (kafka-configs, while the broker runs)";

rules! { RULES:
    "partition-locks" in Locks, partition_locks => {
        condition: "there are fewer partitions, over all topics, than request handlers, and requests that waited for logs or for handlers \
                    took at least 1 % of the slow requests' time (brokerscope's own bound)",
        source: "a public case (IBM zSystems, 2022), checked by experiment: one lock a partition, 1 topic of 16 partitions is as good \
                 as 2 of 8; num.io.threads never above the number of these locks",
        look_at: "requests a second, and log-lock in the chains of causes",
        effect: "more appends at once; the measured cost of waiting is listed under log-lock",
        risk: "keys map to other partitions than before, so old and new records of a key are not in order",
    }

    "blocked-threads" in Locks, blocked_threads => {
        condition: "in at least half of the thread dumps threads wait for the same lock, two or more on average",
        source: "a public case (IBM zSystems, 2022): in a javacore one monitor, held by a request handler, blocked the others in \
                 kafka/log/Log.append. Two threads is brokerscope's own bound",
        look_at: "log-lock in the chains of causes, requests a second, and the same dumps again",
        effect: "threads run instead of waiting; dumps do not show how long they waited",
        risk: "with more partitions, keys map to others than before, so old and new records of a key are not in order",
    }
}

/// As many partitions as handlers, but at least twice as many as now. All handlers can then append at once.
pub(super) fn more_partitions(inputs: &Inputs) -> Change {
    let setting = "partitions of the topics that `explain` names (kafka-topics --alter)";
    let Some(partitions) = inputs.partitions().ok().filter(|partitions| *partitions > 0) else {
        return Change::of(setting, "not known in all", "twice as many");
    };
    let handlers = inputs.settings().and_then(|settings| settings.number("num.io.threads", 8));
    let handlers = handlers.ok().and_then(|number| u64::try_from(number.value).ok()).unwrap_or(0);
    let twice = partitions.saturating_mul(2);
    let (description, new) = if handlers > twice {
        (format!("{handlers}: one for each request handler"), handlers)
    } else {
        ("twice as many".to_owned(), twice)
    };
    Change::of(setting, format!("{partitions} in all"), description).on(Scope::Topics, "partitions", new)
}

fn partition_locks(inputs: &Inputs) -> RuleResult {
    let partitions = inputs.partitions()?;
    let handlers = inputs.settings()?.number("num.io.threads", 8)?;
    let description =
        format!("{} for {} request handlers", format_count(partitions, "partition"), handlers.value);
    if i64::try_from(partitions).is_ok_and(|partitions| partitions >= handlers.value) {
        return silent(format!("there are {description}"));
    }
    need(Inputs::COSTS, &inputs.costs)?;
    if [Cause::LogLock, Cause::HandlersBusy].iter().all(|cause| costly_as_link(inputs, *cause).is_err()) {
        return silent("no slow request waited for a log or for a handler");
    }
    let setting = "partitions, over all topics that are written to";
    let new = format!("{} or more", handlers.value);
    let changes = vec![
        Change::of(setting, partitions, new).on(Scope::Topics, "partitions", handlers.value),
        Change::of(HANDLERS, &handlers.text, "no more than partitions")
            .on(Scope::Broker, "num.io.threads", partitions)
            .alternative(),
    ];
    Ok(advise(description, changes))
}

/// The change to two handlers more than CPUs, and that number; `None` if there are no more than that.
pub(super) fn fewer_handlers(inputs: &Inputs) -> Option<(Change, i64)> {
    let handlers = inputs.settings().and_then(|settings| settings.number("num.io.threads", 8)).ok()?;
    let most = i64::from(inputs.cpus().ok()?) + 2;
    (handlers.value > most).then(|| (Change::of(HANDLERS, handlers.text, most), most))
}

fn blocked_threads(inputs: &Inputs) -> RuleResult {
    let dumps = need(Inputs::DUMPS, &inputs.dumps)?;
    let often = |lock: &&ContendedLock| {
        lock.dumps * 2 >= dumps.dumps && lock.waits >= MIN_WAITS_PER_DUMP * dumps.dumps
    };
    let Some(lock) = dumps.blocked.iter().filter(often).max_by_key(|lock| lock.waits) else {
        let examined = format_count(dumps.dumps, "thread dump");
        return silent(format!("no lock blocks several threads in half of {examined}"));
    };
    let examined = format_count(dumps.dumps, "dump");
    let owner = lock.owners.first().map_or("a thread without a name in the dumps", |owner| owner);
    let method = if lock.method.is_empty() { "a method that they do not name" } else { &lock.method };
    let evidence = format!(
        "{} in {} of {examined} for {} in {method}, held by {owner}",
        format_count(lock.waits, "wait"),
        lock.dumps,
        lock.class,
    );
    // `kafka.log.Log.append` up to Kafka 2.8, `UnifiedLog.append` since then; a javacore writes slashes.
    let change = if lock.method.contains("Log.append") || lock.method.contains("UnifiedLog") {
        Change::of("partitions of the topics that are written to most", "one lock each", "twice as many")
    } else {
        let setting = format!("what {owner} does under {}", lock.class);
        Change::of(setting, "keeps others waiting", "see `stacks` of that thread")
    };
    Ok(advise(evidence, [change]))
}
