//! The kinds of work that an engineer looks for in a broker's profile, by the functions that are known to do them. Does not count.

use std::fmt;

use model::StackTime;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// CRC32C of record batches.
    Checksum,
    /// Batches read record by record, to validate or convert them.
    Records,
    /// Entering and leaving monitors, spinning included.
    MonitorEnter,
    /// Locks of `java.util.concurrent`.
    Lock,
    /// Memory that is set to zero.
    Zeroing,
    /// Memory that is copied.
    Copying,
    /// Codec.
    Zstd,
    /// Codec.
    Lz4,
    /// Codec.
    Snappy,
    /// Codec.
    Gzip,
    /// Encryption and its handshakes.
    Tls,
    /// The JVM's collector.
    Collector,
    /// The JVM's compilers.
    Compiler,
    /// Writing to files.
    FileWrite,
    /// Reading from files.
    FileRead,
    /// Having files written to the device.
    FileSync,
    /// Files sent to sockets.
    SendFile,
    /// Sockets and the network's protocols.
    Sockets,
    /// Waiting for sockets.
    Polling,
    /// Putting threads to sleep and waking them.
    Futex,
    /// Page faults.
    PageFault,
}

impl Work {
    /// The name in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Checksum => "checksum of batches (CRC32C)",
            Self::Records => "record by record (DefaultRecord.readFrom)",
            Self::MonitorEnter => "monitor enter",
            Self::Lock => "lock of java.util.concurrent",
            Self::Zeroing => "memory zeroing",
            Self::Copying => "memory copying",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
            Self::Gzip => "gzip",
            Self::Tls => "TLS",
            Self::Collector => "garbage collection",
            Self::Compiler => "JIT compiler",
            Self::FileWrite => "file write",
            Self::FileRead => "file read",
            Self::FileSync => "fsync",
            Self::SendFile => "sendfile",
            Self::Sockets => "sockets",
            Self::Polling => "wait for sockets",
            Self::Futex => "threads' sleep and wake-up (futex)",
            Self::PageFault => "page fault",
        }
    }

    /// What a thread does that has no other work, by its name, of which the kernel keeps 15 bytes.
    pub(super) fn of_thread(name: &str) -> Option<Self> {
        first(THREADS, name)
    }

    /// What a function does, by its name as stacks and dumps have it.
    pub(super) fn of_frame(frame: &str) -> Option<Self> {
        if let Some(kernel) = frame.strip_suffix(StackTime::KERNEL) {
            return first(KERNEL, kernel);
        }
        first(USER, frame.strip_suffix(StackTime::COMPILED).unwrap_or(frame))
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How a name is known.
enum Name {
    Begins(&'static str),
    Holds(&'static str),
    Ends(&'static str),
}

use Name::{Begins, Ends, Holds};

/// The first line that holds counts.
type Names = &'static [(Name, Work)];

fn first(names: Names, name: &str) -> Option<Work> {
    let is = |known: &Name| match *known {
        Begins(text) => name.starts_with(text),
        Holds(text) => name.contains(text),
        Ends(text) => name.ends_with(text),
    };
    names.iter().find(|(known, _)| is(known)).map(|(_, work)| *work)
}

/// HotSpot's threads (`gc/shared`, `compiler/compileBroker.cpp`), then OpenJ9's.
const THREADS: Names = &[
    (Begins("GC Thread#"), Work::Collector),
    (Begins("G1 "), Work::Collector),
    (Begins("ParGC Thread#"), Work::Collector),
    (Begins("ZWorker"), Work::Collector),
    (Begins("ZDriver"), Work::Collector),
    (Begins("Shenandoah"), Work::Collector),
    (Begins("GC Worker"), Work::Collector),
    (Begins("GC Slave"), Work::Collector),
    (Begins("Concurrent Mark"), Work::Collector),
    (Begins("C1 Compiler"), Work::Compiler),
    (Begins("C2 Compiler"), Work::Compiler),
    (Begins("JIT Compilation"), Work::Compiler),
];

/// The kernel's functions: `arch/x86/lib`, `mm/`, `fs/`, `net/`.
const KERNEL: Names = &[
    (Begins("clear_page"), Work::Zeroing),
    (Begins("clear_huge_page"), Work::Zeroing),
    (Begins("clear_subpage"), Work::Zeroing),
    (Begins("folio_zero_user"), Work::Zeroing),
    (Begins("copy_user"), Work::Copying),
    (Begins("rep_movs"), Work::Copying),
    (Begins("_copy_to_iter"), Work::Copying),
    (Begins("_copy_from_iter"), Work::Copying),
    (Begins("copy_page_"), Work::Copying),
    (Begins("copyin"), Work::Copying),
    (Begins("copyout"), Work::Copying),
    (Begins("memcpy"), Work::Copying),
    (Begins("tcp_"), Work::Sockets),
    (Begins("__tcp_"), Work::Sockets),
    (Begins("sock_"), Work::Sockets),
    (Begins("inet_"), Work::Sockets),
    (Begins("ip_"), Work::Sockets),
    (Begins("__ip_"), Work::Sockets),
    (Begins("net_rx_action"), Work::Sockets),
    (Begins("__sys_sendto"), Work::Sockets),
    (Begins("__sys_recvfrom"), Work::Sockets),
    (Begins("ep_poll"), Work::Polling),
    (Begins("do_epoll_wait"), Work::Polling),
    (Begins("do_sendfile"), Work::SendFile),
    (Begins("vfs_fsync"), Work::FileSync),
    (Begins("do_fsync"), Work::FileSync),
    (Ends("_sync_file"), Work::FileSync),
    (Ends("_file_fsync"), Work::FileSync),
    (Ends("_file_write_iter"), Work::FileWrite),
    (Begins("generic_perform_write"), Work::FileWrite),
    (Ends("_file_read_iter"), Work::FileRead),
    (Begins("filemap_read"), Work::FileRead),
    (Begins("do_futex"), Work::Futex),
    (Begins("exc_page_fault"), Work::PageFault),
    (Begins("do_user_addr_fault"), Work::PageFault),
    (Begins("handle_mm_fault"), Work::PageFault),
];

/// Java's methods, the codecs' native libraries, glibc's memory functions and the JVM's own: HotSpot's `runtime/objectMonitor.cpp`,
/// `runtime/synchronizer.cpp` and stubs, OpenJ9's `vm/ObjectMonitor.cpp` and `omrthread.c`. What an optimised JVM has put into its
/// callers (a checksum's loop, a lock nobody wanted) counts as the caller.
const USER: Names = &[
    (Holds("CRC32C."), Work::Checksum),
    (Holds("updateBytesCRC32C"), Work::Checksum),
    (Holds(".Crc32C"), Work::Checksum),
    (Holds("common.utils.Checksums."), Work::Checksum),
    (Holds("DefaultRecord.read"), Work::Records),
    (Holds(".LogValidator."), Work::Records),
    (Holds("ByteUtils.readVar"), Work::Records),
    (Holds("ByteUtils.readUnsignedVar"), Work::Records),
    (Begins("ObjectMonitor::enter"), Work::MonitorEnter),
    (Begins("ObjectMonitor::Enter"), Work::MonitorEnter),
    (Begins("ObjectMonitor::spin_enter"), Work::MonitorEnter),
    (Begins("ObjectMonitor::try_"), Work::MonitorEnter),
    (Begins("ObjectMonitor::Try"), Work::MonitorEnter),
    (Begins("ObjectMonitor::short_fixed_spin"), Work::MonitorEnter),
    (Begins("ObjectMonitor::exit"), Work::MonitorEnter),
    (Begins("ObjectMonitor::Exit"), Work::MonitorEnter),
    (Begins("ObjectSynchronizer::enter"), Work::MonitorEnter),
    (Begins("ObjectSynchronizer::inflate"), Work::MonitorEnter),
    (Begins("LightweightSynchronizer::"), Work::MonitorEnter),
    (Holds("complete_monitor_"), Work::MonitorEnter),
    (Holds("monitorenter"), Work::MonitorEnter),
    (Begins("objectMonitorE"), Work::MonitorEnter),
    (Begins("spinOn"), Work::MonitorEnter),
    (Begins("omrthread_spinlock_"), Work::MonitorEnter),
    (Holds("monitor_enter"), Work::MonitorEnter),
    (Begins("fast_jitMonitorEnter"), Work::MonitorEnter),
    (Begins("java.util.concurrent.locks."), Work::Lock),
    (Begins("__memset"), Work::Zeroing),
    (Begins("memset"), Work::Zeroing),
    (Begins("Copy::fill"), Work::Zeroing),
    (Begins("os::pretouch"), Work::Zeroing),
    (Holds("zero_blocks"), Work::Zeroing),
    (Ends("Unsafe.setMemory0"), Work::Zeroing),
    (Begins("__memmove"), Work::Copying),
    (Begins("__memcpy"), Work::Copying),
    (Begins("memmove"), Work::Copying),
    (Begins("memcpy"), Work::Copying),
    (Begins("Copy::"), Work::Copying),
    (Holds("arraycopy"), Work::Copying),
    (Ends("Unsafe.copyMemory0"), Work::Copying),
    (Begins("com.github.luben.zstd."), Work::Zstd),
    (Begins("[libzstd"), Work::Zstd),
    (Begins("ZSTD_"), Work::Zstd),
    (Begins("HUF_"), Work::Zstd),
    (Begins("FSE_"), Work::Zstd),
    (Begins("net.jpountz."), Work::Lz4),
    (Holds(".Lz4Block"), Work::Lz4),
    (Begins("[liblz4"), Work::Lz4),
    (Begins("LZ4"), Work::Lz4),
    (Begins("org.xerial.snappy."), Work::Snappy),
    (Begins("snappy::"), Work::Snappy),
    (Begins("[snappy"), Work::Snappy),
    (Begins("[libsnappy"), Work::Snappy),
    (Begins("java.util.zip.Deflater"), Work::Gzip),
    (Begins("java.util.zip.Inflater"), Work::Gzip),
    (Begins("java.util.zip.GZIP"), Work::Gzip),
    (Begins("deflate"), Work::Gzip),
    (Begins("inflate"), Work::Gzip),
    (Begins("[libz.so"), Work::Gzip),
    (Begins("[libzip.so"), Work::Gzip),
    (Begins("sun.security.ssl."), Work::Tls),
    (Begins("javax.net.ssl."), Work::Tls),
    (Begins("javax.crypto."), Work::Tls),
    (Begins("com.sun.crypto."), Work::Tls),
    (Holds("FileDispatcherImpl.write"), Work::FileWrite),
    (Holds("FileDispatcherImpl.pwrite"), Work::FileWrite),
    (Holds("FileDispatcherImpl.read"), Work::FileRead),
    (Holds("FileDispatcherImpl.pread"), Work::FileRead),
    (Holds("FileDispatcherImpl.force"), Work::FileSync),
    (Holds("MappedMemoryUtils.force"), Work::FileSync),
    (Holds("MappedByteBuffer.force"), Work::FileSync),
    (Holds("FileDispatcherImpl.transferTo"), Work::SendFile),
    (Begins("sun.nio.ch.FileChannelImpl.transferTo"), Work::SendFile),
    (Begins("sun.nio.ch.EPoll"), Work::Polling),
    (Begins("sun.nio.ch.KQueue"), Work::Polling),
    (Begins("sun.nio.ch.Net.accept"), Work::Polling),
    (Begins("sun.nio.ch.Net.poll"), Work::Polling),
    (Begins("epoll_wait"), Work::Polling),
    (Begins("java.lang.ref.Reference.waitFor"), Work::Polling),
    (Holds("SocketDispatcher."), Work::Sockets),
    (Begins("sun.nio.ch.Net."), Work::Sockets),
];

#[cfg(test)]
mod tests {
    use super::Work;

    #[test]
    fn well_known_functions_are_named_as_engineers_do() {
        for (frame, work) in [
            ("java.util.zip.CRC32C.updateBytes", Work::Checksum),
            ("org.apache.kafka.common.record.DefaultRecord.readFrom_[j]", Work::Records),
            ("ObjectMonitor::TrySpin", Work::MonitorEnter),
            ("objectMonitorEnterNonBlocking", Work::MonitorEnter),
            ("clear_page_erms_[k]", Work::Zeroing),
            ("__memset_avx2_unaligned_erms", Work::Zeroing),
            ("[libzstd-jni-1.5.6-4.so]", Work::Zstd),
            ("com.github.luben.zstd.ZstdInputStreamNoFinalizer.read", Work::Zstd),
            ("net.jpountz.lz4.LZ4JNI.LZ4_decompress_fast", Work::Lz4),
            ("sun.nio.ch.UnixFileDispatcherImpl.write0", Work::FileWrite),
            ("xfs_file_write_iter_[k]", Work::FileWrite),
            ("tcp_sendmsg_locked_[k]", Work::Sockets),
            ("jbyte_disjoint_arraycopy_[j]", Work::Copying),
        ] {
            assert_eq!(Work::of_frame(frame), Some(work), "{frame}");
        }
    }

    #[test]
    fn others_are_not_and_a_name_of_the_kernel_s_is_none_of_the_program_s() {
        for frame in [
            "kafka.log.UnifiedLog.append_[j]",
            "[java]_[j]",
            "tcp_sendmsg",
            "ObjectMonitor::wait",
            "",
            "memset_[k]",
        ] {
            assert_eq!(Work::of_frame(frame), None, "{frame}");
        }
        assert_eq!(Work::of_thread("GC Thread#0"), Some(Work::Collector));
        assert_eq!(Work::of_thread("data-plane-kafka-request-handler-1"), None);
    }
}
