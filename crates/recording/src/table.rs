//! The tables of a recording: their folders, and one place that pairs each with its event.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use model::Event;

use crate::cells::{BadRow, ColumnError, RowCells};
use crate::columns::Columns;
use crate::tables::block_ios::{BlockIoCells, BlockIos};
use crate::tables::broker_changes::{BrokerChangeCells, BrokerChanges};
use crate::tables::cpu_samples::{CpuSampleCells, CpuSamples};
use crate::tables::dirty_throttles::{DirtyThrottleCells, DirtyThrottles};
use crate::tables::file_ops::{FileOpCells, FileOps};
use crate::tables::gc_pauses::{GcPauseCells, GcPauses};
use crate::tables::host_samples::{HostSampleCells, HostSamples};
use crate::tables::journal_commits::{JournalCommitCells, JournalCommits};
use crate::tables::kernel_spans::{KernelSpanCells, KernelSpans};
use crate::tables::lock_waits::{LockWaitCells, LockWaits};
use crate::tables::losses::{LossCells, Losses};
use crate::tables::off_cpu::{OffCpuCells, OffCpus};
use crate::tables::reclaims::{ReclaimCells, Reclaims};
use crate::tables::requests::{RequestCells, Requests};
use crate::tables::socket_ops::{SocketOpCells, SocketOps};
use crate::tables::tcp_troubles::{TcpEventCells, TcpEvents};
use crate::text::TextPool;

/// A table of a recording, one for each kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Requests on the wire.
    Requests,
    /// File operations.
    FileOps,
    /// Threads off the CPU.
    OffCpu,
    /// Commits of journals.
    JournalCommits,
    /// Requests to block devices.
    BlockIos,
    /// Pauses for dirty pages.
    DirtyThrottles,
    /// Memory that threads had to free.
    Reclaims,
    /// Calls of kernel functions.
    KernelSpans,
    /// Operations on connections.
    SocketOps,
    /// Trouble of connections.
    TcpEvents,
    /// Figures of the host.
    HostSamples,
    /// Threads on the CPU.
    CpuSamples,
    /// Waits for Java locks.
    LockWaits,
    /// Stops of the JVM, for collections and others.
    GcPauses,
    /// The broker's process.
    BrokerChanges,
    /// What was not seen.
    Losses,
}

impl Table {
    /// Every table, at the place of its number.
    pub const ALL: [Self; 16] = [
        Self::Requests,
        Self::FileOps,
        Self::OffCpu,
        Self::JournalCommits,
        Self::BlockIos,
        Self::DirtyThrottles,
        Self::Reclaims,
        Self::KernelSpans,
        Self::SocketOps,
        Self::TcpEvents,
        Self::HostSamples,
        Self::CpuSamples,
        Self::LockWaits,
        Self::GcPauses,
        Self::BrokerChanges,
        Self::Losses,
    ];

