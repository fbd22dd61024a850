//! Watches that are always on: what their events need of an engine, and what a reader should know of them.

use diagnose::Config;
use model::Nanos;

use super::plan::{self, Plan};

/// What was recorded is read when a request has ended: one of so long, less three seconds, still comes in order.
const DISORDER: Nanos = Nanos::from_millis(10_000);

/// What such a watch cannot know.
pub(crate) const LIMITS: &str = "--watch always-on: but for escalations, times are from a request's first byte in the socket to the last that the broker wrote; when these \
     left, what a request asked for, followers' fetches and waits for locks were not watched";

/// An engine's configuration for events of such a watch.
pub(crate) fn with_disorder(config: Config) -> Config {
    config.with_disorder(DISORDER)
}

/// Whether a recording was made by such a watch: no other counts requests in the kernel.
pub(crate) fn was_on(plan: &Plan) -> bool {
    plan::sees(plan, plan::REQUEST_LATENCIES)
}
