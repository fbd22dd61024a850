//! Each rule fires when it should and is silent otherwise: network.

use super::{broker, fired, lacks, silent, with_sample};
use crate::Inputs;
use model::HostScope;

use super::rule;

fn link_saturation_used(ratio: f64) -> Inputs {
    let mut inputs = broker();
    with_sample(&mut inputs, HostScope::Interface, "eth0", "receive_utilization_ratio", ratio);
    inputs
}

#[test]
fn link_saturation_fires_on_a_nearly_full_link() {
    assert_eq!(
        fired(rule("link-saturation"), &link_saturation_used(0.85)).evidence,
        "eth0 received 85 % of its link's speed on average"
    );
}

#[test]
fn link_saturation_is_silent_with_room_and_lacks_unknown_speeds() {
    silent(rule("link-saturation"), &link_saturation_used(0.79));
    let mut inputs = broker();
    with_sample(&mut inputs, HostScope::Interface, "eth0", "mtu_bytes", 1500.0);
    assert_eq!(lacks(rule("link-saturation"), &inputs), "how full the broker's links are");
}

fn mtu_packets(mtu_bytes: u32, mean: f64) -> Inputs {
    let mut inputs = broker();
    inputs.host_facts.interfaces.as_mut().unwrap()[0].mtu_bytes = mtu_bytes;
    with_sample(&mut inputs, HostScope::Interface, "eth0", "transmit_packet_bytes", mean);
    inputs
}

#[test]
fn mtu_fires_on_full_packets() {
    let change = fired(rule("mtu"), &mtu_packets(1_500, 1_420.0)).changes.remove(0);
    assert_eq!([&*change.setting, &*change.old, &*change.new], ["ip link set eth0 mtu", "1500", "9000"]);
}

#[test]
fn mtu_is_silent_on_small_packets_or_a_large_mtu() {
    silent(rule("mtu"), &mtu_packets(1_500, 700.0));
    silent(rule("mtu"), &mtu_packets(9_000, 8_900.0));
    let mut inputs = mtu_packets(1_500, 1_420.0);
    inputs.host_facts.interfaces = Err("nobody looked".into());
    assert_eq!(lacks(rule("mtu"), &inputs), "the broker's network interfaces");
}
