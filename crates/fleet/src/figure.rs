//! Figures that brokers are compared by: names, units, and the size from which on a difference can matter. Does not
//! compute them.

use model::named;

named! {
    /// A figure of a broker. The names are a contract: scripts read them.
    pub enum Figure {
        /// Read requests per second that the broker's devices served, by the devices' own counters.
        DeviceReads = "device_reads_per_second",
        /// Write requests per second that they served.
        DeviceWrites = "device_writes_per_second",
        /// Reads of files per second, from the page cache or not.
        Reads = "reads_per_second",
        /// Bytes per second that reads of files fetched from devices, including read-ahead.
        DiskReadBytes = "disk_read_bytes_per_second",
        /// Bytes per second of fetched records.
        SentBytes = "sent_bytes_per_second",
        /// Bytes per second of produced records.
        ProducedBytes = "produced_bytes_per_second",
        /// Mean time of a write to a file.
        WriteTime = "write_ms",
        /// The longest write to a file.
        LongestWrite = "longest_write_ms",
        /// Mean bytes of a produced batch.
        BatchBytes = "batch_bytes",
        /// Partitions that were produced to without an error.
        PartitionsLed = "partitions_led",
        /// Produce requests per minute that took 100 ms or longer.
        SlowProduce = "slow_produce_per_minute",
        /// Time per minute that slow requests took, by saved verdicts.
        SlowTime = "slow_ms_per_minute",
    }
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A rate per second.
    PerSecond,
    /// A rate per minute.
    PerMinute,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Milliseconds.
    Millis,
    /// Milliseconds per minute.
    MillisPerMinute,
    /// A plain number.
    Count,
}

impl Figure {
    /// Its unit.
    pub fn unit(self) -> Unit {
        match self {
            Self::DeviceReads | Self::DeviceWrites | Self::Reads => Unit::PerSecond,
            Self::DiskReadBytes | Self::SentBytes | Self::ProducedBytes => Unit::BytesPerSecond,
            Self::WriteTime | Self::LongestWrite => Unit::Millis,
            Self::BatchBytes => Unit::Bytes,
            Self::PartitionsLed => Unit::Count,
            Self::SlowProduce => Unit::PerMinute,
            Self::SlowTime => Unit::MillisPerMinute,
        }
    }

    /// The smallest deviation that counts: three and a half of them are the least that anyone would look into.
    pub fn floor(self) -> f64 {
        match self {
            Self::DeviceReads | Self::DeviceWrites | Self::Reads => 20.0,
            Self::DiskReadBytes | Self::SentBytes | Self::ProducedBytes => 300_000.0,
            Self::WriteTime => 0.3,
            Self::LongestWrite => 30.0,
            Self::BatchBytes | Self::SlowTime => 300.0,
            Self::PartitionsLed => 3.0,
            Self::SlowProduce => 2.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Figure;

    #[test]
    fn figures_are_sorted_and_have_unique_names() {
        let names = Figure::ALL.map(Figure::as_str);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert!(Figure::ALL.is_sorted() && Figure::ALL.iter().all(|figure| figure.floor() > 0.0));
    }
}
