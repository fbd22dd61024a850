//! `requests/`: requests with their responses; partitions and record batches nested inside.

use std::ops::Range;

use model::{Batch, Event, Nanos, Partition, Request};

use crate::address::Address;
use crate::cells::BadRow;
use crate::columns::{Derived, I8, I16, I32, I64, Maybe, Name, Rows, Text, U32, Words, columns};
use crate::table::{Decode, Encode};
use crate::text::{ApiName, TextPool};
use crate::topic_id::Id;

/// A list that claims to be longer than this gets room as it is read.
const MOST_AT_ONCE: usize = 1_024;

columns! {
    Requests, RequestCells {
        arrival_ns: I64,
        arrival_end_ns: I64,
        response_ns: Maybe<I64>,
        end_ns: Maybe<I64>,
        latency_ns: Derived<Maybe<I64>>,
        head_of_line_ns: Maybe<I64>,
        data_ns: Maybe<I64>,
        api: Name<ApiName>,
        api_key: I16,
        api_version: I16,
        correlation_id: I32,
        client_id: Maybe<Text>,
        client: Address,
        broker: Address,
        request_bytes: U32,
        response_bytes: Maybe<U32>,
        sequence: Maybe<U32>,
        response_sequence: Maybe<U32>,
        acks: Maybe<I16>,
        transactional_id: Maybe<Text>,
        group_id: Maybe<Text>,
        min_bytes: Maybe<I32>,
        max_wait_ms: Maybe<I32>,
        throttle_ms: Maybe<I32>,
        error_code: Maybe<I16>,
        error: Maybe<Text>,
        partitions: Rows<Partitions>,
    }
}

columns! {
    Partitions, PartitionCells {
        topic: Maybe<Text>,
        topic_id: Maybe<Id>,
        partition: I32,
        bytes: U32,
        records: Maybe<U32>,
        batch_crc: Derived<Maybe<U32>>,
        fetch_offset: Maybe<I64>,
        base_offset: Maybe<I64>,
        error_code: Maybe<I16>,
        newest_record_ns: Maybe<I64>,
        message_ids: Words,
        batches: Rows<Batches>,
    }
}

columns! {
    Batches, BatchCells {
        magic: I8,
        crc: U32,
        bytes: U32,
        records: U32,
        producer_id: I64,
        base_sequence: I32,
    }
}

impl Encode for Requests {
    type Row = Request;

    fn append(&mut self, request: &Request) {
        self.append_times(request);
        self.api.append_value(request.api);
        self.api_key.append_value(request.api_key);
        self.api_version.append_value(request.api_version);
        self.correlation_id.append_value(request.correlation_id);
        self.client_id.append_option(request.client_id.as_deref());
        self.client.append(request.client);
        self.broker.append(request.broker);
        self.request_bytes.append_value(request.request_bytes);
        self.response_bytes.append_option(request.response_bytes);
        self.sequence.append_option(request.sequence);
        self.response_sequence.append_option(request.response_sequence);
        self.acks.append_option(request.acks);
        self.transactional_id.append_option(request.transactional_id.as_deref());
        self.group_id.append_option(request.group_id.as_deref());
        self.min_bytes.append_option(request.min_bytes);
        self.max_wait_ms.append_option(request.max_wait_ms);
        self.throttle_ms.append_option(request.throttle_ms);
        self.error_code.append_option(request.error_code);
        self.error.append_option(request.error.as_deref());
        for partition in &request.partitions {
            self.partitions.rows.append(partition);
        }
        self.partitions.end_list(request.partitions.len());
    }

    fn weight(request: &Request) -> usize {
        let text = |text: &Option<_>| text.as_ref().map_or(0, |text: &std::sync::Arc<str>| text.len());
        let own =
            [&request.client_id, &request.transactional_id, &request.group_id, &request.error].map(text);
        let own: usize = own.iter().sum();
        250 + own + request.partitions.iter().map(partition_weight).sum::<usize>()
    }
}

fn partition_weight(partition: &Partition) -> usize {
    let ids: usize = partition.message_ids.iter().map(|id| 4 + id.len()).sum();
    let topic = partition.topic.as_ref().map_or(0, |topic| topic.len());
    113 + topic + ids + 32 * partition.batches.len()
}

impl Requests {
    fn append_times(&mut self, request: &Request) {
        self.arrival_ns.append_value(request.arrival.0);
        self.arrival_end_ns.append_value(request.arrival_end.0);
        self.response_ns.append_option(request.response.map(|at| at.0));
        self.end_ns.append_option(request.end.map(|at| at.0));
        self.latency_ns.append_option(request.latency().map(|length| length.0));
        self.head_of_line_ns.append_option(request.head_of_line.map(|length| length.0));
        self.data_ns.append_option(request.data.map(|at| at.0));
    }
}

