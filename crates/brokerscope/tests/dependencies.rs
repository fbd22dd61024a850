//! Checks ARCHITECTURE.md's rule that dependencies between crates point one way. Also checks that the oldest
//! toolchain builds all dependencies. Reads only manifests: what a crate may name, not what it does with it.

// clippy.toml allows these in test functions only; this whole crate is tests.
#![allow(clippy::expect_used, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The crates that each crate may depend on. A new crate or dependency is a decision: it is made here and in
/// ARCHITECTURE.md, in one commit.
const ALLOWED: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("model", &[]),
    ("capture", &["model", "wire"]),
    ("foreign", &[]),
    ("broker", &["foreign", "model", "wire"]),
    ("probes", &["foreign", "model"]),
    ("jvm", &["foreign", "model"]),
    ("recording", &["model"]),
    ("diagnose", &["model"]),
    ("compare", &["model"]),
    ("advise", &["diagnose", "model"]),
    ("export", &["diagnose", "model"]),
    ("fleet", &["model"]),
    ("sandbox", &[]),
    ("stores", &[]),
    ("report", &["advise", "compare", "diagnose", "fleet", "model"]),
    ("page", &["diagnose", "model", "report"]),
    ("top", &["diagnose", "jvm", "model", "report"]),
    ("watch", &["broker", "capture", "foreign", "jvm", "model", "probes", "wire"]),
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
            "sandbox",
            "top",
            "watch",
            "wire",
        ],
    ),
    ("e2e", &["lab"]),
    ("bench", &["capture", "lab", "model", "probes", "recording"]),
    (
        "fuzz",
        &["broker", "capture", "export", "jvm", "model", "probes", "recording", "stores", "watch", "wire"],
    ),
];

fn metadata(arguments: &[&str]) -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(arguments)
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("metadata is JSON")
}

fn workspace() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata(&["--no-deps"]);
    let packages = metadata["packages"].as_array().expect("packages");
    let ours: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let dependencies = |package: &serde_json::Value| -> BTreeSet<String> {
        package["dependencies"]
            .as_array()
            .into_iter()
            .flatten()
            // Tests may depend on any crate; the product may not.
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

/// docs/design/dependencies.md describes each dependency; cargo knows which have a build script.
#[test]
fn every_direct_dependency_is_reviewed() {
    let metadata = metadata(&["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let packages = metadata["packages"].as_array().expect("packages");
    let ours = packages.iter().filter(|package| package["source"].is_null());
    let direct = ours.filter_map(|package| package["dependencies"].as_array()).flatten();
    let direct = direct.filter(|dependency| dependency["path"].is_null());
    let direct: BTreeSet<&str> = direct.filter_map(|dependency| dependency["name"].as_str()).collect();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/design/dependencies.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, review) = page.split_once("## Direct dependencies").expect("the review");
    let mut reviewed = BTreeSet::new();
    for row in review.lines().filter(|line| line.starts_with("| `")) {
        let names: Vec<&str> =
            row.split('|').nth(1).into_iter().flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        let built = packages.iter().filter(|package| names.iter().any(|name| package["name"] == *name));
        let mut targets = built.clone().filter_map(|package| package["targets"].as_array()).flatten();
        let has_script = targets.any(|target| target["kind"][0] == "custom-build");
        // A package that no default feature needs is not here.
        assert!(row.contains("build script") == has_script || built.count() == 0, "build script: {row}");
        reviewed.extend(names);
    }
    assert_eq!(reviewed, direct);
}

/// The minimum Rust version of a package, as `1.85` or `1.85.0`.
fn rust_version(package: &serde_json::Value) -> Option<(u32, u32)> {
    let mut numbers = package["rust_version"].as_str()?.split('.').map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

/// The toolchain used here may be newer: this test fails where Debian's would.
#[test]
fn the_oldest_toolchain_builds_every_dependency() {
    let metadata = metadata(&["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let packages = metadata["packages"].as_array().expect("packages");
    let ours = packages.iter().find(|package| package["name"] == "brokerscope").and_then(rust_version);
    assert!(ours.is_some() && packages.len() > 100, "the workspace was not read");
    let too_new = |package: &&serde_json::Value| rust_version(package) > ours;
    let too_new: Vec<_> = packages.iter().filter(too_new).map(|package| package["id"].as_str()).collect();
    assert!(too_new.is_empty(), "{too_new:?} need a newer Rust than Cargo.toml's rust-version");
}
