//! Requests of transactional producers: `InitProducerId`, `AddPartitionsToTxn`, `EndTxn`. Does not read the answers.
//!
//! `InitProducerIdRequest.json`, `AddPartitionsToTxnRequest.json` and `EndTxnRequest.json` of Apache Kafka 4.1.

use crate::api::check_version;
use crate::reader::Reader;
use crate::{ApiKey, Error};

/// `InitProducerId`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitProducerIdRequest<'a> {
    /// The transaction's id; none for a producer that is only idempotent.
    pub transactional_id: Option<&'a str>,
    /// After how long the broker gives the transaction up, in milliseconds.
    pub transaction_timeout_ms: i32,
    /// The producer's id so far, or -1 (version 3 and later).
    pub producer_id: i64,
}

impl<'a> InitProducerIdRequest<'a> {
    /// Reads and checks a whole body of that version.
    ///
    /// # Errors
    /// `UnsupportedVersion` outside 0 to 6, and whatever is wrong with the body.
    pub fn parse(body: &'a [u8], version: i16) -> Result<Self, Error> {
        let flexible = check_version(ApiKey::INIT_PRODUCER_ID, version)?;
        let mut reader = Reader::new(body);
        let transactional_id = reader.nullable_string(flexible)?;
        let transaction_timeout_ms = reader.i32()?;
        let producer_id = if version >= 3 { reader.i64()? } else { -1 };
        if version >= 3 {
            reader.i16()?; // producer epoch
        }
        if version >= 6 {
            reader.take(2)?; // two-phase commit, keep a prepared transaction (KIP-939)
        }
        reader.tagged_fields(flexible)?;
        reader.finish()?;
        Ok(Self { transactional_id, transaction_timeout_ms, producer_id })
    }
}

/// `EndTxn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTxnRequest<'a> {
    /// The transaction's id.
    pub transactional_id: &'a str,
    /// The producer's id.
    pub producer_id: i64,
    /// Whether it is committed, not aborted.
    pub committed: bool,
}

impl<'a> EndTxnRequest<'a> {
    /// Reads and checks a whole body of that version.
    ///
    /// # Errors
    /// `UnsupportedVersion` outside 0 to 5, and whatever is wrong with the body.
    pub fn parse(body: &'a [u8], version: i16) -> Result<Self, Error> {
        let flexible = check_version(ApiKey::END_TXN, version)?;
        let mut reader = Reader::new(body);
        let transactional_id = reader.string(flexible)?;
        let producer_id = reader.i64()?;
        reader.i16()?; // producer epoch
        let committed = reader.i8()? != 0;
        reader.tagged_fields(flexible)?;
        reader.finish()?;
        Ok(Self { transactional_id, producer_id, committed })
    }
}

/// `AddPartitionsToTxn`.
#[derive(Clone, Debug)]
pub struct AddPartitionsToTxnRequest<'a> {
    transactions: Transactions<'a>,
}

/// A transaction of an [`AddPartitionsToTxnRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction<'a> {
    /// Its id.
    pub transactional_id: &'a str,
    /// The producer's id.
    pub producer_id: i64,
    /// The number of partitions named, over all topics.
    pub partitions: u32,
}

impl<'a> AddPartitionsToTxnRequest<'a> {
    /// Reads and checks a whole body of that version.
    ///
    /// # Errors
    /// `UnsupportedVersion` outside 0 to 5, and whatever is wrong with the body.
    pub fn parse(body: &'a [u8], version: i16) -> Result<Self, Error> {
        let flexible = check_version(ApiKey::ADD_PARTITIONS_TO_TXN, version)?;
        let mut reader = Reader::new(body);
        // Brokers verify several at once from version 4 on (KIP-890); a client has one.
        let is_batch = version >= 4;
        let left = if is_batch { reader.array_length(flexible)? } else { 1 };
        let transactions = Transactions { reader, flexible, is_batch, left };
        let mut walk = transactions.clone();
        while walk.read_next()?.is_some() {}
        let mut reader = walk.reader;
        reader.tagged_fields(flexible)?;
        reader.finish()?;
        Ok(Self { transactions })
    }

    /// The transactions; exactly one before version 4.
    pub fn transactions(&self) -> Transactions<'a> {
        self.transactions.clone()
    }
}

/// Iterates over the transactions of an [`AddPartitionsToTxnRequest`].
#[derive(Clone, Debug)]
pub struct Transactions<'a> {
    reader: Reader<'a>,
    flexible: bool,
    is_batch: bool,
    left: u32,
}

impl<'a> Transactions<'a> {
    fn read_next(&mut self) -> Result<Option<Transaction<'a>>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let (reader, flexible) = (&mut self.reader, self.flexible);
        let transactional_id = reader.string(flexible)?;
        let producer_id = reader.i64()?;
        reader.i16()?; // producer epoch
        if self.is_batch {
            reader.i8()?; // whether to verify only
        }
        let mut partitions = 0u32;
        for _ in 0..reader.array_length(flexible)? {
            reader.string(flexible)?;
            let count = reader.array_length(flexible)?;
            reader.take((count as usize).saturating_mul(4))?;
            partitions = partitions.saturating_add(count);
            reader.tagged_fields(flexible)?;
        }
        if self.is_batch {
            reader.tagged_fields(flexible)?;
        }
        Ok(Some(Transaction { transactional_id, producer_id, partitions }))
    }
}

impl<'a> Iterator for Transactions<'a> {
    type Item = Transaction<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        // AddPartitionsToTxnRequest::parse has walked the same bytes without an error.
        self.read_next().ok().flatten()
    }
}
