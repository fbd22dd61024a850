//! Tests with hand-written records in the layout of the C structures. Tests every truncation of them too.

mod sockets;

use model::Event::{CpuGap, DirtyThrottle, JournalCommit, KernelSpan, OffCpu, ProcessStop, Reclaim};
use model::{ClockOffset, CpuGapKind, FileOpKind, Nanos, SpanSource, StopKind};

use super::{Decoder, Decoding, file_system_function};
use crate::event::{BlockFile, Event, FileOp, FilePath, PathArgument};
use crate::kallsyms::Symbols;
use crate::stacks::Stacks;

/// The clock of the records.
fn clock() -> ClockOffset {
    ClockOffset::from_ns(0)
}

fn decoder(hz: Option<u32>) -> Decoder {
    let symbols = Symbols::read("1000 T ksys_write\n2000 T __schedule\n".as_bytes()).unwrap();
    Decoder::new(42, hz, clock(), Stacks::new(symbols))
}

#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }
    fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }
    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }
    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }
    fn text(mut self, text: &str, size: usize) -> Self {
        let end = self.0.len() + size;
        self.0.extend(text.as_bytes());
        self.0.resize(end, 0);
        self
    }
}

/// A file operation with its tail; a file of all zeros is known only by name.
fn file_op(op: u8, inode: u64, path_ns: u64, head_len: u8, tail: &[u8]) -> Vec<u8> {
    let device = if inode == 0 { 0 } else { (259 << 20) | 3 };
    let mut record = Bytes::default()
        .u32(1)
        .u32(7)
        .u64(1_000)
        .u64(2_000)
        .u64((-28_i64) as u64)
        .u64(4096)
        .u64(inode)
        .u32(device)
        .u32(u32::from(inode != 0))
        .u64(path_ns)
        .u64(8192)
        .u64(4096)
        .u32(42)
        .u32(11)
        .u32(2285)
        .u8(op)
        .u8(1)
        .u8(head_len)
        .u8(u8::from(op == 2))
        .text("data-plane-kafk", 16);
    assert_eq!(record.0.len(), 112);
    record.0.extend(tail);
    record.0
}

fn file_path(inode: u64, path_ns: u64, names: &[u8]) -> Vec<u8> {
    let record = Bytes::default().u32(6).u16(names.len() as u16).u8(1).u8(0);
    let record = record.u64(inode).u32((259 << 20) | 3).u32(1).u64(path_ns).text("ext4", 16);
    assert_eq!(record.0.len(), 48);
    [record.0, names.to_vec()].concat()
}

fn decode(decoder: &mut Decoder, bytes: &[u8]) -> Option<Event> {
    match decoder.decode(bytes) {
        Decoding::Event(event) => Some(event),
        _ => None,
    }
}

fn operation(decoder: &mut Decoder, bytes: &[u8]) -> FileOp {
    let Some(Event::FileOp(op)) = decode(decoder, bytes) else { panic!("no operation") };
    op
}

#[test]
fn decodes_a_process_stop() {
    let record = |reason: u8, tid: u32| {
        let start = 1_000 * u64::from(reason);
        let head = Bytes::default().u32(26).u32(31).u64(start).u64(401_000).u32(tid);
        head.text("bash", 16).u8(reason).u8(0).u16(0).0
    };
    let mut decoder = decoder(None);
    let mut stop = |bytes: &[u8]| match decode(&mut decoder, bytes) {
        Some(Event::Row(ProcessStop(stop))) => Some(*stop),
        _ => None,
    };
    let whole = record(1, 4711);
    let by_signal = stop(&whole).unwrap();
    assert_eq!((by_signal.start, by_signal.end, by_signal.pid), (Nanos(1_000), Nanos(401_000), 42));
    assert_eq!((by_signal.kind, by_signal.by_tid, &*by_signal.by), (StopKind::Signal, Some(4711), "bash"));
    assert_eq!(by_signal.threads, 31);
    let unseen = stop(&record(2, 0)).unwrap();
    assert_eq!((unseen.kind, unseen.by_tid, &*unseen.by), (StopKind::Freezer, None, ""));
    assert_eq!(stop(&record(3, 1)).unwrap().kind, StopKind::Tracer);
    assert_eq!((stop(&record(3, 1)), stop(&whole)), (None, None), "by another CPU too");
    assert_eq!((stop(&record(0, 1)), stop(&record(4, 1))), (None, None));
    for length in 0..whole.len() {
        assert_eq!(stop(&whole[..length]), None, "{length} bytes");
    }
}

