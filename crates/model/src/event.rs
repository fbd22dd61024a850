//! Events, and the table of a recording that each kind of event goes to. Does not order events: sources deliver them
//! roughly by [`Event::time`].

use std::sync::Arc;

use crate::{
    BlockIo, Column, CpuGap, CpuSample, DirtyThrottle, FileOp, HandlerCall, HostSample, JournalCommit,
    JvmPause, KernelSpan, LockWait, Nanos, OffCpu, PartitionState, Pid, ProcessStop, Reclaim, Request,
    RequestLatencies, Row as _, SocketOp, TcpEvent, TlsTraffic,
};

/// Declares events: their kind (named like its row), table, folder, and the moment at which each is complete.
macro_rules! events {
    ($($(#[doc = $doc:literal])+ $Kind:ident($Row:ty), $Table:ident, $folder:literal, $row:ident => $time:expr;)*) => {
        /// One thing seen by one source.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Event { $($(#[doc = $doc])+ $Kind($Row),)* }

        impl Event {
            /// The moment at which the event was complete and could be delivered.
            pub fn time(&self) -> Nanos {
                match self { $(Self::$Kind($row) => $time,)* }
            }
        }

        named! {
            /// A table of a recording, one for each kind of event.
            pub enum Table { $($(#[doc = $doc])+ $Table = $folder,)* }
        }

        impl Table {
            /// The table of an event.
            pub fn of(event: &Event) -> Self {
                match event { $(Event::$Kind(_) => Self::$Table,)* }
            }

            /// The meaning of its rows.
            pub fn doc(self) -> &'static str {
                match self { $(Self::$Table => concat!($($doc,)+).trim_start(),)* }
            }

            /// Its columns.
            pub fn columns(self) -> Vec<Column> {
                match self { $(Self::$Table => $Kind::columns(),)* }
            }
        }

        $(impl From<$Kind> for Event {
            fn from(row: $Kind) -> Self {
                Self::$Kind(row.into())
            }
        })*

        event_list! { ($) $(($Kind $Table $folder))* }
    };
}

/// The events as a macro that passes their kinds and tables on: `events!(m)` expands to `m! { (Request Requests
/// "requests") … }`.
macro_rules! event_list {
    (($d:tt) $($event:tt)*) => {
        #[doc(hidden)]
        #[macro_export]
        macro_rules! events {
            ($d callback:ident) => {
                $d callback! { $($event)* }
            };
        }
    };
}

events! {
    /// A request on the wire.
    Request(Box<Request>), Requests, "requests", request => request.last_seen();
    /// Requests that an always-on watch counted.
    RequestLatencies(Box<RequestLatencies>), RequestLatencies, "request_latencies", latencies => latencies.end;
    /// A file operation of the broker.
    FileOp(Box<FileOp>), FileOps, "file_ops", op => op.end;
    /// A thread off the CPU.
    OffCpu(Box<OffCpu>), OffCpu, "off_cpu", interval => interval.end;
    /// A journal's commit.
    JournalCommit(Box<JournalCommit>), JournalCommits, "journal_commits", commit => commit.end;
    /// A request to a block device.
    BlockIo(Box<BlockIo>), BlockIos, "block_ios", io => io.end;
    /// A writer paused for dirty pages: known when it begins, because the kernel says how long it will be.
    DirtyThrottle(DirtyThrottle), DirtyThrottles, "dirty_throttles", pause => pause.start;
    /// A thread that had to free memory.
    Reclaim(Box<Reclaim>), Reclaims, "reclaims", reclaim => reclaim.end;
    /// A call of a kernel function.
    KernelSpan(Box<KernelSpan>), KernelSpans, "kernel_spans", span => span.end;
    /// An operation of the broker on a connection.
    SocketOp(Box<SocketOp>), SocketOps, "socket_ops", op => op.end;
    /// Trouble of a connection.
    TcpEvent(Box<TcpEvent>), TcpEvents, "tcp_events", event => event.at;
    /// A partition whose number of replicas is new or has changed.
    PartitionState(PartitionState), PartitionStates, "partition_states", state => state.at;
    /// Unread TLS traffic on a listener.
    TlsTraffic(TlsTraffic), TlsTraffic, "tls_traffic", traffic => traffic.end;
    /// A metric of the host.
    HostSample(Box<HostSample>), HostSamples, "host_samples", sample => sample.end;
    /// A thread on the CPU.
    CpuSample(Box<CpuSample>), CpuSamples, "cpu_samples", sample => sample.at;
    /// A thread that waited for a Java lock.
    LockWait(Box<LockWait>), LockWaits, "lock_waits", wait => wait.end;
    /// A long call in which a request handler worked on one request.
    HandlerCall(Box<HandlerCall>), HandlerCalls, "handler_calls", call => call.end;
    /// A pause of the JVM, for a collection or another operation.
    JvmPause(Box<JvmPause>), JvmPauses, "jvm_pauses", pause => pause.end;
    /// A time in which something had stopped the broker's process.
    ProcessStop(Box<ProcessStop>), ProcessStops, "process_stops", stop => stop.end;
    /// A time in which a CPU was taken from this machine.
    CpuGap(Box<CpuGap>), CpuGaps, "cpu_gaps", gap => gap.end;
    /// The broker's process came or went.
    BrokerChange(BrokerChange), BrokerChanges, "broker_changes", change => change.at;
    /// Something that was not seen, counted.
    Loss(Loss), Losses, "losses", loss => loss.end;
}

row! {
    broker_change_row =>
    /// A broker's process ended or was replaced, or the set of sources that watch it changed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BrokerChange {
        /// When it was noticed.
        at: Nanos as "at_ns",
        /// The process.
        pid: Pid,
        /// Its new state.
        state: BrokerState,
    }
}

named! {
    /// State of a broker's process.
    pub enum BrokerState {
        /// It is watched from here on.
        Watched = "watched",
        /// It ended.
        Gone = "gone",
        /// Requests were slow: from here on an always-on watch sees as much as any, for a while.
        Escalated = "escalated",
        /// The end of an escalation.
        AlwaysOn = "always-on",
    }
}

row! {
    loss_row =>
    /// A number of things that one source lost in a span of time.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Loss {
        /// The last time at which the count was known to be unchanged.
        start: Nanos as "start_ns",
        /// When the change was noticed.
        end: Nanos as "end_ns",
        /// The kind of things lost.
        kind: LossKind,
        /// Their number (packets, events, bytes: see the kind).
        count: u64,
        /// More about it, for people.
        detail: Arc<str>,
    }
}

named! {
    /// Where something was lost.
    pub enum LossKind {
        /// Packets the kernel dropped before they were read.
        PacketsDropped = "packets-dropped",
        /// Bytes of a stream that were in no packet.
        StreamGapBytes = "stream-gap-bytes",
        /// Frames that could not be decoded.
        FramesUndecodable = "frames-undecodable",
        /// Probe events that the ring buffer had no room for.
        ProbeEventsDropped = "probe-events-dropped",
        /// Operations a probe could not follow: a full map.
        ProbeMapFull = "probe-map-full",
        /// Events dropped between a source and the recorder.
        EventsDropped = "events-dropped",
        /// Requests that an always-on watch could not count; for a connection that is encrypted or older than the
        /// watch, its reads. No verdict on another request depends on them.
        RequestsUncounted = "requests-uncounted",
        /// Seconds in which a source was off because watching cost more than `--max-cost`.
        SourceShed = "source-shed",
        /// Seconds in which a source saw nothing because what it reads from had gone.
        SourceDown = "source-down",
    }
}
