//! Kafka's own jars: fetched once by Maven from a pinned `pom.xml` into the cache, and run by `java`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::error::{Error, Result};
use crate::session::{print_elapsed, print_status};
use crate::site::{MARK, Site};
use crate::{files, process, site};

/// The broker version of experiments by default.
pub const DEFAULT_VERSION: &str = "4.1.0";
/// The last release line that speaks what 4.0 dropped: Produce v0 to v2 and message sets (KIP-896).
pub const OLD_VERSION: &str = "3.9.1";
/// Kafka 4 needs Java 17 (KIP-1013).
const OLDEST_JAVA: u32 = 17;
const POM: &str = include_str!("../kafka/pom.xml");
const TIER_POM: &str = include_str!("../kafka/tier.xml");
/// Every jar that experiments, tests and benches are pinned to. The format is that of `sha256sum *.jar`.
const PINNED: &str = include_str!("../kafka/jars.sha256");

/// One version of Kafka, ready to run.
#[derive(Clone, Debug)]
pub struct Kafka {
    /// The version.
    pub version: String,
    /// The directory of the jars.
    pub jars: PathBuf,
    java: PathBuf,
    /// The major version of Java that runs it.
    pub java_version: u32,
}

impl Kafka {
    /// Checks for Java, and fetches the jars of `version` unless they are in the cache.
    ///
    /// # Errors
    /// [`Error::Missing`] with one line on what to install; [`Error::Tool`] with Maven's output if it cannot fetch.
    pub fn prepare(version: &str) -> Result<Self> {
        Self::prepare_with(Path::new("java"), version)
    }

    /// Like [`Kafka::prepare`], with this `java`.
    ///
    /// # Errors
    /// Like [`Kafka::prepare`].
    pub fn prepare_with(java: &Path, version: &str) -> Result<Self> {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        if version.is_empty() || version.starts_with('.') || !version.bytes().all(known) {
            return Err(Error::Unusable(format!("not a Kafka version: {version:?} (such as 4.1.0)")));
        }
        let java_version = java_version(java)?;
        let jars = Jars {
            name: &format!("Kafka {version}"),
            directory: &format!("kafka-{version}"),
            jar: &format!("kafka-clients-{version}.jar"),
            pom: POM,
            arguments: &[format!("-Dkafka.version={version}")],
            size: "about 60 MB",
        };
        Ok(Self { version: version.to_owned(), jars: jars.prepare()?, java: java.to_owned(), java_version })
    }

    /// `java JVM_ARGUMENTS -cp JARS MAIN_CLASS`; the caller adds the program's own arguments.
    pub fn command(&self, jvm_arguments: &[String], main_class: &str) -> Command {
        let mut command = Command::new(&self.java);
        // Options that the user set for other JVMs would change the experiment, and print a line at start.
        command.env_remove("JAVA_TOOL_OPTIONS").env_remove("JDK_JAVA_OPTIONS").env_remove("CLASSPATH");
        command.args(jvm_arguments).arg("-cp").arg(self.jars.join("*")).arg(main_class);
        command
    }

    /// Like [`Kafka::command`], for a short-lived command-line tool: quick to start, small, and quiet.
    pub fn tool(&self, main_class: &str) -> Command {
        let arguments = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=ERROR"];
        self.command(&arguments.map(str::to_owned), main_class)
    }
}

/// The jar with `LocalTieredStorage`; fetched unless it is in the cache. Kafka's own tests try tiered storage with it.
///
/// # Errors
/// Like [`Kafka::prepare`]; [`Error::Unusable`] if none is pinned.
pub(crate) fn tier_jar(version: &str) -> Result<PathBuf> {
    let jar = format!("kafka-storage-{version}-test.jar");
    if !is_pinned(&jar) {
        return Err(Error::Unusable(format!("no jar of tiered storage is pinned for Kafka {version}")));
    }
    let jars = Jars {
        name: &format!("Kafka's storage tests {version}"),
        directory: &format!("kafka-tier-{version}"),
        jar: &jar,
        pom: TIER_POM,
        arguments: &[format!("-Dkafka.version={version}")],
        size: "about 1 MB",
    };
    Ok(jars.prepare()?.join(&jar))
}

fn java_version(java: &Path) -> Result<u32> {
    let output = process::output(Command::new(java).arg("-version"))?;
    match parse_java_version(&output) {
        Some(version) if version >= OLDEST_JAVA => Ok(version),
        found => Err(Error::Missing {
            tool: format!("Java {OLDEST_JAVA} or newer"),
            remedy: match found {
                Some(version) => format!("`java` is Java {version}; put a newer JDK first in PATH"),
                None => "the output of `java -version` is not understood".to_owned(),
            },
        }),
    }
}

/// `openjdk version "17.0.15" 2025-04-15` is 17, `java version "1.8.0_392"` is 8.
fn parse_java_version(output: &str) -> Option<u32> {
    let quoted = output.split("version \"").nth(1)?.split('"').next()?;
    let mut numbers = quoted.split(['.', '-', '_', '+']);
    let first: u32 = numbers.next()?.parse().ok()?;
    if first == 1 { numbers.next()?.parse().ok() } else { Some(first) }
}

