//! A request with its stages, whether it was slow or not: for who adds up where the time of all requests goes. Holds no cause:
//! a verdict does.

use std::sync::Arc;

use model::{Request, Stages};

/// An answered request and where its time went.
#[derive(Clone, Debug)]
pub struct RequestStages {
    /// The request.
    pub request: Arc<Request>,
    /// Adds up to its latency; what no source saw is `unobserved`.
    pub stages: Stages,
}
