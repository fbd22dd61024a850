//! Too few files that the broker may open.

use crate::rule::need;
use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult};

const ENOUGH: u64 = 100_000;

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "open-files",
    layer: Layer::Os,
    condition: "the limit of open files is below 100,000, and half of it is used, or would be by two files for \
        each partition",
    source: "Kafka's documentation, operations: file descriptor limits: a file for each segment and a socket \
        for each connection, 100000 as a start",
    look_at: "nothing that a comparison shows: a broker that has no file left stops",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let limits = need("the process's limits", &inputs.surroundings.limits)?;
    let Some(limit) = limits.open_files.filter(|limit| *limit < ENOUGH) else {
        return Err(NoAdvice::Silent(format!("the limit is at least {ENOUGH}")));
    };
    let partitions = inputs.partitions()?;
    let open = inputs.surroundings.open_files.as_ref().ok().copied();
    let used = open.unwrap_or(0).max(partitions.saturating_mul(2));
    let open = open.map_or_else(|| "not known how many".to_owned(), |open| open.to_string());
    let told = format!("of {limit} files {open} are open, and there are {partitions} partitions");
    if used < limit / 2 {
        return Err(NoAdvice::Silent(told));
    }
    Ok(Recommendation {
        evidence: told,
        changes: vec![Change::of("LimitNOFILE= (systemd), nofile (limits.conf)", limit, ENOUGH)],
        cost: None,
        effect: "the broker does not stop for want of a file".to_owned(),
        risk: "none that is known",
    })
}

#[cfg(test)]
mod tests {
    use model::Limits;

    use super::RULE;
    use crate::testing::{broker, fired, lacks, silent};

    #[test]
    fn fires_where_half_is_used() {
        let mut inputs = broker();
        inputs.surroundings.limits = Ok(Limits { open_files: Some(4_096) });
        inputs.surroundings.open_files = Ok(2_500);
        assert_eq!(fired(&RULE, &inputs).changes[0].new, "100000");
        inputs.surroundings.open_files = Err("another user's".into());
        inputs.surroundings.partitions = Ok(1_100);
        fired(&RULE, &inputs);
    }

    #[test]
    fn is_silent_where_there_are_enough() {
        let mut inputs = broker();
        silent(&RULE, &inputs);
        inputs.surroundings.limits = Ok(Limits { open_files: Some(65_536) });
        silent(&RULE, &inputs);
        inputs.surroundings.limits = Err("another user's".into());
        assert_eq!(lacks(&RULE, &inputs), "the process's limits");
    }
}
