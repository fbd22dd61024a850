//! Prometheus' protobuf format, the only one with native histograms: messages `io.prometheus.client.MetricFamily`, each
//! preceded by its length (`prometheus/client_model`, `io/prometheus/client/metrics.proto`). The code names fields
//! where it writes them.
//! Not fuzzed: it only writes.

use super::Encoder;
use crate::catalog::{Family, Kind};
use crate::histogram::{Exemplar, Histogram, SCHEMA, ZERO_THRESHOLD};

/// A message, or a part of one. See <https://protobuf.dev/programming-guides/encoding/>.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from((field << 3) | wire_type));
    }

    fn unsigned(&mut self, field: u32, value: u64) {
        self.key(field, 0);
        self.varint(value);
    }

    /// `sint32` and `sint64`: zigzag.
    fn signed(&mut self, field: u32, value: i64) {
        self.unsigned(field, zigzag(value));
    }

    fn double(&mut self, field: u32, value: f64) {
        self.key(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let mut message = Self::default();
        write(&mut message);
        self.bytes(field, &message.0);
    }

    /// `LabelPair { name = 1; value = 2 }`.
    fn label(&mut self, field: u32, name: &str, value: &str) {
        self.message(field, |pair| {
            pair.bytes(1, name.as_bytes());
            pair.bytes(2, value.as_bytes());
        });
    }

    /// `Exemplar { label = 1; value = 2; timestamp = 3 }`, its time `{ seconds = 1; nanos = 2 }`.
    fn example(&mut self, field: u32, example: &Exemplar) {
        self.message(field, |message| {
            for (name, value) in example.labels() {
                message.label(1, name, &value);
            }
            message.double(2, example.value);
            message.message(3, |time| {
                time.unsigned(1, example.at.0.div_euclid(1_000_000_000) as u64);
                time.unsigned(2, example.at.0.rem_euclid(1_000_000_000) as u64);
            });
        });
    }

    /// `Histogram { sample_count = 1; sample_sum = 2; bucket = 3; schema = 5; zero_threshold = 6; zero_count = 7;
    /// positive_span = 12; positive_delta = 13 }`, `Bucket { cumulative_count = 1; upper_bound = 2; exemplar = 3 }`,
    /// `BucketSpan { offset = 1; length = 2 }`.
    fn histogram(&mut self, histogram: &Histogram) {
        self.unsigned(1, histogram.count);
        self.double(2, histogram.sum);
        for (bound, count, example) in histogram.buckets() {
            self.message(3, |bucket| {
                bucket.unsigned(1, count);
                bucket.double(2, bound);
                if let Some(example) = example {
                    bucket.example(3, example);
                }
            });
        }
        let runs = histogram.native.spans();
        self.signed(5, SCHEMA.into());
        self.double(6, ZERO_THRESHOLD);
        self.unsigned(7, histogram.native.zero);
        for (gap, length) in runs.spans {
            self.message(12, |span| {
                span.signed(1, gap.into());
                span.unsigned(2, length.into());
            });
        }
        for delta in runs.deltas {
            self.signed(13, delta);
        }
    }
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Writes the format.
#[derive(Default)]
pub(crate) struct Protobuf {
    family: Option<(&'static Family, Message)>,
    out: Message,
}

impl Protobuf {
    /// `Metric { label = 1; gauge = 2; counter = 3; histogram = 7 }`.
    fn metric(&mut self, labels: &[&str], write: impl FnOnce(&Family, &mut Message)) {
        let Some((family, message)) = &mut self.family else { return };
        message.message(4, |metric| {
            for (name, value) in family.labels.iter().zip(labels) {
                metric.label(1, name, value);
            }
            write(family, metric);
        });
    }

    /// Ends a family. Leaves out a family without metrics, because the format has no place for it.
    fn end(&mut self) {
        let Some((family, metrics)) = self.family.take() else { return };
        if metrics.0.is_empty() {
            return;
        }
        // `MetricFamily { name = 1; help = 2; type = 3; metric = 4 }`.
        let mut whole = Message::default();
        whole.bytes(1, family.name.as_bytes());
        whole.bytes(2, family.help.as_bytes());
        whole.unsigned(3, kind(family.kind));
        whole.0.extend_from_slice(&metrics.0);
        self.out.varint(whole.0.len() as u64);
        self.out.0.extend_from_slice(&whole.0);
    }
}

/// `MetricType`.
fn kind(kind: Kind) -> u64 {
    match kind {
        Kind::Counter => 0,
        Kind::Gauge => 1,
        Kind::Histogram => 4,
    }
}

impl Encoder for Protobuf {
    fn family(&mut self, family: &'static Family) {
        self.end();
        self.family = Some((family, Message::default()));
    }

    /// `Counter { value = 1; exemplar = 2 }`, `Gauge { value = 1 }`.
    fn number(&mut self, labels: &[&str], value: f64, example: Option<&Exemplar>) {
        self.metric(labels, |family, metric| {
            let counts = family.kind == Kind::Counter;
            metric.message(if counts { 3 } else { 2 }, |number| {
                number.double(1, value);
                if let Some(example) = example.filter(|_| counts) {
                    number.example(2, example);
                }
            });
        });
    }

    fn histogram(&mut self, labels: &[&str], histogram: &Histogram) {
        self.metric(labels, |_, metric| metric.message(7, |message| message.histogram(histogram)));
    }

    fn finish(mut self: Box<Self>) -> Vec<u8> {
        self.end();
        self.out.0
    }
}

#[cfg(test)]
mod tests {
    use super::{Message, zigzag};

    #[test]
    fn encodes_numbers_like_the_protobuf_documentation() {
        // The examples of protobuf.dev/programming-guides/encoding.
        let mut message = Message::default();
        message.unsigned(1, 150);
        message.bytes(2, b"testing");
        assert_eq!(message.0, [b"\x08\x96\x01\x12\x07".as_slice(), b"testing"].concat());
        let pairs =
            [(0, 0), (-1, 1), (1, 2), (-2, 3), (0x7fff_ffff, 0xffff_fffe), (-0x8000_0000, 0xffff_ffff)];
        for (value, sent) in pairs {
            assert_eq!(zigzag(value), sent, "{value}");
        }
    }
}
