//! Decodes what the BPF programs recorded.
//!
//! All times are `CLOCK_MONOTONIC` in nanoseconds; thread ids are those of the pid namespace whose `/proc` this process
//! reads.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::bpf::always_on::types::{self, record_kind, request_flag, wait_place};
use crate::bpf::{record, text_of, whole};
use crate::decode::address;
use crate::stacks::Stacks;

/// One decoded record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A request that ended.
    Request(Request),
    /// A write to a file.
    Append(Append),
    /// An off-CPU time of a thread.
    Wait(Wait),
}

impl Record {
    /// Start time.
    pub fn first_ns(&self) -> u64 {
        match self {
            Self::Request(request) => request.arrival_ns,
            Self::Append(append) => append.first_ns,
            Self::Wait(wait) => wait.first_ns,
        }
    }

    /// End time.
    pub fn last_ns(&self) -> u64 {
        match self {
            Self::Request(request) => request.last_ns,
            Self::Append(append) => append.last_ns,
            Self::Wait(wait) => wait.last_ns,
        }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The last byte of its answer was written.
    Answered,
    /// It expects no answer: a later request on the connection was answered, or too many were read for one to come.
    Unanswered,
    /// Its answer could not be followed.
    GivenUp,
}

/// A request and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// How it ended.
    pub outcome: Outcome,
    /// Number of its connection; see [`super::Session::connection`].
    pub connection: u32,
    /// The listener's port.
    pub local_port: u16,
    /// The API's key.
    pub api_key: i16,
    /// The API's version.
    pub api_version: i16,
    /// Correlation id, chosen by the client.
    pub correlation_id: i32,
    /// The thread that read the start of the request.
    pub reader_tid: u32,
    /// The thread that wrote the last bytes of the answer.
    pub tid: u32,
    /// When its first byte arrived in the receive buffer; if unknown, when it was read.
    pub arrival_ns: u64,
    /// When its last byte was read, to a microsecond.
    pub last_read_ns: u64,
    /// When the first byte of its answer was written, to a microsecond.
    pub first_write_ns: u64,
    /// When the last byte of its answer was written, or it was found to have none.
    pub last_ns: u64,
    /// Bytes of the request, including its size field.
    pub request_bytes: u32,
    /// Bytes of the answer, including its size field; 0 without an answer.
    pub answer_bytes: u32,
}

/// A write to a regular file, into the page cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// The writing thread.
    pub tid: u32,
    /// When its first page was filled.
    pub first_ns: u64,
    /// When its last page was filled.
    pub last_ns: u64,
    /// The file's device, major and minor.
    pub device: (u32, u32),
    /// The file's inode.
    pub inode: u64,
    /// Generation of the inode, which tells apart files that used its number.
    pub generation: u32,
    /// Offset in the file.
    pub position: u64,
    /// Bytes.
    pub length: u64,
    /// Number of this call among its thread's writing calls, in few bits; `None` if not counted by the kernel.
    pub write_call: Option<u64>,
    /// Position and length are those requested; both times are the call's start (XFS).
    pub at_entry: bool,
}

/// Why a thread was off the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitKind {
    /// It was runnable.
    Runnable,
    /// It was in uninterruptible sleep.
    Uninterruptible,
    /// A signal had stopped its process.
    Stopped,
    /// A freezer had stopped its cgroup.
    Frozen,
}

/// A call that reads, sends (`sendfile`) or syncs a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileCall {
    /// The file's device, major and minor.
    pub device: (u32, u32),
    /// The file's inode.
    pub inode: u64,
    /// For reads and sends, this call's number among its thread's reading calls; for a sync, the count of writing calls
    /// before it.
    pub number: u64,
}

