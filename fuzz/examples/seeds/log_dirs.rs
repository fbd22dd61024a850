//! Segments, metadata log records, and a partition's metadata. The segments are sound and damaged. Does not read them.

use crate::kafka;

/// Inputs of the target `segment`.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let [new, old] = [kafka::batch(kafka::CODECS[0], &["a"], 3), kafka::message(0, 0, 0, -1, b"one")];
    let damaged = [&new[..], b"no batch", &new].concat();
    let segments =
        [[&new[..], &old].concat(), damaged, new[..new.len() - 1].to_vec(), [&new[..], &[0; 40]].concat()];
    let segments = segments.into_iter().map(|segment| [&[0, 0, 9][..], &segment].concat());
    let text = b"\x02version: 0\ntopic_id: kVlDlUqkQS62BvMvKT5UZA\n".to_vec();
    segments.chain([[&[1], &metadata()[..]].concat(), text]).collect()
}

/// A topic, a partition of it with three replicas, two of them after a change; then the topic is removed.
fn metadata() -> Vec<u8> {
    let id = [7; 16];
    let values = [
        [&[1, 2, 0, 7][..], b"orders", &id, &[0]].concat(),
        [&[1, 3, 0, 0, 0, 0, 0][..], &id, &[4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 1, 1, 1, 0]].concat(),
        [&[1, 5, 0, 0, 0, 0, 0][..], &id, &[1, 2, 9, 3, 0, 0, 0, 1, 0, 0, 0, 2]].concat(),
        [&[1, 9, 0][..], &id, &[0]].concat(),
    ];
    values.iter().flat_map(|value| [&[value.len() as u8], &value[..]].concat()).collect()
}
