//! Checks that every module that reads bytes from outside names its fuzz targets. A module without one must say why.
//! Every target must have what it is run with. A module's documentation holds for those below it that say nothing.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fuzz::TARGETS;

/// Signs of a module that reads bytes from outside. It opens files of others, reads from a connection, asks a server,
/// or takes bytes or lines.
const SIGNS: [&str; 9] = [
    "foreign::open(",
    "foreign::open_named(",
    "TcpStream",
    "HttpService",
    ": &[u8]",
    "&'a [u8]",
    "BufRead",
    "impl Read,",
    "impl Read)",
];
const FUZZED: &str = "Fuzzed by: ";
const NOT_FUZZED: &str = "Not fuzzed: ";
/// Too long for the runs of every test.
const NOT_SMOKED: [&str; 3] = ["analyzer", "recording", "store"];

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(path)
}

/// Sources below a directory, without tests and the test bed. The test bed reads what it wrote itself.
fn modules(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let modules = entries.flat_map(|path| match path.file_name().unwrap().to_str().unwrap() {
        "lab" | "tests" | "target" | "tests.rs" => Vec::new(),
        _ if path.is_dir() => modules(&path),
        _ => vec![path],
    });
    let is_source = |path: &PathBuf| path.extension().is_some_and(|end| end == "rs");
    modules.filter(is_source).filter(|path| path.components().any(|part| part.as_os_str() == "src")).collect()
}

fn documentation(source: &str) -> String {
    let lines = source.lines().filter_map(|line| line.strip_prefix("//!"));
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The targets that a module names; none where it says why there are none.
fn targets(documentation: &str) -> Option<BTreeSet<&str>> {
    let Some((_, names)) = documentation.split_once(FUZZED) else {
        return documentation.contains(NOT_FUZZED).then(BTreeSet::new);
    };
    Some(names.split('.').next().unwrap().split(", ").collect())
}

/// The module itself and those that it is in.
fn ancestors(module: &Path) -> Vec<PathBuf> {
    let folders = module.ancestors().skip(1).take_while(|folder| !folder.ends_with("src"));
    let root = module.ancestors().find(|folder| folder.ends_with("src")).unwrap().join("lib.rs");
    let outer = folders.map(|folder| folder.with_extension("rs"));
    [module.to_owned()].into_iter().chain(outer).chain([root]).collect()
}

/// A target with the modules that it uses of the others here.
fn source_of(target: &str) -> String {
    let folder = project("fuzz/src");
    let mut source = fs::read_to_string(folder.join(format!("{target}.rs"))).unwrap();
    for other in modules(&folder).iter().filter(|path| path.parent() == Some(&folder)) {
        let name = other.file_stem().unwrap().to_str().unwrap();
        if name != "target" && source.contains("crate::") && source.contains(&format!("{name}::")) {
            source += &fs::read_to_string(other).unwrap();
        }
    }
    source
}

#[test]
fn every_module_that_reads_bytes_from_outside_has_a_target() {
    let mut speaking = BTreeSet::new();
    let mut tried = BTreeSet::new();
    let modules = modules(&project("crates"));
    for module in &modules {
        let source = fs::read_to_string(module).unwrap();
        if !SIGNS.iter().any(|sign| source.contains(sign)) {
            continue;
        }
        let says = |path: &PathBuf| documentation(&fs::read_to_string(path).unwrap_or_default());
        let found = ancestors(module).into_iter().find(|path| targets(&says(path)).is_some());
        let found = found
            .unwrap_or_else(|| panic!("{} says neither `{FUZZED}` nor `{NOT_FUZZED}`", module.display()));
        let krate = module.strip_prefix(project("crates")).unwrap().components().next().unwrap();
        let krate = krate.as_os_str().to_str().unwrap();
        for target in targets(&says(&found)).unwrap() {
            assert!(
                TARGETS.iter().any(|known| known.name == target),
                "{}: there is no {target}",
                found.display()
            );
            // What the program itself reads goes through the crates.
            let is_used = krate == "brokerscope" || source_of(target).contains(&format!("{krate}::"));
            assert!(is_used, "{}: {target} does not use {krate}", found.display());
            tried.insert(target.to_owned());
        }
        speaking.insert(found);
    }
    assert!(speaking.len() > 20, "the sources were not read: {speaking:?}");
    for module in &modules {
        let says = targets(&documentation(&fs::read_to_string(module).unwrap())).is_some();
        assert!(!says || speaking.contains(module), "{} reads nothing from outside", module.display());
    }
    let known: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(tried, known, "targets that no module names, or the reverse");
}

#[test]
fn every_target_is_run() {
    let script = fs::read_to_string(project("fuzz/run")).unwrap();
    let words = |name: &str| -> BTreeSet<String> {
        let (_, list) = script.split_once(&format!("readonly {name}=(")).unwrap();
        let words = list.split(')').next().unwrap().split_whitespace();
        words.map(|word| word.split(':').next().unwrap().to_owned()).collect()
    };
    let mut known: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(words("TARGETS"), known);
    known.retain(|name| !NOT_SMOKED.contains(&name.as_str()));
    assert_eq!(words("SMOKED"), known);
}
