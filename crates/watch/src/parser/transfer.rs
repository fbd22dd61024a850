//! Encodes rows for the transfer from a parser process to the watch.
//! The code for each type is generated from its row declaration.
//!
//! The reader trusts no byte, because the parser may have been compromised by what it parsed. Decoded values take at most a few
//! times the memory of their bytes.
//!
//! Fuzzed by: rows.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

#[allow(clippy::wildcard_imports, reason = "a declaration may name any type of the model")]
use model::*;

use super::channel::invalid;

/// A value in a message.
pub(crate) trait Transfer: Sized {
    /// Appends the value.
    fn put(&self, to: &mut Vec<u8>);
    /// Takes a value from the front; `None` if it is invalid.
    fn take(from: &mut &[u8]) -> Option<Self>;
}

/// Takes bytes from the front.
fn split<'b>(from: &mut &'b [u8], bytes: usize) -> Option<&'b [u8]> {
    let (taken, left) = from.split_at_checked(bytes)?;
    *from = left;
    Some(taken)
}

/// Implements numbers, in native byte order: both ends are the same program.
macro_rules! numbers {
    ($($Number:ty)*) => {$(
        impl Transfer for $Number {
            fn put(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_ne_bytes());
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                split(from, size_of::<Self>())?.try_into().ok().map(Self::from_ne_bytes)
            }
        }
    )*};
}

numbers! { u8 i8 u16 i16 u32 i32 u64 i64 u128 }

/// Implements a row: its fields in order.
macro_rules! rows {
    ($(#[$meta:meta])* pub struct $Row:ident { $(
        $(#[doc = $doc:literal])*
        $field:ident: $ty:ty $(as $column:literal $(in $kind:ty)? $(
            => $derived:ident: $derived_ty:ty as $derived_column:literal $derived_doc:literal
        )?)?,
    )* }) => {
        impl Transfer for $Row {
            fn put(&self, to: &mut Vec<u8>) {
                $(self.$field.put(to);)*
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: Transfer::take(from)?,)* })
            }
        }
    };
}

model::request_row!(rows);
model::partition_row!(rows);
model::batch_row!(rows);
model::lock_wait_row!(rows);
model::lock_row!(rows);
model::lock_holder_row!(rows);
model::jvm_pause_row!(rows);
model::handler_call_row!(rows);

/// Implements enums that have names, by their position.
macro_rules! named {
    ($($Named:ty)*) => {$(
        impl Transfer for $Named {
            fn put(&self, to: &mut Vec<u8>) {
                (*self as u8).put(to);
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                Self::ALL.get(usize::from(u8::take(from)?)).copied()
            }
        }
    )*};
}

named! { RequestSource JvmPauseKind LockKind LockSource }

/// Takes a request, and sets its API's name from the key.
pub(crate) fn take_request(from: &mut &[u8]) -> Option<Box<Request>> {
    let mut request = Box::new(Request::take(from)?);
    request.api = wire::ApiKey(request.api_key).name();
    Some(request)
}

/// Passes each request in a message of rows to `take`.
pub(crate) fn take_requests(rows: &[u8], take: impl FnMut(Box<Request>)) -> io::Result<()> {
    take_each(rows, take_request, take)
}

/// Passes each row in a message to `take`.
pub(crate) fn take_rows<T: Transfer>(rows: &[u8], take: impl FnMut(T)) -> io::Result<()> {
    take_each(rows, T::take, take)
}

fn take_each<T>(
    mut rows: &[u8],
    take_row: fn(&mut &[u8]) -> Option<T>,
    mut take: impl FnMut(T),
) -> io::Result<()> {
    while !rows.is_empty() {
        take(take_row(&mut rows).ok_or_else(invalid)?);
    }
    Ok(())
}

/// Not transferred: the value follows from another field.
impl Transfer for &'static str {
    fn put(&self, _: &mut Vec<u8>) {}

    fn take(_: &mut &[u8]) -> Option<Self> {
        Some("")
    }
}

impl Transfer for Nanos {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        i64::take(from).map(Self)
    }
}