#[test]
fn decodes_a_cpu_gap() {
    let record = |tid: u32, is_gap: u8| {
        let head = Bytes::default().u32(27).u32(3).u64(1_000).u64(401_000).u64(390_000).u32(tid);
        head.text("data-plane-kafk", 16).u8(is_gap).u8(0).u16(0).0
    };
    let mut decoder = decoder(None).with_cpus(4);
    let mut gap = |bytes: &[u8]| match decode(&mut decoder, bytes) {
        Some(Event::Row(CpuGap(gap))) => Some(*gap),
        _ => None,
    };
    let whole = record(7, 1);
    let taken = gap(&whole).unwrap();
    assert_eq!((taken.start, taken.end, taken.stolen), (Nanos(1_000), Nanos(401_000), Nanos(390_000)));
    assert_eq!((taken.kind, taken.cpu, taken.cpus), (CpuGapKind::Gap, 3, 4));
    assert_eq!((taken.tid, &*taken.thread), (Some(7), "data-plane-kafk"));
    let idle = gap(&record(0, 0)).unwrap();
    assert_eq!((idle.kind, idle.tid, &*idle.thread), (CpuGapKind::Steal, None, ""));
    for length in 0..whole.len() {
        assert_eq!(gap(&whole[..length]), None, "{length} bytes");
    }
}

#[test]
fn decodes_a_write() {
    let mut decoder = decoder(None);
    let path = file_path(99, 500, b"0000.log\0topicA-0\0data\0");
    assert_eq!(decoder.decode(&path), Decoding::Context);
    let write = operation(&mut decoder, &file_op(1, 99, 500, 61, &[b'H'; 61]));
    assert_eq!((write.op, write.start_ns, write.end_ns), (FileOpKind::Write, 1_000, 2_000));
    assert_eq!((write.pid, write.tid, &*write.comm, &*write.fs), (42, 7, "data-plane-kafk", "ext4"));
    assert_eq!((write.fd, write.result, write.offset), (11, -28, 4096));
    assert_eq!((write.device, write.inode, write.generation), ((259, 3), 99, 1));
    let whole = FilePath { path: "data/topicA-0/0000.log".into(), whole: true };
    assert_eq!(write.path, Some(whole));
    assert_eq!(
        (write.journal_transaction, write.disk_bytes, write.path_arguments.clone()),
        (Some(2285), None, None)
    );
    assert_eq!(write.head(), [b'H'; 61]);
}

#[test]
fn decodes_a_read_whose_path_was_lost() {
    let mut decoder = decoder(None);
    assert_eq!(decoder.decode(&file_path(99, 500, b"old.log\0")), Decoding::Context);
    let read = operation(&mut decoder, &file_op(2, 99, 501, 0, b""));
    assert_eq!((read.path, &*read.fs, read.inode), (None, "", 99));
    assert_eq!((read.disk_bytes, read.readahead_bytes), (Some(8192), Some(4096)));
    assert_eq!(read.head, [0; 61]);
}

fn given_paths(relative: bool, from: &[u8], to: &[u8]) -> Vec<u8> {
    let start = |record: Bytes, length: usize| {
        let (inode, device) = if relative { (5, (259 << 20) | 3) } else { (0, 0) };
        let record = record.u64(inode).u32(device).u32(u32::from(relative)).u64(u64::from(relative) * 500);
        record.u16(length as u16).text("", 6)
    };
    let record = start(start(Bytes::default(), from.len()), to.len());
    [record.0, from.to_vec(), to.to_vec()].concat()
}

#[test]
fn decodes_the_path_arguments_of_rename_and_unlink() {
    let mut decoder = decoder(None);
    let rename = operation(&mut decoder, &file_op(11, 0, 0, 0, &given_paths(false, b"/d/a\0", b"/d/b\0")));
    let given = rename.path_arguments.unwrap();
    let absolute = |text: &str| PathArgument { text: Some(text.into()), start: None };
    assert_eq!((given.from, given.to), (absolute("/d/a"), Some(absolute("/d/b"))));

    assert_eq!(decoder.decode(&file_path(5, 500, b"d\0")), Decoding::Context);
    let unlink = operation(&mut decoder, &file_op(12, 0, 0, 0, &given_paths(true, b"a\0", b"")));
    let given = unlink.path_arguments.unwrap();
    let start = given.from.start.unwrap();
    assert_eq!((start.device, &*start.path.unwrap().path), ((259, 3), "d"));
    assert_eq!((given.from.text.as_deref(), given.to), (Some("a"), None));
}

