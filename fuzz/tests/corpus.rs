//! Runs the committed corpora and former findings through their targets' checks. This needs no engine: what was found
//! once stays found, on every toolchain. Alone in its binary, because the targets measure memory.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use fuzz::TARGETS;

/// What the corpora may take in the repository.
const MAX_BYTES: usize = 256 << 10;

#[test]
fn every_input_of_every_corpus_passes() {
    let mut bytes = 0;
    for target in TARGETS {
        let mut inputs = 0;
        for folder in ["corpus", "findings"] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(target.name);
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                let input = fs::read(&path).unwrap();
                println!("{}", path.display());
                target.run(&input);
                inputs += 1;
                bytes += input.len();
            }
        }
        assert!(inputs > 0, "{} has no corpus: make fuzz-corpus", target.name);
    }
    assert!(bytes <= MAX_BYTES, "the corpora take {bytes} bytes: make fuzz-corpus");
}
