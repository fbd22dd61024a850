//! Inputs for the rules' tests: a healthy broker of which everything is known, and functions that change it.

mod broker;
mod causes;
mod clients;
mod disk;
mod jvm;
mod kernel;
mod locks;
mod network;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    Cause, Confidence, HostFacts, HostSample, HostScope, Interface, Limits, Nanos, Partition, Request,
    Stages, Verdict, Volume,
};

use crate::{
    Costs, Dumps, Inputs, NoAdvice, Profile, RULES, Recommendation, Rule, Samples, Settings, Traffic,
};

/// A produce request of one batch; times in milliseconds.
pub(crate) fn produce(client: &str, arrival: i64, took: i64, bytes: u32, records: u32) -> Request {
    let arrival = Nanos::from_millis(arrival);
    let partition =
        Partition { topic: Some("t".into()), bytes, records: Some(records), ..Partition::default() };
    Request {
        arrival,
        arrival_end: arrival,
        end: Some(arrival + Nanos::from_millis(took)),
        api_key: 0,
        api: "PRODUCE",
        api_version: 9,
        correlation_id: 1,
        client_id: Some(client.into()),
        request_bytes: bytes,
        acks: Some(1),
        partitions: vec![partition],
        ..Request::new("10.0.0.1:4000".parse().unwrap(), "10.0.0.2:9092".parse().unwrap())
    }
}

/// A verdict on a request that took this long.
fn verdict(cause: Cause, chain: &[Cause], took: Nanos, root: u64) -> Verdict {
    let request = produce("app", 0, took.as_millis_rounded(), 100, 1);
    Verdict {
        request,
        stages: Stages::default(),
        stage_spans: Vec::new(),
        cause,
        chain: chain.to_vec(),
        root: format!("{cause}:{root}").into(),
        confidence: Confidence::Exact,
        evidence: Vec::new(),
        partition: None,
        advice: Vec::new(),
        losses: Vec::new(),
        kafka: None,
        doubts: Vec::new(),
    }
}

/// A healthy broker of which everything is known.
pub(crate) fn broker() -> Inputs {
    let settings = [
        ("log.dirs", "/data"),
        ("num.io.threads", "8"),
        ("num.network.threads", "3"),
        ("default.replication.factor", "3"),
        ("min.insync.replicas", "2"),
        ("offsets.topic.replication.factor", "3"),
        ("transaction.state.log.replication.factor", "3"),
    ];
    let settings: BTreeMap<String, String> =
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Inputs {
        before: "BEFORE".into(),
        slower_than: Nanos::from_millis(100),
        settings: Ok(Settings::from(settings)),
        host_facts: host_facts(),
        costs: Ok(Costs::over(Nanos::from_millis(60_000))),
        traffic: Ok(Traffic::default()),
        samples: Ok(samples()),
        profile: Ok(profile(&[("kafka.log.UnifiedLog.append", 990), ("ObjectMonitor::enter", 10)])),
        dumps: Ok(Dumps { dumps: 3, ..Dumps::default() }),
        unsent: Ok(None),
    }
}

/// A profile of request handlers with this many samples of each function.
pub(crate) fn profile(functions: &[(&str, u64)]) -> Profile {
    let mut profile = Profile::default();
    for (function, times) in functions {
        for _ in 0..*times {
            profile.thread("data-plane-kafka-request-handler-1", [*function].into_iter());
        }
    }
    profile
}

fn host_facts() -> HostFacts {
    let sysctls = [
        ("vm.swappiness", 1),
        ("vm.dirty_ratio", 60),
        ("vm.dirty_background_ratio", 5),
        ("vm.dirty_bytes", 0),
        ("vm.dirty_background_bytes", 0),
        ("vm.max_map_count", 262_144),
        ("vm.min_free_kbytes", 90_112),
    ];
    let volume = Volume {
        log_dir: "/data".into(),
        device: "nvme0n1".into(),
        fs: "xfs".into(),
        options: Ok(["rw", "noatime"].map(Into::into).to_vec()),
        disks: Ok(1),
        ext4: Ok(None),
    };
    let interface =
        Interface { name: "eth0".into(), mtu_bytes: 9_000, speed_bits_per_second: Some(25_000_000_000) };
    HostFacts {
        kernel: Ok("6.1.0".into()),
        cpus: Ok(8),
        cpu_quota: Ok(None),
        memory_bytes: Ok(64 << 30),
        memory_limit_bytes: Ok(None),
        swap_bytes: Ok(1 << 30),
        sysctls: Ok(sysctls.iter().map(|(name, value)| (Arc::from(*name), *value)).collect()),
        huge_pages: Ok("madvise".into()),
        volumes: Ok(vec![volume]),
        interfaces: Ok(vec![interface]),
        limits: Ok(Limits { open_files: Some(100_000) }),
        open_files: Ok(2_000),
        mapped_areas: Ok(1_000),
        jvm_arguments: Ok(["java", "-Xms6g", "-Xmx6g", "-XX:+UseG1GC", "kafka.Kafka"]
            .map(Into::into)
            .to_vec()),
        partitions: Ok(100),
    }
}

