//! The contents of a recording, as the tests need them. From `brokerscope explain` and `io`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use serde_json::Value;

use crate::brokerscope::run;

/// A recording, read back.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Every request with a verdict, however fast.
    pub requests: Vec<Value>,
    /// The summary of `explain`.
    pub summary: Value,
    /// Every file operation, however fast.
    pub file_ops: Vec<Value>,
}

/// An append: topic, partition, base offset.
pub type Append = (String, i64, i64);

impl Recording {
    /// Reads a recording with the binary.
    ///
    /// # Panics
    /// If it does not end with status 0.
    pub fn read(directory: &Path) -> Self {
        let slower = ["--slower-than", "0ms", "--format", "json"].map(OsStr::new);
        let explain = ["explain".as_ref(), directory.as_os_str()].into_iter().chain(slower);
        let (verdicts, summary) = run(explain).done().objects();
        let requests = verdicts.into_iter().map(|mut verdict| verdict["request"].take()).collect();
        let io = ["io".as_ref(), "--from".as_ref(), directory.as_os_str()].into_iter().chain(slower);
        let operations = run(io).done().stdout;
        let operations = operations.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let file_ops = operations.filter(|object| object["type"] == "file-op").collect();
        Self { requests, summary, file_ops }
    }

    /// The appends among the file operations.
    pub fn appends(&self) -> BTreeSet<Append> {
        let appends = self.file_ops.iter().filter(|op| op["kind"] == "log");
        appends.filter_map(|op| append(&op["topic"], &op["partition"], &op["base_offset"])).collect()
    }
}

/// The appends in the response of a row of `requests`.
pub fn appends_of(row: &Value) -> impl Iterator<Item = Append> {
    let written = row["partitions"].as_array().into_iter().flatten().filter(|p| p["error_code"] == 0);
    written.filter_map(|p| append(&p["topic"], &p["partition"], &p["base_offset"]))
}

fn append(topic: &Value, partition: &Value, base_offset: &Value) -> Option<Append> {
    Some((topic.as_str()?.to_owned(), partition.as_i64()?, base_offset.as_i64()?))
}
