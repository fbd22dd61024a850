//! Dumps as JVMs write them, damaged dumps, and invented ones.

use std::io::BufReader;

use model::{LockKind, LockSource, Nanos};
use proptest::prelude::*;

use super::{
    BlockedLock, DefectKind, Dump, DumpFormat, Dumps, Error, LockContention, ThreadState, WaitKind, Zone,
    lock_contention,
};

const OPENJ9: &[u8] = include_bytes!("../../tests/dumps/openj9-log-append.txt");

const HOTSPOT_17: &[u8] = include_bytes!("../../tests/dumps/hotspot-17-sigquit.txt");
const HOTSPOT_25: &[u8] = include_bytes!("../../tests/dumps/hotspot-25-jcmd-jstack.txt");

/// A dump with every kind of line, in the forms of JDK 8, 11 and 21.
const HOTSPOT: &str = r#"4460:
2024-05-19 15:04:47
Full thread dump OpenJDK 64-Bit Server VM (21.0.3+9 mixed mode):

Threads class SMR info:
_java_thread_list=0x00007f35a000ad50, length=3, elements={
0x00007f362401bf50, 0x00007f36241d88e0
}

"data-plane-kafka-request-handler-24" #73 daemon prio=5 os_prio=0 tid=0x00007f6c2c5d1800 nid=0x1184 waiting for monitor entry [0x00007f6b0f3f2000]
   java.lang.Thread.State: BLOCKED (on object monitor)
	at kafka.log.UnifiedLog.append(UnifiedLog.scala:823)
	- waiting to lock <0x00000000fd694cd8> (a java.lang.Object)
	at kafka.log.UnifiedLog.appendAsLeader(UnifiedLog.scala:719)

   Locked ownable synchronizers:
	- None

"data-plane-kafka-request-handler-7" #56 [4462] daemon prio=5 os_prio=0 cpu=1.00ms elapsed=2.00s tid=0x00007f6c2c5d1900 nid=4462 runnable  [0x00007f6b0f3f3000]
   java.lang.Thread.State: RUNNABLE
	at sun.nio.ch.FileDispatcherImpl.write0(java.base@21.0.3/Native Method)
	at kafka.log.UnifiedLog.append(UnifiedLog.scala:900)
[2024-05-19 15:04:47,458] INFO another thread's log line (kafka.Log)
	- locked <0x00000000fd694cd8> (a java.lang.Object)
	- eliminated <0x00000000fd694ce8> (a java.lang.Object)
	- eliminated <owner is scalar replaced> (a java.lang.Object)

   Locked ownable synchronizers:
	- <0x00000000e1100008> (a java.util.concurrent.locks.ReentrantLock$NonfairSync)

"parked" #57 prio=5 os_prio=0 tid=0x1 nid=0x11 waiting on condition [0x1]
   java.lang.Thread.State: WAITING (parking)
	at jdk.internal.misc.Unsafe.park(java.base@11/Native Method)
	- parking to wait for  <0x00000000e1100008> (a java.util.concurrent.locks.ReentrantLock$NonfairSync)
	at java.util.concurrent.locks.LockSupport.park(java.base@11/LockSupport.java:194)
	at kafka.coordinator.Group.inLock(Group.scala:1)

"idle" #58 prio=5 os_prio=0 tid=0x1 nid=0x12 waiting on condition [0x1]
   java.lang.Thread.State: WAITING (parking)
	- parking to wait for  <0x00000000e1100009> (a java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject)

"waiter" #59 prio=5 os_prio=0 tid=0x1 nid=0x13 in Object.wait() [0x1]
   java.lang.Thread.State: WAITING (on object monitor)
	at java.lang.Object.wait(Native Method)
	- waiting on <0x00000000e1100010> (a kafka.Queue)
	at kafka.Queue.take(Queue.scala:1)
	- locked <0x00000000e1100010> (a kafka.Queue)

"unnamed waiter" #60 prio=5 os_prio=0 tid=0x1 nid=0x14 in Object.wait() [0x1]
   java.lang.Thread.State: WAITING (on object monitor)
	at java.lang.Object.wait(Native Method)
	- waiting on <no object reference available>
	at kafka.Queue.take(Queue.scala:1)
	- locked <0x00000000e1100010> (a kafka.Queue)

