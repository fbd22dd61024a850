//! Adds up all requests, by API: how many, how long, how large, how many failed. Judges none.

use std::collections::BTreeMap;

use model::Request;

use crate::catalog;
use crate::encoding::Encoder;
use crate::exemplar::Exemplar;
use crate::histogram::Histogram;

/// Requests by Kafka's name of the API, of which there are some ninety.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    by_api: BTreeMap<&'static str, OfApi>,
    durations: [Histogram; Which::ALL.len()],
}

#[derive(Debug, Default)]
struct OfApi {
    requests: u64,
    failed: u64,
    held: u64,
    request_bytes: u64,
    response_bytes: u64,
    throttled: u64,
    throttle_ms: u64,
}

/// The APIs whose times are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Produce,
    Fetch,
    Other,
}

impl Which {
    const ALL: [Self; 3] = [Self::Produce, Self::Fetch, Self::Other];

    /// Of Kafka's name.
    pub(crate) fn of(api: &str) -> Self {
        Self::ALL.into_iter().find(|which| which.as_str() == api).unwrap_or(Self::Other)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Produce => "PRODUCE",
            Self::Fetch => "FETCH",
            Self::Other => "OTHER",
        }
    }
}

impl Requests {
    pub(crate) fn request(&mut self, request: &Request) {
        let held = request.intended_wait().is_some();
        self.by_api.entry(request.api).or_default().add(request, held);
        if held {
            return;
        }
        let Some(latency) = request.latency_less_wait() else { return };
        let example = |value| Exemplar::of(request, value);
        if let Some(histogram) = self.durations.get_mut(Which::of(request.api) as usize) {
            histogram.observe_with(latency, request.last_seen(), example);
        }
    }

    pub(crate) fn encode(&self, out: &mut dyn Encoder) {
        let mut each = |family, count: fn(&OfApi) -> f64| {
            out.each(family, self.by_api.iter().map(|(&api, of)| (api, count(of))));
        };
        each(&catalog::REQUESTS, |of| of.requests as f64);
        each(&catalog::FAILED, |of| of.failed as f64);
        each(&catalog::HELD, |of| of.held as f64);
        each(&catalog::REQUEST_BYTES, |of| of.request_bytes as f64);
        each(&catalog::RESPONSE_BYTES, |of| of.response_bytes as f64);
        out.family(&catalog::DURATION);
        for (which, histogram) in Which::ALL.into_iter().zip(&self.durations) {
            out.histogram(&[which.as_str()], histogram);
        }
    }

    pub(crate) fn encode_throttling(&self, out: &mut dyn Encoder) {
        out.each(&catalog::THROTTLED, self.by_api.iter().map(|(&api, of)| (api, of.throttled as f64)));
        let time = |of: &OfApi| of.throttle_ms as f64 / 1e3;
        out.each(&catalog::THROTTLE_TIME, self.by_api.iter().map(|(&api, of)| (api, time(of))));
    }
}

impl OfApi {
    fn add(&mut self, request: &Request, held: bool) {
        self.requests += 1;
        self.failed += u64::from(request.failed());
        self.held += u64::from(held);
        self.request_bytes += u64::from(request.request_bytes);
        self.response_bytes += u64::from(request.response_bytes.unwrap_or(0));
        let throttle_ms = request.throttle_ms.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0);
        self.throttled += u64::from(throttle_ms > 0);
        self.throttle_ms += throttle_ms;
    }
}
