//! Pages and flame graphs against their golden files. `BLESS=1 cargo test -p page` writes them; a missing one fails.
//! The events are those of `report`'s goldens.

// clippy.toml allows these in test functions; a test crate contains only tests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod pages;
#[allow(dead_code, reason = "the sample of report's goldens has rows that no page shows")]
#[path = "../../../report/tests/goldens/sample.rs"]
mod sample;
mod stacks;
mod trace;

use std::path::Path;

use report::escape;

fn golden(name: &str, write: impl FnOnce(&mut Vec<u8>)) {
    let mut out = Vec::new();
    write(&mut out);
    let shown = String::from_utf8(out).unwrap();
    for line in shown.lines() {
        assert!(!line.contains(escape::is_unsafe), "{name}: would steer a terminal: {line:?}");
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/expected").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &shown).unwrap();
    }
    let expected = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error}; BLESS=1 cargo test -p page writes it", file.display()));
    assert!(shown == expected, "{name} differs; BLESS=1 cargo test -p page accepts:\n{shown}");
}