#[test]
fn unread_or_truncated_path_argument_is_none() {
    for text in [Vec::new(), vec![b'x'; 1024]] {
        let bytes = file_op(12, 0, 0, 0, &given_paths(false, &text, b""));
        assert_eq!(operation(&mut decoder(None), &bytes).path_arguments.unwrap().from.text, None);
    }
}

#[test]
fn excessive_lengths_in_a_record_are_bounded() {
    let write = operation(&mut decoder(None), &file_op(1, 9, 0, 255, b"HEAD"));
    assert_eq!(write.head(), b"HEAD");
    let mut bytes = file_op(12, 0, 0, 0, &given_paths(false, b"/a\0", b""));
    bytes[136..138].copy_from_slice(&u16::MAX.to_ne_bytes());
    assert_eq!(decode(&mut decoder(None), &bytes), None);
    let mut bytes = file_path(9, 500, b"a\0");
    bytes[4..6].copy_from_slice(&u16::MAX.to_ne_bytes());
    assert_eq!(decoder(None).decode(&bytes), Decoding::Context);
    let mut bytes = off_cpu();
    bytes[72..76].copy_from_slice(&u32::MAX.to_ne_bytes());
    let Some(Event::Row(OffCpu(interval))) = decode(&mut decoder(None), &bytes) else { panic!() };
    assert!(interval.stack.ends_with("ksys_write;__schedule"));
}

fn off_cpu() -> Vec<u8> {
    let record = Bytes::default().u32(2).u32(7).u64(10).u64(30).u64(20).text("kafka", 16);
    let record = record.u32(11).text("jbd2/sda1-8", 16).u8(1).text("", 3).u32(2).u32(0);
    record.u64(0x2010).u64(0x1010).0
}

#[test]
fn decodes_an_off_cpu_interval() {
    let Some(Event::Row(OffCpu(interval))) = decode(&mut decoder(None), &off_cpu()) else { panic!() };
    assert_eq!((interval.start.0, interval.end.0, interval.woken), (10, 30, Some(Nanos(20))));
    assert_eq!((interval.pid, interval.tid, &*interval.thread), (42, 7, "kafka"));
    assert!(interval.preempted);
    assert_eq!(&*interval.stack, "ksys_write;__schedule");
    let waker = interval.waker.unwrap();
    assert_eq!((waker.tid, &*waker.thread, &*waker.stack), (11, "jbd2/sda1-8", ""));
}

#[test]
fn waker_stack_is_used_once_and_only_for_its_wakeup() {
    for (woken_ns, stack) in [(20, "ksys_write"), (19, "")] {
        let mut decoder = decoder(None);
        let waker = Bytes::default().u32(25).u32(7).u64(woken_ns).u32(0).u32(1).u64(0x1010).0;
        assert_eq!(decoder.decode(&waker), Decoding::Context);
        for expected in [stack, ""] {
            let Some(Event::Row(OffCpu(interval))) = decode(&mut decoder, &off_cpu()) else { panic!() };
            assert_eq!(&*interval.waker.unwrap().stack, expected, "once");
        }
    }
}

fn kernel_wait(tid: u32, caller: u64) -> Vec<u8> {
    let record = Bytes::default().u32(24).u32(tid).u64(10).u64(30).text("xfsaild/sda1", 16);
    record.u32(0).u32(2).u64(0x2010).u64(caller).0
}

#[test]
fn decodes_a_long_wait_of_a_file_system_thread() {
    let symbols =
        "1000 T xfsaild_push\n2000 T __schedule\n3000 T btrfs_commit_transaction\n4000 T wb_workfn\n";
    let mut decoder =
        Decoder::new(42, None, clock(), Stacks::new(Symbols::read(symbols.as_bytes()).unwrap()));
    let Some(Event::Row(KernelSpan(wait))) = decode(&mut decoder, &kernel_wait(7, 0x1010)) else { panic!() };
    assert_eq!((&*wait.function, &*wait.thread, wait.tid), ("xfsaild_push", "xfsaild/sda1", 7));
    assert_eq!((wait.start.0, wait.end.0, wait.seen_by), (10, 30, SpanSource::OffCpu));
    for caller in [0x3010, 0x4010] {
        assert_eq!(decoder.decode(&kernel_wait(7, caller)), Decoding::Context);
    }
    let Some(Event::Row(KernelSpan(commit))) = decode(&mut decoder, &span(4, 2)) else { panic!() };
    assert_eq!((commit.start.0, commit.end.0), (10, 90), "the wait began it");
}

