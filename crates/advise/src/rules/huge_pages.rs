//! Huge pages that the kernel makes at a fault, whoever asked for them.

use crate::rule::need;
use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "huge-pages",
    layer: Layer::Os,
    condition: "/sys/kernel/mm/transparent_hugepage/enabled is always",
    source: "Documentation/admin-guide/mm/transhuge.rst: with always, a fault may have to compact memory \
        first; with madvise only for those who ask, as a JVM does with -XX:+UseTransparentHugePages",
    look_at: "memory-reclaim and safepoint among the causes, and p99.9 of produce: a small difference at most",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let mode = need("the mode of transparent huge pages", &inputs.surroundings.huge_pages)?;
    if &**mode != "always" {
        return Err(NoAdvice::Silent(format!("transparent huge pages are set to {mode}")));
    }
    Ok(Recommendation {
        evidence: "transparent huge pages are set to always".to_owned(),
        changes: vec![Change::of("/sys/kernel/mm/transparent_hugepage/enabled", "always", "madvise")],
        cost: None,
        effect: "no thread compacts memory for a page that it did not ask for; no slow request was seen to"
            .to_owned(),
        risk: "other programs on this host lose huge pages; the JVM keeps them with -XX:+UseTransparentHugePages",
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, lacks, silent};

    #[test]
    fn fires_where_all_get_them() {
        let mut inputs = broker();
        inputs.surroundings.huge_pages = Ok("always".into());
        assert_eq!(fired(&RULE, &inputs).changes[0].new, "madvise");
    }

    #[test]
    fn is_silent_where_only_those_who_ask_do() {
        let mut inputs = broker();
        silent(&RULE, &inputs);
        inputs.surroundings.huge_pages = Err("nobody looked".into());
        assert_eq!(lacks(&RULE, &inputs), "the mode of transparent huge pages");
    }
}
