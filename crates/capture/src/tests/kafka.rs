//! Hand-made Kafka frames, for tests only.

/// A string with a 16-bit length.
fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

fn framed(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

/// A request; `tail` follows the client id.
pub(crate) fn request(api_key: i16, version: i16, correlation_id: i32, tail: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(api_key.to_be_bytes());
    bytes.extend(version.to_be_bytes());
    bytes.extend(correlation_id.to_be_bytes());
    bytes.extend(string("tester"));
    bytes.extend(tail);
    framed(&bytes)
}

/// A `FindCoordinator` request of version 0: small, with a group.
pub(crate) fn small_request(correlation_id: i32) -> Vec<u8> {
    request(10, 0, correlation_id, &string("some-group"))
}

pub(crate) fn response(correlation_id: i32, tail: &[u8]) -> Vec<u8> {
    framed(&[&correlation_id.to_be_bytes()[..], tail].concat())
}

/// A record batch of magic 2 (its records are not read).
pub(crate) fn batch(crc: u32, count: i32, records: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(0i64.to_be_bytes());
    bytes.extend((49 + records.len() as u32).to_be_bytes());
    bytes.extend((-1i32).to_be_bytes());
    bytes.push(2);
    bytes.extend(crc.to_be_bytes());
    bytes.extend(0i16.to_be_bytes());
    bytes.extend((count - 1).to_be_bytes());
    bytes.extend(1_700_000_000_000i64.to_be_bytes());
    bytes.extend(1_700_000_000_000i64.to_be_bytes());
    bytes.extend(4711i64.to_be_bytes());
    bytes.extend(0i16.to_be_bytes());
    bytes.extend(17i32.to_be_bytes());
    bytes.extend(count.to_be_bytes());
    bytes.extend(records);
    bytes
}

/// Produce version 7 to partitions 2 and 5 of one topic.
pub(crate) fn produce(correlation_id: i32, acks: i16, topic: &str, batches: [&[u8]; 2]) -> Vec<u8> {
    let mut tail = vec![0xff, 0xff];
    tail.extend(acks.to_be_bytes());
    tail.extend(30_000i32.to_be_bytes());
    tail.extend(1i32.to_be_bytes());
    tail.extend(string(topic));
    tail.extend(2i32.to_be_bytes());
    for (partition, batch) in [2i32, 5].into_iter().zip(batches) {
        tail.extend(partition.to_be_bytes());
        tail.extend(framed(batch));
    }
    request(0, 7, correlation_id, &tail)
}

/// The answer to [`produce`], with its partitions in this order.
pub(crate) fn produced(correlation_id: i32, topic: &str, partitions: [(i32, i16, i64); 2]) -> Vec<u8> {
    let mut tail = 1i32.to_be_bytes().to_vec();
    tail.extend(string(topic));
    tail.extend(2i32.to_be_bytes());
    for (partition, error, base_offset) in partitions {
        tail.extend(partition.to_be_bytes());
        tail.extend(error.to_be_bytes());
        tail.extend(base_offset.to_be_bytes());
        tail.extend((-1i64).to_be_bytes());
        tail.extend(0i64.to_be_bytes());
    }
    tail.extend(42i32.to_be_bytes());
    response(correlation_id, &tail)
}

/// Produce version 13 to partition 1 of a topic given by id, with acks=0.
pub(crate) fn produce_by_id(correlation_id: i32, id: [u8; 16], batch: &[u8]) -> Vec<u8> {
    let mut tail = vec![0, 0, 0, 0];
    tail.extend(1_000i32.to_be_bytes());
    tail.push(2);
    tail.extend(id);
    tail.push(2);
    tail.extend(1i32.to_be_bytes());
    assert!(batch.len() < 127, "a length of one byte");
    tail.push(batch.len() as u8 + 1);
    tail.extend(batch);
    tail.extend([0, 0, 0]);
    request(0, 13, correlation_id, &tail)
}

/// Metadata version 10: all topics.
pub(crate) fn metadata_request(correlation_id: i32) -> Vec<u8> {
    request(3, 10, correlation_id, &[0, 0, 1, 0, 0, 0])
}

/// The answer: one topic, no brokers, no partitions.
pub(crate) fn metadata_response(correlation_id: i32, id: [u8; 16], name: &str) -> Vec<u8> {
    let mut tail = vec![0];
    tail.extend(0i32.to_be_bytes());
    tail.extend([1, 0]);
    tail.extend(1i32.to_be_bytes());
    tail.extend([2, 0, 0, name.len() as u8 + 1]);
    tail.extend(name.as_bytes());
    tail.extend(id);
    tail.extend([0, 1]);
    tail.extend(i32::MIN.to_be_bytes());
    tail.push(0);
    tail.extend(i32::MIN.to_be_bytes());
    tail.push(0);
    response(correlation_id, &tail)
}