/// A time in which a thread was off the CPU involuntarily.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Why it was off the CPU.
    pub kind: WaitKind,
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub comm: Arc<str>,
    /// When it left the CPU or became runnable.
    pub first_ns: u64,
    /// When it got the CPU.
    pub last_ns: u64,
    /// How much of that it was runnable without a CPU, by the scheduler's accounting.
    pub queue_ns: u64,
    /// Number of the system call it is in; `None` outside of one, as in a page fault.
    pub call: Option<u32>,
    /// The call's first argument, the descriptor for most calls on files; `None` for a runnable thread.
    pub argument: Option<u64>,
    /// Like [`Append::write_call`]: of the current call if it writes, else of the next writing call.
    pub write_call: Option<u64>,
    /// The file that the call read, sent or synced, if it did.
    pub file_call: Option<FileCall>,
    /// Kernel functions on its stack, outermost first, joined by `;`; empty for a runnable thread, and if names are
    /// unavailable.
    pub stack: Arc<str>,
}

/// Both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its number in this session.
    pub number: u32,
    /// The broker's end; IPv4 addresses are not mapped.
    pub local: SocketAddr,
    /// The client's end.
    pub remote: SocketAddr,
}

/// A request that took at least the threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// What is recorded of every request, with times to the nanosecond.
    pub request: Request,
    /// When its first byte was read.
    pub first_read_ns: u64,
    /// Upper bound of when its last byte arrived in the receive buffer: the return of one of its reads, or an
    /// earlier time, found as for its first byte.
    pub complete_ns: u64,
    /// When the previous answer on the connection was written; 0 if there was none.
    pub previous_ns: u64,
    /// Both ends of its connection.
    pub connection: Connection,
    /// Client id, its first 64 bytes; `None` if the client has no name, or if no request's header could be read whole.
    /// Taken from the first request that allows it: clients do not change it.
    pub client_id: Option<Arc<str>>,
    /// How long a Fetch asked to wait for data, in milliseconds; 0 for other requests.
    pub max_wait_ms: u32,
    /// The connection's descriptor in the call that wrote the answer's last byte.
    pub descriptor: i32,
    /// TCP sequence number of the request's first byte.
    pub read_sequence: u32,
    /// TCP sequence number of the answer's first byte.
    pub write_sequence: u32,
    /// First bytes of the answer including its size field, at most 256.
    ///
    /// Empty if they could not be captured: the answer took several calls and was not yet slow when it began.
    pub answer: Vec<u8>,
}

impl SlowRequest {
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let slow: types::slow_request = record(bytes, size_of::<types::slow_request>())?;
        let connection = decode_ends(&slow.ends);
        let length = slow.answer.len().min(slow.head_bytes as usize);
        let client_id = slow.client.get(..slow.client_bytes as usize).filter(|id| !id.is_empty());
        Some(Self {
            request: Request {
                outcome: Outcome::Answered,
                connection: connection.number,
                local_port: connection.local.port(),
                api_key: slow.api_key,
                api_version: slow.api_version,
                correlation_id: slow.correlation_id,
                reader_tid: slow.reader_tid,
                tid: slow.tid,
                arrival_ns: slow.arrival_ns,
                last_read_ns: slow.last_read_ns,
                first_write_ns: slow.first_write_ns,
                last_ns: slow.last_write_ns,
                request_bytes: slow.request_bytes,
                answer_bytes: slow.answer_bytes,
            },
            first_read_ns: slow.first_read_ns,
            complete_ns: slow.complete_ns,
            previous_ns: slow.previous_ns,
            connection,
            client_id: client_id.map(|id| String::from_utf8_lossy(id).into()),
            max_wait_ms: slow.max_wait_ms,
            descriptor: slow.descriptor,
            read_sequence: slow.read_sequence,
            write_sequence: slow.write_sequence,
            answer: slow.answer.get(..length)?.to_vec(),
        })
    }
}

pub(super) fn decode_ends(ends: &types::ends) -> Connection {
    Connection {
        number: ends.number,
        local: address(ends.local, ends.local_port),
        remote: address(ends.remote, ends.remote_port),
    }
}

