//! File operations as JSON lines, with the field names of the command line's contract.

use std::collections::BTreeMap;
use std::io::{self, Write};

use model::Waker;
use serde::Serialize;

use super::{FileOpReport, FileOpRow};
use crate::{errno, json};

/// File operations as JSON lines.
pub struct FileOpJson<W>(pub W);

/// One operation; times are UTC nanoseconds.
#[derive(Serialize)]
#[serde(tag = "type", rename = "file-op")]
struct FileOpView<'a> {
    start_ns: i64,
    end_ns: i64,
    latency_ns: i64,
    op: &'a str,
    pid: u32,
    tid: u32,
    thread: &'a str,
    bytes: Option<u64>,
    offset: u64,
    file: &'a str,
    topic: Option<&'a str>,
    partition: Option<i32>,
    kind: &'a str,
    device: String,
    inode: u64,
    fs: &'a str,
    reasons: BTreeMap<&'a str, i64>,
    batch_crc: Option<u32>,
    base_offset: Option<i64>,
    records: Option<u32>,
    journal_transaction: Option<u32>,
    message_ids: Vec<&'a str>,
    errno: Option<String>,
    disk_bytes: Option<u64>,
    readahead_bytes: Option<u64>,
    renamed_to: Option<&'a str>,
    functions: BTreeMap<&'a str, &'a str>,
    held_up_by: Option<HeldUpBy<'a>>,
}

/// The thread whose doing ended the longest reason.
#[derive(Serialize)]
struct HeldUpBy<'a> {
    tid: u32,
    thread: &'a str,
    stack: &'a str,
}

impl<'a> From<&'a Waker> for HeldUpBy<'a> {
    fn from(waker: &'a Waker) -> Self {
        Self { tid: waker.tid, thread: &waker.thread, stack: &waker.stack }
    }
}

impl<'a> From<&FileOpRow<'a>> for FileOpView<'a> {
    fn from(row: &FileOpRow<'a>) -> Self {
        let op = row.op;
        let functions =
            row.reasons.iter().filter_map(|reason| Some((reason.name, reason.function.as_deref()?)));
        Self {
            start_ns: op.start.0,
            end_ns: op.end.0,
            latency_ns: op.latency().0,
            op: op.op.as_str(),
            pid: op.pid,
            tid: op.tid,
            thread: &op.thread,
            bytes: op.bytes,
            offset: op.offset,
            file: &op.file,
            topic: op.topic_partition.as_ref().map(|of| of.topic.as_ref()),
            partition: op.topic_partition.as_ref().map(|of| of.partition),
            kind: op.kind.as_str(),
            device: op.device.to_string(),
            inode: op.inode,
            fs: &op.fs,
            reasons: row.reasons.iter().map(|reason| (reason.name, reason.time.0)).collect(),
            batch_crc: op.batch.map(|batch| batch.crc),
            base_offset: op.batch.map(|batch| batch.base_offset),
            records: op.batch.map(|batch| batch.records),
            journal_transaction: op.journal_transaction,
            message_ids: row.message_ids.iter().map(AsRef::as_ref).collect(),
            errno: op.errno.map(errno::name),
            disk_bytes: op.disk_bytes,
            readahead_bytes: op.readahead_bytes,
            renamed_to: op.renamed_to.as_deref(),
            functions: functions.collect(),
            held_up_by: row.reasons.first().and_then(|reason| reason.woken_by.as_ref()).map(HeldUpBy::from),
        }
    }
}

/// One operation as a value within another object.
pub(crate) fn value(row: &FileOpRow<'_>) -> serde_json::Value {
    serde_json::to_value(FileOpView::from(row)).unwrap_or_default()
}

impl<W: Write> FileOpReport for FileOpJson<W> {
    fn file_op(&mut self, row: &FileOpRow<'_>) -> io::Result<()> {
        json::write_line(&mut self.0, &FileOpView::from(row))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
