//! What an experiment ran on: results say so, and those of two machines are not mixed.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::kafka::Kafka;
use crate::process;

/// A machine and what is installed on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: u64,
    pub(crate) kernel: String,
    /// The file system that the devices' images lie on, and its device.
    pub(crate) disk: String,
    /// What made the file systems.
    pub(crate) tools: Vec<String>,
    pub(crate) kafka: String,
    pub(crate) java: String,
}

impl Machine {
    /// This one; `images` is where the devices' images lie.
    pub(crate) fn here(kafka: &Kafka, images: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let tools: [&[&str]; 3] = [&["mkfs.ext4", "-V"], &["mkfs.xfs", "-V"], &["mkfs.btrfs", "--version"]];
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name")
                .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_gib: memory_gib(&read("/proc/meminfo")),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            disk: disk(images),
            tools: tools.iter().filter_map(|command| first_line(command)).collect(),
            kafka: kafka.version().to_owned(),
            java: first_line(&["java", "-version"])
                .unwrap_or_else(|| format!("Java {}", kafka.java_version())),
        }
    }

    /// What is different there, if anything is.
    pub(crate) fn differs(&self, other: &Self) -> Option<String> {
        let of = |machine: &Self| {
            [
                ("the processor", machine.cpu.clone()),
                ("the number of processors", machine.cores.to_string()),
                ("the memory in GiB", machine.memory_gib.to_string()),
                ("the kernel", machine.kernel.clone()),
                ("the disk", machine.disk.clone()),
                ("the tools", machine.tools.join(", ")),
                ("Kafka's version", machine.kafka.clone()),
                ("Java", machine.java.clone()),
            ]
        };
        let pairs = of(self).into_iter().zip(of(other));
        let found = pairs.into_iter().find(|((_, before), (_, now))| before != now);
        found.map(|((what, before), (_, now))| format!("{what} was {before:?}, not {now:?}"))
    }

    /// A line or two for people.
    pub(crate) fn described(&self) -> String {
        format!(
            "{} × {}, {} GiB, Linux {}; images on {}; {}; Kafka {} on {}",
            self.cores,
            self.cpu,
            self.memory_gib,
            self.kernel,
            self.disk,
            self.tools.join(", "),
            self.kafka,
            self.java
        )
    }
}

/// `name : value` of /proc/cpuinfo, `name: value` of /proc/meminfo.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

fn memory_gib(meminfo: &str) -> u64 {
    let total = field(meminfo, "MemTotal");
    let kib: Option<u64> = total.and_then(|total| total.strip_suffix("kB")?.trim().parse().ok());
    (kib.unwrap_or(0) + (1 << 19)) >> 20
}

/// Such as `ext4 on /dev/vda`.
fn disk(path: &Path) -> String {
    let mut command = Command::new("findmnt");
    let said =
        process::output(command.args(["-n", "-o", "FSTYPE,SOURCE", "-T"]).arg(path)).unwrap_or_default();
    let words: Vec<&str> = said.split_whitespace().collect();
    match words.as_slice() {
        [kind, source, ..] => format!("{kind} on {source}"),
        _ => "an unknown file system".to_owned(),
    }
}

fn first_line(command: &[&str]) -> Option<String> {
    let (program, arguments) = command.split_first()?;
    let said = process::output(Command::new(program).args(arguments)).ok()?;
    said.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_the_kernel_writes_them() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: other\n";
        assert_eq!(field(cpuinfo, "model name").as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(field(cpuinfo, "model"), None);
        assert_eq!(memory_gib("MemTotal:       24609876 kB\nMemFree: 1 kB\n"), 23);
        assert_eq!(memory_gib(""), 0);
    }

    #[test]
    fn a_difference_is_named() {
        let here = Machine { cores: 2, java: "17".to_owned(), ..Machine::default() };
        assert_eq!(here.differs(&here), None);
        let there = Machine { java: "25".to_owned(), ..here.clone() };
        assert_eq!(here.differs(&there).unwrap(), "Java was \"17\", not \"25\"");
    }
}
