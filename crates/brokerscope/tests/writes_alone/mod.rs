//! The shipped recording, reduced to requests and writes. A recorder that watched only these would have as much.

use std::path::Path;

use model::{Event, FileOpKind};
use recording::{Recording, Writer, WriterOptions};

pub(crate) fn record(to: &Path) {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/journal-stall");
    let sample = Recording::open(&sample).unwrap();
    let mut manifest = sample.manifest().clone();
    manifest.plan.retain(|(purpose, _)| purpose == "file-writes" || purpose == "requests");
    let mut writer = Writer::create(to, &manifest, WriterOptions::default()).unwrap();
    for event in sample.events().map(Result::unwrap) {
        match &event {
            Event::FileOp(op) if op.op == FileOpKind::Write => writer.write(&event).unwrap(),
            Event::Request(_) => writer.write(&event).unwrap(),
            _ => {}
        }
    }
    writer.finish(&manifest).unwrap();
}
