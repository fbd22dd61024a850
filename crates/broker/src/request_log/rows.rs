//! Rows of requests from lines of Kafka's request log: the partitions of a request, the broker's answer, and where the
//! time went. Does not know the recording's clock or the names of topics.
//!
//! The names are those of the schemas in Kafka's `clients/src/main/resources/common/message`; `recordsSizeInBytes`
//! takes the place of records (`ProduceRequestDataJsonConverter`). A request without a response has `""` instead
//! (`RequestConvertToJson.scala`).
//! Fuzzed by: log.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use model::api_key::{FETCH, FIND_COORDINATOR, METADATA, OFFSET_FETCH, PRODUCE};
use model::{KafkaTimes, Nanos, Partition, Request, RequestSource, TopicId};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::ends;

/// A request of the log.
#[derive(Debug)]
pub struct LogRow {
    /// The request; topics with an id have no name.
    pub request: Request,
    /// Whether the connection was TLS.
    pub is_tls: bool,
    /// Topic names from its response.
    pub topics: Vec<(TopicId, Arc<str>)>,
}

/// Parses a line's JSON into the row of a request that ended at `end`; `None` if it is not as Kafka writes it.
pub(crate) fn read(json: &[u8], end: Nanos, times: KafkaTimes) -> Option<LogRow> {
    let Kind { request_header } = serde_json::from_slice(json).ok()?;
    match request_header.request_api_key {
        PRODUCE => {
            let line: Line<'_, ProduceRequest<'_>, Answer<'_, ProducedPartition>> =
                serde_json::from_slice(json).ok()?;
            let mut row = line.row(end, times)?;
            line.request.fill(line.response.0.as_ref(), &mut row.request);
            Some(row)
        }
        FETCH => {
            let line: Line<'_, FetchRequest<'_>, Answer<'_, FetchedPartition>> =
                serde_json::from_slice(json).ok()?;
            let mut row = line.row(end, times)?;
            line.request.fill(line.response.0.as_ref(), &mut row.request);
            Some(row)
        }
        METADATA => {
            let line: Line<'_, IgnoredAny, Metadata<'_>> = serde_json::from_slice(json).ok()?;
            let mut row = line.row(end, times)?;
            let Some(answer) = line.response.0 else { return Some(row) };
            (row.request.error_code, row.request.throttle_ms) = (answer.error_code, answer.throttle_time_ms);
            row.topics = answer.names();
            Some(row)
        }
        FIND_COORDINATOR => with_ids::<Coordinator<'_>>(json, end, times),
        OFFSET_FETCH => with_ids::<Groups<'_>>(json, end, times),
        _ => with_ids::<Ids<'_>>(json, end, times),
    }
}

/// The row of an API of which only ids and error codes are kept.
fn with_ids<'a, Q: Deserialize<'a> + Into<Ids<'a>>>(
    json: &'a [u8],
    end: Nanos,
    times: KafkaTimes,
) -> Option<LogRow> {
    let line: Line<'_, Q, Codes> = serde_json::from_slice(json).ok()?;
    let mut row = line.row(end, times)?;
    let Ids { group_id, transactional_id } = line.request.into();
    row.request.group_id = group_id.map(Arc::from);
    row.request.transactional_id = transactional_id.map(Arc::from);
    let codes = line.response.0.unwrap_or_default();
    (row.request.error_code, row.request.throttle_ms) = (codes.error_code, codes.throttle_time_ms);
    Some(row)
}

/// The API of a line.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    request_header: ApiKey,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiKey {
    request_api_key: i16,
}

/// A line with the request and response types of its API.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a, Q, A> {
    request_header: Header<'a>,
    request: Q,
    #[serde(bound(deserialize = "A: Deserialize<'de>"))]
    response: Response<A>,
    #[serde(borrow)]
    connection: Cow<'a, str>,
    #[serde(borrow)]
    security_protocol: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header<'a> {
    request_api_key: i16,
    request_api_version: i16,
    correlation_id: i32,
    #[serde(borrow)]
    client_id: Option<Cow<'a, str>>,
}