"notified" #61 prio=5 os_prio=0 tid=0x1 nid=0x15 waiting for monitor entry [0x1]
   java.lang.Thread.State: BLOCKED (on object monitor)
	at java.lang.Object.wait(Native Method)
	- waiting to re-lock in wait() <0x00000000e1100010> (a kafka.Queue)
	at kafka.Queue.take(Queue.scala:1)
	- locked <0x00000000e1100010> (a kafka.Queue)

"putter" #62 prio=5 os_prio=0 tid=0x1 nid=0x16 runnable [0x1]
   java.lang.Thread.State: RUNNABLE
	at kafka.Queue.put(Queue.scala:2)
	- locked <0x00000000e1100010> (a kafka.Queue)

"ForkJoinPool-1-worker-1" #30 [77] daemon prio=5 os_prio=0 cpu=1ms elapsed=1s tid=0x1 nid=77 [0x1]
   Carrying virtual thread #29
	at jdk.internal.vm.Continuation.run(java.base@21.0.3/Continuation.java:251)
   Mounted virtual thread #29
	at kafka.Queue.put(Queue.scala:1)
	- waiting to lock <0x00000000e1100010> (a kafka.Queue)

"VM Thread" os_prio=0 cpu=1ms elapsed=1s tid=0x1 nid=0x17 runnable  

JNI global refs: 15, weak refs: 0


Found one Java-level deadlock:
=============================
"a":
  waiting to lock monitor 0x0000 (object 0x00000000e1100010, a kafka.Queue),
  which is held by "b"

Java stack information for the threads listed above:
===================================================
"a":
	at kafka.Queue.put(Queue.scala:1)
	- waiting to lock <0x00000000e1100010> (a kafka.Queue)

Found 1 deadlock.
"#;

fn all(text: &[u8]) -> Result<Vec<Dump>, Error> {
    Dumps::new(text, Zone::utc()).collect()
}

fn read(text: &[u8]) -> Vec<Dump> {
    all(text).unwrap()
}

fn kinds(dump: &Dump) -> Vec<(u64, DefectKind)> {
    dump.defects.iter().map(|defect| (defect.line, defect.kind)).collect()
}

/// Lock class, owner, blocked threads, method of each row.
fn rows(blocked: &LockContention) -> Vec<(String, String, Vec<String>, String)> {
    let row = |row: BlockedLock| {
        let owners: Vec<_> = row.owners.iter().map(|count| count.thread.thread.to_string()).collect();
        let threads = row.threads.iter().map(|count| count.thread.thread.to_string()).collect();
        (row.lock.class.to_string(), owners.join(" "), threads, row.method.to_string())
    };
    blocked.locks().into_iter().map(row).collect()
}

#[test]
fn javacore_yields_the_lock_holder_and_the_waiters_in_append() {
    let dumps = read(OPENJ9);
    let [dump] = &dumps[..] else { panic!("{dumps:?}") };
    assert_eq!((dump.format, dump.line, dump.pid), (DumpFormat::OpenJ9, 1, 4660));
    assert_eq!(dump.taken, Some(Nanos(1_647_252_930_250_000_000)), "by the line in UTC");
    assert_eq!(dump.defects, []);
    assert_eq!(dump.threads.len(), 6);
    let waits = dump.lock_waits();
    assert_eq!(waits.len(), 3);
    assert_eq!(
        (&*waits[0].thread, waits[0].tid, waits[0].pid),
        ("data-plane-kafka-request-handler-0", 0x12a0, 4660)
    );
    assert_eq!((waits[0].start, waits[0].end), (dump.taken.unwrap(), dump.taken.unwrap()));
    assert_eq!(
        (waits[0].lock.kind, &*waits[0].lock.class, waits[0].lock.address),
        (LockKind::Monitor, "java.lang.Object", 0xe0a2_4848)
    );
    assert_eq!(waits[0].source, LockSource::ThreadDump);
    assert!(
        waits[0].stack.starts_with("java.lang.Thread.run;kafka.server.KafkaRequestHandler.run;"),
        "{}",
        waits[0].stack
    );
    assert!(waits[0].stack.ends_with(";kafka.log.Log.append"));
    for wait in &waits {
        let holder = wait.holder.as_ref().unwrap();
        assert_eq!((&*holder.thread, holder.tid), ("data-plane-kafka-request-handler-1", Some(0x12a1)));
    }
    let others = [0, 2, 3].map(|n| format!("data-plane-kafka-request-handler-{n}"));
    assert_eq!(
        rows(&lock_contention(&dumps)),
        [(
            "java.lang.Object".to_owned(),
            "data-plane-kafka-request-handler-1".to_owned(),
            others.to_vec(),
            "kafka.log.Log.append".to_owned()
        )]
    );
}

