//! The watcher of a window, and where it runs: started before the window and ended after it.

use std::cell::Cell;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use lab::host::Cgroup;

use super::ATTACH;
use super::tls::{Copying, TlsRecorder};
use crate::kernel::IDLE;
use crate::kernel::recorded;
use crate::kernel::stand_in::StandIn;
use crate::kernel::test_bed::TestBed;
use crate::kernel::watcher::{Watcher, await_hooks_gone};

/// Time to wait after its start.
const SETTLE: Duration = Duration::from_millis(500);
/// Time to wait after the start of an always-on recorder. Such a recorder normally runs for months. After this time it
/// has made its initial requests to the JVM and the broker, in code that the JVM has not compiled.
const STEADY: Duration = Duration::from_secs(8);
/// Added each time, up to a whole period: so what such a recorder does every ten seconds is in as large a share of the
/// windows as of the time.
const STEADY_STEP: Duration = Duration::from_millis(2_500);
const STEADY_STEPS: u32 = 4;
/// cgroup v1's share of weight 10 where the default is 100 (`cpu.shares`, 1,024).
const LOW_SHARES: i64 = 102;

/// The watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// None.
    Control,
    /// `brokerscope record` with everything on.
    Record(Group),
    /// An always-on recorder, with nothing slow.
    AlwaysOn,
    /// Hooks alone.
    Hooks(Hooks),
    /// tcpdump and bpftrace.
    Tools,
    /// The TLS agent copies, for a recorder that is there all the time.
    TlsAgent,
}

/// The recorder's cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// In the broker's session and cgroup.
    Same,
    /// In another cgroup, with a tenth of the weight.
    Weight,
    /// In another cgroup that gets only idle time (`cpu.idle`).
    Idle,
}

/// Parts of a recorder's hooks; by default, programs see that the process is another one and return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hooks {
    SystemCalls,
    Scheduler,
    /// The packet socket on the broker's port, with a reader that decodes nothing.
    Tap,
    /// A whole recorder of a process that does nothing: all hooks and its threads.
    IdleRecorder,
    /// The programs of an always-on watch, on the broker itself. Nobody reads their records.
    AlwaysOn,
    /// Like `AlwaysOn`, without the programs on waits.
    AlwaysOnRequests,
}

impl Treatment {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Control => "nobody (control)",
            Self::Record(Group::Same) => "record, same group",
            Self::Record(Group::Weight) => "record, cgroup of weight 10",
            Self::Record(Group::Idle) => "record, cgroup with cpu.idle",
            Self::AlwaysOn => "record, always on",
            Self::Hooks(hooks) => hooks.name(),
            Self::Tools => "tcpdump + bpftrace",
            Self::TlsAgent => "TLS agent",
        }
    }
}

impl Hooks {
    fn name(self) -> &'static str {
        match self {
            Self::SystemCalls => "hooks on system calls",
            Self::Scheduler => "hooks on the scheduler",
            Self::Tap => "packet socket",
            Self::IdleRecorder => "record of an idle process",
            Self::AlwaysOn => "always-on programs",
            Self::AlwaysOnRequests => "the same without waits",
        }
    }

    /// The argument for [`super::attach()`].
    fn argument(self) -> &'static str {
        match self {
            Self::SystemCalls => "system-calls",
            Self::Scheduler => "scheduler",
            Self::Tap | Self::IdleRecorder => "tap",
            Self::AlwaysOn => "always-on",
            Self::AlwaysOnRequests => "always-on-requests",
        }
    }
}

/// Everything needed to start any of them.
pub(super) struct Tools<'s> {
    brokerscope: PathBuf,
    bed: &'s TestBed,
    /// Present if the load uses TLS.
    tls: Option<TlsRecorder>,
    /// Number of always-on recorders started so far.
    always_on: Cell<u32>,
}

/// The processes of a treatment; ended when dropped.
#[derive(Default)]
pub(super) struct ActiveTreatment {
    watchers: Vec<Watcher>,
    hooks: Option<HookHolder>,
    copying: Option<Copying>,
    recording: Option<PathBuf>,
    // Dropped after its processes.
    _idle: Option<StandIn>,
    _group: Option<Cgroup>,
}

impl<'s> Tools<'s> {
    pub(super) fn new(brokerscope: &Path, bed: &'s TestBed) -> Self {
        Self { brokerscope: brokerscope.to_owned(), bed, tls: None, always_on: Cell::new(0) }
    }

    /// Starts a recorder with TLS. Its agent copies only during a treatment.
    pub(super) fn see_tls(&mut self) -> anyhow::Result<()> {
        self.tls = Some(TlsRecorder::start(&self.brokerscope, self.bed)?);
        Ok(())
    }

