//! Fills a recording's manifest with the host, the broker and the plan. Does not write it.

use std::collections::BTreeMap;
use std::fs;
use std::thread::available_parallelism;

use analysis::recorder::{broker_settings, host_facts, plan, settings as keys};
use broker::Broker;
use recording::{Clock, Host, Jvm, Manifest, SourceHealth};
use watch::admin::{self, EffectiveConfig};
use watch::{Health, Watch, read_host_facts};

use super::Record;

/// The manifest of a recording that starts now; `answer` is the broker's answer about its settings.
pub(super) fn at_start(
    args: &Record,
    broker: &Broker,
    answer: Result<EffectiveConfig, admin::Error>,
    watch: &Watch,
) -> Manifest {
    let (offset, started) = watch.clock();
    let mut settings = settings(args, broker);
    if let Err(error) = &answer {
        settings.insert(keys::SETTINGS_UNKNOWN.to_owned(), error.to_string());
    }
    let settings_in_force = answer.ok().map(|config| broker_settings::of_answer(broker, config));
    Manifest {
        started_ns: started.realtime_ns,
        host: host(),
        broker: Some(recording::Broker { settings_in_force, ..watched(broker, watch.jvm_version()) }),
        clock: Clock { offset_ns: offset.as_ns(), pairs: vec![started] },
        plan: plan::of_watch(watch.plan()),
        settings,
        ..Manifest::default()
    }
}

/// Health of the source of each purpose.
pub(super) fn sources(health: Vec<Health>) -> BTreeMap<String, SourceHealth> {
    let of_one = |Health { purpose, down, down_since, last_event }: Health| {
        let (last_event_ns, down_since_ns) = (last_event.map(|at| at.0), down_since.map(|at| at.0));
        (purpose, SourceHealth { last_event_ns, down_since_ns, down })
    };
    health.into_iter().map(of_one).collect()
}

/// Describes this host.
fn host() -> Host {
    let line = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    Host {
        name: line("/proc/sys/kernel/hostname"),
        kernel: line("/proc/sys/kernel/osrelease"),
        machine: std::env::consts::ARCH.to_owned(),
        cpus: available_parallelism().map_or(0, |cpus| cpus.get() as u32),
    }
}

/// A manifest for the metrics of a live watch. Has only the facts about host and broker that they need.
pub(in crate::commands) fn of_live(broker: &Broker, plan: &plan::Plan) -> Manifest {
    Manifest { host: host(), broker: Some(watched(broker, None)), plan: plan.to_vec(), ..Manifest::default() }
}

fn watched(broker: &Broker, jvm_version: Option<&str>) -> recording::Broker {
    recording::Broker {
        pid: broker.pid,
        processes: Vec::new(),
        node_id: broker.node_id,
        log_dirs: broker.log_dirs.clone(),
        log_dir_devices: broker.log_dirs.iter().map(|dir| watch::device_of(dir)).collect(),
        listeners: broker.listeners.iter().map(ToString::to_string).collect(),
        properties: broker_settings::of_file(broker),
        settings_in_force: None,
        jvm: jvm_version.map(|version| Jvm { version: version.to_owned(), ..Jvm::default() }),
    }
}

fn settings(args: &Record, broker: &Broker) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::from([
        (keys::MAX_MEMORY.to_owned(), args.service.memory.max_memory.to_string()),
        (keys::INTERFACE.to_owned(), args.service.interface.name().to_owned()),
    ]);
    host_facts::note(&read_host_facts(broker.pid, &Ok(broker.log_dirs.clone())), &mut settings);
    // All ids of processes and threads are of this pid namespace.
    if let Ok(namespace) = fs::read_link("/proc/self/ns/pid") {
        settings.insert(keys::PID_NAMESPACE.to_owned(), namespace.to_string_lossy().into_owned());
    }
    if let Some(bytes) = args.max_disk {
        settings.insert(keys::MAX_DISK.to_owned(), bytes.to_string());
    }
    if let Some(slower_than) = args.flight_threshold() {
        settings.insert(keys::SLOWER_THAN.to_owned(), slower_than.0.to_string());
        settings.insert(keys::PARTIAL.to_owned(), slower_than.0.to_string());
    }
    if let Some(header) = &args.service.scope.filter.message_id {
        settings.insert(keys::MESSAGE_ID.to_owned(), header.clone());
    }
    settings
}
