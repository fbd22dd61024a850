//! Records as the C structures lay them out, written by hand, and everything shorter.

use model::Nanos;

use super::Decoder;
use crate::event::Event;
use crate::kallsyms::Symbols;
use crate::stacks::Stacks;

fn decoder(hz: Option<u32>) -> Decoder {
    let symbols = Symbols::read("1000 T ksys_write\n2000 T __schedule\n".as_bytes()).unwrap();
    Decoder::new(42, hz, Stacks::new(symbols))
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

fn file_write(path: &[u8]) -> Vec<u8> {
    let mut record = Bytes::default()
        .u32(1)
        .u32(7)
        .u64(1_000)
        .u64(2_000)
        .u64((-28_i64) as u64)
        .u64(4096)
        .u64(99)
        .u32((259 << 20) | 3)
        .u32(11)
        .u32(2285)
        .u8(1)
        .u8(61)
        .u16(path.len() as u16)
        .text("data-plane-kafk", 16)
        .text("ext4", 16)
        .text("HEAD", 61)
        .text("", 3);
    assert_eq!(record.0.len(), 160);
    record.0.extend(path);
    record.0
}

#[test]
fn a_file_write() {
    let bytes = file_write(b"0000.log\0topicA-0\0data\0");
    let Some(Event::FileWrite(write)) = decoder(None).decode(&bytes) else { panic!() };
    assert_eq!((write.start_ns, write.end_ns, write.pid, write.tid), (1_000, 2_000, 42, 7));
    assert_eq!((&*write.comm, &*write.fs), ("data-plane-kafk", "ext4"));
    assert_eq!((write.fd, write.result, write.offset), (11, -28, 4096));
    assert_eq!((write.device, write.inode), ((259, 3), 99));
    assert_eq!(&*write.path, "data/topicA-0/0000.log");
    assert_eq!(write.journal_transaction, Some(2285));
    assert_eq!(write.head().len(), 61);
    assert!(write.head().starts_with(b"HEAD\0"));
}

#[test]
fn a_file_write_without_path_handle_or_head() {
    let mut bytes = file_write(b"");
    bytes[60] = 0;
    bytes[61] = 0;
    let Some(Event::FileWrite(write)) = decoder(None).decode(&bytes) else { panic!() };
    assert_eq!((&*write.path, write.journal_transaction), ("", None));
    assert_eq!(write.head(), b"");
    assert_eq!(write.head, [0; 61], "an earlier write's bytes");
}

#[test]
fn lengths_in_a_record_are_not_trusted() {
    let mut bytes = file_write(b"a\0");
    bytes[61] = 255;
    bytes[62..64].copy_from_slice(&u16::MAX.to_ne_bytes());
    let Some(Event::FileWrite(write)) = decoder(None).decode(&bytes) else { panic!() };
    assert_eq!((&*write.path, write.head().len()), ("a", 61));
    let mut bytes = off_cpu();
    bytes[52..56].copy_from_slice(&u32::MAX.to_ne_bytes());
    let Some(Event::OffCpu(interval)) = decoder(None).decode(&bytes) else { panic!() };
    assert!(interval.stack.ends_with("ksys_write;__schedule"));
}

fn off_cpu() -> Vec<u8> {
    let record = Bytes::default().u32(2).u32(7).u64(10).u64(30).u64(20).text("kafka", 16);
    record.u8(1).text("", 3).u32(2).u64(0x2010).u64(0x1010).0
}

#[test]
fn an_off_cpu_interval() {
    let Some(Event::OffCpu(interval)) = decoder(None).decode(&off_cpu()) else { panic!() };
    assert_eq!((interval.start_ns, interval.end_ns, interval.woken_ns), (10, 30, Some(20)));
    assert_eq!((interval.pid, interval.tid, &*interval.comm), (42, 7, "kafka"));
    assert!(interval.preempted);
    assert_eq!(&*interval.stack, "ksys_write;__schedule");
}

fn commit(seen: u32) -> Vec<u8> {
    let record = Bytes::default().u32(3).u32(7 << 20).u32(2285).u32(0).u64(100).u64(900);
    let record = record.u64(1).u64(2).u64(3).u64(30).u64(5);
    record.u32(6).u32(7).u32(8).u32(seen).0
}

#[test]
fn a_commits_phases_are_jiffies_at_the_kernels_own_rate() {
    for (hz, flushing_ms) in [(100, 300), (250, 120), (1000, 30)] {
        let Some(Event::JournalCommit(commit)) = decoder(Some(hz)).decode(&commit(1)) else { panic!() };
        assert_eq!((commit.device, commit.transaction), ((7, 0), 2285));
        assert_eq!((commit.start_ns, commit.end_ns), (100, 900));
        let phases = commit.phases.unwrap();
        assert_eq!(phases.flushing, Nanos(flushing_ms * 1_000_000));
        assert_eq!((phases.handles, phases.blocks, phases.blocks_logged), (6, 7, 8));
    }
}

#[test]
fn phases_are_left_out_where_they_were_not_seen_or_the_rate_is_unknown() {
    for (hz, seen) in [(Some(250), 0), (None, 1), (Some(0), 1)] {
        let Some(Event::JournalCommit(commit)) = decoder(hz).decode(&commit(seen)) else { panic!() };
        assert_eq!(commit.phases, None);
    }
}

#[test]
fn a_block_request() {
    let record = Bytes::default().u32(4).u32((8 << 20) | 16).u64(1).u64(2).u64(2048).u32(4096).u32(55);
    let bytes = record.text("kworker/u4:1", 16).text("WFSM", 16).0;
    let Some(Event::BlockIo(io)) = decoder(None).decode(&bytes) else { panic!() };
    assert_eq!((io.device, io.start_ns, io.end_ns), ((8, 16), 1, 2));
    assert_eq!((io.sector, io.bytes, io.tid), (2048, 4096, 55));
    assert_eq!((&*io.rwbs, &*io.comm), ("WFSM", "kworker/u4:1"));
}

#[test]
fn a_pause_for_dirty_pages() {
    let bytes = Bytes::default().u32(5).u32(7).u64(1).u64(200).u64(10).u64(20).u64(15).text("kafka", 16).0;
    let Some(Event::DirtyThrottle(pause)) = decoder(None).decode(&bytes) else { panic!() };
    assert_eq!((pause.start_ns, pause.pause_ns, pause.tid), (1, 200_000_000, 7));
    assert_eq!((pause.dirty_pages, pause.limit_pages, pause.setpoint_pages), (10, 20, 15));
}

#[test]
fn every_shorter_record_is_none() {
    let block = Bytes::default().u32(4).text("", 68).0;
    let pause = Bytes::default().u32(5).text("", 60).0;
    for (bytes, least) in [(file_write(b""), 160), (off_cpu(), 56), (commit(1), 88), (block, 72), (pause, 64)]
    {
        assert!(decoder(Some(250)).decode(&bytes[..least]).is_some());
        for length in 0..least {
            assert!(decoder(Some(250)).decode(&bytes[..length]).is_none(), "{length}");
        }
    }
    assert!(decoder(None).decode(&Bytes::default().u32(99).text("", 200).0).is_none());
}
