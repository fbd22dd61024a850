//! Where the time of all requests goes, by stage. Divides no latency: `diagnose` does.

use diagnose::RequestStages;
use model::{Nanos, Stage};

use crate::catalog;
use crate::encoding::Encoder;
use crate::exemplar::Exemplar;
use crate::histogram::Histogram;

/// The APIs whose stages are told: of others, next to nothing is seen inside the broker.
pub(crate) const APIS: [&str; 2] = ["PRODUCE", "FETCH"];

/// Times by API and stage.
#[derive(Debug, Default)]
pub(crate) struct StageTimes([[Histogram; Stage::ALL.len()]; APIS.len()]);

impl StageTimes {
    pub(crate) fn add(&mut self, staged: &RequestStages) {
        let request = &staged.request;
        if request.intended_wait().is_some() {
            return;
        }
        let Some(api) = APIS.iter().position(|api| *api == request.api) else { return };
        let Some(times) = self.0.get_mut(api) else { return };
        for (histogram, (_, length)) in times.iter_mut().zip(staged.stages.iter()) {
            if length > Nanos::ZERO {
                histogram.observe_with(length, request.last_seen(), |value| Exemplar::of(request, value));
            }
        }
    }

    pub(crate) fn encode(&self, out: &mut dyn Encoder) {
        out.family(&catalog::STAGE);
        for (api, stages) in APIS.iter().zip(&self.0) {
            for (stage, histogram) in Stage::ALL.into_iter().zip(stages) {
                out.histogram(&[api, stage.as_str()], histogram);
            }
        }
    }
}
