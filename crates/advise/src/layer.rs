//! Where a change is made. Does not rank.

use std::fmt;

/// The layers of a broker, from the disk up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layer {
    /// Devices and how log dirs are spread over them.
    Disk,
    /// File systems and their journals.
    FileSystem,
    /// Partitions and what guards them.
    Locks,
    /// The broker's own settings: threads, segments, replication.
    Broker,
    /// The Java virtual machine.
    Jvm,
    /// Network interfaces and the broker's network threads.
    Network,
    /// Producers, and other clients.
    Producer,
    /// The kernel's settings, memory, processors, limits.
    Os,
}

impl Layer {
    /// The name in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::FileSystem => "file system",
            Self::Locks => "locks",
            Self::Broker => "broker",
            Self::Jvm => "JVM",
            Self::Network => "network",
            Self::Producer => "producer",
            Self::Os => "OS",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