    /// Its folder in a recording.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::FileOps => "file_ops",
            Self::OffCpu => "off_cpu",
            Self::JournalCommits => "journal_commits",
            Self::BlockIos => "block_ios",
            Self::DirtyThrottles => "dirty_throttles",
            Self::Reclaims => "reclaims",
            Self::KernelSpans => "kernel_spans",
            Self::SocketOps => "socket_ops",
            Self::TcpEvents => "tcp_troubles",
            Self::HostSamples => "host_samples",
            Self::CpuSamples => "cpu_samples",
            Self::LockWaits => "lock_waits",
            Self::GcPauses => "gc_pauses",
            Self::BrokerChanges => "broker_changes",
            Self::Losses => "losses",
        }
    }

    /// Its folder in the recording at `dir`.
    pub(crate) fn path(self, dir: &Path) -> PathBuf {
        dir.join(self.folder())
    }

    /// The table an event goes to.
    pub fn of(event: &Event) -> Self {
        match event {
            Event::Request(_) => Self::Requests,
            Event::FileOp(_) => Self::FileOps,
            Event::OffCpu(_) => Self::OffCpu,
            Event::JournalCommit(_) => Self::JournalCommits,
            Event::BlockIo(_) => Self::BlockIos,
            Event::DirtyThrottle(_) => Self::DirtyThrottles,
            Event::Reclaim(_) => Self::Reclaims,
            Event::KernelSpan(_) => Self::KernelSpans,
            Event::SocketOp(_) => Self::SocketOps,
            Event::TcpEvent(_) => Self::TcpEvents,
            Event::HostSample(_) => Self::HostSamples,
            Event::CpuSample(_) => Self::CpuSamples,
            Event::LockWait(_) => Self::LockWaits,
            Event::JvmPause(_) => Self::GcPauses,
            Event::BrokerChange(_) => Self::BrokerChanges,
            Event::Loss(_) => Self::Losses,
        }
    }

    /// Its columns.
    pub(crate) fn schema(self) -> Schema {
        Schema::new(match self {
            Self::Requests => Requests::fields(),
            Self::FileOps => FileOps::fields(),
            Self::OffCpu => OffCpus::fields(),
            Self::JournalCommits => JournalCommits::fields(),
            Self::BlockIos => BlockIos::fields(),
            Self::DirtyThrottles => DirtyThrottles::fields(),
            Self::Reclaims => Reclaims::fields(),
            Self::KernelSpans => KernelSpans::fields(),
            Self::SocketOps => SocketOps::fields(),
            Self::TcpEvents => TcpEvents::fields(),
            Self::HostSamples => HostSamples::fields(),
            Self::CpuSamples => CpuSamples::fields(),
            Self::LockWaits => LockWaits::fields(),
            Self::GcPauses => GcPauses::fields(),
            Self::BrokerChanges => BrokerChanges::fields(),
            Self::Losses => Losses::fields(),
        })
    }

    /// Its columns that are not read back.
    pub(crate) fn unread(self) -> Vec<&'static str> {
        match self {
            Self::Requests => Requests::unread(),
            Self::FileOps => FileOps::unread(),
            Self::OffCpu => OffCpus::unread(),
            Self::JournalCommits => JournalCommits::unread(),
            Self::BlockIos => BlockIos::unread(),
            Self::DirtyThrottles => DirtyThrottles::unread(),
            Self::Reclaims => Reclaims::unread(),
            Self::KernelSpans => KernelSpans::unread(),
            Self::SocketOps => SocketOps::unread(),
            Self::TcpEvents => TcpEvents::unread(),
            Self::HostSamples => HostSamples::unread(),
            Self::CpuSamples => CpuSamples::unread(),
            Self::LockWaits => LockWaits::unread(),
            Self::GcPauses => GcPauses::unread(),
            Self::BrokerChanges => BrokerChanges::unread(),
            Self::Losses => Losses::unread(),
        }
    }

    /// Its cells in a batch.
    pub(crate) fn cells(self, batch: &RecordBatch) -> Result<Box<dyn Decode>, ColumnError> {
        Ok(match self {
            Self::Requests => Box::new(RequestCells::of(batch)?),
            Self::FileOps => Box::new(FileOpCells::of(batch)?),
            Self::OffCpu => Box::new(OffCpuCells::of(batch)?),
            Self::JournalCommits => Box::new(JournalCommitCells::of(batch)?),
            Self::BlockIos => Box::new(BlockIoCells::of(batch)?),
            Self::DirtyThrottles => Box::new(DirtyThrottleCells::of(batch)?),
            Self::Reclaims => Box::new(ReclaimCells::of(batch)?),
            Self::KernelSpans => Box::new(KernelSpanCells::of(batch)?),
            Self::SocketOps => Box::new(SocketOpCells::of(batch)?),
            Self::TcpEvents => Box::new(TcpEventCells::of(batch)?),
            Self::HostSamples => Box::new(HostSampleCells::of(batch)?),
            Self::CpuSamples => Box::new(CpuSampleCells::of(batch)?),
            Self::LockWaits => Box::new(LockWaitCells::of(batch)?),
            Self::GcPauses => Box::new(GcPauseCells::of(batch)?),
            Self::BrokerChanges => Box::new(BrokerChangeCells::of(batch)?),
            Self::Losses => Box::new(LossCells::of(batch)?),
        })
    }
}

