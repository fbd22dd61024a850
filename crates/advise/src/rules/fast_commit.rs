//! Appends that wait for one of ext4's fast commits. Whoever has fast commits has left whole ones behind.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult, Scope};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "fast-commit",
    layer: Layer::FileSystem,
    condition: "fast-commit is the cause of at least 1 % of the slow requests' time (brokerscope's own bound)",
    source: "fs/jbd2/journal.c, jbd2_fc_begin_commit: writers wait while a fast commit is under way. A \
        public case (Allegro, 2024): p99.9 of 500 ms with fast commits, a few hiccups a day on XFS",
    look_at: "fast-commit among the causes, and p99.9 of produce",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::FastCommit])?;
    Ok(Recommendation {
        evidence,
        changes: vec![Change::of("file system of the log dirs", "ext4 with fast_commit", "xfs").on(
            Scope::FileSystem,
            "type",
            "xfs",
        )],
        cost: Some(cost),
        effect: cost.gain("; on XFS the public case had 82 % fewer requests over 65 ms than on ext4"),
        risk: "the log dirs have to be moved, one broker at a time",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::FastCommit);
        assert_eq!(finding.changes[0].new, "xfs");
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::FastCommit);
    }
}
