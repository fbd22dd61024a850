//! Answers of an object store: pages of a list, then pieces of the listed objects.
//!
//! Input: answers, one after the other; each a byte for the status, a byte of length and a value for each of four
//! headers, two bytes of length (little-endian) and the body.

use std::fs::File;

use stores::fuzzing::{Answer, store};
use stores::{Error, Location, Object, ObjectRanges};

use crate::{Target, files};

/// The target. A page is held as text and as objects, and the runtime has its own memory.
pub const TARGET: Target = Target { name: "store", check, spare_bytes: 1 << 20 };

const STATUSES: [u16; 16] = [200, 206, 204, 301, 304, 307, 400, 401, 403, 404, 409, 412, 416, 429, 500, 503];
const HEADERS: [&str; 4] = ["content-range", "etag", "last-modified", "content-length"];
/// Number of objects fetched, and bytes of each.
const FETCHED: usize = 4;
const MAX_FETCHED_BYTES: u64 = 64;

fn check(mut data: &[u8]) {
    let below = Location::parse("s3://bucket/a").expect("it is a location");
    let answers = std::iter::from_fn(|| answer(&mut data));
    let store = store(&below, answers).expect("a runtime can be made");
    let mut objects: Vec<Object> = Vec::new();
    let listed = store.each(&below, &mut |object| objects.push(object));
    match listed {
        Ok(listed) => assert_eq!(listed, objects.len() as u64),
        Err(error) => check_line(&error),
    }
    assert!(objects.iter().all(|object| object.key.len() <= 1024), "a key is too long");
    let directory = files::directory();
    for object in objects.iter().filter(|object| object.bytes > 0).take(FETCHED) {
        let range = 0..object.bytes.min(MAX_FETCHED_BYTES);
        let to = File::create(directory.path().join("object")).expect("a file can be made");
        let fetched = store.fetch(&[ObjectRanges { object, ranges: vec![range.clone()], to: &to }]);
        let bytes = to.metadata().expect("it is open").len();
        match fetched {
            Ok(()) => assert_eq!(bytes, range.end),
            Err(error) => {
                assert!(bytes <= range.end, "{bytes} bytes of {}", range.end);
                check_line(&error);
            }
        }
    }
}

fn answer(data: &mut &[u8]) -> Option<Answer> {
    let status = STATUSES[usize::from(take(data, 1)?[0]) % STATUSES.len()];
    let mut headers = Vec::new();
    for name in HEADERS {
        let length = take(data, 1)?[0];
        match take(data, length.into())? {
            [] => {}
            value => headers.push((name, value.to_vec())),
        }
    }
    let length = take(data, 2)?;
    let body = take(data, u16::from_le_bytes([length[0], length[1]]).into())?.to_vec();
    Some(Answer { status, headers, body })
}

fn take<'d>(data: &mut &'d [u8], length: usize) -> Option<&'d [u8]> {
    let (taken, rest) = data.split_at_checked(length)?;
    *data = rest;
    Some(taken)
}

fn check_line(error: &Error) {
    let line = error.to_string();
    assert!(!line.contains('\n') && line.len() <= 2048, "{line:?}");
}
