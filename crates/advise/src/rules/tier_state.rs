//! A broker's disk reads that are of tiered storage's own state.

use model::{Cause, FileKind};

use crate::costs::costly;
use crate::unsent::read_for_nobody;
use crate::{Change, Cost, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

const CLEANUP_ENABLE: &str = "confluent.tier.partition.state.cleanup.enable";
const NOT_AT_ONCE: &str = "; not at once: see the risk";

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "tier-state",
    layer: Layer::Disk,
    condition: "tier-state-io is the cause of at least 1 % of the slow requests' time, or *.tierstate* files are at \
        least half of 10 MB a minute or more that are read from disk and sent to nobody (brokerscope's own bounds)",
    source: "a public case (Honeycomb, 2024): state files of hundreds of MB each, over 99 % of it of \
        segments long deleted; with the cleanup the reads were gone and a broker started in one minute instead of \
        20",
    look_at: "tier-state-io among the causes; `brokerscope files` on *.tierstate*; `brokerscope logs` on the \
        lines \"state file size changed\"",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = evidence(inputs)?;
    Ok(Recommendation {
        evidence,
        changes: vec![
            Change::of(CLEANUP_ENABLE, inputs.shown(CLEANUP_ENABLE, "false"), "true").by_name(Scope::Broker),
            Change::of(
                "confluent.tier.partition.state.cleanup.delay.ms",
                inputs.shown("confluent.tier.partition.state.cleanup.delay.ms", "not set"),
                "2592000000",
            )
            .by_name(Scope::Broker)
            .with_the_last(),
            Change::of(
                "confluent.tier.partition.state.cleanup.interval.ms",
                inputs.shown("confluent.tier.partition.state.cleanup.interval.ms", "not set"),
                "86400000",
            )
            .by_name(Scope::Broker)
            .with_the_last(),
        ],
        cost,
        effect: cost.map_or_else(
            || format!("these reads gone{NOT_AT_ONCE}; what they cost requests was not measured"),
            |cost| cost.gain(NOT_AT_ONCE),
        ),
        risk: "ages count from when the cleanup is first on, so nothing is removed before delay.ms (30 days) \
            are over, and the first removals come at once for all partitions; only in Confluent Server",
    })
}

/// What slow requests lost to it, and what is read: such reads are a device's load before anybody is slow.
fn evidence(inputs: &Inputs) -> Result<(Option<Cost>, String), NoAdvice> {
    let slowed = costly(inputs, &[Cause::TierStateIo]);
    let read = read_for_nobody(inputs, FileKind::TierState);
    match (slowed, read) {
        (Ok((cost, slowed)), Ok(read)) => Ok((Some(cost), format!("{slowed}; {read}"))),
        (Ok((cost, slowed)), Err(_)) => Ok((Some(cost), slowed)),
        (Err(_), Ok(read)) => Ok((None, read)),
        (Err(NoAdvice::Silent(slowed)), Err(NoAdvice::Silent(read))) => {
            Err(NoAdvice::silent(format!("{slowed}; {read}")))
        }
        (Err(unknown @ NoAdvice::NotKnown { .. }), Err(_)) | (Err(_), Err(unknown)) => Err(unknown),
    }
}

#[cfg(test)]
mod tests {
    use model::{Cause, FileKind, Nanos};

    use super::RULE;
    use crate::testing::{broker, fired, fires_on, lacks, rests_without, silent, with_cost};
    use crate::{Inputs, ReadsWithoutEgress};

    fn unsent(kind: FileKind) -> ReadsWithoutEgress {
        ReadsWithoutEgress {
            window: Nanos::from_millis(60_000),
            read_bytes: 361 << 20,
            sent_bytes: 0,
            kind: kind.as_str(),
            share: 0.99,
            file: Some("m-53/0.tierstate.mutable".into()),
        }
    }

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::TierStateIo);
        assert!(finding.changes.len() == 3 && finding.changes[0].new == "true");
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::TierStateIo);
    }

    #[test]
    fn fires_on_reads_for_nobody_where_nobody_was_slow() {
        let mut inputs = broker();
        inputs.unsent = Ok(Some(unsent(FileKind::TierState)));
        let finding = fired(&RULE, &inputs);
        assert_eq!(finding.cost, None);
        assert_eq!(
            finding.evidence,
            "reads without egress: 361.0 MiB read from disk in 60.0 s, 0 B of it sent; 99 % of the rest is tierstate \
             files, most of it m-53/0.tierstate.mutable"
        );
        assert!(
            finding.effect.starts_with("these reads gone") && finding.risk.starts_with("ages count from")
        );
        with_cost(&mut inputs, Cause::TierStateIo, 20, Nanos::from_millis(200));
        let both = fired(&RULE, &inputs);
        assert_eq!(both.cost.map(|cost| cost.requests), Some(20));
        assert!(
            both.evidence.starts_with("tier-state-io cost") && both.evidence.ends_with(&finding.evidence)
        );
        inputs.costs = Err("nobody watched requests".into());
        assert_eq!(fired(&RULE, &inputs).cost, None);
    }

    #[test]
    fn reads_of_other_files_are_none_of_it() {
        let mut inputs = broker();
        inputs.unsent = Ok(Some(unsent(FileKind::Log)));
        assert!(silent(&RULE, &inputs).contains("most is log files, not tierstate"));
        inputs.unsent = Ok(Some(ReadsWithoutEgress { share: 0.4, ..unsent(FileKind::TierState) }));
        silent(&RULE, &inputs);
        inputs.unsent = Err("files were not watched".into());
        assert_eq!(lacks(&RULE, &inputs), Inputs::UNSENT);
    }
}
