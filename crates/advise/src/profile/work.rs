//! Kinds of work in a broker's profile, recognized by well-known functions. Does not count.

use model::{StackTime, named};

named! {
    /// A kind of work.
    pub enum Work {
        /// CRC32C of record batches.
        Checksum = "checksum of batches (CRC32C)",
        /// Reading batches record by record, to validate or convert them.
        Records = "record by record (DefaultRecord.readFrom)",
        /// Entering and leaving monitors, spinning included.
        MonitorEnter = "monitor enter",
        /// Locks of `java.util.concurrent`.
        Lock = "lock of java.util.concurrent",
        /// Setting memory to zero.
        Zeroing = "memory zeroing",
        /// Copying memory.
        Copying = "memory copying",
        /// Codec.
        Zstd = "zstd",
        /// Codec.
        Lz4 = "lz4",
        /// Codec.
        Snappy = "snappy",
        /// Codec.
        Gzip = "gzip",
        /// Encryption and its handshakes.
        Tls = "TLS",
        /// The JVM's collector.
        Collector = "garbage collection",
        /// The JVM's compilers.
        Compiler = "JIT compiler",
        /// Writing to files.
        FileWrite = "file write",
        /// Reading from files.
        FileRead = "file read",
        /// Flushing files to the device.
        FileSync = "fsync",
        /// Sending files to sockets.
        SendFile = "sendfile",
        /// Sockets and the network's protocols.
        Sockets = "sockets",
        /// Waiting for sockets.
        Polling = "wait for sockets",
        /// Putting threads to sleep and waking them.
        Futex = "threads' sleep and wake-up (futex)",
        /// Page faults.
        PageFault = "page fault",
    }
}

impl Work {
    /// The default work of a thread, by its name, of which the kernel keeps 15 bytes.
    pub(super) fn of_thread(name: &str) -> Option<Self> {
        first(THREADS, name)
    }

    /// The work of a function, by its name in stacks and dumps.
    pub(super) fn of_frame(frame: &str) -> Option<Self> {
        if let Some(kernel) = frame.strip_suffix(StackTime::KERNEL) {
            return first(KERNEL, kernel);
        }
        first(USER, frame.strip_suffix(StackTime::COMPILED).unwrap_or(frame))
    }
}

/// Names of each work in matching order; `*` at either end stands for any text.
type Names = &'static [(Work, &'static str)];

fn first(names: Names, name: &str) -> Option<Work> {
    let is = |known: &str| match (known.strip_prefix('*'), known.strip_suffix('*')) {
        (Some(rest), Some(_)) => name.contains(rest.trim_end_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(beginning)) => name.starts_with(beginning),
        (None, None) => name == known,
    };
    names.iter().find(|(_, known)| known.split(", ").any(is)).map(|(work, _)| *work)
}

/// HotSpot's threads (`gc/shared`, `compiler/compileBroker.cpp`), then OpenJ9's.
const THREADS: Names = &[
    (
        Work::Collector,
        "GC Thread#*, G1 *, ParGC Thread#*, ZWorker*, ZDriver*, Shenandoah*, GC Worker*, GC Slave*, \
         Concurrent Mark*",
    ),
    (Work::Compiler, "C1 Compiler*, C2 Compiler*, JIT Compilation*"),
];

/// The kernel's functions: `arch/x86/lib`, `mm/`, `fs/`, `net/`.
const KERNEL: Names = &[
    (Work::Zeroing, "clear_page*, clear_huge_page*, clear_subpage*, folio_zero_user*"),
    (
        Work::Copying,
        "copy_user*, rep_movs*, _copy_to_iter*, _copy_from_iter*, copy_page_*, copyin*, copyout*, memcpy*",
    ),
    (
        Work::Sockets,
        "tcp_*, __tcp_*, sock_*, inet_*, ip_*, __ip_*, net_rx_action*, __sys_sendto*, __sys_recvfrom*",
    ),
    (Work::Polling, "ep_poll*, do_epoll_wait*"),
    (Work::SendFile, "do_sendfile*"),
    (Work::FileSync, "vfs_fsync*, do_fsync*, *_sync_file, *_file_fsync"),
    (Work::FileWrite, "*_file_write_iter, generic_perform_write*"),
    (Work::FileRead, "*_file_read_iter, filemap_read*"),
    (Work::Futex, "do_futex*"),
    (Work::PageFault, "exc_page_fault*, do_user_addr_fault*, handle_mm_fault*"),
];

