//! Doors for the fuzz target of rows. Nothing in them is for users. Fuzzed by: rows.

use model::{Partition, Request};

use super::transfer::{Transfer as _, take_request};

/// Reads requests; whether each is what it is written as.
pub fn requests(mut bytes: &[u8]) -> bool {
    let requests = std::iter::from_fn(|| take_request(&mut bytes));
    requests.into_iter().all(|request| {
        let mut written = Vec::new();
        request.put(&mut written);
        take_request(&mut written.as_slice()) == Some(request)
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