#[test]
fn real_hotspot_dumps_yield_one_contended_lock_in_append() {
    for (text, pid, dumps, lines, waits, address) in [
        (HOTSPOT_17, None, 2, vec![2, 73], 9, 0xfd2c_1c70),
        (HOTSPOT_25, Some(17_133), 3, vec![3, 46, 111], 8, 0xfbb5_a3d8),
    ] {
        let dumped = read(text);
        assert_eq!(dumped.iter().map(|dump| dump.line).collect::<Vec<_>>(), lines);
        assert!(
            dumped.iter().all(|dump| dump.defects.is_empty() && dump.taken.is_some() && dump.deadlocks == 0)
        );
        let blocked = lock_contention(&dumped);
        assert_eq!((blocked.dumps, blocked.pids.first().copied()), (dumps, pid));
        let locks = blocked.locks();
        let [lock] = &locks[..] else { panic!("{locks:?}") };
        assert_eq!((&*lock.lock.class, lock.lock.address), ("java.lang.Object", address));
        assert_eq!(&*lock.method, "org.apache.kafka.storage.internals.log.UnifiedLog.append");
        assert_eq!((lock.dumps, lock.waits), (dumps, waits));
        assert_eq!(lock.owners.iter().map(|owner| owner.dumps).sum::<u64>(), dumps, "one owner a dump");
        for count in lock.owners.iter().chain(&lock.threads) {
            assert!(count.thread.thread.starts_with("data-plane-kafka-request-handler-"), "{count:?}");
            assert!(count.thread.tid.is_some(), "{count:?}");
        }
    }
}

#[test]
fn javacore_lock_section_alone_yields_owner_and_waiters() {
    let text = r#"3LKMONOBJECT       java/lang/Object@0xB56658D8: Flat locked by "Worker "Thread" 0" (0x92A3EC00), entry count 1
3LKWAITERQ            Waiting to enter:
3LKWAITER                "Worker "Thread" 1" (0x92703F00)
2LKREGMON          Thread global lock (0x000003FFA0004FE8): owner "x" (0x1), entry count 1
3LKWAITERQ            Waiting to enter:
3LKWAITER                "Worker Thread 2" (0x92703F01)
"#;
    let dumps = read(text.as_bytes());
    assert_eq!(
        rows(&lock_contention(&dumps)),
        [(
            "java.lang.Object".to_owned(),
            "Worker \"Thread\" 0".to_owned(),
            vec!["Worker \"Thread\" 1".to_owned()],
            String::new()
        )]
    );
    assert_eq!(kinds(&dumps[0]), [(6, DefectKind::Truncated)]);
    assert_eq!(dumps[0].lock_waits(), [], "no time, no event");
}