impl Partitions {
    fn append(&mut self, partition: &Partition) {
        self.topic.append_option(partition.topic.as_deref());
        self.topic_id.append_option(partition.topic_id);
        self.partition.append_value(partition.partition);
        self.bytes.append_value(partition.bytes);
        self.records.append_option(partition.records);
        self.batch_crc.append_option(partition.batches.first().map(|batch| batch.crc));
        self.fetch_offset.append_option(partition.fetch_offset);
        self.base_offset.append_option(partition.base_offset);
        self.error_code.append_option(partition.error_code);
        self.newest_record_ns.append_option(partition.newest_record.map(|at| at.0));
        for id in &partition.message_ids {
            self.message_ids.values().append_value(id);
        }
        self.message_ids.append(true);
        for batch in &partition.batches {
            self.batches.rows.append(batch);
        }
        self.batches.end_list(partition.batches.len());
    }
}

impl Batches {
    fn append(&mut self, batch: &Batch) {
        self.magic.append_value(batch.magic);
        self.crc.append_value(batch.crc);
        self.bytes.append_value(batch.bytes);
        self.records.append_value(batch.records);
        self.producer_id.append_value(batch.producer_id);
        self.base_sequence.append_value(batch.base_sequence);
    }
}

impl Decode for RequestCells {
    fn event(&self, i: usize, pool: &mut TextPool) -> Result<Event, BadRow> {
        let partitions = self.partitions.range(i)?;
        Ok(Event::Request(Box::new(Request {
            arrival: Nanos(self.arrival_ns.at(i)?),
            arrival_end: Nanos(self.arrival_end_ns.at(i)?),
            response: self.response_ns.maybe(i).map(Nanos),
            end: self.end_ns.maybe(i).map(Nanos),
            head_of_line: self.head_of_line_ns.maybe(i).map(Nanos),
            data: self.data_ns.maybe(i).map(Nanos),
            api_key: self.api_key.at(i)?,
            api: self.api.at(i)?.0,
            api_version: self.api_version.at(i)?,
            correlation_id: self.correlation_id.at(i)?,
            client_id: self.client_id.maybe(i, pool),
            client: self.client.at(i)?,
            broker: self.broker.at(i)?,
            request_bytes: self.request_bytes.at(i)?,
            response_bytes: self.response_bytes.maybe(i),
            sequence: self.sequence.maybe(i),
            response_sequence: self.response_sequence.maybe(i),
            acks: self.acks.maybe(i),
            transactional_id: self.transactional_id.maybe(i, pool),
            group_id: self.group_id.maybe(i, pool),
            min_bytes: self.min_bytes.maybe(i),
            max_wait_ms: self.max_wait_ms.maybe(i),
            throttle_ms: self.throttle_ms.maybe(i),
            error_code: self.error_code.maybe(i),
            error: self.error.maybe(i, pool),
            partitions: all(partitions, |p| self.partitions.rows.read(p, pool))?,
        })))
    }
}

/// Rows of a list, in a vector that has room for them and no more.
fn all<T>(rows: Range<usize>, mut read: impl FnMut(usize) -> Result<T, BadRow>) -> Result<Vec<T>, BadRow> {
    let mut all = Vec::with_capacity(rows.len().min(MOST_AT_ONCE));
    for row in rows {
        all.push(read(row)?);
    }
    Ok(all)
}

impl PartitionCells {
    fn read(&self, i: usize, pool: &mut TextPool) -> Result<Partition, BadRow> {
        Ok(Partition {
            topic: self.topic.maybe(i, pool),
            topic_id: self.topic_id.maybe(i)?,
            partition: self.partition.at(i)?,
            bytes: self.bytes.at(i)?,
            records: self.records.maybe(i),
            batches: all(self.batches.range(i)?, |b| self.batches.rows.read(b))?,
            fetch_offset: self.fetch_offset.maybe(i),
            base_offset: self.base_offset.maybe(i),
            error_code: self.error_code.maybe(i),
            newest_record: self.newest_record_ns.maybe(i).map(Nanos),
            message_ids: self.message_ids.words(i)?,
        })
    }
}

impl BatchCells {
    fn read(&self, i: usize) -> Result<Batch, BadRow> {
        Ok(Batch {
            magic: self.magic.at(i)?,
            crc: self.crc.at(i)?,
            bytes: self.bytes.at(i)?,
            records: self.records.at(i)?,
            producer_id: self.producer_id.at(i)?,
            base_sequence: self.base_sequence.at(i)?,
        })
    }
}