fn commit(seen: u32) -> Vec<u8> {
    let record = Bytes::default().u32(3).u32(7 << 20).u32(2285).u32(0).u64(100).u64(900);
    let record = record.u64(1).u64(2).u64(3).u64(30).u64(5);
    record.u32(6).u32(7).u32(8).u32(seen).0
}

#[test]
fn converts_commit_phases_from_jiffies_at_the_kernels_hz() {
    for (hz, flushing_ms) in [(100, 300), (250, 120), (1000, 30)] {
        let Some(Event::Row(JournalCommit(commit))) = decode(&mut decoder(Some(hz)), &commit(1)) else {
            panic!()
        };
        assert_eq!((commit.device.major, commit.device.minor, commit.transaction), (7, 0, 2285));
        assert_eq!((commit.start.0, commit.end.0), (100, 900));
        let phases = commit.phases.unwrap();
        assert_eq!(phases.flushing, Nanos(flushing_ms * 1_000_000));
        assert_eq!((phases.handles, phases.blocks, phases.blocks_logged), (6, 7, 8));
    }
}

#[test]
fn commit_has_no_phases_without_stats_or_hz() {
    for (hz, seen) in [(Some(250), 0), (None, 1), (Some(0), 1)] {
        let Some(Event::Row(JournalCommit(commit))) = decode(&mut decoder(hz), &commit(seen)) else {
            panic!()
        };
        assert_eq!(commit.phases, None);
    }
}

fn block_io(op: u16, rwbs: &str) -> Vec<u8> {
    let record = Bytes::default().u32(4).u32((8 << 20) | 16).u64(1).u64(2).u64(3).u64(2048).u64(99);
    let record = record.u32((259 << 20) | 3).u32(1).u32(4096).u32(55).u16(op).u16(8).u32(0);
    record.text("kworker/u4:1", 16).text(rwbs, 16).0
}

#[test]
fn decodes_a_block_request() {
    let Some(Event::BlockIo(io)) = decode(&mut decoder(None), &block_io(1, "")) else { panic!() };
    assert_eq!((io.device, io.queued_ns, io.start_ns, io.end_ns), ((8, 16), Some(1), 2, 3));
    assert_eq!((io.sector, io.bytes, io.tid), (2048, 4096, 55));
    assert_eq!((&*io.rwbs, &*io.comm), ("WS", "kworker/u4:1"));
    assert_eq!(io.file, Some(BlockFile { device: (259, 3), inode: 99, path: None }));
}

#[test]
fn block_request_has_a_known_file_path() {
    let mut decoder = decoder(None);
    assert_eq!(decoder.decode(&file_path(99, 500, b"0000.log\0topicA-0\0")), Decoding::Context);
    let Some(Event::BlockIo(io)) = decode(&mut decoder, &block_io(1, "")) else { panic!() };
    assert_eq!(&*io.file.unwrap().path.unwrap().path, "topicA-0/0000.log");
}

#[test]
fn decodes_a_block_request_without_btf() {
    let mut bytes = block_io(u16::MAX, "WFSM");
    bytes[8..16].fill(0);
    bytes[40..48].fill(0);
    let Decoding::Event(Event::BlockIo(io)) = decoder(None).decode(&bytes) else { panic!() };
    assert_eq!((&*io.rwbs, io.queued_ns, io.file), ("WFSM", None, None));
}

#[test]
fn decodes_a_dirty_throttle_pause() {
    let bytes = Bytes::default().u32(5).u32(7).u64(1).u64(200).u64(10).u64(15).0;
    let Some(Event::Row(DirtyThrottle(pause))) = decode(&mut decoder(None), &bytes) else { panic!() };
    assert_eq!((pause.start.0, pause.end.0, pause.tid), (1, 200_000_001, 7));
    assert_eq!((pause.dirty_pages, pause.limit_pages), (10, 15));
}

#[test]
fn truncated_and_unknown_records_are_not_decoded() {
    let pause = Bytes::default().u32(5).text("", 36).0;
    let unlink = file_op(12, 0, 0, 0, &given_paths(false, b"", b""));
    let reclaim = Bytes::default().u32(20).text("", 52).0;
    for (bytes, least) in [
        (file_op(1, 9, 0, 0, b""), 112),
        (unlink, 176),
        (off_cpu(), 80),
        (commit(1), 88),
        (block_io(1, ""), 104),
        (pause, 40),
        (reclaim, 56),
        (span(2, 1), 48),
    ] {
        assert!(decode(&mut decoder(Some(250)), &bytes[..least]).is_some());
        for length in 0..least {
            assert_eq!(decoder(Some(250)).decode(&bytes[..length]), Decoding::Unknown, "{length}");
        }
    }
    for length in 0..48 {
        assert_eq!(decoder(None).decode(&kernel_wait(7, 0)[..length]), Decoding::Unknown, "{length}");
        assert_eq!(decoder(None).decode(&file_path(9, 1, b"")[..length]), Decoding::Unknown, "{length}");
    }
    assert_eq!(decoder(None).decode(&Bytes::default().u32(99).text("", 200).0), Decoding::Unknown);
}