/// Decodes a record of 64 bytes; `None` if its kind is unknown.
pub(super) fn decode(bytes: &[u8]) -> Option<Record> {
    let kind = u32::from(*bytes.get(size_of::<u64>())?);
    match record_kind(kind) {
        record_kind::RECORD_REQUEST => whole(bytes).map(|it| Record::Request(decode_request(&it))),
        record_kind::RECORD_APPEND => whole(bytes).map(|it| Record::Append(decode_append(&it))),
        record_kind::RECORD_CPU_WAIT => whole(bytes).map(|it| Record::Wait(decode_cpu_wait(&it))),
        _ => None,
    }
}

fn decode_request(request: &types::request_record) -> Request {
    let has = |flag: request_flag| u32::from(request.flags) & flag.0 != 0;
    let at = |us: u32| request.first_ns + u64::from(us) * 1000;
    Request {
        outcome: match () {
            () if has(request_flag::REQUEST_ANSWERED) => Outcome::Answered,
            () if has(request_flag::REQUEST_GIVEN_UP) => Outcome::GivenUp,
            () => Outcome::Unanswered,
        },
        connection: request.connection,
        local_port: request.local_port,
        api_key: request.api_key,
        api_version: request.api_version,
        correlation_id: request.correlation_id,
        reader_tid: request.reader_tid,
        tid: request.tid,
        arrival_ns: request.first_ns,
        last_read_ns: at(request.complete_us),
        first_write_ns: at(request.answer_us),
        last_ns: request.last_ns,
        request_bytes: request.request_bytes,
        answer_bytes: request.answer_bytes,
    }
}

/// Major and minor number (`include/linux/kdev_t.h`).
fn decode_device(device: u32) -> (u32, u32) {
    (device >> 20, device & 0xf_ffff)
}

fn decode_file_call(call: &types::file_call) -> Option<FileCall> {
    let device = decode_device(call.device);
    (call.inode > 0).then_some(FileCall { device, inode: call.inode, number: call.number })
}

fn decode_append(append: &types::append_record) -> Append {
    Append {
        tid: append.tid,
        first_ns: append.first_ns,
        last_ns: append.last_ns,
        device: decode_device(append.device),
        inode: append.inode,
        generation: append.generation,
        position: append.position,
        length: append.length,
        write_call: Some(append.write_call.into()).filter(|call| *call > 0),
        at_entry: append.at_entry != 0,
    }
}

fn decode_cpu_wait(wait: &types::cpu_wait_record) -> Wait {
    Wait {
        kind: match wait_place(wait.place.into()) {
            wait_place::WAIT_STOPPED => WaitKind::Stopped,
            wait_place::WAIT_FROZEN => WaitKind::Frozen,
            _ => WaitKind::Runnable,
        },
        tid: wait.tid,
        comm: String::from_utf8_lossy(text_of(&wait.comm)).into(),
        first_ns: wait.first_ns,
        last_ns: wait.last_ns,
        queue_ns: wait.queue_ns,
        call: u32::try_from(wait.call).ok(),
        argument: None,
        write_call: Some(wait.write_call.into()).filter(|call| *call > 0),
        file_call: None,
        stack: Arc::default(),
    }
}

pub(super) fn decode_wait(bytes: &[u8], stacks: &mut Stacks) -> Option<Wait> {
    let wait: types::wait_record = whole(bytes)?;
    Some(Wait {
        kind: WaitKind::Uninterruptible,
        tid: wait.tid,
        comm: String::from_utf8_lossy(text_of(&wait.comm)).into(),
        first_ns: wait.first_ns,
        last_ns: wait.last_ns,
        queue_ns: wait.queue_ns,
        call: u32::try_from(wait.call).ok(),
        argument: Some(wait.argument),
        write_call: Some(wait.write_call).filter(|call| *call > 0),
        file_call: decode_file_call(&wait.file_call),
        stack: stacks.text(wait.stack.get(..wait.frames as usize)?),
    })
}

