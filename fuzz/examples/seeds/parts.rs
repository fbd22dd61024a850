//! Recordings of a few events, a part at a time, and a manifest. Does not read them.

use std::fs;
use std::path::Path;

use model::{Event, Loss, LossKind, Nanos, Table};
use recording::{Manifest, Writer, WriterOptions};

/// Inputs of the target `recording`.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let (growing, finished) = (directory.path().join("growing"), directory.path().join("finished"));
    let manifest = Manifest { ended_ns: Some(3), ..Manifest::default() };
    for path in [&growing, &finished] {
        let mut writer = Writer::create(path, &manifest, WriterOptions::default()).unwrap();
        for event in events() {
            writer.write(&event).unwrap();
        }
        writer.flush().unwrap();
        if path == &finished {
            writer.finish(&manifest).unwrap();
        }
    }
    let text = [&[0][..], &fs::read(finished.join("manifest.json")).unwrap()].concat();
    let parts = Table::ALL.iter().enumerate().flat_map(|(at, table)| {
        let place = 2 * (at as u8 + 1);
        let stream = part(&growing.join(table.as_str()).join("part-00001.arrows"), place);
        let parquet = part(&finished.join(table.as_str()).join("part-00001.parquet"), place + 1);
        stream.into_iter().chain(parquet)
    });
    parts.chain([text]).collect()
}

fn part(path: &Path, what: u8) -> Option<Vec<u8>> {
    Some([&[what][..], &fs::read(path).ok()?].concat())
}

/// Of tables with few columns: libFuzzer's inputs are small.
fn events() -> Vec<Event> {
    let times = [1, 2].map(Nanos);
    let loss =
        |start| Loss { start, end: start, kind: LossKind::EventsDropped, count: 7, detail: "ring".into() };
    times.map(|start| Event::Loss(loss(start))).to_vec()
}