impl Transfer for TopicId {
    fn put(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.0);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        split(from, size_of::<Self>())?.try_into().ok().map(Self)
    }
}

impl Transfer for SocketAddr {
    fn put(&self, to: &mut Vec<u8>) {
        let (kind, address) = match self.ip() {
            IpAddr::V4(address) => (4, u128::from(address.to_bits())),
            IpAddr::V6(address) => (6, address.to_bits()),
        };
        u8::put(&kind, to);
        address.put(to);
        self.port().put(to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let (kind, address, port) = (u8::take(from)?, u128::take(from)?, u16::take(from)?);
        let address = match kind {
            4 => IpAddr::V4((address as u32).into()),
            _ => IpAddr::V6(Ipv6Addr::from_bits(address)),
        };
        Some(Self::new(address, port))
    }
}

impl Transfer for Arc<str> {
    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u32).put(to);
        to.extend_from_slice(self.as_bytes());
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let bytes = u32::take(from)? as usize;
        std::str::from_utf8(split(from, bytes)?).ok().map(Self::from)
    }
}

impl<T: Transfer> Transfer for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        u8::from(self.is_some()).put(to);
        if let Some(value) = self {
            value.put(to);
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        match u8::take(from)? {
            0 => Some(None),
            _ => T::take(from).map(Some),
        }
    }
}

impl<A: Transfer, B: Transfer> Transfer for (A, B) {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some((A::take(from)?, B::take(from)?))
    }
}

impl<T: Transfer> Transfer for Box<T> {
    fn put(&self, to: &mut Vec<u8>) {
        T::put(self, to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        T::take(from).map(Self::new)
    }
}

/// Does not allocate for a claimed length beyond the actual bytes.
impl<T: Transfer> Transfer for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u32).put(to);
        for value in self {
            value.put(to);
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let count = u32::take(from)?;
        (0..count).map(|_| T::take(from)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Transfer as _, take_request};
    use model::{Batch, Nanos, Partition, Request, RequestSource, TopicId};

    fn request() -> Request {
        let batch =
            Batch { magic: 2, crc: 0xdead_beef, bytes: 93, records: 1, producer_id: -1, base_sequence: -1 };
        let partition = Partition {
            topic: Some("orders".into()),
            topic_id: Some(TopicId([7; 16])),
            partition: 3,
            bytes: 93,
            records: Some(1),
            batches: vec![batch, Batch { crc: 1, ..batch }],
            base_offset: Some(i64::MAX),
            message_ids: vec!["ü".into(), "".into()],
            ..Partition::default()
        };
        Request {
            arrival: Nanos(1_700_000_000_000_000_001),
            end: Some(Nanos(-5)),
            api: "PRODUCE",
            api_version: 11,
            correlation_id: i32::MIN,
            client_id: Some("client".into()),
            response_bytes: Some(0),
            sequence: Some(u32::MAX),
            acks: Some(-1),
            seen_by: Some(RequestSource::Packets),
            partitions: vec![partition, Partition::default()],
            ..Request::new("10.0.0.7:41234".parse().unwrap(), "[fe80::1]:9092".parse().unwrap())
        }
    }

    fn bytes(request: &Request) -> Vec<u8> {
        let mut bytes = Vec::new();
        request.put(&mut bytes);
        bytes
    }

    #[test]
    fn request_round_trips() {
        let request = request();
        let bytes = bytes(&request);
        let mut left = &bytes[..];
        assert_eq!(take_request(&mut left).as_deref(), Some(&request));
        assert!(left.is_empty());
    }

    #[test]
    fn refuses_a_truncated_message() {
        let bytes = bytes(&request());
        for end in 0..bytes.len() {
            assert_eq!(take_request(&mut &bytes[..end]), None, "{end}");
        }
    }

    #[test]
    fn corrupt_bytes_do_not_allocate_much_memory() {
        let bytes = bytes(&request());
        for at in 0..bytes.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut lying = bytes.clone();
                lying[at] = byte;
                let taken = take_request(&mut &lying[..]);
                assert!(taken.is_none_or(|request| request.memory_bytes() < 16 * bytes.len() + 4_096));
            }
        }
    }
}
