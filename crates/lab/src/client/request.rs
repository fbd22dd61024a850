//! Requests as bytes, in versions without flexible fields that Kafka 3 and 4 speak (KIP-896): Produce 7, Fetch 4,
//! `CreateTopics` 2, `AlterClientQuotas` 0. Layouts from clients/src/main/resources/common/message/*.json.

/// A request of a client, without its frame.
#[derive(Clone, Debug)]
pub struct Request {
    api_key: i16,
    version: i16,
    body: Vec<u8>,
}

/// A topic to be made.
#[derive(Clone, Debug, Default)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// How many partitions.
    pub partitions: u32,
    /// How many brokers have each; 0 is one.
    pub replicas: u16,
    /// Which brokers have each, the leader first; where there is none, the broker chooses.
    pub brokers: Vec<u32>,
    /// Its own settings, such as `segment.bytes`.
    pub configs: Vec<(String, String)>,
}

impl Request {
    /// Appends one batch to one partition.
    #[must_use]
    pub fn produce(topic: &str, partition: u32, acks: i16, batch: &[u8]) -> Self {
        let mut body = Body::default();
        body.int16(-1); // no transaction
        body.int16(acks);
        body.int32(30_000);
        body.int32(1);
        body.text(topic);
        body.int32(1);
        body.int32(partition as i32);
        body.bytes(batch);
        Self { api_key: 0, version: 7, body: body.0 }
    }

    /// Reads one partition: at most `most_bytes`, waiting up to `patience_ms` for a byte.
    #[must_use]
    pub fn fetch(topic: &str, partition: u32, offset: i64, most_bytes: u32, patience_ms: u32) -> Self {
        let mut body = Body::default();
        body.int32(-1); // a consumer
        body.int32(patience_ms as i32);
        body.int32(1); // least bytes
        body.int32(most_bytes as i32);
        body.0.push(0); // read uncommitted
        body.int32(1);
        body.text(topic);
        body.int32(1);
        body.int32(partition as i32);
        body.0.extend(offset.to_be_bytes());
        body.int32(most_bytes as i32);
        Self { api_key: 1, version: 4, body: body.0 }
    }

    /// Makes a topic.
    #[must_use]
    pub fn create_topic(topic: &Topic) -> Self {
        let mut body = Body::default();
        body.int32(1);
        body.text(&topic.name);
        if topic.brokers.is_empty() {
            body.int32(topic.partitions as i32);
            body.int16(topic.replicas.max(1) as i16);
            body.int32(0);
        } else {
            // Both numbers follow from the assignment then (CreateTopicsRequest.json).
            body.int32(-1);
            body.int16(-1);
            body.int32(topic.partitions as i32);
            for partition in 0..topic.partitions {
                body.int32(partition as i32);
                body.int32(topic.brokers.len() as i32);
                topic.brokers.iter().for_each(|&broker| body.int32(broker as i32));
            }
        }
        body.int32(topic.configs.len() as i32);
        for (name, value) in &topic.configs {
            body.text(name);
            body.text(value);
        }
        body.int32(30_000);
        body.0.push(0); // do it
        Self { api_key: 19, version: 2, body: body.0 }
    }

    /// Limits what a client id may send (`producer_byte_rate`) or fetch a second, or takes the limit away.
    #[must_use]
    pub fn alter_quota(client_id: &str, key: &str, bytes_per_second: Option<f64>) -> Self {
        let mut body = Body::default();
        body.int32(1);
        body.int32(1);
        body.text("client-id");
        body.text(client_id);
        body.int32(1);
        body.text(key);
        body.0.extend(bytes_per_second.unwrap_or_default().to_be_bytes());
        body.0.push(u8::from(bytes_per_second.is_none()));
        body.0.push(0); // do it
        Self { api_key: 49, version: 0, body: body.0 }
    }

    /// Kafka's name for its API.
    #[must_use]
    pub fn api(&self) -> &'static str {
        match self.api_key {
            0 => "PRODUCE",
            1 => "FETCH",
            19 => "CREATE_TOPICS",
            _ => "ALTER_CLIENT_QUOTAS",
        }
    }

    /// The bytes on the wire: size, header version 1, body.
    #[must_use]
    pub fn frame(&self, correlation_id: i32, client_id: &str) -> Vec<u8> {
        let mut frame = Body(vec![0; 4]);
        frame.int16(self.api_key);
        frame.int16(self.version);
        frame.int32(correlation_id);
        frame.text(client_id);
        frame.0.extend_from_slice(&self.body);
        let size = frame.0.len() as u32 - 4;
        frame.0.splice(..4, size.to_be_bytes());
        frame.0
    }
}

#[derive(Default)]
struct Body(Vec<u8>);

impl Body {
    fn int16(&mut self, value: i16) {
        self.0.extend(value.to_be_bytes());
    }

    fn int32(&mut self, value: i32) {
        self.0.extend(value.to_be_bytes());
    }

    fn text(&mut self, value: &str) {
        self.int16(value.len() as i16);
        self.0.extend_from_slice(value.as_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.int32(value.len() as i32);
        self.0.extend_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_produce_request_is_laid_out_as_version_7_says() {
        let frame = Request::produce("t", 3, 1, b"xyz").frame(9, "me");
        let expected = b"\0\0\0\x2a\0\0\0\x07\0\0\0\x09\0\x02me\
            \xff\xff\0\x01\0\0\x75\x30\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x03\0\0\0\x03xyz";
        assert_eq!(frame, expected);
    }

    #[test]
    fn a_topic_has_a_number_of_partitions_or_its_brokers() {
        let mut topic = Topic { name: "t".to_owned(), partitions: 2, ..Topic::default() };
        let anywhere = b"\0\0\0\x01\0\x01t\0\0\0\x02\0\x01\0\0\0\0\0\0\0\0\0\0\x75\x30\0";
        assert_eq!(Request::create_topic(&topic).body, anywhere);
        topic.brokers = vec![2];
        let there = b"\0\0\0\x01\0\x01t\xff\xff\xff\xff\xff\xff\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\x02\
            \0\0\0\x01\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\x75\x30\0";
        assert_eq!(Request::create_topic(&topic).body, there);
    }

    #[test]
    fn a_quota_is_set_and_taken_away() {
        let set = b"\0\0\0\x01\0\0\0\x01\0\x09client-id\0\x01c\0\0\0\x01\0\x01k\x3f\xf0\0\0\0\0\0\0\0\0";
        assert_eq!(Request::alter_quota("c", "k", Some(1.0)).body, set);
        let taken = Request::alter_quota("c", "k", None).body;
        assert_eq!(taken[taken.len() - 10..], [0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn a_fetch_request_is_laid_out_as_version_4_says() {
        let frame = Request::fetch("t", 0, 5, 1024, 10).frame(1, "c");
        let expected =
            b"\0\0\0\x37\0\x01\0\x04\0\0\0\x01\0\x01c\xff\xff\xff\xff\0\0\0\x0a\0\0\0\x01\0\0\x04\0\0\
            \0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\x04\0";
        assert_eq!(frame, expected);
    }
}
