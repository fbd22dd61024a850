//! Appends and reads that wait for one XFS inode.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult, Scope};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "xfs-inode-lock",
    layer: Layer::FileSystem,
    condition: "xfs-inode-lock is the cause of at least 1 % of the slow requests' time (brokerscope's own \
        bound)",
    source: "fs/xfs/xfs_file.c: a buffered read takes the inode shared, a buffered write exclusively; public \
        talks on Kafka at LINE",
    look_at: "xfs-inode-lock among the causes",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::XfsInodeLock])?;
    Ok(Recommendation {
        evidence,
        changes: vec![
            Change::of("log.segment.bytes", inputs.shown("log.segment.bytes", "1073741824"), "268435456")
                .by_name(Scope::Broker),
        ],
        cost: Some(cost),
        effect: cost.gain(": smaller segments part those who read old records from the append"),
        risk: "four times as many files and mapped areas: see their limits; rolls come more often",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::XfsInodeLock);
        assert_eq!(
            (&*finding.changes[0].old, &*finding.changes[0].new),
            ("1073741824 (the default)", "268435456")
        );
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::XfsInodeLock);
    }
}
