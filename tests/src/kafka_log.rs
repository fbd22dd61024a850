//! Kafka's own request log as the expected answer. It is `kafka.request.logger` at DEBUG, with the JSON lines of Kafka
//! 3.x and 4.x. Does not judge: see [`crate::comparison`].
//!
//! A line is `[date] DEBUG Completed request:{…} (kafka.request.logger)`. Kafka writes it when the last byte of the
//! response has been passed to the socket or, without a response (acks=0), when the request is done
//! (`RequestChannel.scala`, `updateRequestMetrics`).

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

/// One request as Kafka logged it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedRequest {
    /// The listener's end of the connection, `127.0.0.1:9092`.
    pub broker: String,
    /// The client's end of the connection.
    pub client: String,
    /// The API's key.
    pub api_key: i64,
    /// Its name, such as `PRODUCE`.
    pub api: String,
    /// Its version.
    pub api_version: i64,
    /// The client's number for the request.
    pub correlation_id: i64,
    /// The client id.
    pub client_id: Option<String>,
    /// The transaction's id; also `None` if several are named.
    pub transactional_id: Option<String>,
    /// The group's id; also `None` if several are named.
    pub group_id: Option<String>,
    /// The response's own error code and throttle time, where it has them.
    pub error_code: Option<i64>,
    /// As above.
    pub throttle_ms: Option<i64>,
    /// Fetch and `ShareFetch`: minimum bytes and maximum milliseconds to wait for.
    pub long_poll: Option<(i64, i64)>,
    /// The body and response of a produce request.
    pub produce: Option<Produce>,
    /// The partitions and offsets requested by a fetch.
    pub requested: Option<Vec<FetchPartition>>,
    /// The partitions in a fetch response.
    pub fetched: Option<Vec<FetchedPartition>>,
    /// Time from when the request was read until the response was written.
    pub total_ms: f64,
    /// The part of it for writing the response.
    pub send_ms: f64,
}

/// A produce request's body and response.
#[derive(Clone, Debug, PartialEq)]
pub struct Produce {
    /// 0, 1 or -1.
    pub acks: i64,
    /// The partitions, in the request's order.
    pub partitions: Vec<Partition>,
}

/// One partition of a produce request.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// The topic's name: on the wire before version 13, later from another response of the broker.
    pub topic: Option<String>,
    /// The topic's id, if it was on the wire.
    pub topic_id: Option<String>,
    /// The partition's number.
    pub partition: i64,
    /// Bytes of records.
    pub bytes: i64,
    /// The broker's answer, if there was a response.
    pub result: Option<ProducedPartition>,
}

/// One partition's part of a fetch request; excludes those that an earlier request of the session named.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FetchPartition {
    /// The topic's id if it was on the wire, else its name.
    pub topic: String,
    /// The partition's number.
    pub partition: i64,
    /// The offset from which to read.
    pub fetch_offset: i64,
}

/// One partition's part of a fetch response.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FetchedPartition {
    /// The topic's id if it was on the wire, else its name.
    pub topic: String,
    /// The partition's number.
    pub partition: i64,
    /// Bytes of records, as sent: down-converted for a client with an old version.
    pub bytes: i64,
    /// Kafka's error code, 0 for none.
    pub error_code: i64,
}

/// One partition's part of a produce response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProducedPartition {
    /// The offset of the first record; `None` if the broker accepted none, -1 on the wire.
    pub base_offset: Option<i64>,
    /// Kafka's error code, 0 for none.
    pub error_code: i64,
}

/// Reads the whole log; a last line that is still being written is left out.
///
/// # Panics
/// If a line is not as Kafka writes it.
pub fn read(path: &Path) -> Vec<LoggedRequest> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines: Vec<Value> = complete.lines().filter_map(json_of).collect();
    let names = topic_names(&lines);
    lines.iter().map(|line| logged(line, &names)).collect()
}

/// The requests received on the listener at `broker` (`address:port`).
pub fn read_listener(path: &Path, broker: &str) -> Vec<LoggedRequest> {
    read(path).into_iter().filter(|request| request.broker == broker).collect()
}

