//! What brokers are compared by: names, units, and from which size on a difference can matter. Does not compute them.

use model::named;

named! {
    /// A figure of a broker. The names are a contract: scripts read them.
    pub enum Figure {
        /// Read requests a second that the broker's devices served, as they count themselves.
        DeviceReads = "device_reads_per_second",
        /// Write requests a second that they served.
        DeviceWrites = "device_writes_per_second",
        /// Reads of files a second, from the page cache or not.
        Reads = "reads_per_second",
        /// Bytes a second that reads of files had devices bring, what was read ahead included.
        DiskReadBytes = "disk_read_bytes_per_second",
        /// Bytes a second of records that were fetched.
        SentBytes = "sent_bytes_per_second",
        /// Bytes a second of records that were produced.
        ProducedBytes = "produced_bytes_per_second",
        /// Mean time of a write to a file.
        WriteTime = "write_ms",
        /// The longest write to a file.
        LongestWrite = "longest_write_ms",
        /// Mean bytes of a produced batch.
        BatchBytes = "batch_bytes",
        /// Partitions that were produced to without an error.
        PartitionsLed = "partitions_led",
        /// Produce requests a minute that took 100 ms or longer.
        SlowProduce = "slow_produce_per_minute",
        /// Time a minute that slow requests took, by verdicts that were saved.
        SlowTime = "slow_ms_per_minute",
    }
}

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Something a second.
    PerSecond,
    /// Something a minute.
    PerMinute,
    /// Bytes.
    Bytes,
    /// Bytes a second.
    BytesPerSecond,
    /// Milliseconds.
    Millis,
    /// Milliseconds a minute.
    MillisPerMinute,
    /// Nothing.
    Count,
}

impl Figure {
    /// What it is counted in.
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

    /// The smallest deviation that counts: three and a half of them are the least that anybody would look into.
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
    fn every_figure_has_a_name_of_its_own_and_is_listed_once() {
        let names = Figure::ALL.map(Figure::as_str);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert!(Figure::ALL.is_sorted() && Figure::ALL.iter().all(|figure| figure.floor() > 0.0));
    }
}
