//! Where a request's time went by the broker's own clock, as its request log says. Does not read the log.

use crate::Nanos;

/// The times of one line of Kafka's request log (`kafka.request.logger`, `RequestChannel.scala`). They add up to `total`
/// but for rounding to microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KafkaTimes {
    /// From a network thread having read it to a request handler having taken it (`requestQueueTimeMs`).
    pub queue: Nanos,
    /// Until the work on this broker was done (`localTimeMs`).
    pub local: Nanos,
    /// Until others had done theirs (`remoteTimeMs`).
    pub remote: Nanos,
    /// How long the client was told to wait, which is no part of the total (`throttleTimeMs`).
    pub throttle: Nanos,
    /// Until a network thread took the response (`responseQueueTimeMs`).
    pub response_queue: Nanos,
    /// Until all of it was handed to the socket (`sendTimeMs`).
    pub send: Nanos,
    /// All in all (`totalTimeMs`).
    pub total: Nanos,
}
