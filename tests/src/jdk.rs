//! A JDK newer than the one that `setup/debian` installs; as the default `java` it could not run old brokers. A variable
//! requires tests with it.

use std::fs;
use std::path::PathBuf;

/// If set to 1, a missing JDK is a failure.
const MUST: &str = "BROKERSCOPE_NEWER_JDK";

/// The home of a JDK 25 or newer. Without one, prints that `what` is left out.
///
/// # Panics
/// If there is none and there must be one.
pub fn newer(what: &str) -> Option<PathBuf> {
    let found = find();
    if found.is_none() {
        assert_ne!(
            std::env::var(MUST).as_deref(),
            Ok("1"),
            "{MUST}=1, and no JDK 25 or newer is below /usr/lib/jvm"
        );
        eprintln!(
            "LEFT OUT: {what} with JDK 25 or newer: none is below /usr/lib/jvm; {MUST}=1 makes that a failure"
        );
    }
    found
}

fn find() -> Option<PathBuf> {
    let homes = fs::read_dir("/usr/lib/jvm").ok()?.flatten().map(|entry| entry.path());
    let is_newer = |home: &PathBuf| {
        let release = fs::read_to_string(home.join("release")).unwrap_or_default();
        let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""));
        let number = version.and_then(|version| version.split(['.', '"']).next()?.parse::<u32>().ok());
        home.join("bin/java").is_file() && number.is_some_and(|number| number >= 25)
    };
    homes.into_iter().find(is_newer)
}