#[test]
fn decodes_a_direct_reclaim() {
    let bytes = Bytes::default().u32(20).u32(7).u64(5).u64(9).u64(32).u8(1).text("", 7).text("kafka", 16).0;
    let Decoding::Event(Event::Row(Reclaim(reclaim))) = decoder(None).decode(&bytes) else { panic!() };
    assert_eq!((reclaim.start.0, reclaim.end.0, reclaim.pid, reclaim.tid), (5, 9, 42, 7));
    assert_eq!((reclaim.memcg, reclaim.pages, &*reclaim.thread), (true, 32, "kafka"));
}

fn span(function: u16, source: u8) -> Vec<u8> {
    let record = Bytes::default().u32(21).u32(7).u64(5).u64(90).u32(7 << 20).u16(function);
    record.u8(source).u8(0).text("xfsaild/loop0", 16).0
}

#[test]
fn decodes_a_kernel_function_span() {
    for (source, seen_by) in [(0, SpanSource::Function), (1, SpanSource::Tracepoints)] {
        let decoded = decoder(None).decode(&span(2, source));
        let Decoding::Event(Event::Row(KernelSpan(span))) = decoded else { panic!() };
        assert_eq!((&*span.function, span.seen_by), ("xlog_grant_head_wait", seen_by));
        assert_eq!((span.start.0, span.end.0, span.tid), (5, 90, 7));
        assert_eq!(
            (span.device.map(|device| (device.major, device.minor)), &*span.thread),
            (Some((7, 0)), "xfsaild/loop0")
        );
    }
    for function in [0, u16::MAX] {
        assert_eq!(decoder(None).decode(&span(function, 0)), Decoding::Context);
    }
}

#[test]
fn commit_without_a_start_begins_at_its_first_wait() {
    let symbols = "1000 T btrfs_commit_transaction\n2000 T __schedule\n3000 T read\n";
    let symbols = Symbols::read(symbols.as_bytes()).unwrap();
    let mut decoder = Decoder::new(42, None, clock(), Stacks::new(symbols));
    assert_eq!(decoder.decode(&span(4, 2)), Decoding::Context, "its beginning left no trace");
    let wait = |start: u64, caller: u64| {
        let record = Bytes::default().u32(2).u32(7).u64(start).u64(start + 5).u64(0).text("kafka", 16);
        let record = record.u32(0).text("", 16).u8(0).text("", 3).u32(2).u32(0);
        record.u64(0x2010).u64(caller).0
    };
    for (start, caller) in [(10, 0x3010), (20, 0x1010), (40, 0x1010)] {
        decoder.decode(&wait(start, caller));
    }
    let Decoding::Event(Event::Row(KernelSpan(commit))) = decoder.decode(&span(4, 2)) else { panic!() };
    assert_eq!((&*commit.function, commit.start.0, commit.end.0), ("btrfs_commit_transaction", 20, 90));
    assert_eq!(commit.seen_by, SpanSource::OffCpu);
    assert_eq!(decoder.decode(&span(4, 2)), Decoding::Context, "it is reported once");
}

#[test]
fn picks_the_outermost_file_system_function() {
    for (stack, function) in [
        ("ret_from_fork;kthread;xfsaild;xfsaild_push;xfs_log_force;__schedule", Some("xfsaild_push")),
        (
            "kthread;worker_thread;process_one_work;xlog_cil_push_work;down;__schedule",
            Some("xlog_cil_push_work"),
        ),
        ("kthread;transaction_kthread;btrfs_commit_transaction;__schedule", Some("btrfs_commit_transaction")),
        (
            "worker_thread;btrfs_work_helper;btrfs_finish_one_ordered.isra.0;__schedule",
            Some("btrfs_finish_one_ordered"),
        ),
        ("worker_thread;process_one_work;wb_workfn;__schedule", None),
        ("", None),
    ] {
        assert_eq!(file_system_function(stack), function, "{stack}");
    }
}
