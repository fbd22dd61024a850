//! Each rule fires when it should and is silent otherwise: kernel.

use super::{broker, fired, lacks, silent, with_sysctl};
use model::Limits;

use super::rule;

#[test]
fn open_files_fires_if_half_of_the_limit_is_used() {
    let mut inputs = broker();
    inputs.host_facts.limits = Ok(Limits { open_files: Some(4_096) });
    inputs.host_facts.open_files = Ok(2_500);
    assert_eq!(fired(rule("open-files"), &inputs).changes[0].new, "100000");
    inputs.host_facts.open_files = Err("another user's".into());
    inputs.host_facts.partitions = Ok(1_100);
    fired(rule("open-files"), &inputs);
}

#[test]
fn open_files_is_silent_on_a_sufficient_limit() {
    let mut inputs = broker();
    silent(rule("open-files"), &inputs);
    inputs.host_facts.limits = Ok(Limits { open_files: Some(65_536) });
    silent(rule("open-files"), &inputs);
    inputs.host_facts.limits = Err("another user's".into());
    assert_eq!(lacks(rule("open-files"), &inputs), "the process's limits");
}

#[test]
fn map_count_fires_if_half_of_the_limit_is_used() {
    let mut inputs = broker();
    with_sysctl(&mut inputs, "vm.max_map_count", 65_530);
    inputs.host_facts.mapped_areas = Ok(40_000);
    assert_eq!(fired(rule("map-count"), &inputs).changes[0].new, "262144");
}

#[test]
fn map_count_is_silent_on_a_sufficient_limit() {
    let mut inputs = broker();
    silent(rule("map-count"), &inputs);
    inputs.host_facts.sysctls = Err("nobody looked".into());
    assert_eq!(lacks(rule("map-count"), &inputs), "the kernel's settings");
}

#[test]
fn swappiness_fires_on_a_high_value() {
    let mut inputs = broker();
    with_sysctl(&mut inputs, "vm.swappiness", 60);
    assert_eq!(
        fired(rule("swappiness"), &inputs).evidence,
        "vm.swappiness is 60, with 1.0 GiB of swap space"
    );
}

#[test]
fn swappiness_is_silent_on_a_low_value_or_without_swap() {
    let mut inputs = broker();
    silent(rule("swappiness"), &inputs);
    with_sysctl(&mut inputs, "vm.swappiness", 60);
    inputs.host_facts.swap_bytes = Ok(0);
    assert!(silent(rule("swappiness"), &inputs).contains("no swap space"));
    inputs.host_facts.sysctls.as_mut().unwrap().clear();
    assert_eq!(lacks(rule("swappiness"), &inputs), "vm.swappiness");
}

#[test]
fn dirty_ratio_fires_if_gigabytes_may_be_dirty() {
    let mut inputs = broker();
    with_sysctl(&mut inputs, "vm.dirty_background_ratio", 10);
    assert_eq!(fired(rule("dirty-ratio"), &inputs).changes[0].new, "5");
}

#[test]
fn dirty_ratio_is_silent_on_a_low_limit() {
    let mut inputs = broker();
    silent(rule("dirty-ratio"), &inputs);
    with_sysctl(&mut inputs, "vm.dirty_background_ratio", 10);
    inputs.host_facts.memory_bytes = Ok(8 << 30);
    silent(rule("dirty-ratio"), &inputs);
    inputs.host_facts.memory_bytes = Ok(64 << 30);
    with_sysctl(&mut inputs, "vm.dirty_background_bytes", 1 << 28);
    silent(rule("dirty-ratio"), &inputs);
}

#[test]
fn huge_pages_fires_on_always() {
    let mut inputs = broker();
    inputs.host_facts.huge_pages = Ok("always".into());
    assert_eq!(fired(rule("huge-pages"), &inputs).changes[0].new, "madvise");
}

#[test]
fn huge_pages_is_silent_on_madvise() {
    let mut inputs = broker();
    silent(rule("huge-pages"), &inputs);
    inputs.host_facts.huge_pages = Err("nobody looked".into());
    assert_eq!(lacks(rule("huge-pages"), &inputs), "the mode of transparent huge pages");
}