fn samples() -> Samples {
    let mut samples = Samples::default();
    for (scope, name, metric, value) in [
        (HostScope::Device, "nvme0n1", "util_ratio", 0.3),
        (HostScope::Interface, "eth0", "transmit_packet_bytes", 700.0),
        (HostScope::Interface, "eth0", "receive_packet_bytes", 700.0),
        (HostScope::Interface, "eth0", "transmit_utilization_ratio", 0.1),
        (HostScope::Interface, "eth0", "receive_utilization_ratio", 0.1),
        (HostScope::Cgroup, "/kafka", "cpu_throttled_per_second", 0.0),
        (HostScope::Threads, "data-plane", "run_queue_ratio", 0.0),
        (HostScope::Process, "", "swapped_bytes", 0.0),
    ] {
        let (name, metric) = (name.into(), metric.into());
        samples.add(&HostSample { start: Nanos(0), end: Nanos(1), scope, name, metric, value });
    }
    samples
}

/// Adds slow requests of a cause, each with this latency and a separate root event.
pub(crate) fn with_cost(inputs: &mut Inputs, cause: Cause, requests: u64, took: Nanos) {
    with_way(inputs, cause, &[cause], requests, took);
}

/// Like [`with_cost`], with a chain of other waits.
pub(crate) fn with_way(inputs: &mut Inputs, cause: Cause, chain: &[Cause], requests: u64, took: Nanos) {
    let costs = inputs.costs.as_mut().unwrap();
    for at in 0..requests {
        costs.add(&verdict(cause, chain, took, at));
    }
}

/// Replaces the host's figures by this one.
pub(crate) fn with_sample(inputs: &mut Inputs, scope: HostScope, name: &str, metric: &str, value: f64) {
    let mut samples = Samples::default();
    samples.add(&HostSample {
        start: Nanos(0),
        end: Nanos(1),
        scope,
        name: name.into(),
        metric: metric.into(),
        value,
    });
    inputs.samples = Ok(samples);
}

/// Sets a setting of the broker.
pub(crate) fn with_setting(inputs: &mut Inputs, name: &str, value: &str) {
    let settings = inputs.settings.clone().unwrap();
    inputs.settings = Ok(settings.with(name, value));
}

/// Sets a setting of the kernel.
pub(crate) fn with_sysctl(inputs: &mut Inputs, name: &str, value: i64) {
    inputs.host_facts.sysctls.as_mut().unwrap().insert(name.into(), value);
}

/// Replaces the JVM's command line.
pub(crate) fn with_jvm(inputs: &mut Inputs, arguments: &[&str]) {
    inputs.host_facts.jvm_arguments = Ok(arguments.iter().map(|word| Arc::from(*word)).collect());
}

/// The recommendation of a rule that fires.
pub(crate) fn fired(rule: &Rule, inputs: &Inputs) -> Recommendation {
    match rule.evaluate(inputs) {
        Ok(finding) => {
            assert!(!finding.evidence.is_empty() && !finding.changes.is_empty(), "{finding:?}");
            assert!(!finding.effect.is_empty() && !finding.risk.is_empty(), "{finding:?}");
            finding
        }
        Err(unfired) => panic!("{} does not fire: {unfired:?}", rule.name),
    }
}

/// The reason why a rule is silent: its condition does not hold.
pub(crate) fn silent(rule: &Rule, inputs: &Inputs) -> String {
    match rule.evaluate(inputs) {
        Err(NoAdvice::Silent(why)) => why,
        other => panic!("{} is not silent: {other:?}", rule.name),
    }
}

/// The input that a rule lacks.
pub(crate) fn lacks(rule: &Rule, inputs: &Inputs) -> &'static str {
    match rule.evaluate(inputs) {
        Err(NoAdvice::NotKnown { input, .. }) => input,
        other => panic!("{} lacks nothing: {other:?}", rule.name),
    }
}

/// The recommendation of a rule whose cause has a cost.
/// Checks that it states the cost, and lacks an input without costs.
pub(crate) fn fires_on(rule: &Rule, cause: Cause) -> Recommendation {
    let mut inputs = broker();
    with_cost(&mut inputs, cause, 20, Nanos::from_millis(200));
    let finding = fired(rule, &inputs);
    assert_eq!(finding.cost.map(|cost| cost.time), Some(Nanos::from_millis(4_000)));
    assert!(finding.evidence.contains("of request time in 60.0 s"), "{}", finding.evidence);
    inputs.costs = Err("nobody watched".into());
    assert_eq!(lacks(rule, &inputs), Inputs::COSTS);
    finding
}

/// Asserts that a rule is silent if its cause cost nothing or next to nothing. In the second case, other causes cost
/// 200 times as much.
pub(crate) fn assert_silent_without(rule: &Rule, cause: Cause) {
    let mut inputs = broker();
    silent(rule, &inputs);
    with_cost(&mut inputs, cause, 1, Nanos::from_millis(150));
    with_cost(&mut inputs, Cause::Unobserved, 200, Nanos::from_millis(150));
    let why = silent(rule, &inputs);
    assert!(why.contains(cause.as_str()), "{why}");
}

/// The rule with this name.
pub(crate) fn rule(name: &str) -> &'static Rule {
    RULES.iter().find(|rule| rule.name == name).unwrap()
}
