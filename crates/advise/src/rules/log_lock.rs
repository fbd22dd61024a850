//! Requests that wait for a partition's log, which another request holds.

use model::Cause;

use crate::costs::costly_on_the_way;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult, Scope};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "log-lock",
    layer: Layer::Locks,
    condition: "requests that waited for a log's lock, whatever its holder waited for, took at least 1 % of the slow requests' time \
                (brokerscope's own bound)",
    source: "a public case (Allegro, 2024): one slow write makes every request of its partition slow. Another (IBM zSystems, 2022): \
             one lock a partition over all topics; num.partitions 1 to 2 to 16",
    look_at: "log-lock in the ways to the causes, and the stage lock",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly_on_the_way(inputs, Cause::LogLock)?;
    Ok(Recommendation {
        evidence,
        changes: vec![change(inputs)],
        cost: Some(cost),
        effect: format!(
            "fewer requests behind each slow append: of the {} that waiting took, the part in which the holder's own cause, told \
             above or below, is not removed first",
            cost.time
        ),
        risk: "keys go to other partitions than before, and the order of their records ends there; more files and leaders",
    })
}

/// As many as there are handlers, which can then all append at once; twice as many where there are.
fn change(inputs: &Inputs) -> Change {
    let setting = "partitions of the topics that `explain` names (kafka-topics --alter)";
    let Some(partitions) = inputs.partitions().ok().filter(|partitions| *partitions > 0) else {
        return Change::of(setting, "not known in all", "twice as many");
    };
    let handlers = inputs.settings().and_then(|settings| settings.number("num.io.threads", 8));
    let handlers = handlers.ok().and_then(|number| u64::try_from(number.value).ok()).unwrap_or(0);
    let twice = partitions.saturating_mul(2);
    let (told, new) = if handlers > twice {
        (format!("{handlers}: one for each request handler"), handlers)
    } else {
        ("twice as many".to_owned(), twice)
    };
    Change::of(setting, format!("{partitions} in all"), told).on(Scope::Topics, "partitions", new)
}

#[cfg(test)]
mod tests {
    use model::{Cause, Nanos};

    use super::RULE;
    use crate::testing::{broker, fired, silent, with_cost, with_way};

    #[test]
    fn fires_where_holders_kept_others_waiting_whatever_for() {
        let mut inputs = broker();
        with_way(
            &mut inputs,
            Cause::JournalCommit,
            &[Cause::LogLock, Cause::JournalCommit],
            5,
            Nanos::from_millis(200),
        );
        with_cost(&mut inputs, Cause::LogLock, 5, Nanos::from_millis(200));
        let finding = fired(&RULE, &inputs);
        assert_eq!(finding.cost.unwrap().time, Nanos::from_millis(2_000));
        assert_eq!((&*finding.changes[0].old, &*finding.changes[0].new), ("100 in all", "twice as many"));
        inputs.surroundings.partitions = Ok(1);
        let target = fired(&RULE, &inputs).changes.remove(0).target.unwrap();
        assert_eq!(target.value, "8", "one for each handler");
    }

    #[test]
    fn is_silent_where_no_one_waited_for_a_log() {
        let mut inputs = broker();
        with_cost(&mut inputs, Cause::JournalCommit, 5, Nanos::from_millis(200));
        assert!(silent(&RULE, &inputs).contains("log-lock"));
    }
}