/// Functions in user space. Java's methods, the codecs' native libraries, glibc's memory functions and the JVM's own:
/// HotSpot's `runtime/objectMonitor.cpp`, `runtime/synchronizer.cpp` and stubs, OpenJ9's `vm/ObjectMonitor.cpp` and
/// `omrthread.c`. Code that the JVM inlined into its caller (a checksum's loop, an uncontended lock) counts as the
/// caller.
const USER: Names = &[
    (Work::Checksum, "*CRC32C.*, *updateBytesCRC32C*, *.Crc32C*, *common.utils.Checksums.*"),
    (
        Work::Records,
        "*DefaultRecord.read*, *.LogValidator.*, *ByteUtils.readVar*, *ByteUtils.readUnsignedVar*",
    ),
    (
        Work::MonitorEnter,
        "ObjectMonitor::enter*, ObjectMonitor::Enter*, ObjectMonitor::spin_enter*, ObjectMonitor::try_*, \
         ObjectMonitor::Try*, ObjectMonitor::short_fixed_spin*, ObjectMonitor::exit*, \
         ObjectMonitor::Exit*, ObjectSynchronizer::enter*, ObjectSynchronizer::inflate*, \
         LightweightSynchronizer::*, *complete_monitor_*, *monitorenter*, objectMonitorE*, spinOn*, \
         omrthread_spinlock_*, *monitor_enter*, fast_jitMonitorEnter*",
    ),
    (Work::Lock, "java.util.concurrent.locks.*"),
    (Work::Zeroing, "__memset*, memset*, Copy::fill*, os::pretouch*, *zero_blocks*, *Unsafe.setMemory0"),
    (Work::Copying, "__memmove*, __memcpy*, memmove*, memcpy*, Copy::*, *arraycopy*, *Unsafe.copyMemory0"),
    (Work::Zstd, "com.github.luben.zstd.*, [libzstd*, ZSTD_*, HUF_*, FSE_*"),
    (Work::Lz4, "net.jpountz.*, *.Lz4Block*, [liblz4*, LZ4*"),
    (Work::Snappy, "org.xerial.snappy.*, snappy::*, [snappy*, [libsnappy*"),
    (
        Work::Gzip,
        "java.util.zip.Deflater*, java.util.zip.Inflater*, java.util.zip.GZIP*, deflate*, inflate*, \
         [libz.so*, [libzip.so*",
    ),
    (Work::Tls, "sun.security.ssl.*, javax.net.ssl.*, javax.crypto.*, com.sun.crypto.*"),
    (Work::FileWrite, "*FileDispatcherImpl.write*, *FileDispatcherImpl.pwrite*"),
    (Work::FileRead, "*FileDispatcherImpl.read*, *FileDispatcherImpl.pread*"),
    (Work::FileSync, "*FileDispatcherImpl.force*, *MappedMemoryUtils.force*, *MappedByteBuffer.force*"),
    (Work::SendFile, "*FileDispatcherImpl.transferTo*, sun.nio.ch.FileChannelImpl.transferTo*"),
    (
        Work::Polling,
        "sun.nio.ch.EPoll*, sun.nio.ch.KQueue*, sun.nio.ch.Net.accept*, sun.nio.ch.Net.poll*, epoll_wait*, \
         java.lang.ref.Reference.waitFor*",
    ),
    (Work::Sockets, "*SocketDispatcher.*, sun.nio.ch.Net.*"),
];

#[cfg(test)]
mod tests {
    use super::Work;

    #[test]
    fn maps_known_functions_to_work() {
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
    fn other_functions_and_foreign_kernel_names_have_no_work() {
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
