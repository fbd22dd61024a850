//! Publishes to `doctor` what of a watch is down, in a file without a path (`memfd_create(2)`): only those can open it who may
//! trace the process. Not fuzzed: lines are split by tabs.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};

use model::{Nanos, Pid};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::health::Sources;

const NAME: &str = "brokerscope-down";
/// Any process may give a file that name.
const MAX_BYTES: u64 = 64 << 10;

/// A source that sees nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Since when.
    pub since: Nanos,
    /// What it is for, as the plan calls it.
    pub purposes: Vec<String>,
    /// Why.
    pub why: String,
}

/// Says what is down, as long as anything is.
#[derive(Default)]
pub(crate) struct Publisher {
    text: String,
    file: Option<File>,
}

impl Publisher {
    /// Says it where it has changed: in another file, so that nobody reads half of it.
    pub(crate) fn update(&mut self, sources: &Sources) {
        let text: String = sources.outages().iter().map(Outage::to_line).collect();
        if text != self.text {
            // Where the kernel has no such files, `doctor` does not show it.
            self.file = if text.is_empty() { None } else { publish(&text).ok() };
            self.text = text;
        }
    }
}

fn publish(text: &str) -> io::Result<File> {
    // Linux 6.3 wants to know that it will not be run, and those before it know no such flag.
    let created = memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL);
    let mut file = File::from(created.or_else(|_| memfd_create(NAME, MemfdFlags::CLOEXEC))?);
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// What is down in a process's watch, as far as this process may know.
#[allow(clippy::disallowed_methods, reason = "/proc")]
pub(crate) fn outages_of(pid: Pid) -> Vec<Outage> {
    let name = format!("/memfd:{NAME} ");
    let open_files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut said = open_files.map(|file| file.path()).filter(|path| {
        fs::read_link(path).is_ok_and(|link| link.as_os_str().as_encoded_bytes().starts_with(name.as_bytes()))
    });
    let mut text = Vec::new();
    if let Some(file) = said.find_map(|path| foreign::open_named(&path).ok()) {
        // As far as it can be read.
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
    fn what_is_down_is_found_from_outside_as_long_as_it_is() {
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
