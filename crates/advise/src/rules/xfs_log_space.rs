//! Changes of files that wait for room in XFS's log.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "xfs-log-space",
    layer: Layer::FileSystem,
    condition: "xfs-log-space is the cause of at least 1 % of the slow requests' time (brokerscope's own bound)",
    source: "Documentation/filesystems/xfs/xfs-delayed-logging-design.rst: a change waits until older ones \
        were written back. mkfs.xfs(8): -l size and logdev",
    look_at: "xfs-log-space among the causes",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::XfsLogSpace])?;
    Ok(Recommendation {
        evidence,
        changes: vec![
            Change::of("size of XFS's log (mkfs.xfs -l size=)", "not known (xfs_info says it)", "up to 2g"),
            Change::of(
                "place of XFS's log (-l logdev=, mount -o logdev=)",
                "internal",
                "a device of its own",
            ),
        ],
        cost: Some(cost),
        effect: cost.gain("; nothing is known of it from elsewhere"),
        risk: "both mean making the file system anew; recovery after a crash reads a larger log",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::XfsLogSpace);
        assert!(finding.changes[0].new.ends_with("2g"));
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::XfsLogSpace);
    }
}