    /// Ends the permanent watchers.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        self.tls.map_or(Ok(()), TlsRecorder::stop)
    }

    /// The processes that watch all the time.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.tls.iter().map(TlsRecorder::pid).collect()
    }

    pub(super) fn start(&self, treatment: Treatment) -> anyhow::Result<ActiveTreatment> {
        let bed = self.bed;
        Ok(match treatment {
            Treatment::Control => ActiveTreatment::default(),
            Treatment::Record(group) => self.record(bed.pid(), group)?,
            Treatment::AlwaysOn => {
                let recording = bed.path("recording");
                let watcher = Watcher::always_on(&self.brokerscope, &recording, bed.pid(), "500ms")?;
                let before = self.always_on.replace(self.always_on.get() + 1);
                std::thread::sleep(STEADY + STEADY_STEP * (before % STEADY_STEPS));
                ActiveTreatment {
                    watchers: vec![watcher],
                    recording: Some(recording),
                    ..ActiveTreatment::default()
                }
            }
            Treatment::Hooks(Hooks::IdleRecorder) => {
                let idle = StandIn::start(bed, [IDLE])?;
                let attached = self.record(idle.pid(), Group::Same)?;
                ActiveTreatment { _idle: Some(idle), ..attached }
            }
            Treatment::Hooks(hooks @ (Hooks::AlwaysOn | Hooks::AlwaysOnRequests)) => {
                let holder = HookHolder::start(hooks, bed.pid(), bed.port())?;
                ActiveTreatment { hooks: Some(holder), ..ActiveTreatment::default() }
            }
            Treatment::Hooks(hooks) => {
                let idle = StandIn::start(bed, [IDLE])?;
                let holder = HookHolder::start(hooks, idle.pid(), bed.port())?;
                ActiveTreatment { hooks: Some(holder), _idle: Some(idle), ..ActiveTreatment::default() }
            }
            Treatment::TlsAgent => {
                let recorder = self.tls.as_ref().context("no recorder sees TLS")?;
                ActiveTreatment { copying: Some(recorder.copy()?), ..ActiveTreatment::default() }
            }
            Treatment::Tools => {
                let tcpdump = Watcher::tcpdump(&bed.path("tools.pcap"), bed.port())?;
                let bpftrace = Watcher::bpftrace(&bed.path("tools.bt"), bed.pid())?;
                ActiveTreatment { watchers: vec![tcpdump, bpftrace], ..ActiveTreatment::default() }
            }
        })
    }

    fn record(&self, pid: u32, group: Group) -> anyhow::Result<ActiveTreatment> {
        let recording = self.bed.path("recording");
        let watcher = Watcher::brokerscope(&self.brokerscope, &recording, pid, &[])?;
        let setting = match group {
            Group::Same => None,
            Group::Weight => Some(("cpu.shares", LOW_SHARES)),
            Group::Idle => Some(("cpu.idle", 1)),
        };
        let own_group = |(file, value)| {
            let cgroup = Cgroup::make(self.bed.directory(), "cpu")?;
            cgroup.set(file, value)?;
            cgroup.put(watcher.pid())?;
            anyhow::Ok(cgroup)
        };
        let group = setting.map(own_group).transpose()?;
        Ok(ActiveTreatment {
            watchers: vec![watcher],
            recording: Some(recording),
            _group: group,
            ..ActiveTreatment::default()
        })
    }
}

impl ActiveTreatment {
    /// The processes that watch.
    pub(super) fn pids(&self) -> Vec<u32> {
        let hooks = self.hooks.iter().map(|holder| holder.child.id());
        self.watchers.iter().map(Watcher::pid).chain(hooks).collect()
    }

    /// Ends them, and waits until all traces are gone. A recording must have lost nothing.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        for watcher in self.watchers {
            watcher.stop()?;
        }
        if let Some(holder) = self.hooks {
            holder.stop()?;
        }
        self.copying.map_or(Ok(()), Copying::stop)?;
        if let Some(recording) = self.recording {
            if recorded::all_lost(&recording)? > 0 {
                println!("a recorder lost {}", recorded::lost_of_each_kind(&recording)?);
            }
            std::fs::remove_dir_all(&recording).with_context(|| recording.display().to_string())?;
        }
        Ok(())
    }
}

/// A process that has attached hooks and does nothing else.
struct HookHolder {
    child: Child,
}

impl HookHolder {
    fn start(hooks: Hooks, pid: u32, port: u16) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([ATTACH, hooks.argument(), &pid.to_string(), &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let answers = child.stdout.take().context("no pipe")?;
        let holder = Self { child };
        let mut line = String::new();
        BufReader::new(answers).read_line(&mut line)?;
        ensure!(line.trim_end() == "ready", "the hooks were not attached: {line}");
        std::thread::sleep(SETTLE);
        Ok(holder)
    }

    fn stop(mut self) -> anyhow::Result<()> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        ensure!(status.success(), "what held the hooks ended with {status}");
        await_hooks_gone()
    }
}

impl Drop for HookHolder {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