impl<Q, A> Line<'_, Q, A> {
    fn row(&self, end: Nanos, times: KafkaTimes) -> Option<LogRow> {
        let (broker, client) = ends(&self.connection)?;
        let arrival = end - times.total;
        let has_response = self.response.0.is_some();
        let request = Request {
            arrival,
            arrival_end: arrival,
            response: has_response.then(|| (end - times.send).max(arrival)),
            end: has_response.then_some(end),
            api_key: self.request_header.request_api_key,
            api: wire::ApiKey(self.request_header.request_api_key).name(),
            api_version: self.request_header.request_api_version,
            correlation_id: self.request_header.correlation_id,
            client_id: self.request_header.client_id.as_deref().map(Arc::from),
            seen_by: Some(RequestSource::RequestLog),
            queue: Some(times.queue),
            local: Some(times.local),
            remote: Some(times.remote),
            ..Request::new(client, broker)
        };
        let is_tls = ["SSL", "SASL_SSL"].contains(&&*self.security_protocol);
        Some(LogRow { request, is_tls, topics: Vec::new() })
    }
}

/// A response, or `None`, for which Kafka writes an empty string.
struct Response<A>(Option<A>);

impl<'de, A: Deserialize<'de>> Deserialize<'de> for Response<A> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct MapOrText<A>(PhantomData<A>);
        impl<'de, A: Deserialize<'de>> Visitor<'de> for MapOrText<A> {
            type Value = Response<A>;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a response or an empty text")
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Self::Value, M::Error> {
                A::deserialize(MapAccessDeserializer::new(map)).map(|answer| Response(Some(answer)))
            }

            fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
                Ok(Response(None))
            }
        }
        from.deserialize_any(MapOrText(PhantomData))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ids<'a> {
    #[serde(borrow, default)]
    group_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    transactional_id: Option<Cow<'a, str>>,
}

/// A `FindCoordinator` request: for a group or a transaction, or for several.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Coordinator<'a> {
    #[serde(borrow, default)]
    key: Option<Cow<'a, str>>,
    /// From version 4 on.
    #[serde(borrow, default, rename = "coordinatorKeys")]
    keys: Vec<Cow<'a, str>>,
    #[serde(default)]
    key_type: i8,
}

/// An `OffsetFetch` request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Groups<'a> {
    #[serde(borrow, default)]
    group_id: Option<Cow<'a, str>>,
    /// From version 8 on.
    #[serde(borrow, default)]
    groups: Vec<Ids<'a>>,
}

impl<'a> From<Coordinator<'a>> for Ids<'a> {
    fn from(Coordinator { key, keys, key_type }: Coordinator<'a>) -> Self {
        let key = key.or_else(|| only(keys));
        match key_type {
            0 => Self { group_id: key, transactional_id: None },
            1 => Self { group_id: None, transactional_id: key },
            _ => Self { group_id: None, transactional_id: None },
        }
    }
}

impl<'a> From<Groups<'a>> for Ids<'a> {
    fn from(Groups { group_id, groups }: Groups<'a>) -> Self {
        let group_id = group_id.or_else(|| only(groups)?.group_id);
        Self { group_id, transactional_id: None }
    }
}

/// The element of a list that has only one.
fn only<T>(list: Vec<T>) -> Option<T> {
    let [only] = <[T; 1]>::try_from(list).ok()?;
    Some(only)
}

/// Fields that most responses have.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Codes {
    #[serde(default)]
    error_code: Option<i16>,
    #[serde(default)]
    throttle_time_ms: Option<i32>,
}

/// Fields of Produce and Fetch responses.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a, P> {
    #[serde(borrow, bound(deserialize = "P: Deserialize<'de>"))]
    responses: Vec<Topic<'a, P>>,
    #[serde(default)]
    error_code: Option<i16>,
    #[serde(default)]
    throttle_time_ms: Option<i32>,
}

/// A topic by name, or by id in newer versions, with its partitions.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Topic<'a, P> {
    /// `name` in Produce requests, `topic` in fetches.
    #[serde(borrow, default, alias = "topic")]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "topicId")]
    id: Option<Cow<'a, str>>,
    #[serde(alias = "partitionData", alias = "partitionResponses")]
    #[serde(bound(deserialize = "P: Deserialize<'de>"))]
    partitions: Vec<P>,
}

/// A partition by its topic's name or id, and its number.
type Key<'t> = (Option<&'t str>, Option<&'t str>, i32);