#[cfg(test)]
mod tests {
    use super::{FileCall, Outcome, Record, SlowRequest, WaitKind, decode, decode_wait};
    use crate::stacks::Stacks;

    fn append() -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[8] = 2;
        bytes[12..16].copy_from_slice(&77_u32.to_ne_bytes());
        bytes[16..24].copy_from_slice(&1_000_u64.to_ne_bytes());
        bytes[40..44].copy_from_slice(&((7_u32 << 20) | 3).to_ne_bytes());
        bytes[56..64].copy_from_slice(&4_096_u64.to_ne_bytes());
        bytes
    }

    #[test]
    fn decodes_an_append_but_no_truncated_one() {
        let Some(Record::Append(append_record)) = decode(&append()) else { panic!("it is no append") };
        assert_eq!((append_record.tid, append_record.device), (77, (7, 3)));
        assert_eq!((append_record.first_ns, append_record.length), (1_000, 4_096));
        for length in 0..64 {
            assert_eq!(decode(&append()[..length]), None);
        }
    }

    #[test]
    fn decodes_the_outcome_of_a_request() {
        let mut bytes = vec![0; 64];
        bytes[8] = 1;
        bytes[16..24].copy_from_slice(&5_000_u64.to_ne_bytes());
        bytes[36..40].copy_from_slice(&3_u32.to_ne_bytes());
        for (flags, outcome) in [(0, Outcome::Unanswered), (1, Outcome::Answered), (2, Outcome::GivenUp)] {
            bytes[9] = flags;
            let Some(Record::Request(request)) = decode(&bytes) else { panic!("it is no request") };
            assert_eq!((request.outcome, request.first_write_ns), (outcome, 8_000));
        }
    }

    #[test]
    fn decodes_a_runnable_wait_without_a_stack() {
        let mut bytes = vec![0; 64];
        bytes[8] = 3;
        bytes[40..44].copy_from_slice(&(-1_i32).to_ne_bytes());
        bytes[48..51].copy_from_slice(b"abc");
        let Some(Record::Wait(wait)) = decode(&bytes) else { panic!("it is no wait") };
        assert_eq!((wait.kind, &*wait.comm, wait.call, &*wait.stack), (WaitKind::Runnable, "abc", None, ""));
        for (place, kind) in [(2, WaitKind::Runnable), (3, WaitKind::Stopped), (4, WaitKind::Frozen)] {
            bytes[9] = place;
            let Some(Record::Wait(wait)) = decode(&bytes) else { panic!("it is no wait") };
            assert_eq!(wait.kind, kind);
        }
    }

    #[test]
    fn wait_in_a_read_has_the_file() {
        let mut bytes = vec![0; 512];
        assert_eq!(decode_wait(&bytes, &mut Stacks::default()).unwrap().file_call, None);
        bytes[80..88].copy_from_slice(&9_u64.to_ne_bytes());
        bytes[88..96].copy_from_slice(&1_234_u64.to_ne_bytes());
        bytes[96..100].copy_from_slice(&((7_u32 << 20) | 3).to_ne_bytes());
        let call = decode_wait(&bytes, &mut Stacks::default()).unwrap().file_call;
        assert_eq!(call, Some(FileCall { device: (7, 3), inode: 1_234, number: 9 }));
    }

    #[test]
    fn decodes_nothing_from_other_bytes() {
        assert_eq!(decode(&[0; 64]), None);
        assert_eq!(SlowRequest::decode(&[0; 100]), None);
        let mut stacks = Stacks::default();
        assert!(decode_wait(&[0; 511], &mut stacks).is_none());
        assert!(decode_wait(&[0xff; 512], &mut stacks).is_none(), "more frames than there are");
        assert_eq!(decode_wait(&[0; 512], &mut stacks).unwrap().call, Some(0));
    }
}
