//! Network links and their packets.

use model::HostScope;

use crate::rule::{advise, fires, need, not_known, rules, silent};
use crate::words::percent;
use crate::{Change, Inputs, RuleResult, Scope};

/// A link that is at least this full, on average, is nearly full.
const NEARLY_FULL: f64 = 0.8;
/// Standard Ethernet MTU; jumbo frames are larger.
const ETHERNET_MTU: u32 = 1_500;
const JUMBO_MTU: u32 = 9_000;
/// Packets with a mean size of this share of the MTU are mostly full.
const FULL_PACKETS: f64 = 0.8;

rules! { RULES:
    "link-saturation" in Network, link_saturation => {
        condition: "an interface of the broker sent or received at least 80 % of its link's speed on average",
        source: "a public case (IBM zSystems, 2022): the card was over 80 % used, and a faster one was the next step",
        look_at: "transmit_utilization_ratio and receive_utilization_ratio in host_samples/, and the stages network_in and network_out",
        effect: "more throughput; no slow request was seen to wait for the link",
        risk: "compression takes CPU time of producers and consumers",
    }

    "mtu" in Network, mtu => {
        condition: "packets of an interface with an MTU of at most 1,500 bytes have, on average, at least 80 % of that",
        source: "a public case (IBM zSystems, 2022): the average packet was as large as the MTU, and 9,000 bytes instead of \
                 1,500 helped. Packets are counted before the device splits them (TSO) and after the driver joins them \
                 (GRO), so the mean may be above the MTU",
        look_at: "transmit_packets_per_second and interrupt_cpu_ratio in host_samples/, and requests a second",
        effect: "fewer packets for the same bytes; less gain with segmentation offload (TSO, GRO)",
        risk: "every switch and host on the way must allow it: where one does not, large packets vanish",
    }
}

fn link_saturation(inputs: &Inputs) -> RuleResult {
    let samples = inputs.samples()?;
    let directions = [("sent", "transmit_utilization_ratio"), ("received", "receive_utilization_ratio")];
    let figures = directions.iter().flat_map(|(direction, metric)| {
        samples.of(HostScope::Interface, metric).map(move |(name, series)| (*direction, name, series.mean()))
    });
    let Some((direction, name, ratio)) = figures.max_by(|a, b| a.2.total_cmp(&b.2)) else {
        return not_known("how full the broker's links are", "no interface reports its link's speed");
    };
    let description = format!("{name} {direction} {} of its link's speed on average", percent(ratio));
    let evidence = fires(ratio >= NEARLY_FULL, description)?;
    let changes = vec![
        Change::of(format!("link of {name}"), percent(ratio), "a faster one, or several bonded"),
        Change::of("compression.type (of the producers)", "not on the wire", "zstd or lz4"),
    ];
    Ok(advise(evidence, changes))
}

fn mtu(inputs: &Inputs) -> RuleResult {
    let samples = inputs.samples()?;
    let interfaces = need("the broker's network interfaces", &inputs.host_facts.interfaces)?;
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
        return silent("no interface that moved packets has an MTU of 1,500 bytes or less");
    };
    let description = format!("packets of {name} have {mean:.0} bytes on average, its MTU is {mtu}");
    let evidence = fires(mean >= FULL_PACKETS * f64::from(mtu), description)?;
    let change = Change::of(format!("ip link set {name} mtu"), mtu, JUMBO_MTU);
    Ok(advise(evidence, [change.on(Scope::Interface, "mtu", JUMBO_MTU)]))
}
