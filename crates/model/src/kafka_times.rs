//! Where a request's time went by the broker's own clock, as its request log says. Does not read the log.

use crate::Nanos;

row! {
    kafka_times_row =>
    /// The times of one line of Kafka's request log (`kafka.request.logger`, `RequestChannel.scala`). They add up to `total`
    /// but for rounding to microseconds.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct KafkaTimes {
        /// From a network thread having read it to a request handler having taken it (`requestQueueTimeMs`).
        queue: Nanos as "kafka_queue_ns",
        /// Until the work on this broker was done (`localTimeMs`).
        local: Nanos as "kafka_local_ns",
        /// Until others had done theirs (`remoteTimeMs`).
        remote: Nanos as "kafka_remote_ns",
        /// How long the client was told to wait, which is no part of the total (`throttleTimeMs`).
        throttle: Nanos as "kafka_throttle_ns",
        /// Until a network thread took the response (`responseQueueTimeMs`).
        response_queue: Nanos as "kafka_response_queue_ns",
        /// Until all of it was handed to the socket (`sendTimeMs`).
        send: Nanos as "kafka_send_ns",
        /// All in all (`totalTimeMs`).
        total: Nanos as "kafka_total_ns",
    }
}