fn json_of(line: &str) -> Option<Value> {
    let (_, rest) = line.split_once("Completed request:")?;
    let end = rest.rfind('}').unwrap_or_else(|| panic!("a request line without an end: {line}"));
    Some(serde_json::from_str(&rest[..=end]).unwrap_or_else(|error| panic!("{error} in {line}")))
}

/// Topic id → name, from every response with both (Metadata, `CreateTopics`, …).
fn topic_names(lines: &[Value]) -> HashMap<String, String> {
    let mut names = HashMap::new();
    for topic in lines.iter().filter_map(|line| line["response"]["topics"].as_array()).flatten() {
        if let (Some(id), Some(name)) = (topic["topicId"].as_str(), topic["name"].as_str()) {
            names.insert(id.to_owned(), name.to_owned());
        }
    }
    names
}

fn logged(line: &Value, names: &HashMap<String, String>) -> LoggedRequest {
    let header = &line["requestHeader"];
    let (broker, client) = ends(text(&line["connection"]));
    let api_key = number(&header["requestApiKey"]);
    LoggedRequest {
        broker,
        client,
        api_key,
        api: text(&header["requestApiKeyName"]).to_owned(),
        api_version: number(&header["requestApiVersion"]),
        correlation_id: number(&header["correlationId"]),
        client_id: header["clientId"].as_str().map(str::to_owned),
        transactional_id: only_value(&line["request"], &TRANSACTIONS, 1),
        group_id: only_value(&line["request"], &GROUPS, 0),
        error_code: line["response"]["errorCode"].as_i64(),
        throttle_ms: line["response"]["throttleTimeMs"].as_i64(),
        long_poll: line["request"]["minBytes"].as_i64().zip(line["request"]["maxWaitMs"].as_i64()),
        produce: (api_key == 0).then(|| produce(&line["request"], &line["response"], names)),
        requested: (api_key == 1).then(|| requested_partitions(&line["request"])),
        fetched: (api_key == 1).then(|| fetched(&line["response"])),
        total_ms: milliseconds(line, "totalTimeMs"),
        send_ms: milliseconds(line, "sendTimeMs"),
    }
}

/// Fields in which Kafka logs a group's id: of the request, or of each element of a list.
const GROUPS: [&str; 4] = ["groupId", "groups", "groupIds", "groupsNames"];
/// Fields in which it logs a transaction's id.
const TRANSACTIONS: [&str; 3] = ["transactionalId", "v3AndBelowTransactionalId", "transactions"];

/// The value in one of these fields of a request, if there is exactly one. Otherwise its coordinator key of that type,
/// if there is exactly one.
fn only_value(request: &Value, fields: &[&str], key_type: i64) -> Option<String> {
    let one = |value: &Value| match value {
        Value::Object(_) => {
            value["groupId"].as_str().or(value["transactionalId"].as_str()).map(str::to_owned)
        }
        value => value.as_str().map(str::to_owned),
    };
    let of = |value: &Value| match value.as_array().map(Vec::as_slice) {
        Some([only]) => one(only),
        Some(_) => None,
        None => one(value),
    };
    // Versions without the type are for groups.
    let is_key = request["keyType"].as_i64().unwrap_or(0) == key_type;
    let keys = ["key", "coordinatorKeys"].map(|field| of(&request[field]).filter(|_| is_key));
    fields.iter().find_map(|field| of(&request[*field])).or(keys.into_iter().flatten().next())
}

/// `127.0.0.1:9092-127.0.0.1:60670-0-1`: both ends, the processor, a running number
/// (`ServerConnectionId.java`).
fn ends(connection: &str) -> (String, String) {
    let mut parts = connection.split('-');
    match (parts.next(), parts.next()) {
        (Some(broker), Some(client)) => (broker.to_owned(), client.to_owned()),
        _ => panic!("not a connection: {connection}"),
    }
}

