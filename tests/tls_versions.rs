//! `record --see-tls` as in tests/tls.rs, with an old broker, a newer JDK and passwords.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

#[path = "tls/site.rs"]
#[allow(dead_code, reason = "tests/tls.rs uses all of it")]
mod site;

use std::fs;
use std::path::{Path, PathBuf};

use e2e::gate;
use lab::kafka::{DEFAULT_VERSION, OLD_VERSION};
use site::{rows_agree, survives_kills};

/// Set to 1, a JDK that is missing is a failure.
const MUST: &str = "BROKERSCOPE_NEWER_JDK";

#[test]
fn an_old_broker_with_passwords() {
    let Some(_alone) = gate::live("TLS of an old broker with passwords") else { return };
    rows_agree("tls-old", OLD_VERSION, Path::new("java"), true);
}

#[test]
fn a_newer_jdk() {
    let Some(_alone) = gate::live("TLS with a newer JDK") else { return };
    let Some(java) = newer_java() else {
        assert_ne!(
            std::env::var(MUST).as_deref(),
            Ok("1"),
            "{MUST}=1, and no JDK 25 or newer is below /usr/lib/jvm"
        );
        eprintln!(
            "LEFT OUT: TLS with JDK 25 or newer: none is below /usr/lib/jvm; {MUST}=1 makes that a failure"
        );
        return;
    };
    rows_agree("tls-newer-jdk", DEFAULT_VERSION, &java, true);
    rows_agree("tls-old-newer-jdk", OLD_VERSION, &java, false);
}

#[test]
fn ten_kills() {
    let Some(_alone) = gate::live("an agent without its recorder, ten times") else { return };
    survives_kills("tls-ten-kills", &[0, 50, 100, 200, 400, 700, 1_000, 1_500, 2_200, 3_000]);
}

fn newer_java() -> Option<PathBuf> {
    let homes = fs::read_dir("/usr/lib/jvm").ok()?.flatten().map(|entry| entry.path());
    let is_newer = |home: &PathBuf| {
        let release = fs::read_to_string(home.join("release")).unwrap_or_default();
        let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""));
        let number = version.and_then(|version| version.split(['.', '"']).next()?.parse::<u32>().ok());
        number.is_some_and(|number| number >= 25)
    };
    let java = homes.into_iter().find(is_newer)?.join("bin/java");
    java.is_file().then_some(java)
}
