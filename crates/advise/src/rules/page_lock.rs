//! Operations that wait for a page that another thread has locked.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult, Scope};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "page-lock",
    layer: Layer::FileSystem,
    condition: "page-lock is the cause of at least 1 % of the slow requests' time (brokerscope's own bound)",
    source: "mm/filemap.c, folio_lock: a page is locked while it is read or written; public talks on Kafka \
        at LINE",
    look_at: "page-lock among the causes",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::PageLock])?;
    Ok(Recommendation {
        evidence,
        changes: vec![
            background_ratio(inputs),
            Change::of(
                "consumer_byte_rate (quota of consumers that read old segments)",
                "not known",
                "a bound",
            ),
        ],
        cost: Some(cost),
        effect: cost.gain("; the first where write-back had the page, the second where readers had it"),
        risk: "consumers that catch up take longer",
    })
}

fn background_ratio(inputs: &Inputs) -> Change {
    let name = "vm.dirty_background_ratio";
    let change = Change::of(name, inputs.shown_sysctl(name), "half of that");
    match inputs.sysctl(name) {
        Ok(ratio) if ratio > 1 => change.on(Scope::Kernel, name, ratio / 2),
        _ => change,
    }
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::PageLock);
        assert_eq!(finding.changes[0].old, "5");
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::PageLock);
    }
}
