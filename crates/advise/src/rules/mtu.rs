//! Packets as large as the interface allows: larger ones would be fewer.

use model::HostScope;

use crate::rule::need;
use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

/// Ethernet's own; jumbo frames are larger.
const ETHERNET_MTU: u32 = 1_500;
const JUMBO_MTU: u32 = 9_000;
/// Packets of this share of the MTU, on average, are mostly full ones.
const FULL: f64 = 0.8;

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "mtu",
    layer: Layer::Network,
    condition: "packets of an interface with an MTU of at most 1,500 bytes have, on average, at least 80 % of that",
    source: "a public case (IBM zSystems, 2022): the average packet was as large as the MTU, and 9,000 bytes instead of 1,500 was a \
             step forward. Packets are counted before the device splits and after the driver joins them, so the mean may be above",
    look_at: "transmit_packets_per_second and interrupt_cpu_ratio in host_samples/, and requests a second",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let samples = inputs.samples()?;
    let interfaces = need("the broker's network interfaces", &inputs.surroundings.interfaces)?;
    let mut largest: Option<(&str, u32, f64)> = None;
    for interface in interfaces.iter().filter(|interface| interface.mtu_bytes <= ETHERNET_MTU) {
        for metric in ["transmit_packet_bytes", "receive_packet_bytes"] {
            let of = samples.of(HostScope::Interface, metric).find(|(name, _)| **name == interface.name);
            let Some((_, series)) = of else { continue };
            if largest.is_none_or(|(_, _, mean)| series.mean() > mean) {
                largest = Some((&interface.name, interface.mtu_bytes, series.mean()));
            }
        }
    }
    let Some((name, mtu, mean)) = largest else {
        return Err(NoAdvice::silent("no interface that moved packets has an MTU of 1,500 bytes or less"));
    };
    let told = format!("packets of {name} have {mean:.0} bytes on average, its MTU is {mtu}");
    if mean < FULL * f64::from(mtu) {
        return Err(NoAdvice::Silent(told));
    }
    Ok(Recommendation {
        evidence: told,
        changes: vec![Change::of(format!("ip link set {name} mtu"), mtu, JUMBO_MTU).on(
            Scope::Interface,
            "mtu",
            JUMBO_MTU,
        )],
        cost: None,
        effect: "fewer packets for the same bytes; less so where the device splits and joins them itself"
            .to_owned(),
        risk: "every switch and host on the way must allow it: where one does not, large packets vanish",
    })
}

#[cfg(test)]
mod tests {
    use model::HostScope;

    use super::RULE;
    use crate::Inputs;
    use crate::testing::{broker, fired, lacks, silent, with_sample};

    fn packets(mtu_bytes: u32, mean: f64) -> Inputs {
        let mut inputs = broker();
        inputs.surroundings.interfaces.as_mut().unwrap()[0].mtu_bytes = mtu_bytes;
        with_sample(&mut inputs, HostScope::Interface, "eth0", "transmit_packet_bytes", mean);
        inputs
    }

    #[test]
    fn fires_where_packets_are_full() {
        let change = fired(&RULE, &packets(1_500, 1_420.0)).changes.remove(0);
        assert_eq!([&*change.setting, &*change.old, &*change.new], ["ip link set eth0 mtu", "1500", "9000"]);
    }

    #[test]
    fn is_silent_where_they_are_not_or_may_be_larger_already() {
        silent(&RULE, &packets(1_500, 700.0));
        silent(&RULE, &packets(9_000, 8_900.0));
        let mut inputs = packets(1_500, 1_420.0);
        inputs.surroundings.interfaces = Err("nobody looked".into());
        assert_eq!(lacks(&RULE, &inputs), "the broker's network interfaces");
    }
}
