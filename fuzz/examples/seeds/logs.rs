//! Lines of brokers' logs in several layouts, with a user's patterns and without. Does not read them.

#[path = "../../../crates/broker/src/server_log/tests/kafka_lines.rs"]
#[allow(dead_code, reason = "what a line tells is for the tests of `broker`")]
mod kafka_lines;

const PATTERNS: &[u8] = b"n ms in (?<value>[\\d.]+) ?ms\nt - (?<partition>\\S+-\\d+)\n";
const REQUEST: &str = r#"Completed request:{"requestHeader":{"requestApiKey":0,"correlationId":7,"requestApiKeyName":"PRODUCE"},"connection":"127.0.0.1:9092-10.0.0.7:60670-0-1","totalTimeMs":6.25,"requestQueueTimeMs":0.5,"localTimeMs":4.0,"remoteTimeMs":0.125,"throttleTimeMs":0,"responseQueueTimeMs":0.625,"sendTimeMs":1.0}"#;
const PRODUCED: &str = r#"Completed request:{"isForwarded":false,"requestHeader":{"requestApiKey":0,"requestApiVersion":13,"correlationId":8,"clientId":"a","requestApiKeyName":"PRODUCE"},"request":{"transactionalId":null,"acks":-1,"timeoutMs":30000,"topicData":[{"topicId":"due63qYgSzyHFkAqWkWjMg","partitionData":[{"index":3,"recordsSizeInBytes":90}]}]},"response":{"responses":[{"topicId":"due63qYgSzyHFkAqWkWjMg","partitionResponses":[{"index":3,"errorCode":0,"baseOffset":5}]}],"throttleTimeMs":0},"connection":"127.0.0.1:9092-10.0.0.7:60670-0-1","totalTimeMs":6.25,"requestQueueTimeMs":0.5,"localTimeMs":4.0,"remoteTimeMs":0.125,"throttleTimeMs":0,"responseQueueTimeMs":0.625,"sendTimeMs":1.0,"securityProtocol":"SSL"}"#;
const FETCHED: &str = r#"Completed request:{"requestHeader":{"requestApiKey":1,"requestApiVersion":12,"correlationId":9,"clientId":null,"requestApiKeyName":"FETCH"},"request":{"maxWaitMs":500,"minBytes":1,"topics":[{"topic":"t","partitions":[{"partition":0,"fetchOffset":9}]}]},"response":{"throttleTimeMs":0,"errorCode":0,"responses":[{"topic":"t","partitions":[{"partitionIndex":0,"errorCode":0,"recordsSizeInBytes":70}]}]},"connection":"127.0.0.1:9092-10.0.0.7:60670-0-1","totalTimeMs":6.25,"requestQueueTimeMs":0.5,"localTimeMs":4.0,"remoteTimeMs":0.125,"throttleTimeMs":0,"responseQueueTimeMs":0.625,"sendTimeMs":1.0,"securityProtocol":"PLAINTEXT"}"#;
const GC: &str =
    "[2024-05-19T15:04:47.458+0000][info][gc] GC(12) Pause Young (Normal) (G1) 123M->45M(512M) 12.345ms\n";

/// Inputs of the target `log`: every third line, in each layout in turn.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let texts = kafka_lines::LINES.iter().step_by(3).map(|line| line.text);
    let lines = texts.enumerate().map(|(nth, text)| match nth % 4 {
        0 => format!("[2024-05-19 15:04:47,458] INFO {text} (kafka.log.Log)\n"),
        1 => format!("15:04:47.458 [main] WARN  kafka.log.Log - {text}\n"),
        2 => format!(
            "{{\"@timestamp\":\"2024-05-19T15:04:47.458Z\",\"level\":\"INFO\",\"message\":\"{text}\"}}\n"
        ),
        _ => {
            format!("2024-05-19T15:04:47.47Z stdout F \x1b[32m[2024-05-19 17:04:47,458]\x1b[0m INFO {text}\n")
        }
    });
    let requests = [REQUEST, PRODUCED, FETCHED]
        .map(|request| format!("[2024-05-19 15:04:47,458] DEBUG {request} (kafka.request.logger)\n"));
    let lines: Vec<String> = lines.chain(requests).chain([GC.to_owned()]).collect();
    let with = |patterns: &[u8], log: &str| [&[3, patterns.len() as u8], patterns, log.as_bytes()].concat();
    lines
        .chunks(2)
        .enumerate()
        .map(|(nth, two)| with(if nth == 0 { PATTERNS } else { b"" }, &two.concat()))
        .collect()
}
