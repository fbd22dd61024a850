//! Always-on watches: engine configuration for their events, and a note for readers.

use diagnose::Config;
use model::Nanos;

use super::plan::{self, Plan};

/// Reordering window.
/// The kernel's records are read when a request has ended: requests up to this long, less three seconds, still come in
/// order.
const DISORDER: Nanos = Nanos::from_millis(10_000);

/// Limits of an always-on watch.
pub(crate) const LIMITS: &str = "--watch always-on: but for escalations, times are from a request's first byte in the socket to the last that the broker wrote; when these \
     left, what a request asked for, followers' fetches and waits for locks were not watched";

/// Configures the engine for events of an always-on watch.
pub(crate) fn with_disorder(config: Config) -> Config {
    config.with_disorder(DISORDER)
}

/// Whether an always-on watch made the recording: no other counts requests in the kernel.
pub(crate) fn was_on(plan: &Plan) -> bool {
    plan::sees(plan, plan::REQUEST_LATENCIES)
}
