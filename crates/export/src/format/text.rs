//! The text formats: Prometheus' own (0.0.4) and `OpenMetrics` 1.0. Neither has native histograms.
//!
//! They differ in the family name of a counter, in how whole numbers are written as bucket bounds, in exemplars and
//! units, which only `OpenMetrics` has, and in the last line.

use std::fmt::Write as _;

use super::Encoder;
use crate::catalog::{Family, Kind};
use crate::histogram::{Exemplar, Histogram, seconds};

/// One of the two text formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Prometheus,
    OpenMetrics,
}

/// Writes a text format.
pub(crate) struct Text {
    dialect: Dialect,
    family: Option<&'static Family>,
    out: String,
}

impl Text {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self { dialect, family: None, out: String::with_capacity(64 << 10) }
    }

    /// Writes `name{a="b",le="0.1"}` and a blank.
    fn name(&mut self, suffix: &str, labels: &[&str], bound: Option<f64>) {
        let Some(family) = self.family else { return };
        self.out.push_str(family.name);
        self.out.push_str(suffix);
        let mut before = '{';
        for (name, value) in family.labels.iter().zip(labels) {
            self.label(&mut before, name, value);
        }
        if let Some(bound) = bound {
            let bound = self.bound(bound);
            self.label(&mut before, "le", &bound);
        }
        self.out.push_str(if before == '{' { " " } else { "} " });
    }

    fn label(&mut self, before: &mut char, name: &str, value: &str) {
        self.out.push(std::mem::replace(before, ','));
        self.out.push_str(name);
        self.out.push_str("=\"");
        for c in value.chars() {
            match c {
                '\\' => self.out.push_str("\\\\"),
                '"' => self.out.push_str("\\\""),
                '\n' => self.out.push_str("\\n"),
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    /// Formats a bound: `1.0` in `OpenMetrics` (its 1.0, "Canonical Numbers"), `1` in Prometheus' format.
    fn bound(&self, bound: f64) -> String {
        let mut text = number(bound);
        if self.dialect == Dialect::OpenMetrics && bound.is_finite() && !text.contains('.') {
            text.push_str(".0");
        }
        text
    }

    fn end(&mut self, value: f64, example: Option<&Exemplar>) {
        self.out.push_str(&number(value));
        if let Some(example) = example.filter(|_| self.dialect == Dialect::OpenMetrics) {
            self.out.push_str(" # ");
            let mut before = '{';
            for (name, value) in example.labels() {
                self.label(&mut before, name, &value);
            }
            // Writing to a String cannot fail.
            let _ = write!(self.out, "}} {} {:.3}", number(example.value), seconds(example.at));
        }
        self.out.push('\n');
    }
}

impl Encoder for Text {
    fn family(&mut self, family: &'static Family) {
        self.family = Some(family);
        let open = self.dialect == Dialect::OpenMetrics;
        let name = if open { family.name.trim_end_matches("_total") } else { family.name };
        // Writing to a String cannot fail.
        let _ = writeln!(self.out, "# HELP {name} {}", family.help);
        let _ = writeln!(self.out, "# TYPE {name} {}", family.kind.as_str());
        if open && !family.unit.is_empty() && name.ends_with(family.unit) {
            let _ = writeln!(self.out, "# UNIT {name} {}", family.unit);
        }
    }

    fn number(&mut self, labels: &[&str], value: f64, example: Option<&Exemplar>) {
        self.name("", labels, None);
        // OpenMetrics allows no exemplars on gauges.
        let counts = self.family.is_some_and(|family| family.kind == Kind::Counter);
        self.end(value, example.filter(|_| counts));
    }

    fn histogram(&mut self, labels: &[&str], histogram: &Histogram) {
        for (bound, count, example) in histogram.buckets() {
            self.name("_bucket", labels, Some(bound));
            self.end(count as f64, example);
        }
        self.name("_sum", labels, None);
        self.end(histogram.sum, None);
        self.name("_count", labels, None);
        self.end(histogram.count as f64, None);
    }

    fn finish(mut self: Box<Self>) -> Vec<u8> {
        if self.dialect == Dialect::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out.into_bytes()
    }
}

fn number(value: f64) -> String {
    if value == f64::INFINITY { "+Inf".to_owned() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::{Dialect, Encoder, Text};
    use crate::catalog::{FAMILIES, Metric};
    use crate::histogram::Histogram;

    fn render(dialect: Dialect) -> String {
        let mut text: Box<dyn Encoder> = Box::new(Text::new(dialect));
        text.family(&FAMILIES[Metric::TopicBytes as usize]);
        text.number(&["a\"b\\c\nd", "PRODUCE"], 7.0, None);
        let family = &FAMILIES[Metric::TopicProduce as usize];
        text.family(family);
        let mut histogram = Histogram::within(family.bounds());
        histogram.observe(0.75);
        text.histogram(&["orders"], &histogram);
        text.family(&FAMILIES[Metric::Threshold as usize]);
        text.number(&[], 0.1, None);
        String::from_utf8(text.finish()).unwrap()
    }

    #[test]
    fn renders_prometheus_text_format() {
        let text = render(Dialect::Prometheus);
        assert!(text.contains("# TYPE brokerscope_topic_bytes_total counter\n"), "{text}");
        let quoted = r#"brokerscope_topic_bytes_total{topic="a\"b\\c\nd",api="PRODUCE"} 7"#;
        assert!(text.contains(&format!("{quoted}\n")), "{text}");
        for line in [
            r#"brokerscope_topic_produce_duration_seconds_bucket{topic="orders",le="0.5"} 0"#,
            r#"brokerscope_topic_produce_duration_seconds_bucket{topic="orders",le="1"} 1"#,
            r#"brokerscope_topic_produce_duration_seconds_bucket{topic="orders",le="+Inf"} 1"#,
            r#"brokerscope_topic_produce_duration_seconds_sum{topic="orders"} 0.75"#,
            r#"brokerscope_topic_produce_duration_seconds_count{topic="orders"} 1"#,
            "brokerscope_slow_request_threshold_seconds 0.1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
        }
        assert!(!text.contains("EOF") && !text.contains("# UNIT"), "{text}");
    }

    #[test]
    fn openmetrics_family_names_lack_total_and_output_ends_with_eof() {
        let text = render(Dialect::OpenMetrics);
        assert!(text.contains("# TYPE brokerscope_topic_bytes counter\n"), "{text}");
        assert!(text.contains("# UNIT brokerscope_topic_bytes bytes\n"), "{text}");
        assert!(text.contains("\nbrokerscope_topic_bytes_total{"), "{text}");
        assert!(text.contains(r#"le="1.0"} 1"#) && text.contains(r#"le="+Inf"} 1"#), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
