//! Facts about a page's input from its manifest, beside the events. Reads no events.

use std::path::PathBuf;

use analysis::recorder::broker_settings;
use page::RecordingInfo;
use recording::{Manifest, Recording};

/// Describes a recording by its manifest.
pub(super) fn recording(recording: &Recording) -> RecordingInfo {
    let dir = recording.dir();
    let name =
        dir.file_name().map_or_else(|| dir.display().to_string(), |name| name.to_string_lossy().into_owned());
    let manifest = recording.manifest();
    RecordingInfo { name, facts: facts(manifest), plan: manifest.plan.clone() }
}

/// Describes a capture by its files.
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
        let setting = |name: &&str| Some(format!("{name}={}", broker.properties.get(*name)?));
        let set: Vec<_> = broker_settings::SUMMARY_SETTINGS.iter().filter_map(setting).collect();
        if !set.is_empty() {
            facts.push(("settings".to_owned(), set.join(", ")));
        }
    }
    facts.push(("recorded by".to_owned(), manifest.written_by.clone()));
    facts
}
