//! Topics and partitions as Kafka names them. Does not look names up.

use std::fmt;
use std::sync::Arc;

use crate::Nanos;

/// A topic's id (KIP-516), 16 bytes as on the wire; all zero means "none".
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TopicId(pub [u8; 16]);

impl TopicId {
    /// The id that stands for no topic.
    pub const ZERO: Self = Self([0; 16]);

    /// Parses the form that Kafka prints: URL-safe base64 without padding, 22 characters.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 22 {
            return None;
        }
        let mut bits: u128 = 0;
        let mut spare = 0;
        for (i, c) in text.bytes().enumerate() {
            let value = u128::from(sextet(c)?);
            if i < 21 {
                bits = (bits << 6) | value;
            } else {
                bits = (bits << 2) | (value >> 4);
                spare = value & 0xf;
            }
        }
        (spare == 0).then_some(Self(bits.to_be_bytes()))
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn sextet(c: u8) -> Option<u8> {
    ALPHABET.iter().position(|&a| a == c).map(|i| i as u8)
}

/// URL-safe base64 without padding, as Kafka's `Uuid.toString` prints it.
impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        for i in 0..22u32 {
            let sextet = if i < 21 { (bits >> (122 - 6 * i)) & 63 } else { (bits << 4) & 63 };
            let c = ALPHABET.get(sextet as usize).copied().unwrap_or(b'?');
            write!(f, "{}", char::from(c))?;
        }
        Ok(())
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

row! {
    topic_partition_row =>
    /// One partition of one topic.
    #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub struct TopicPartition {
        /// The topic's name.
        topic: Arc<str>,
        /// The partition's number.
        partition: i32,
    }
}

/// `topic-partition`, as the broker names the directory.
impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

row! {
    partition_state_row =>
    /// The number of replicas of a partition, when it is new or has changed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PartitionState {
        /// When it was read from the broker's copy of the cluster's metadata log, or seen in a Metadata response.
        at: Nanos as "at_ns",
        /// The topic.
        topic: Arc<str>,
        /// The partition's number.
        partition: i32,
        /// Its replicas, this broker's included; 1 without followers.
        replicas: u32,
    }
}

#[cfg(test)]
mod tests {
    use super::TopicId;

    #[test]
    fn topic_id_parses_and_prints_like_kafka() {
        // org.apache.kafka.common.Uuid.METADATA_TOPIC_ID is (0, 1).
        let mut metadata = [0; 16];
        metadata[15] = 1;
        assert_eq!(TopicId(metadata).to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
        for text in ["AAAAAAAAAAAAAAAAAAAAAQ", "7XWCdjQqTIyy9OgycPxg2A", "flE-6I70RCyT2gK2Qc3YBw"] {
            assert_eq!(TopicId::parse(text).unwrap().to_string(), text);
        }
        for bad in
            ["", "short", "AAAAAAAAAAAAAAAAAAAAA!", "AAAAAAAAAAAAAAAAAAAAAB", "AAAAAAAAAAAAAAAAAAAAAAA"]
        {
            assert_eq!(TopicId::parse(bad), None, "{bad}");
        }
    }
}
