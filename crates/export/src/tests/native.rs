//! Checks the protobuf format, read by the rules of protobuf alone: by field numbers of `metrics.proto`.

use std::collections::BTreeMap;

use super::broker::{produce, request_event, stall_events};
use super::exporter;
use crate::catalog::FAMILIES;
use crate::{Format, ProcessUsage};

/// A message's fields by number, each with all its values.
#[derive(Clone, Debug, Default)]
struct Fields(BTreeMap<u32, Vec<Value>>);

#[derive(Clone, Debug)]
enum Value {
    Varint(u64),
    Double(f64),
    Bytes(Vec<u8>),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a varint ends");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

impl Fields {
    fn of(mut bytes: &[u8]) -> Self {
        let mut fields = Self::default();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = match key & 7 {
                0 => Value::Varint(varint(&mut bytes)),
                1 => Value::Double(f64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    Value::Bytes(take(&mut bytes, length).to_vec())
                }
                other => panic!("wire type {other}"),
            };
            fields.0.entry((key >> 3) as u32).or_default().push(value);
        }
        fields
    }

    fn all(&self, field: u32) -> &[Value] {
        self.0.get(&field).map(Vec::as_slice).unwrap_or_default()
    }

    fn messages(&self, field: u32) -> Vec<Fields> {
        let each = self.all(field).iter();
        each.map(|value| if let Value::Bytes(bytes) = value { Self::of(bytes) } else { panic!("{value:?}") })
            .collect()
    }

    fn text(&self, field: u32) -> String {
        let [Value::Bytes(bytes)] = self.all(field) else { panic!("{self:?}") };
        String::from_utf8(bytes.clone()).unwrap()
    }

    fn unsigned(&self, field: u32) -> u64 {
        let [Value::Varint(value)] = self.all(field) else { panic!("{field} of {self:?}") };
        *value
    }

    fn double(&self, field: u32) -> f64 {
        let [Value::Double(value)] = self.all(field) else { panic!("{field} of {self:?}") };
        *value
    }

    fn signed(&self, field: u32) -> Vec<i64> {
        let zigzag = |value: &Value| {
            let Value::Varint(value) = value else { panic!("{value:?}") };
            ((value >> 1) as i64) ^ -((value & 1) as i64)
        };
        self.all(field).iter().map(zigzag).collect()
    }
}

/// Families by name, each with its metrics.
fn families(mut bytes: &[u8]) -> BTreeMap<String, Fields> {
    let mut families = BTreeMap::new();
    while !bytes.is_empty() {
        let length = varint(&mut bytes) as usize;
        let family = Fields::of(take(&mut bytes, length));
        assert!(families.insert(family.text(1), family).is_none());
    }
    families
}

/// The counts of native buckets by index, as a reader decodes them.
fn native_counts(histogram: &Fields) -> BTreeMap<i64, i64> {
    let mut deltas = histogram.signed(13).into_iter();
    let (mut index, mut count, mut counts) = (0, 0, BTreeMap::new());
    for span in histogram.messages(12) {
        index += span.signed(1)[0];
        for _ in 0..span.unsigned(2) {
            count += deltas.next().unwrap();
            counts.insert(index, count);
            index += 1;
        }
    }
    assert_eq!(deltas.next(), None);
    counts
}

#[test]
fn protobuf_has_matching_classic_and_native_histograms() {
    let mut exporter = exporter();
    for (number, length) in [(1, 1_000), (2, 1_000), (3, 2_000), (4, 3_000), (5, 0)] {
        exporter.push(request_event(produce(number, "a", 10_000, 10_000 + length)));
    }
    let written = exporter.write(Format::Protobuf, &ProcessUsage::default());
    let family = &families(&written)["brokerscope_request_duration_seconds"];
    assert_eq!(family.unsigned(3), 4, "HISTOGRAM");
    let metrics = family.messages(4);
    let metric = metrics.iter().find(|metric| metric.messages(1)[0].text(2) == "PRODUCE").unwrap();
    assert_eq!(metric.messages(1)[0].text(1), "api");
    let histogram = &metric.messages(7)[0];
    assert_eq!((histogram.unsigned(1), histogram.double(2)), (5, 7.0));
    let classic: Vec<_> =
        histogram.messages(3).iter().map(|bucket| (bucket.double(2), bucket.unsigned(1))).collect();
    assert_eq!(classic[12..], [(1.0, 3), (2.5, 4), (5.0, 5), (10.0, 5), (f64::INFINITY, 5)]);
    let example = &histogram.messages(3)[12].messages(3)[0];
    assert_eq!(example.messages(1)[0].text(2), "payments");
    assert_eq!((example.double(2), example.messages(3)[0].unsigned(1)), (1.0, 11));
    assert_eq!(histogram.signed(5), [3], "schema");
    assert!(histogram.double(6) > 0.0);
    assert_eq!(histogram.unsigned(7), 1, "one took no time");
    // 1 s is 2^0, 2 s is 2^(8/8), 3 s is below 2^(13/8).
    assert_eq!(native_counts(histogram), BTreeMap::from([(0, 2), (8, 1), (13, 1)]));
}

#[test]
fn protobuf_families_are_unique_and_have_the_catalog_type() {
    let mut exporter = exporter();
    for event in stall_events() {
        exporter.push(event);
    }
    exporter.finish();
    let families = families(&exporter.write(Format::Protobuf, &ProcessUsage::default()));
    assert!(families.len() > 40, "{}", families.len());
    for (name, family) in families {
        let listed = FAMILIES.iter().find(|listed| listed.name == name).expect("it is listed");
        let (kind, field) = match listed.kind.as_str() {
            "counter" => (0, 3),
            "gauge" => (1, 2),
            _ => (4, 7),
        };
        assert_eq!(family.unsigned(3), kind, "{name}");
        assert_eq!(family.text(2), listed.help, "{name}");
        for metric in family.messages(4) {
            assert_eq!(metric.messages(1).len(), listed.labels.len(), "{name}");
            assert_eq!(metric.messages(field).len(), 1, "{name}");
        }
    }
}
