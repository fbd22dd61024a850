//! Network links that are nearly full.

use model::HostScope;

use crate::words::percent;
use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult};

/// Fuller than this, on average, is nearly full.
const NEARLY_FULL: f64 = 0.8;

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "link-saturation",
    layer: Layer::Network,
    condition: "an interface of the broker sent or received at least 80 % of its link's speed on average",
    source: "a public case (IBM zSystems, 2022): the card was over 80 % used, and a faster one was the next step",
    look_at: "transmit_utilization_ratio and receive_utilization_ratio in host_samples/, and the stages network_in and network_out",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let samples = inputs.samples()?;
    let ways = [("sent", "transmit_utilization_ratio"), ("received", "receive_utilization_ratio")];
    let figures = ways.iter().flat_map(|(way, metric)| {
        samples.of(HostScope::Interface, metric).map(move |(name, series)| (*way, name, series.mean()))
    });
    let Some((way, name, ratio)) = figures.max_by(|a, b| a.2.total_cmp(&b.2)) else {
        let why = "no interface told its link's speed";
        return Err(NoAdvice::NotKnown { input: "how full the broker's links are", why: why.into() });
    };
    let told = format!("{name} {way} {} of its link's speed on average", percent(ratio));
    if ratio < NEARLY_FULL {
        return Err(NoAdvice::Silent(told));
    }
    Ok(Recommendation {
        evidence: told,
        changes: vec![
            Change::of(format!("link of {name}"), percent(ratio), "a faster one, or several bonded"),
            Change::of("compression.type (of the producers)", "not on the wire", "zstd or lz4"),
        ],
        cost: None,
        effect: "more throughput; no slow request was seen to wait for the link".to_owned(),
        risk: "compression takes processor time of producers and consumers",
    })
}

#[cfg(test)]
mod tests {
    use model::HostScope;

    use super::RULE;
    use crate::Inputs;
    use crate::testing::{broker, fired, lacks, silent, with_sample};

    fn used(ratio: f64) -> Inputs {
        let mut inputs = broker();
        with_sample(&mut inputs, HostScope::Interface, "eth0", "receive_utilization_ratio", ratio);
        inputs
    }

    #[test]
    fn fires_where_a_link_is_nearly_full() {
        assert_eq!(fired(&RULE, &used(0.85)).evidence, "eth0 received 85 % of its link's speed on average");
    }

    #[test]
    fn is_silent_where_there_is_room_or_no_speed_is_known() {
        silent(&RULE, &used(0.79));
        let mut inputs = broker();
        with_sample(&mut inputs, HostScope::Interface, "eth0", "mtu_bytes", 1500.0);
        assert_eq!(lacks(&RULE, &inputs), "how full the broker's links are");
    }
}
