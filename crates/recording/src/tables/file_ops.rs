//! `file_ops/`: the broker's operations on files, with the record batch that was written.

use model::{BatchHead, Event, FileKind, FileOp, FileOpKind, Nanos, TopicPartition};

use super::device;
use crate::cells::BadRow;
use crate::columns::{Derived, I8, I32, I64, Maybe, Name, Text, U32, U64, columns};
use crate::table::{Decode, Encode};
use crate::text::TextPool;

columns! {
    FileOps, FileOpCells {
        start_ns: I64,
        end_ns: I64,
        latency_ns: Derived<I64>,
        op: Name<FileOpKind>,
        pid: U32,
        tid: U32,
        thread: Text,
        bytes: Maybe<U64>,
        errno: Maybe<I32>,
        disk_bytes: Maybe<U64>,
        readahead_bytes: Maybe<U64>,
        offset: U64,
        file: Text,
        renamed_to: Maybe<Text>,
        topic: Maybe<Text>,
        partition: Maybe<I32>,
        kind: Name<FileKind>,
        device: Maybe<Text>,
        device_major: U32,
        device_minor: U32,
        inode: U64,
        fs: Text,
        base_offset: Maybe<I64>,
        batch_bytes: Maybe<U32>,
        batch_magic: Maybe<I8>,
        batch_crc: Maybe<U32>,
        producer_id: Maybe<I64>,
        base_sequence: Maybe<I32>,
        records: Maybe<U32>,
        journal_transaction: Maybe<U32>,
    }
}

impl Encode for FileOps {
    type Row = FileOp;

    fn append(&mut self, op: &FileOp) {
        self.start_ns.append_value(op.start.0);
        self.end_ns.append_value(op.end.0);
        self.latency_ns.append_value(op.latency().0);
        self.op.append_value(op.op.as_str());
        self.pid.append_value(op.pid);
        self.tid.append_value(op.tid);
        self.thread.append_value(&op.thread);
        self.bytes.append_option(op.bytes);
        self.errno.append_option(op.errno);
        self.disk_bytes.append_option(op.disk_bytes);
        self.readahead_bytes.append_option(op.readahead_bytes);
        self.offset.append_value(op.offset);
        self.file.append_value(&op.file);
        self.renamed_to.append_option(op.renamed_to.as_deref());
        self.topic.append_option(op.topic_partition.as_ref().map(|tp| &*tp.topic));
        self.partition.append_option(op.topic_partition.as_ref().map(|tp| tp.partition));
        self.kind.append_value(op.kind.as_str());
        device::append(&op.device, &mut self.device, &mut self.device_major, &mut self.device_minor);
        self.inode.append_value(op.inode);
        self.fs.append_value(&op.fs);
        self.append_batch(op.batch.as_ref());
        self.journal_transaction.append_option(op.journal_transaction);
    }

    fn weight(op: &FileOp) -> usize {
        let topic = op.topic_partition.as_ref().map_or(0, |tp| tp.topic.len());
        224 + op.thread.len() + op.file.len() + topic
    }
}

impl FileOps {
    fn append_batch(&mut self, batch: Option<&BatchHead>) {
        self.base_offset.append_option(batch.map(|b| b.base_offset));
        self.batch_bytes.append_option(batch.map(|b| b.bytes));
        self.batch_magic.append_option(batch.map(|b| b.magic));
        self.batch_crc.append_option(batch.map(|b| b.crc));
        self.producer_id.append_option(batch.map(|b| b.producer_id));
        self.base_sequence.append_option(batch.map(|b| b.base_sequence));
        self.records.append_option(batch.map(|b| b.records));
    }
}

impl FileOpCells {
    /// The batch's columns are all there or none of them are.
    fn batch(&self, i: usize) -> Result<Option<BatchHead>, BadRow> {
        let Some(crc) = self.batch_crc.maybe(i) else { return Ok(None) };
        Ok(Some(BatchHead {
            base_offset: self.base_offset.at(i)?,
            bytes: self.batch_bytes.at(i)?,
            magic: self.batch_magic.at(i)?,
            crc,
            producer_id: self.producer_id.at(i)?,
            base_sequence: self.base_sequence.at(i)?,
            records: self.records.at(i)?,
        }))
    }

    fn topic_partition(&self, i: usize, pool: &mut TextPool) -> Result<Option<TopicPartition>, BadRow> {
        let Some(topic) = self.topic.maybe(i, pool) else { return Ok(None) };
        Ok(Some(TopicPartition { topic, partition: self.partition.at(i)? }))
    }
}

impl Decode for FileOpCells {
    fn event(&self, i: usize, pool: &mut TextPool) -> Result<Event, BadRow> {
        Ok(Event::FileOp(Box::new(FileOp {
            start: Nanos(self.start_ns.at(i)?),
            end: Nanos(self.end_ns.at(i)?),
            op: self.op.at(i)?,
            pid: self.pid.at(i)?,
            tid: self.tid.at(i)?,
            thread: self.thread.at(i, pool)?,
            bytes: self.bytes.maybe(i),
            errno: self.errno.maybe(i),
            disk_bytes: self.disk_bytes.maybe(i),
            readahead_bytes: self.readahead_bytes.maybe(i),
            offset: self.offset.at(i)?,
            file: self.file.at(i, pool)?,
            renamed_to: self.renamed_to.maybe(i, pool),
            topic_partition: self.topic_partition(i, pool)?,
            kind: self.kind.at(i)?,
            device: device::read(i, &self.device, &self.device_major, &self.device_minor, pool)?,
            inode: self.inode.at(i)?,
            fs: self.fs.at(i, pool)?,
            batch: self.batch(i)?,
            journal_transaction: self.journal_transaction.maybe(i),
        })))
    }
}
