//! Threads that thread dumps show blocked on one lock again and again.

use crate::rule::need;
use crate::words::counted;
use crate::{Change, ContendedLock, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult};

/// Fewer waits a dump are everyday work.
const LEAST_WAITS: u64 = 2;

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "blocked-threads",
    layer: Layer::Locks,
    condition: "in at least half of the thread dumps somebody waits for one lock, two threads or more on average",
    source: "a public case (IBM zSystems, 2022): in a javacore one monitor, held by a request handler, blocked the others in \
             kafka/log/Log.append. Two threads is brokerscope's own bound",
    look_at: "log-lock in the ways to the causes, requests a second, and the same dumps again",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let dumps = need(Inputs::DUMPS, &inputs.dumps)?;
    let often =
        |lock: &&ContendedLock| lock.dumps * 2 >= dumps.dumps && lock.waits >= LEAST_WAITS * dumps.dumps;
    let Some(lock) = dumps.blocked.iter().filter(often).max_by_key(|lock| lock.waits) else {
        let looked = counted(dumps.dumps, "thread dump");
        return Err(NoAdvice::silent(format!(
            "in {looked} no lock keeps several threads waiting in half of them"
        )));
    };
    let owner = lock.owners.first().map_or("a thread that the dumps do not name", |owner| owner);
    let evidence = format!(
        "{} in {} of {} for {} in {}, held by {owner}",
        counted(lock.waits, "wait"),
        lock.dumps,
        counted(dumps.dumps, "dump"),
        lock.class,
        if lock.method.is_empty() { "a method that they do not name" } else { &lock.method },
    );
    Ok(Recommendation {
        evidence,
        changes: vec![change(lock, owner)],
        cost: None,
        effect: "threads that work instead of waiting; dumps say nothing of how long they waited".to_owned(),
        risk: "with more partitions, keys go to others than before, and the order of their records ends there",
    })
}

/// `kafka.log.Log.append` until Kafka 2.8, `UnifiedLog.append` since; a javacore writes slashes.
fn change(lock: &ContendedLock, owner: &str) -> Change {
    let appends = lock.method.contains("Log.append") || lock.method.contains("UnifiedLog");
    if appends {
        return Change::of(
            "partitions of the topics that are written to most",
            "one lock each",
            "twice as many",
        );
    }
    Change::of(
        format!("what {owner} does under {}", lock.class),
        "keeps others waiting",
        "see `stacks` of that thread",
    )
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, lacks, silent};
    use crate::{ContendedLock, Dumps, Inputs};

    fn blocked(method: &str, dumps: u64, waits: u64) -> Inputs {
        let owners = vec!["data-plane-kafka-request-handler-1".into()];
        let lock =
            ContendedLock { class: "java/lang/Object".into(), method: method.into(), dumps, waits, owners };
        Inputs { dumps: Ok(Dumps { dumps: 4, blocked: vec![lock], ..Dumps::default() }), ..broker() }
    }

    #[test]
    fn fires_where_dumps_agree_on_one_lock() {
        let finding = fired(&RULE, &blocked("kafka/log/Log.append", 2, 8));
        assert_eq!(finding.changes[0].new, "twice as many");
        assert!(finding.evidence.contains("8 waits in 2 of 4 dumps"), "{}", finding.evidence);
        let other = fired(&RULE, &blocked("a.B.c", 4, 12));
        assert!(other.changes[0].setting.contains("request-handler-1"));
    }

    #[test]
    fn is_silent_where_they_do_not_or_there_are_none() {
        silent(&RULE, &blocked("kafka/log/Log.append", 1, 8));
        silent(&RULE, &blocked("kafka/log/Log.append", 4, 7));
        assert_eq!(lacks(&RULE, &Inputs { dumps: Err("none given".into()), ..broker() }), Inputs::DUMPS);
    }
}
