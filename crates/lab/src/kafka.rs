//! Kafka's own jars: fetched once by Maven from a pinned `pom.xml` into the cache, and run by `java`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::maven::Jars;
use crate::process;
use crate::session::Steps;

/// The broker version that experiments run unless told otherwise.
pub const DEFAULT_VERSION: &str = "4.1.0";
/// The last line that speaks what 4.0 dropped: Produce v0 to v2 and message sets (KIP-896).
pub const OLD_VERSION: &str = "3.9.1";
/// Kafka 4 needs Java 17 (KIP-1013).
const OLDEST_JAVA: u32 = 17;
const POM: &str = include_str!("../kafka/pom.xml");

/// One version of Kafka, ready to run.
#[derive(Clone, Debug)]
pub struct Kafka {
    version: String,
    jars: PathBuf,
    java: PathBuf,
    java_version: u32,
}

impl Kafka {
    /// Checks for Java and makes sure that the jars of `version` are in the cache, fetching them if not.
    ///
    /// # Errors
    /// [`Error::Missing`] with one line on what to install; [`Error::Tool`] with Maven's words when it
    /// cannot fetch.
    pub fn prepare(version: &str, steps: Steps) -> Result<Self, Error> {
        Self::prepare_with(Path::new("java"), version, steps)
    }

    /// As [`Kafka::prepare`], run by this `java`.
    ///
    /// # Errors
    /// As there.
    pub fn prepare_with(java: &Path, version: &str, steps: Steps) -> Result<Self, Error> {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        if version.is_empty() || version.starts_with('.') || !version.bytes().all(known) {
            return Err(Error::Unusable(format!("not a Kafka version: {version:?} (such as 4.1.0)")));
        }
        let java_version = java_version(java)?;
        let jars = Jars {
            name: &format!("Kafka {version}"),
            directory: &format!("kafka-{version}"),
            pom: POM,
            arguments: &[format!("-Dkafka.version={version}")],
            size: "about 60 MB",
        };
        Ok(Self {
            version: version.to_owned(),
            jars: jars.prepare(steps)?,
            java: java.to_owned(),
            java_version,
        })
    }

    /// The version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The major version of Java that runs it.
    pub fn java_version(&self) -> u32 {
        self.java_version
    }

    /// Where the jars are.
    pub fn jars(&self) -> &Path {
        &self.jars
    }

    /// `java JVM_ARGUMENTS -cp JARS MAIN_CLASS`, to be given the program's own arguments.
    pub fn command(&self, jvm_arguments: &[String], main_class: &str) -> Command {
        let mut command = Command::new(&self.java);
        // What the user set for other JVMs would change the experiment and prints a line at start.
        command.env_remove("JAVA_TOOL_OPTIONS").env_remove("JDK_JAVA_OPTIONS").env_remove("CLASSPATH");
        command.args(jvm_arguments).arg("-cp").arg(self.jars.join("*")).arg(main_class);
        command
    }

    /// As [`Kafka::command`], for a short-lived command-line tool: quick to start, small, and quiet.
    pub(crate) fn tool(&self, main_class: &str) -> Command {
        let arguments = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=ERROR"];
        self.command(&arguments.map(str::to_owned), main_class)
    }
}

fn java_version(java: &Path) -> Result<u32, Error> {
    let said = process::output(Command::new(java).arg("-version"))?;
    match parse_java_version(&said) {
        Some(version) if version >= OLDEST_JAVA => Ok(version),
        found => Err(Error::Missing {
            tool: format!("Java {OLDEST_JAVA} or newer"),
            remedy: match found {
                Some(version) => format!("`java` is Java {version}; put a newer JDK first in PATH"),
                None => "`java -version` answers nothing known".to_owned(),
            },
        }),
    }
}

/// `openjdk version "17.0.15" 2025-04-15` is 17, `java version "1.8.0_392"` is 8.
fn parse_java_version(said: &str) -> Option<u32> {
    let quoted = said.split("version \"").nth(1)?.split('"').next()?;
    let mut numbers = quoted.split(['.', '-', '_', '+']);
    let first: u32 = numbers.next()?.parse().ok()?;
    if first == 1 { numbers.next()?.parse().ok() } else { Some(first) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_versions_old_and_new_are_read() {
        for (said, version) in [
            ("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime", Some(17)),
            ("Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version \"25\" 2025-09-16", Some(25)),
            ("java version \"1.8.0_392\"", Some(8)),
            ("openjdk version \"22-ea\" 2024-03-19", Some(22)),
            ("command not found", None),
        ] {
            assert_eq!(parse_java_version(said), version, "{said}");
        }
    }

    #[test]
    fn a_version_cannot_leave_the_cache() {
        for version in ["", "../4.1.0", "..", "4.1.0 -X", "4/1"] {
            assert!(matches!(Kafka::prepare(version, Steps::silent()), Err(Error::Unusable(_))), "{version}");
        }
    }
}