/// Jars to fetch.
pub struct Jars<'a> {
    /// Their name for people, with the version.
    pub name: &'a str,
    /// The prefix of their directory in the cache.
    pub directory: &'a str,
    /// The main jar. If it is pinned, all of them are.
    pub jar: &'a str,
    /// The POM for Maven.
    pub pom: &'a str,
    /// Further arguments for Maven.
    pub arguments: &'a [String],
    /// The approximate size of the download.
    pub size: &'a str,
}

impl Jars<'_> {
    /// Returns the directory of the jars; fetches them first unless they are in the cache.
    pub fn prepare(&self) -> Result<PathBuf> {
        let jars = site::cache()?.join(directory_name(self.directory, self.pom));
        if !jars.is_dir() {
            self.fetch(&jars)?;
        }
        Ok(jars)
    }

    /// Fetches into a site, from where the jars are moved when complete: a killed download is never mistaken for jars,
    /// and is cleaned up like any experiment. Fails on a jar that does not match its checksum or its pin.
    fn fetch(&self, jars: &Path) -> Result<()> {
        let started = Instant::now();
        let Self { name, size, .. } = self;
        print_status(&format!("fetching {name} with Maven into {} ({size}, once)", jars.display()));
        let site = Site::claim()?;
        let pom = site.path().join("pom.xml");
        files::write(&pom, self.pom)?;
        let fetched = site.path().join("jars");
        let mut command = Command::new("mvn");
        command.args(["--quiet", "--batch-mode", "--strict-checksums"]);
        command.args(["dependency:copy-dependencies", "-DincludeScope=runtime"]).args(self.arguments);
        command
            .arg("--file")
            .arg(&pom)
            .arg(format!("-DoutputDirectory={}", fetched.display()))
            .current_dir(site.path())
            .env(MARK, site.path());
        process::output(&mut command)?;
        self.check_pinned(&fetched)?;
        match fs::rename(&fetched, jars) {
            Err(_) if jars.is_dir() => {} // Another lab was quicker.
            renamed => renamed.map_err(Error::io("move the jars to", jars))?,
        }
        print_elapsed(started, &format!("{name} is in the cache"));
        Ok(())
    }

    /// Compares all files of a directory with the pinned ones.
    fn check_pinned(&self, directory: &Path) -> Result<()> {
        if !is_pinned(self.jar) {
            print_status(&format!(
                "{} is not pinned by SHA-256: only Maven's checksums were compared",
                self.name
            ));
            return Ok(());
        }
        let paths = files::list(directory)?;
        let names = paths.iter().filter_map(|path| path.file_name());
        let sums = process::output(Command::new("sha256sum").arg("--").args(names).current_dir(directory))?;
        match sums.lines().find(|sum| !PINNED.lines().any(|pinned| pinned == *sum)) {
            Some(sum) => Err(Error::Unusable(format!("{} has a jar that is not pinned: {sum}", self.name))),
            None => Ok(()),
        }
    }
}

/// Whether the SHA-256 of a jar is known.
fn is_pinned(jar: &str) -> bool {
    PINNED.lines().any(|line| line.split_once("  ").is_some_and(|(_, name)| name == jar))
}

/// Names a directory after its content: jars that another `pom.xml` selects are different ones.
fn directory_name(directory: &str, pom: &str) -> String {
    let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    format!("{directory}-{:08x}", pom.bytes().fold(0x811c_9dc5_u32, hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_old_and_new_java_versions() {
        for (output, version) in [
            ("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime", Some(17)),
            ("Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version \"25\" 2025-09-16", Some(25)),
            ("java version \"1.8.0_392\"", Some(8)),
            ("openjdk version \"22-ea\" 2024-03-19", Some(22)),
            ("command not found", None),
        ] {
            assert_eq!(parse_java_version(output), version, "{output}");
        }
    }

    #[test]
    fn refuses_a_jar_whose_checksum_is_not_pinned() {
        let directory = tempfile::tempdir().unwrap();
        let check = |jar| {
            let jars = Jars { name: "Kafka", directory: "", jar, pom: "", arguments: &[], size: "" };
            jars.check_pinned(directory.path()).map_err(|error| error.to_string())
        };
        fs::write(directory.path().join("kafka-clients-4.1.0.jar"), "another").unwrap();
        let refused = check("kafka-clients-4.1.0.jar").unwrap_err();
        assert!(
            refused.starts_with("Kafka has a jar that is not pinned: ")
                && refused.contains("  kafka-clients-4.1.0.jar"),
            "{refused}"
        );
        assert_eq!(check("kafka-clients-0.jar"), Ok(()), "nothing is known of this version");
    }

    #[test]
    fn pins_all_versions_that_tests_run() {
        for version in [DEFAULT_VERSION, OLD_VERSION, "3.6.2"] {
            assert!(is_pinned(&format!("kafka-clients-{version}.jar")), "{version}");
        }
        assert!(is_pinned(&format!("kafka-storage-{DEFAULT_VERSION}-test.jar")));
        assert!(
            PINNED
                .lines()
                .all(|line| line.len() > 66 && line[..64].bytes().all(|byte| byte.is_ascii_hexdigit()))
        );
    }

    #[test]
    fn refuses_versions_that_leave_the_cache() {
        for version in ["", "../4.1.0", "..", "4.1.0 -X", "4/1"] {
            assert!(matches!(Kafka::prepare(version), Err(Error::Unusable(_))), "{version}");
        }
    }
}