fn produce(request: &Value, response: &Value, names: &HashMap<String, String>) -> Produce {
    let results = results(response);
    let mut partitions = Vec::new();
    for topic in array(&request["topicData"]) {
        let topic_id = topic["topicId"].as_str().map(str::to_owned);
        let name = topic["name"].as_str().map(str::to_owned);
        for partition in array(&topic["partitionData"]) {
            let index = number(&partition["index"]);
            partitions.push(Partition {
                topic: name.clone().or_else(|| names.get(topic_id.as_ref()?).cloned()),
                topic_id: topic_id.clone(),
                partition: index,
                bytes: number(&partition["recordsSizeInBytes"]),
                result: results.get(&(key_of(topic), index)).copied(),
            });
        }
    }
    Produce { acks: number(&request["acks"]), partitions }
}

/// In the order of topics and partitions.
fn requested_partitions(request: &Value) -> Vec<FetchPartition> {
    let mut requested = Vec::new();
    for topic in array(&request["topics"]) {
        let name = topic["topicId"].as_str().or_else(|| topic["topic"].as_str());
        for partition in array(&topic["partitions"]) {
            requested.push(FetchPartition {
                topic: name.expect("a topic has a name or an id").to_owned(),
                partition: number(&partition["partition"]),
                fetch_offset: number(&partition["fetchOffset"]),
            });
        }
    }
    requested.sort();
    requested
}

/// In the order of topics and partitions.
fn fetched(response: &Value) -> Vec<FetchedPartition> {
    let mut fetched = Vec::new();
    for topic in response["responses"].as_array().into_iter().flatten() {
        let name = topic["topicId"].as_str().or_else(|| topic["topic"].as_str());
        for partition in array(&topic["partitions"]) {
            fetched.push(FetchedPartition {
                topic: name.expect("a topic has a name or an id").to_owned(),
                partition: number(&partition["partitionIndex"]),
                bytes: number(&partition["recordsSizeInBytes"]),
                error_code: number(&partition["errorCode"]),
            });
        }
    }
    fetched.sort();
    fetched
}

/// (topic, partition) → the answer. Kafka logs `""` without a response.
fn results(response: &Value) -> HashMap<(String, i64), ProducedPartition> {
    let mut results = HashMap::new();
    for topic in response["responses"].as_array().into_iter().flatten() {
        for partition in array(&topic["partitionResponses"]) {
            let base_offset = Some(number(&partition["baseOffset"])).filter(|offset| *offset >= 0);
            let result = ProducedPartition { base_offset, error_code: number(&partition["errorCode"]) };
            results.insert((key_of(topic), number(&partition["index"])), result);
        }
    }
    results
}

fn key_of(topic: &Value) -> String {
    topic["topicId"]
        .as_str()
        .or_else(|| topic["name"].as_str())
        .expect("a topic has a name or an id")
        .to_owned()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("not an array: {value}"))
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("not a number: {value}"))
}

fn milliseconds(line: &Value, name: &str) -> f64 {
    line[name].as_f64().unwrap_or_else(|| panic!("no {name} in {line}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

#[cfg(test)]
mod tests {
    use super::{LoggedRequest, ProducedPartition, read, read_listener};
    use std::path::Path;

    /// `MESSAGE_TOO_LARGE`.
    const REFUSED: ProducedPartition = ProducedPartition { base_offset: None, error_code: 10 };

    fn sample() -> Vec<LoggedRequest> {
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sample-request.log"))
    }

    #[test]
    fn parses_a_complete_real_log() {
        let log = sample();
        let produce: Vec<_> = log.iter().filter_map(|request| request.produce.as_ref()).collect();
        assert_eq!(log.len(), 22);
        assert_eq!(log.iter().filter(|request| request.api == "PRODUCE").count(), produce.len());
        assert!(produce.iter().any(|p| p.acks == 0 && p.partitions.iter().all(|p| p.result.is_none())));
        assert!(produce.iter().any(|p| p.partitions.iter().any(|p| p.result == Some(REFUSED))));
        assert!(log.iter().any(|request| request.client_id.as_deref() == Some("kafka-python \"q\"")));
    }

    #[test]
    fn read_listener_returns_only_its_own_requests() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sample-request.log");
        assert_eq!(read_listener(&path, "127.0.0.1:29092").len(), 22);
        assert_eq!(read_listener(&path, "127.0.0.1:29093").len(), 0);
    }
}
