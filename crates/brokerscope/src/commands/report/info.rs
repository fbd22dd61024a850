//! What a page says of its input beside the events, by the manifest. Reads no events.

use std::path::PathBuf;

use page::RecordingInfo;
use recording::{Manifest, Recording};

/// Settings of a broker that affect stalls and throughput.
const PROPERTIES: [&str; 12] = [
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "log.flush.interval.messages",
    "log.flush.interval.ms",
    "log.segment.bytes",
    "min.insync.replicas",
    "queued.max.requests",
    "socket.send.buffer.bytes",
    "socket.receive.buffer.bytes",
    "num.recovery.threads.per.data.dir",
    "process.roles",
];

/// A recording, by its manifest.
pub(super) fn recording(recording: &Recording) -> RecordingInfo {
    let dir = recording.dir();
    let name =
        dir.file_name().map_or_else(|| dir.display().to_string(), |name| name.to_string_lossy().into_owned());
    let manifest = recording.manifest();
    RecordingInfo { name, facts: facts(manifest), plan: manifest.plan.clone() }
}

/// A capture, by its files.
pub(super) fn capture(files: &[PathBuf]) -> RecordingInfo {
    let names = files.iter().filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned()));
    RecordingInfo { name: names.collect::<Vec<_>>().join(" "), ..RecordingInfo::default() }
}

fn facts(manifest: &Manifest) -> Vec<(String, String)> {
    let host = &manifest.host;
    let machine = format!("{}, Linux {} {}, {} CPUs", host.name, host.kernel, host.machine, host.cpus);
    let mut facts = vec![("host".to_owned(), machine)];
    if let Some(broker) = &manifest.broker {
        let node = broker.node_id.map_or(String::new(), |id| format!("node {id}, "));
        facts
            .push(("broker".to_owned(), format!("{node}pid {}, {}", broker.pid, broker.listeners.join(" "))));
        let dirs: Vec<_> = broker.log_dirs.iter().map(|dir| dir.display().to_string()).collect();
        facts.push(("log dirs".to_owned(), dirs.join(" ")));
        if let Some(jvm) = &broker.jvm {
            facts.push(("JVM".to_owned(), jvm.version.clone()));
        }
        let set =
            PROPERTIES.iter().filter_map(|name| Some(format!("{name}={}", broker.properties.get(*name)?)));
        let set: Vec<_> = set.collect();
        if !set.is_empty() {
            facts.push(("settings".to_owned(), set.join(", ")));
        }
    }
    facts.push(("recorded by".to_owned(), manifest.written_by.clone()));
    facts
}
