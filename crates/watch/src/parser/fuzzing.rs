//! Doors for the fuzz target of rows. Nothing in them is for users. Fuzzed by: rows.

use jvm::jfr::JfrEvent;
use model::{Partition, Request};

use super::transfer::{Transfer, take_request};

/// Reads requests; whether each is what it is written as.
pub fn requests(bytes: &[u8]) -> bool {
    come_back(bytes, |bytes| take_request(bytes).map(|request| *request))
}

/// The same of what Flight Recorder's parser says.
pub fn flight_events(bytes: &[u8]) -> bool {
    come_back(bytes, JfrEvent::take)
}

fn come_back<T: Transfer + PartialEq>(mut bytes: &[u8], take: impl Fn(&mut &[u8]) -> Option<T>) -> bool {
    let rows = std::iter::from_fn(|| take(&mut bytes));
    rows.into_iter().all(|row| {
        let mut written = Vec::new();
        row.put(&mut written);
        take(&mut written.as_slice()) == Some(row)
    })
}

/// The bytes of a request of two partitions.
pub fn request() -> Vec<u8> {
    let mut request = Request::new(([10, 0, 0, 7], 41_234).into(), ([10, 0, 0, 1], 9_092).into());
    request.client_id = Some("client".into());
    request.partitions = vec![Partition { topic: Some("orders".into()), ..Partition::default() }; 2];
    let mut bytes = Vec::new();
    request.put(&mut bytes);
    bytes
}
