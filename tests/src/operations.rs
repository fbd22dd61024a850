//! File operations of a recording, from `brokerscope io`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use serde_json::Value;

use crate::brokerscope::run;

/// A file operation from `io --format json`.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Entry, UTC nanoseconds.
    pub start_ns: i64,
    /// Return, UTC nanoseconds.
    pub end_ns: i64,
    /// The difference.
    pub latency_ns: i64,
    /// The operation.
    pub op: String,
    /// The thread.
    pub tid: u64,
    /// Bytes moved.
    pub bytes: Option<i64>,
    /// The error of a call that failed.
    pub errno: Option<String>,
    /// Bytes read from the device.
    pub disk_bytes: Option<i64>,
    /// Its offset in the file.
    pub offset: u64,
    /// The file.
    pub file: String,
    /// The new name after a rename.
    pub renamed_to: Option<String>,
    /// Reasons for its time, in nanoseconds.
    pub reasons: BTreeMap<String, i64>,
}

impl Operation {
    fn read(object: &Value) -> Self {
        let text = |field: &str| object[field].as_str().map(str::to_owned);
        let number = |field: &str| object[field].as_i64();
        let reasons = object["reasons"].as_object().unwrap();
        Self {
            start_ns: number("start_ns").unwrap(),
            end_ns: number("end_ns").unwrap(),
            latency_ns: number("latency_ns").unwrap(),
            op: text("op").unwrap(),
            tid: object["tid"].as_u64().unwrap(),
            bytes: number("bytes"),
            errno: text("errno"),
            disk_bytes: number("disk_bytes"),
            offset: object["offset"].as_u64().unwrap(),
            file: text("file").unwrap(),
            renamed_to: text("renamed_to"),
            reasons: reasons.iter().map(|(name, time)| (name.clone(), time.as_i64().unwrap())).collect(),
        }
    }

    /// The reason for most of its time, with nanoseconds.
    pub fn main_reason(&self) -> (&str, i64) {
        let longest = self.reasons.iter().max_by_key(|(_, time)| **time);
        longest.map_or(("none", 0), |(name, time)| (name.as_str(), *time))
    }
}

/// Every operation in a recording on files of one device, by start time.
///
/// # Panics
/// If `io` fails or prints something else.
pub fn operations(recording: &Path, device: &str) -> Vec<Operation> {
    let slower = ["--slower-than", "0", "--format", "json"].map(OsStr::new);
    let arguments = ["io".as_ref(), "--from".as_ref(), recording.as_os_str()];
    let output = run(arguments.into_iter().chain(slower)).done().stdout;
    let objects = output.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_device = objects.filter(|object| object["type"] == "file-op" && object["device"] == device);
    let mut operations: Vec<Operation> = of_device.map(|object| Operation::read(&object)).collect();
    operations.sort_by_key(|operation| operation.start_ns);
    operations
}
