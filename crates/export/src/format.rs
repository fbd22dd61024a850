//! Output formats, and the choice of the one that a client prefers. Knows the grammar of `Accept` (RFC 9110, 12.5.1) as
//! far as these formats need it.

mod protobuf;
mod text;

use crate::catalog::Family;
use crate::histogram::{Exemplar, Histogram};
use protobuf::Protobuf;
use text::{Dialect, Text};

/// Writes metrics, family after family.
/// Label values are in the order of the family's labels; each series of a family is written once.
pub(crate) trait Encoder {
    /// Starts a family; what follows belongs to it.
    fn family(&mut self, family: &'static Family);

    /// Writes a counter or a gauge, with its exemplar if there is one.
    fn number(&mut self, labels: &[&str], value: f64, example: Option<&Exemplar>);

    /// Writes a histogram.
    fn histogram(&mut self, labels: &[&str], histogram: &Histogram);

    /// Returns the whole output.
    fn finish(self: Box<Self>) -> Vec<u8>;
}

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Prometheus' text: the default.
    Text,
    /// `OpenMetrics` 1.0: with exemplars.
    OpenMetrics,
    /// Prometheus' protobuf, delimited: with native histograms and exemplars.
    Protobuf,
}

impl Format {
    /// Every format.
    pub(crate) const ALL: [Self; 3] = [Self::Text, Self::OpenMetrics, Self::Protobuf];

    /// Chooses the format that an `Accept` header prefers; the first of several with the same quality.
    pub fn from_accept(header: &str) -> Self {
        let mut best = (Self::Text, 0.0);
        for range in header.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            let parameters: Vec<&str> = parts.collect();
            let Some(format) = Self::from_media_type(media_type, &parameters) else { continue };
            let quality = quality(&parameters);
            if quality > best.1 {
                best = (format, quality);
            }
        }
        best.0
    }

    fn from_media_type(media_type: &str, parameters: &[&str]) -> Option<Self> {
        let has = |parameter: &str| parameters.iter().any(|other| other.eq_ignore_ascii_case(parameter));
        match media_type.to_ascii_lowercase().as_str() {
            "application/vnd.google.protobuf" => {
                let ours = has("proto=io.prometheus.client.MetricFamily") && has("encoding=delimited");
                ours.then_some(Self::Protobuf)
            }
            "application/openmetrics-text" => Some(Self::OpenMetrics),
            "text/plain" | "text/*" | "*/*" => Some(Self::Text),
            _ => None,
        }
    }

    /// Its `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    pub(crate) fn encoder(self) -> Box<dyn Encoder> {
        match self {
            Self::Text => Box::new(Text::new(Dialect::Prometheus)),
            Self::OpenMetrics => Box::new(Text::new(Dialect::OpenMetrics)),
            Self::Protobuf => Box::<Protobuf>::default(),
        }
    }
}

/// The quality value of a media range; 1 if absent.
fn quality(parameters: &[&str]) -> f64 {
    let quality = parameters.iter().find_map(|parameter| parameter.strip_prefix("q="));
    quality.map_or(1.0, |quality| quality.parse().unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn selects_the_format_with_the_highest_quality() {
        let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
                      application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let usual = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                     text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (header, format) in [
            (native, Format::Protobuf),
            (usual, Format::OpenMetrics),
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/html, image/png", Format::Text),
            ("application/vnd.google.protobuf", Format::Text),
            ("text/plain;q=0.9, application/openmetrics-text;q=0.2", Format::Text),
            ("application/openmetrics-text;q=x, text/plain;q=0.1", Format::Text),
            (";;;,,,q=;=,\u{0}", Format::Text),
        ] {
            assert_eq!(Format::from_accept(header), format, "{header}");
        }
    }
}
