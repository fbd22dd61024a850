//! Asks a broker for its settings, against another implementation of the protocol.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{DescribeConfigsRequest, RequestHeader};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use wire::describe_configs::{self, Source, VERSION, broker_request};

fn text(text: &'static str) -> StrBytes {
    StrBytes::from_static_str(text)
}

fn config(name: &'static str, value: Option<&'static str>, source: i8) -> DescribeConfigsResourceResult {
    let synonym = DescribeConfigsSynonym::default().with_name(text("log.dir")).with_value(Some(text("/x")));
    DescribeConfigsResourceResult::default()
        .with_name(text(name))
        .with_value(value.map(text))
        .with_config_source(source)
        .with_synonyms(vec![synonym.clone(), synonym])
}

#[test]
fn another_implementation_reads_the_request() {
    let frame = broker_request(3, 9, "brokerscope");
    assert_eq!(frame[..4], ((frame.len() - 4) as u32).to_be_bytes());
    let mut rest = &frame[4..];
    let header = RequestHeader::decode(&mut rest, 1).unwrap();
    assert_eq!((header.request_api_key, header.request_api_version, header.correlation_id), (32, VERSION, 9));
    assert_eq!(header.client_id.as_deref(), Some("brokerscope"));
    let request = DescribeConfigsRequest::decode(&mut rest, VERSION).unwrap();
    assert!(rest.is_empty() && !request.include_synonyms);
    let [resource] = &request.resources[..] else { panic!("{request:?}") };
    assert_eq!((resource.resource_type, &*resource.resource_name), (4, "3"));
    assert_eq!(resource.configuration_keys, None);
}

#[test]
fn reads_the_answer_of_another_implementation() {
    let configs = vec![config("num.io.threads", Some("16"), 2), config("log.dirs", None, 5)];
    let result = DescribeConfigsResult::default()
        .with_error_code(29)
        .with_error_message(Some(text("no")))
        .with_resource_type(4)
        .with_resource_name(text("3"))
        .with_configs(configs);
    let response = DescribeConfigsResponse::default().with_throttle_time_ms(5).with_results(vec![result]);
    let mut body = Vec::new();
    response.encode(&mut body, VERSION).unwrap();
    let read = describe_configs::DescribeConfigsResponse::parse(&body).unwrap();
    assert_eq!((read.error_code, read.error_message), (29, Some("no")));
    let configs: Vec<_> = read.configs().map(|config| (config.name, config.value, config.source)).collect();
    assert_eq!(
        configs,
        [("num.io.threads", Some("16"), Source::Dynamic), ("log.dirs", None, Source::Default)]
    );
    for end in 0..body.len() {
        assert!(describe_configs::DescribeConfigsResponse::parse(&body[..end]).is_err(), "{end} bytes");
    }
}
