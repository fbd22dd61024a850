//! The JDKs for measurements: the default `java`, and a newer one whose Flight Recorder starts without a long pause of
//! the broker. Starts no broker.

use std::fs;
use std::path::{Path, PathBuf};

use lab::kafka::{DEFAULT_VERSION, Kafka};

/// First release on which brokerscope uses Flight Recorder by default.
pub(super) const CHEAP_SINCE: u32 = 25;
const HOMES: &str = "/usr/lib/jvm";

/// One JDK.
pub(super) struct Jdk {
    pub(super) java: PathBuf,
    pub(super) version: u32,
}

impl Jdk {
    /// The default, and a newer one; prints a message if there is none.
    pub(super) fn all() -> anyhow::Result<Vec<Self>> {
        let java = PathBuf::from("java");
        let version = Kafka::prepare_with(&java, DEFAULT_VERSION)?.java_version;
        let mut all = vec![Self { java, version }];
        if version < CHEAP_SINCE {
            match newer() {
                Some(newer) => all.push(newer),
                None => println!("LEFT OUT: JDK {CHEAP_SINCE} or newer: none is below {HOMES}\n"),
            }
        }
        Ok(all)
    }
}

fn newer() -> Option<Jdk> {
    let homes = fs::read_dir(HOMES).ok()?.flatten().map(|entry| entry.path());
    let jdks = homes.filter_map(|home| {
        let (java, version) = (home.join("bin/java"), release(&home)?);
        (version >= CHEAP_SINCE && java.is_file()).then_some(Jdk { java, version })
    });
    jdks.max_by_key(|jdk| jdk.version)
}

/// The feature release, from the file that every JDK has.
fn release(home: &Path) -> Option<u32> {
    let text = fs::read_to_string(home.join("release")).ok()?;
    let version = text.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    version.split(['.', '"']).next()?.parse().ok()
}