impl<P> Topic<'_, P> {
    fn key(&self, partition: i32) -> Key<'_> {
        (self.name.as_deref(), self.id.as_deref(), partition)
    }

    fn partition(&self, partition: i32) -> Partition {
        let topic_id = self.id.as_deref().and_then(TopicId::parse);
        Partition { topic: self.name.as_deref().map(Arc::from), topic_id, partition, ..Partition::default() }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProduceRequest<'a> {
    #[serde(borrow, default)]
    transactional_id: Option<Cow<'a, str>>,
    acks: i16,
    #[serde(borrow)]
    topic_data: Vec<Topic<'a, SentPartition>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentPartition {
    index: i32,
    #[serde(default)]
    records_size_in_bytes: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProducedPartition {
    index: i32,
    error_code: i16,
    base_offset: i64,
}

impl ProduceRequest<'_> {
    fn fill(self, answer: Option<&Answer<'_, ProducedPartition>>, request: &mut Request) {
        request.acks = Some(self.acks);
        request.transactional_id = self.transactional_id.map(Arc::from);
        request.throttle_ms = answer.and_then(|answer| answer.throttle_time_ms);
        let mut answers: HashMap<Key<'_>, &ProducedPartition> = HashMap::new();
        for topic in answer.iter().flat_map(|answer| &answer.responses) {
            answers.extend(topic.partitions.iter().map(|of| (topic.key(of.index), of)));
        }
        for topic in &self.topic_data {
            request.partitions.extend(topic.partitions.iter().map(|produced| {
                let answer = answers.get(&topic.key(produced.index));
                Partition {
                    bytes: produced.records_size_in_bytes,
                    base_offset: answer.map(|answer| answer.base_offset).filter(|offset| *offset >= 0),
                    error_code: answer.map(|answer| answer.error_code),
                    ..topic.partition(produced.index)
                }
            }));
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FetchRequest<'a> {
    max_wait_ms: i32,
    min_bytes: i32,
    #[serde(borrow)]
    topics: Vec<Topic<'a, FetchPartition>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FetchPartition {
    partition: i32,
    fetch_offset: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FetchedPartition {
    partition_index: i32,
    error_code: i16,
    /// Null if there are no records.
    #[serde(default)]
    records_size_in_bytes: u32,
}

impl FetchRequest<'_> {
    /// Adds the requested partitions, then those that only the response names.
    /// An earlier request of the fetch session named the latter.
    fn fill(self, answer: Option<&Answer<'_, FetchedPartition>>, request: &mut Request) {
        (request.min_bytes, request.max_wait_ms) = (Some(self.min_bytes), Some(self.max_wait_ms));
        let partitions = &mut request.partitions;
        let mut places: HashMap<Key<'_>, usize> = HashMap::new();
        for topic in &self.topics {
            for requested in &topic.partitions {
                places.insert(topic.key(requested.partition), partitions.len());
                let fetch_offset = Some(requested.fetch_offset);
                partitions.push(Partition { fetch_offset, ..topic.partition(requested.partition) });
            }
        }
        let Some(answer) = answer else { return };
        (request.error_code, request.throttle_ms) = (answer.error_code, answer.throttle_time_ms);
        for topic in &answer.responses {
            for FetchedPartition { partition_index, error_code, records_size_in_bytes } in &topic.partitions {
                let place = *places.entry(topic.key(*partition_index)).or_insert(partitions.len());
                if place == partitions.len() {
                    partitions.push(topic.partition(*partition_index));
                }
                if let Some(partition) = partitions.get_mut(place) {
                    (partition.bytes, partition.error_code) = (*records_size_in_bytes, Some(*error_code));
                }
            }
        }
    }
}

/// Topics in a Metadata response.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    topics: Vec<TopicName<'a>>,
    #[serde(default)]
    error_code: Option<i16>,
    #[serde(default)]
    throttle_time_ms: Option<i32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TopicName<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "topicId")]
    id: Option<Cow<'a, str>>,
}