#[test]
fn parses_every_kind_of_line_of_a_hotspot_dump() {
    let dumps = read(HOTSPOT.as_bytes());
    let [dump] = &dumps[..] else { panic!("{dumps:?}") };
    assert_eq!((dump.format, dump.line, dump.pid), (DumpFormat::HotSpot, 3, 4460));
    assert_eq!(dump.taken, Some(Nanos(1_716_131_087_000_000_000)));
    assert_eq!((dump.deadlocks, &dump.defects[..]), (1, &[][..]));
    let thread = |name: &str| dump.threads.iter().find(|thread| &*thread.name == name).unwrap();
    let wait = |name: &str| {
        let wait = thread(name).wait.as_ref()?;
        Some((wait.how, wait.lock.address, wait.owner.as_ref().map(|owner| owner.thread.to_string())))
    };
    let handler = thread("data-plane-kafka-request-handler-24");
    assert_eq!(
        (handler.native_id, handler.java_id, handler.state),
        (Some(4484), Some(73), ThreadState::Blocked)
    );
    let owner = Some("data-plane-kafka-request-handler-7".to_owned());
    assert_eq!(
        wait("data-plane-kafka-request-handler-24"),
        Some((WaitKind::Enter, 0xfd69_4cd8, owner.clone()))
    );
    assert_eq!(thread("data-plane-kafka-request-handler-7").holds.len(), 2, "eliminated locks are not held");
    assert_eq!(wait("parked"), Some((WaitKind::Park, 0xe110_0008, owner)));
    assert_eq!(thread("parked").method().map(|method| &**method), Some("kafka.coordinator.Group.inLock"));
    assert_eq!(wait("waiter"), Some((WaitKind::Notify, 0xe110_0010, None)));
    assert_eq!(wait("unnamed waiter"), Some((WaitKind::Notify, 0xe110_0010, None)));
    let putter = Some("putter".to_owned());
    assert_eq!(wait("notified"), Some((WaitKind::Reenter, 0xe110_0010, putter.clone())));
    assert_eq!(wait("virtual thread #29"), Some((WaitKind::Enter, 0xe110_0010, putter)));
    assert_eq!(thread("virtual thread #29").native_id, Some(77));
    assert_eq!(dump.threads.len(), 11);
    let blocked: Vec<_> = dump.blocked().map(|(thread, _)| thread.name.to_string()).collect();
    assert_eq!(blocked, ["data-plane-kafka-request-handler-24", "parked", "notified", "virtual thread #29"]);
}

#[test]
fn crlf_and_invalid_utf8_do_not_change_the_other_content() {
    let crlf = HOTSPOT.replace('\n', "\r\n");
    assert_eq!(read(crlf.as_bytes()), read(HOTSPOT.as_bytes()));
    let mut bytes = HOTSPOT.as_bytes().to_vec();
    let at = HOTSPOT.find("\"parked\"").unwrap();
    bytes.splice(at + 1..at + 2, [0xff, 0xe4]);
    let dump = &read(&bytes)[0];
    assert_eq!(&*dump.threads[2].name, "\u{fffd}\u{fffd}arked");
}

#[test]
fn reads_consecutive_dumps_of_both_formats_from_a_log() {
    let log = "[2024-05-19 15:04:46,001] INFO x (kafka.Log)\njava.lang.Error: \"x\" #1\n\tat kafka.X.y(X.scala:1)\n";
    let cut = &HOTSPOT[..HOTSPOT.find("\"parked\"").unwrap()];
    let text = [
        log.as_bytes(),
        HOTSPOT.as_bytes(),
        log.as_bytes(),
        OPENJ9,
        b"\xff\xff\x00\n",
        cut.as_bytes(),
        HOTSPOT.as_bytes(),
    ]
    .concat();
    let dumps = read(&text);
    let formats: Vec<_> = dumps.iter().map(|dump| dump.format).collect();
    assert_eq!(formats, [DumpFormat::HotSpot, DumpFormat::OpenJ9, DumpFormat::HotSpot, DumpFormat::HotSpot]);
    assert_eq!(dumps[0].threads, dumps[3].threads);
    assert_eq!(dumps[1].threads, read(OPENJ9)[0].threads);
    assert_eq!(dumps[2].threads.len(), 2);
    assert_eq!(
        dumps[2].defects.iter().map(|defect| defect.kind).collect::<Vec<_>>(),
        [DefectKind::Truncated]
    );
    assert!(dumps.iter().all(|dump| dump.taken.is_some() && dump.pid != 0));
    let blocked = lock_contention(&dumps);
    let log_lock = &blocked.locks()[0];
    assert_eq!((blocked.dumps, log_lock.dumps, log_lock.waits), (4, 3, 3));
}

