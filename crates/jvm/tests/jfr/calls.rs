//! Calls of request handlers among calls of other methods.

use jvm::jfr::JfrEvent;

use crate::{samples, writer};

#[test]
fn reports_request_handler_calls_but_no_other_methods() {
    let (all, summary, read) = samples::read(&writer::recording()[..]);
    read.unwrap();
    assert_eq!((summary.damaged, summary.events), (0, 9));
    let calls = all.iter().filter(|observed| matches!(observed, JfrEvent::HandlerCall(_)));
    let lines = samples::lines(&calls.cloned().collect::<Vec<_>>());
    assert_eq!(
        lines,
        "1700000000000000900 3000 kafka.server.KafkaApis.handle by 41 data-plane-kafka-request-handler-0\n"
    );
}