impl Metadata<'_> {
    fn names(self) -> Vec<(TopicId, Arc<str>)> {
        let named = |topic: TopicName<'_>| {
            Some((topic.id.as_deref().and_then(TopicId::parse)?, Arc::from(topic.name?)))
        };
        self.topics.into_iter().filter_map(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use model::{KafkaTimes, Nanos, Partition, Request, RequestSource, TopicId};

    use super::{LogRow, read};
    use crate::server_log::{LogItem, LogScanner, Patterns, Zone};

    const END: Nanos = Nanos(10_000_000_000);
    const TIMES: KafkaTimes = KafkaTimes {
        queue: Nanos(500_000),
        local: Nanos(4_000_000),
        remote: Nanos(125_000),
        throttle: Nanos(0),
        response_queue: Nanos(625_000),
        send: Nanos(1_000_000),
        total: Nanos(6_250_000),
    };

    /// A line of an API with this request and response.
    fn line(api_key: i16, request: &str, response: &str) -> String {
        format!(
            r#"{{"isForwarded":false,"requestHeader":{{"requestApiKey":{api_key},"requestApiVersion":12,"correlationId":7,"clientId":"a \"b\"","requestApiKeyName":"X"}},"request":{request},"response":{response},"connection":"127.0.0.1:9092-10.0.0.7:60670-0-1","totalTimeMs":6.25,"requestQueueTimeMs":0.5,"localTimeMs":4.0,"remoteTimeMs":0.125,"throttleTimeMs":0,"responseQueueTimeMs":0.625,"sendTimeMs":1.0,"securityProtocol":"SASL_SSL"}}"#
        )
    }

    fn row(api_key: i16, request: &str, response: &str) -> Option<LogRow> {
        read(line(api_key, request, response).as_bytes(), END, TIMES)
    }

    const PRODUCE: &str = r#"{"transactionalId":null,"acks":-1,"timeoutMs":30000,"topicData":[{"topicId":"due63qYgSzyHFkAqWkWjMg","partitionData":[{"index":3,"recordsSizeInBytes":90},{"index":4,"recordsSizeInBytes":91}]},{"name":"t","partitionData":[{"index":3,"recordsSizeInBytes":92}]}]}"#;
    const PRODUCED: &str = r#"{"responses":[{"name":"t","partitionResponses":[{"index":3,"errorCode":10,"baseOffset":-1}]},{"topicId":"due63qYgSzyHFkAqWkWjMg","partitionResponses":[{"index":3,"errorCode":0,"baseOffset":5,"logAppendTimeMs":-1},{"index":4,"errorCode":0,"baseOffset":6}]}],"throttleTimeMs":2}"#;

    #[test]
    fn produce_request_has_its_partitions_and_times() {
        let LogRow { request, is_tls, .. } = row(0, PRODUCE, PRODUCED).unwrap();
        let topic_id = TopicId::parse("due63qYgSzyHFkAqWkWjMg");
        let by_id = |partition, bytes, base_offset| Partition {
            topic_id,
            partition,
            bytes,
            base_offset: Some(base_offset),
            error_code: Some(0),
            ..Partition::default()
        };
        let refused = Partition {
            topic: Some("t".into()),
            partition: 3,
            bytes: 92,
            error_code: Some(10),
            ..Partition::default()
        };
        let expected = Request {
            arrival: END - TIMES.total,
            arrival_end: END - TIMES.total,
            response: Some(END - TIMES.send),
            end: Some(END),
            api: "PRODUCE",
            api_version: 12,
            correlation_id: 7,
            client_id: Some("a \"b\"".into()),
            acks: Some(-1),
            throttle_ms: Some(2),
            seen_by: Some(RequestSource::RequestLog),
            queue: Some(TIMES.queue),
            local: Some(TIMES.local),
            remote: Some(TIMES.remote),
            partitions: vec![by_id(3, 90, 5), by_id(4, 91, 6), refused],
            ..Request::new("10.0.0.7:60670".parse().unwrap(), "127.0.0.1:9092".parse().unwrap())
        };
        assert_eq!((request, is_tls), (expected, true));
    }

    #[test]
    fn request_without_a_response_has_no_end() {
        let request = row(0, PRODUCE, "\"\"").unwrap().request;
        assert_eq!((request.response, request.end, request.partitions[0].error_code), (None, None, None));
    }

    #[test]
    fn fetch_has_requested_and_returned_partitions() {
        let request_json = r#"{"maxWaitMs":500,"minBytes":1,"topics":[{"topic":"t","partitions":[{"partition":0,"fetchOffset":9},{"partition":1,"fetchOffset":8}]}]}"#;
        let response_json = r#"{"throttleTimeMs":0,"errorCode":0,"responses":[{"topic":"t","partitions":[{"partitionIndex":2,"errorCode":0,"records":null},{"partitionIndex":1,"errorCode":0,"recordsSizeInBytes":70}]}]}"#;
        let request = row(1, request_json, response_json).unwrap().request;
        let seen: Vec<_> = request
            .partitions
            .iter()
            .map(|of| (of.partition, of.fetch_offset, of.bytes, of.error_code))
            .collect();
        assert_eq!(seen, [(0, Some(9), 0, None), (1, Some(8), 70, Some(0)), (2, None, 0, Some(0))]);
        assert_eq!(
            (request.min_bytes, request.max_wait_ms, request.error_code),
            (Some(1), Some(500), Some(0))
        );
    }

    #[test]
    fn request_names_its_only_group_or_transaction() {
        let ids = |api_key, request: &str| {
            let request = row(api_key, request, r#"{"errorCode":3}"#).unwrap().request;
            assert_eq!(request.error_code, Some(3));
            (
                request.group_id.as_deref().map(str::to_owned),
                request.transactional_id.as_deref().map(str::to_owned),
            )
        };
        let group = (Some("g".to_owned()), None);
        let transaction = (None, Some("g".to_owned()));
        assert_eq!(ids(11, r#"{"groupId":"g"}"#), group);
        assert_eq!(ids(10, r#"{"keyType":0,"coordinatorKeys":["g"]}"#), group);
        assert_eq!(ids(10, r#"{"keyType":0,"coordinatorKeys":["g","h"]}"#), (None, None));
        assert_eq!(ids(10, r#"{"key":"g","keyType":1}"#), transaction);
        assert_eq!(ids(9, r#"{"groups":[{"groupId":"g"}]}"#), group);
        assert_eq!(ids(22, r#"{"transactionalId":"g"}"#), transaction);
    }

    #[test]
    fn metadata_response_yields_codes_and_topic_names() {
        let answer = r#"{"throttleTimeMs":4,"errorCode":0,"topics":[{"name":"t","topicId":"due63qYgSzyHFkAqWkWjMg","partitions":[]},{"name":null,"topicId":"x"}]}"#;
        let LogRow { request, topics, .. } = row(3, r#"{"topics":null}"#, answer).unwrap();
        assert_eq!((request.error_code, request.throttle_ms), (Some(0), Some(4)));
        assert_eq!(topics, [(TopicId::parse("due63qYgSzyHFkAqWkWjMg").unwrap(), "t".into())]);
    }

    /// A real log: as many rows as requests, and the topics that responses name.
    #[test]
    fn reads_every_request_of_a_real_log() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/sample-request.log");
        let mut scan = LogScanner::new(Zone::utc(), None, Patterns::default());
        let mut rows = Vec::new();
        let mut take = |item: LogItem<'_>| {
            let LogItem::Request(logged) = item else { return Ok::<_, std::convert::Infallible>(()) };
            rows.push(logged.row(logged.at.unwrap()).unwrap());
            Ok(())
        };
        let Ok(()) = scan.feed(&std::fs::read(path).unwrap(), &mut take);
        let Ok(()) = scan.finish(&mut take);
        assert_eq!((rows.len(), scan.counts().unreadable_requests), (22, 0));
        let offsets = rows.iter().flat_map(|row| &row.request.partitions).filter_map(|of| of.base_offset);
        assert!(offsets.count() > 3);
        assert!(rows.iter().any(|row| row.topics.iter().any(|(_, name)| &**name == "mix")));
        assert!(rows.iter().all(|row| !row.is_tls && row.request.api != "UNKNOWN"));
    }

    #[test]
    fn malformed_or_truncated_lines_yield_no_row() {
        let whole = line(0, PRODUCE, PRODUCED);
        for end in 0..whole.len() {
            assert!(read(&whole.as_bytes()[..end], END, TIMES).is_none(), "{end}");
        }
        for (from, to) in [
            ("\"acks\":-1", "\"acks\":99999"),
            ("\"index\":3", "\"index\":\"3\""),
            ("\"baseOffset\":5", "\"baseOffset\":[]"),
            ("9092-10", "9092+10"),
            ("\"recordsSizeInBytes\":90", "\"recordsSizeInBytes\":-90"),
        ] {
            assert!(whole.contains(from), "{from}");
            assert!(read(whole.replace(from, to).as_bytes(), END, TIMES).is_none(), "{to}");
        }
    }
}
