//! The interfaces of a process in a network namespace without a sysfs that shows it. Needs root and
//! `BROKERSCOPE_LIVE_TESTS=1`; without the variable it says loudly that it did not run, and with it anything that is missing is a failure.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::fs;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::Site;
use lab::net::Network;
use watch::read_host_facts;

const MTU_BYTES: u32 = 1_380;

/// Ends with the test, however that ends.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn interfaces_are_those_of_the_broker_s_namespace_and_not_of_the_sysfs_it_sees() {
    if std::env::var_os("BROKERSCOPE_LIVE_TESTS").is_none_or(|value| value != "1") {
        eprintln!("NOT RUN: needs root and BROKERSCOPE_LIVE_TESTS=1");
        return;
    }
    let site = Site::claim().unwrap();
    let network = Network::make(site.path(), 1).unwrap();
    network.set_mtu(1, MTU_BYTES).unwrap();
    let mut command = network.host(1).unwrap().command("sleep");
    let guest = Guest(command.arg("60").stdin(Stdio::null()).spawn().unwrap());
    let pid = guest.0.id();
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while namespace(&pid.to_string()) == namespace("self") {
        assert!(Instant::now() < end, "nsenter has not entered");
        sleep(Duration::from_millis(10));
    }
    let found = read_host_facts(pid, &Err("this test has no broker".into())).interfaces.unwrap();
    let told: Vec<_> = found.iter().map(|one| (&*one.name, one.mtu_bytes)).collect();
    assert_eq!(told, [("uplink", MTU_BYTES)]);
}
