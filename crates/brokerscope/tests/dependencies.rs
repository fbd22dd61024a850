//! Holds ARCHITECTURE.md's rule that dependencies between the rooms point one way. Looks at the manifests
//! only: what a crate may name, not what it does with it.

// clippy.toml allows these in test functions; a test crate is nothing else.
#![allow(clippy::expect_used, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// What each room may know. A new crate, or a new arrow, is a decision: it is made here and in
/// ARCHITECTURE.md, in one commit.
const ALLOWED: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("model", &[]),
    ("capture", &["model", "wire"]),
    ("broker", &["model", "wire"]),
    ("probes", &["model"]),
    ("jvm", &["model"]),
    ("recording", &["model"]),
    ("diagnose", &["model"]),
    ("compare", &["model"]),
    ("advise", &["diagnose", "model"]),
    ("export", &["diagnose", "model"]),
    ("fleet", &["model"]),
    ("stores", &[]),
    ("report", &["advise", "compare", "diagnose", "fleet", "model"]),
    ("page", &["diagnose", "model", "report"]),
    ("top", &["diagnose", "jvm", "model", "report"]),
    ("watch", &["broker", "capture", "jvm", "model", "probes", "wire"]),
    ("lab", &[]),
    (
        "analysis",
        &[
            "advise",
            "broker",
            "capture",
            "compare",
            "diagnose",
            "jvm",
            "model",
            "recording",
            "report",
            "stores",
            "watch",
            "wire",
        ],
    ),
    (
        "brokerscope",
        &[
            "advise",
            "analysis",
            "broker",
            "capture",
            "compare",
            "diagnose",
            "export",
            "fleet",
            "jvm",
            "model",
            "page",
            "probes",
            "recording",
            "report",
            "top",
            "watch",
            "wire",
        ],
    ),
    ("e2e", &["lab"]),
    ("bench", &["lab", "model", "probes", "recording"]),
    ("fuzz", &["broker", "capture", "jvm", "model", "wire"]),
];

fn workspace() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let ours: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let dependencies = |package: &serde_json::Value| -> BTreeSet<String> {
        package["dependencies"]
            .as_array()
            .into_iter()
            .flatten()
            // Tests may look across rooms; the product may not.
            .filter(|dependency| dependency["kind"] != "dev" && dependency["path"].is_string())
            .filter_map(|dependency| dependency["name"].as_str())
            .filter(|name| ours.contains(name))
            .map(str::to_owned)
            .collect()
    };
    packages
        .iter()
        .filter_map(|package| Some((package["name"].as_str()?.to_owned(), dependencies(package))))
        .collect()
}

#[test]
fn dependencies_point_one_way() {
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        ALLOWED.iter().map(|(room, knows)| (*room, knows.iter().copied().collect())).collect();
    let rooms = workspace();
    assert!(rooms.len() >= 10, "the workspace was not read: {rooms:?}");
    for (room, knows) in rooms {
        let may =
            allowed.get(room.as_str()).unwrap_or_else(|| panic!("{room} is not in ARCHITECTURE.md's table"));
        for name in &knows {
            assert!(may.contains(name.as_str()), "{room} must not know {name}");
        }
    }
}
