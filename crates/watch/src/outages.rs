//! Publishes a watch's outages for `doctor`.
//! They are in a file without a path (`memfd_create(2)`), which only processes that may trace this one can open.
//! Not fuzzed: lines are split by tabs.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};

use model::{Nanos, Pid};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::health::Sources;

const NAME: &str = "brokerscope-down";
/// Limit of what is read, because any process may create a file with that name.
const MAX_BYTES: u64 = 64 << 10;

/// A source that is down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When the source went down.
    pub since: Nanos,
    /// Its purposes, as in the plan.
    pub purposes: Vec<String>,
    /// The reason.
    pub why: String,
}

/// Publishes outages as long as there are any.
#[derive(Default)]
pub(crate) struct Publisher {
    text: String,
    file: Option<File>,
}

impl Publisher {
    /// Publishes changes, each time in a new file, so that no reader gets half of it.
    pub(crate) fn update(&mut self, sources: &Sources) {
        let text: String = sources.outages().iter().map(Outage::to_line).collect();
        if text != self.text {
            // If the kernel does not support such files, `doctor` does not show outages.
            self.file = if text.is_empty() { None } else { publish(&text).ok() };
            self.text = text;
        }
    }
}

fn publish(text: &str) -> io::Result<File> {
    // Linux 6.3 and later expect the flag that the file is not executable; earlier kernels refuse it.
    let created = memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL);
    let mut file = File::from(created.or_else(|_| memfd_create(NAME, MemfdFlags::CLOEXEC))?);
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// Reads the outages of another process's watch, as far as this process may.
#[allow(clippy::disallowed_methods, reason = "/proc")]
pub(crate) fn outages_of(pid: Pid) -> Vec<Outage> {
    let name = format!("/memfd:{NAME} ");
    let open_files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut files = open_files.map(|file| file.path()).filter(|path| {
        fs::read_link(path).is_ok_and(|link| link.as_os_str().as_encoded_bytes().starts_with(name.as_bytes()))
    });
    let mut text = Vec::new();
    if let Some(file) = files.find_map(|path| foreign::open_named(&path).ok()) {
        // Use as much as can be read.
        let _ = file.take(MAX_BYTES).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).lines().filter_map(Outage::of_line).collect()
}

impl Outage {
    fn to_line(&self) -> String {
        let Self { since: Nanos(since), purposes, why } = self;
        format!("{since}\t{}\t{}\n", purposes.join(","), why.replace(['\t', '\n', '\r'], " "))
    }

    fn of_line(line: &str) -> Option<Self> {
        let mut fields = line.splitn(3, '\t');
        let since = Nanos(fields.next()?.parse().ok()?);
        let purposes = fields.next()?.split(',').map(str::to_owned).collect();
        Some(Self { since, purposes, why: fields.next()?.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::{Outage, Publisher, outages_of};
    use crate::health::Sources;

    #[test]
    fn other_processes_read_current_outages() {
        let (sources, mut publisher) = (Sources::default(), Publisher::default());
        sources.serve("packets", &["requests", "replicas"]);
        sources.serve("host", &["host-samples"]);
        let (packets, of_this) = (sources.status("packets"), std::process::id());
        for at in [5, 9] {
            packets.set_down(Some("Network\nis down".to_owned()), Nanos(at));
            publisher.update(&sources);
            let purposes = vec!["requests".to_owned(), "replicas".to_owned()];
            let down = Outage { since: Nanos(5), purposes, why: "Network is down".to_owned() };
            assert_eq!(outages_of(of_this), [down]);
        }
        packets.set_down(None, Nanos(10));
        publisher.update(&sources);
        assert_eq!(outages_of(of_this), []);
        assert_eq!(Outage::of_line("7\tno reason"), None);
    }
}