#[test]
fn broken_thread_header_is_a_defect_and_its_frames_are_dropped() {
    let text = "\"a\" #1 prio=5 tid=0x1 nid=0x1 runnable\n\tat a.A.a(A)\n\"b\" #2 prio=5 tid=0x1 runn\n\tat b.B.b(B)\nJNI global refs: 1";
    let dump = &read(text.as_bytes())[0];
    assert_eq!(kinds(dump), [(3, DefectKind::BrokenThread)]);
    assert_eq!(dump.threads.len(), 1);
    assert_eq!(dump.threads[0].frames.len(), 1);
}

#[test]
fn lock_with_two_owners_has_no_owner() {
    let holder = "\"h\" #1 prio=5 tid=0x1 nid=0x1 runnable\n\tat a.A.a(A)\n\t- locked <0x5> (a X)\n\n";
    let waiter =
        "\"w\" #1 prio=5 tid=0x1 nid=0x2 runnable\n\tat a.A.a(A)\n\t- waiting to lock <0x5> (a X)\n\n";
    let dump = &read([waiter, holder, holder].concat().as_bytes())[0];
    assert_eq!(dump.threads[0].wait.as_ref().unwrap().owner, None);
}

struct BrokenReader;
impl std::io::Read for BrokenReader {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("disk is gone"))
    }
}

#[test]
fn refuses_other_text_with_the_line_number() {
    for (text, expected) in [
        (&b""[..], "line 0: no thread dump up to the end"),
        (
            b"[2024-05-19 15:04:46,001] INFO x\n\tat kafka.X.y(X.scala:1)\n",
            "line 2: no thread dump up to the end",
        ),
        (b"\xff\xfeF\0u\0l\0l\0", "line 1: this is UTF-16"),
        (b"\x1f\x8b\x08\0", "line 1: this is gzip"),
    ] {
        let error = all(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let mut dumps = Dumps::new(BufReader::new(BrokenReader), Zone::utc());
    assert_eq!(dumps.next().unwrap().unwrap_err().to_string(), "line 1: cannot read further: disk is gone");
    assert!(dumps.next().is_none());
}

#[test]
fn truncated_dump_yields_the_threads_before_the_cut() {
    // All prefixes take half a minute; these cut every kind of line somewhere, and many in each position.
    for (whole, step) in [(HOTSPOT.as_bytes(), 3), (OPENJ9, 7)] {
        let full = &read(whole)[0];
        for end in (0..whole.len()).step_by(step) {
            let Ok(dumps) = all(&whole[..end]) else { continue };
            assert_eq!(dumps.len(), 1, "{end}");
            let dump = &dumps[0];
            let done = full.defects == dump.defects;
            assert!(done || kinds(dump).iter().any(|&(_, kind)| kind == DefectKind::Truncated), "{end}");
            for thread in &dump.threads {
                let Some(same) = full.threads.iter().find(|same| same.name == thread.name) else {
                    panic!("{end}: {thread:?}")
                };
                assert!(
                    thread.native_id.is_none() || thread.native_id == same.native_id,
                    "{end}: {thread:?}"
                );
                assert_eq!(thread.frames, same.frames[..thread.frames.len()], "{end}");
            }
        }
    }
}

/// Lines of both formats, whole, cut and in any order.
fn mixture() -> impl Strategy<Value = Vec<u8>> {
    let text = [HOTSPOT.as_bytes(), OPENJ9].concat();
    let lines: Vec<Vec<u8>> = text.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    let line = prop_oneof![
        8 => prop::sample::select(lines.clone()),
        1 => (prop::sample::select(lines), 0..200usize).prop_map(|(line, end)| line[..end.min(line.len())].to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    prop::collection::vec(line, 0..80).prop_map(|lines| lines.concat())
}

proptest! {
    #[test]
    fn any_mixture_of_lines_is_parsed_or_refused(text in mixture()) {
        if let Ok(dumps) = all(&text) {
            let blocked = lock_contention(&dumps);
            let waits: usize = dumps.iter().map(|dump| dump.blocked().count()).sum();
            prop_assert_eq!(blocked.locks().iter().map(|lock| lock.waits).sum::<u64>(), waits as u64);
            for dump in &dumps {
                prop_assert!(dump.lock_waits().len() <= dump.threads.len());
            }
        }
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = all(&bytes);
    }
}
