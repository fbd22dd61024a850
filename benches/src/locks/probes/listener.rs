//! A listener to one JVM's waits during a measurement: brokerscope's programs on its probes and a thread that reads
//! their records, as in `record`, but without the rest of it; or empty programs. Detached when ended or dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use probes::jvm::{JvmFacts, JvmOptions, JvmPlan, JvmProbes, JvmPurpose};
use probes::{Facts, State};

/// Poll interval of `record`.
const POLL: Duration = Duration::from_millis(100);
/// Longer than any measured wait.
const NEVER: Duration = Duration::from_secs(3_600);

/// Large enough to lose nothing while the reader waits for a shared CPU.
const RING_BYTES: u32 = 1 << 20;

/// The programs' action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// Every wait is too short to be reported.
    Count,
    /// Every wait is reported.
    Report,
    /// Likewise, and the kernel counts the programs' run time, which costs time too.
    ReportCounted,
}

/// A listening thread.
pub(super) struct Listener {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<anyhow::Result<WaitEvents>>>,
}

/// The waits it received.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitEvents {
    pub(super) reported: u64,
    /// Number of those with the monitor's holder.
    pub(super) with_holder: u64,
    pub(super) counted: u64,
    pub(super) lost: u64,
    /// Run times of each program, if the kernel counted them.
    pub(super) programs: Vec<Ran>,
}

/// The kernel's counts of a program.
#[derive(Clone, Debug)]
pub(super) struct Ran {
    pub(super) program: String,
    pub(super) times: u64,
    /// Nanoseconds of all its runs per wait.
    pub(super) nanos_a_wait: f64,
}

impl Listener {
    pub(super) fn start(pid: u32, deed: Action) -> anyhow::Result<Self> {
        let plan = JvmPlan::choose(&Facts::survey(), &JvmFacts::survey(pid));
        let plan = plan.only(|it| matches!(it, JvmPurpose::MonitorWaits | JvmPurpose::MonitorHolders));
        let min_wait = if deed == Action::Count { NEVER } else { Duration::ZERO };
        let (idle, measure) = (deed == Action::Nothing, deed == Action::ReportCounted);
        let options = JvmOptions { min_wait, idle, measure, ring_bytes: RING_BYTES, ..JvmOptions::default() };
        let probes = JvmProbes::attach(&plan, &options).context("the JVM's probes")?;
        let attached = probes.plan();
        ensure!(attached.hooks.iter().all(|hook| hook.state == State::Use), "not attached: {attached:?}");
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let thread = std::thread::Builder::new().spawn(move || read_waits(probes, &until))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    pub(super) fn end(mut self) -> anyhow::Result<WaitEvents> {
        self.join().context("ended before")?
    }

    fn join(&mut self) -> Option<anyhow::Result<WaitEvents>> {
        self.stop.store(true, Ordering::Relaxed);
        let joined = self.thread.take()?.join();
        Some(joined.unwrap_or_else(|_| Err(anyhow!("the thread that reads the JVM's probes panicked"))))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Fails only if something else failed before.
        let _ = self.join();
    }
}

fn read_waits(mut probes: JvmProbes, stop: &AtomicBool) -> anyhow::Result<WaitEvents> {
    let (mut reported, mut with_holder) = (0, 0);
    loop {
        let stopping = stop.load(Ordering::Relaxed);
        probes.poll(if stopping { Duration::ZERO } else { POLL }, &mut |event| {
            reported += 1;
            with_holder += u64::from(matches!(event, model::Event::LockWait(wait) if wait.holder.is_some()));
        })?;
        if stopping {
            break;
        }
    }
    let ran = probes.overhead().into_iter().filter(|cost| cost.run_count > 0);
    let each = ran.map(|cost| Ran {
        program: cost.program,
        times: cost.run_count,
        nanos_a_wait: cost.run_time_ns as f64 / reported as f64,
    });
    Ok(WaitEvents {
        reported,
        with_holder,
        counted: probes.short_waits().count,
        lost: probes.losses().sum(),
        programs: each.collect(),
    })
}