/// A table's columns, to append its rows to.
pub(crate) trait Encode: Columns {
    /// What a row holds.
    type Row;
    /// Appends a row.
    fn append(&mut self, row: &Self::Row);
    /// About how many bytes the row takes in memory.
    fn weight(row: &Self::Row) -> usize;
}

/// A table's cells, to read its events from.
pub(crate) trait Decode {
    /// The event in row `i`.
    fn event(&self, i: usize, pool: &mut TextPool) -> Result<Event, BadRow>;
}

/// Rows of all tables, not yet written.
#[derive(Default)]
pub(crate) struct RowBuffers {
    requests: Requests,
    file_ops: FileOps,
    off_cpu: OffCpus,
    journal_commits: JournalCommits,
    block_ios: BlockIos,
    dirty_throttles: DirtyThrottles,
    reclaims: Reclaims,
    kernel_spans: KernelSpans,
    socket_ops: SocketOps,
    tcp_troubles: TcpEvents,
    host_samples: HostSamples,
    cpu_samples: CpuSamples,
    lock_waits: LockWaits,
    gc_pauses: GcPauses,
    broker_changes: BrokerChanges,
    losses: Losses,
}

impl RowBuffers {
    /// Appends an event to its table; about how many bytes that took.
    pub(crate) fn append(&mut self, event: &Event) -> usize {
        match event {
            Event::Request(row) => put(&mut self.requests, row),
            Event::FileOp(row) => put(&mut self.file_ops, row),
            Event::OffCpu(row) => put(&mut self.off_cpu, row),
            Event::JournalCommit(row) => put(&mut self.journal_commits, row),
            Event::BlockIo(row) => put(&mut self.block_ios, row),
            Event::DirtyThrottle(row) => put(&mut self.dirty_throttles, row),
            Event::Reclaim(row) => put(&mut self.reclaims, row),
            Event::KernelSpan(row) => put(&mut self.kernel_spans, row),
            Event::SocketOp(row) => put(&mut self.socket_ops, row),
            Event::TcpEvent(row) => put(&mut self.tcp_troubles, row),
            Event::HostSample(row) => put(&mut self.host_samples, row),
            Event::CpuSample(row) => put(&mut self.cpu_samples, row),
            Event::LockWait(row) => put(&mut self.lock_waits, row),
            Event::JvmPause(row) => put(&mut self.gc_pauses, row),
            Event::BrokerChange(row) => put(&mut self.broker_changes, row),
            Event::Loss(row) => put(&mut self.losses, row),
        }
    }

    /// Takes a table's rows out.
    pub(crate) fn take(&mut self, table: Table) -> Result<RecordBatch, ArrowError> {
        match table {
            Table::Requests => self.requests.batch(),
            Table::FileOps => self.file_ops.batch(),
            Table::OffCpu => self.off_cpu.batch(),
            Table::JournalCommits => self.journal_commits.batch(),
            Table::BlockIos => self.block_ios.batch(),
            Table::DirtyThrottles => self.dirty_throttles.batch(),
            Table::Reclaims => self.reclaims.batch(),
            Table::KernelSpans => self.kernel_spans.batch(),
            Table::SocketOps => self.socket_ops.batch(),
            Table::TcpEvents => self.tcp_troubles.batch(),
            Table::HostSamples => self.host_samples.batch(),
            Table::CpuSamples => self.cpu_samples.batch(),
            Table::LockWaits => self.lock_waits.batch(),
            Table::GcPauses => self.gc_pauses.batch(),
            Table::BrokerChanges => self.broker_changes.batch(),
            Table::Losses => self.losses.batch(),
        }
    }
}

fn put<E: Encode>(columns: &mut E, row: &E::Row) -> usize {
    columns.append(row);
    E::weight(row)
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn every_table_is_at_the_place_of_its_number() {
        for (place, table) in Table::ALL.into_iter().enumerate() {
            assert_eq!(table as usize, place);
        }
    }
}
