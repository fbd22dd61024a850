//! The watcher during a measurement: none; `brokerscope record`; the same for an idle process, so that the broker's
//! threads pay for its hooks only what every thread of the host pays; or what an operator would use without it: tcpdump
//! and a bpftrace script.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::accounts;

/// Timeout for starting a watcher, and for ending it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time after which to signal it again.
const AGAIN: Duration = Duration::from_secs(15);
/// Name of the process that detaches hooks.
const ENDING: &str = "brokerscope-end";
/// Time to wait after it has started.
const SETTLE: Duration = Duration::from_millis(500);

/// A script for writes of 10 ms or longer, using only tracepoints: this kernel may have no kprobes.
const SCRIPT: &str = r#"
BEGIN { printf("ready\n"); }
tracepoint:syscalls:sys_enter_write, tracepoint:syscalls:sys_enter_writev,
tracepoint:syscalls:sys_enter_pwrite64, tracepoint:syscalls:sys_enter_pwritev
/pid == PID/ { @start[tid] = nsecs; }
tracepoint:syscalls:sys_exit_write, tracepoint:syscalls:sys_exit_writev,
tracepoint:syscalls:sys_exit_pwrite64, tracepoint:syscalls:sys_exit_pwritev
/@start[tid]/ {
    $us = (nsecs - @start[tid]) / 1000;
    if ($us >= 10000) { printf("%s %d %d us %d bytes\n", comm, tid, $us, args->ret); }
    delete(@start[tid]);
}
"#;

/// The kind of watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Nobody,
    Hooks,
    Brokerscope,
    Tools,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nobody => "-",
            Self::Hooks => "hooks alone",
            Self::Brokerscope => "brokerscope record",
            Self::Tools => "tcpdump + bpftrace",
        }
    }
}

/// A process that watches; killed when dropped.
pub(crate) struct Watcher {
    name: &'static str,
    child: Child,
    log_path: PathBuf,
}

impl Watcher {
    /// Starts `brokerscope record`; returns when everything is attached, because it writes its manifest then.
    pub(crate) fn brokerscope(
        binary: &Path,
        recording: &Path,
        pid: u32,
        more: &[&str],
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(binary);
        command.arg("record").arg("-o").arg(recording).args(["--pid", &pid.to_string()]).args(more);
        let manifest = recording.join("manifest.json");
        Self::start("brokerscope record", command, &recording.with_extension("err"), |_| manifest.exists())
    }

    /// Like `brokerscope`, for an always-on watch, with a higher threshold.
    pub(crate) fn always_on(
        binary: &Path,
        recording: &Path,
        pid: u32,
        slower_than: &str,
    ) -> anyhow::Result<Self> {
        Self::brokerscope(binary, recording, pid, &["--watch", "always-on", "--slower-than", slower_than])
    }

    /// Starts `brokerscope export` on a free port; returns when everything is attached: then [`Watcher::log`] has its
    /// address.
    pub(crate) fn exporter(binary: &Path, log_path: &Path, pid: u32) -> anyhow::Result<Self> {
        let mut command = Command::new(binary);
        command.args(["export", "--listen", "127.0.0.1:0", "--pid", &pid.to_string()]);
        Self::start("brokerscope export", command, log_path, |log| log.contains("exporting metrics of"))
    }

    pub(crate) fn tcpdump(file: &Path, port: u16) -> anyhow::Result<Self> {
        let mut command = Command::new("tcpdump");
        command.args(["-i", "any", "-w"]).arg(file).args(["tcp", "port", &port.to_string()]);
        Self::start("tcpdump", command, &file.with_extension("err"), |log| log.contains("listening on"))
    }

    pub(crate) fn bpftrace(file: &Path, pid: u32) -> anyhow::Result<Self> {
        let script = SCRIPT.replace("PID", &pid.to_string());
        fs::write(file, script)?;
        // bpftrace needs tracefs, which may not be mounted: it gets a separate mount. `exec` keeps the process id.
        let mounted = "[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &format!("({mounted}) && exec bpftrace \"$0\"")]).arg(file);
        Self::start("bpftrace", command, &file.with_extension("err"), |log| log.contains("ready"))
    }

    fn start(
        name: &'static str,
        mut command: Command,
        log_path: &Path,
        is_ready: impl Fn(&str) -> bool,
    ) -> anyhow::Result<Self> {
        let output = fs::File::create(log_path)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = command.spawn().with_context(|| format!("cannot run {name}"))?;
        let mut watcher = Self { name, child, log_path: log_path.to_owned() };
        let end = Instant::now() + PATIENCE;
        while !is_ready(&watcher.log()) {
            let ended = watcher.child.try_wait()?;
            ensure!(ended.is_none() && Instant::now() < end, "{name} did not begin: {}", watcher.log());
            sleep(Duration::from_millis(20));
        }
        sleep(SETTLE);
        Ok(watcher)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn processor_time(&self) -> anyhow::Result<Duration> {
        accounts::processor_time(self.pid()).with_context(|| format!("{}: {}", self.name, self.log()))
    }

    /// Ends it as Ctrl-C does; returns its output.
    pub(crate) fn stop(mut self) -> anyhow::Result<String> {
        let end = Instant::now() + PATIENCE;
        let mut last_signal: Option<Instant> = None;
        loop {
            // Repeatedly, because bpftrace sometimes misses a signal.
            if last_signal.is_none_or(|last_signal| last_signal.elapsed() > AGAIN) {
                kill(Pid::from_raw(self.pid() as i32), Signal::SIGINT)?;
                last_signal = Some(Instant::now());
            }
            if let Some(status) = self.child.try_wait()? {
                ensure!(status.success(), "{} ended with {status}: {}", self.name, self.log());
                await_hooks_gone()?;
                return Ok(self.log());
            }
            if Instant::now() > end {
                bail!("{} does not end: {}", self.name, self.log());
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Its output.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log_path).unwrap_or_default()
    }
}

/// Waits for the process that detaches a recorder's hooks. The recorder leaves that to it; the next measurement must
/// not be affected.
pub(crate) fn await_hooks_gone() -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    while is_ending()? {
        ensure!(Instant::now() < end, "{ENDING} does not end");
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn is_ending() -> anyhow::Result<bool> {
    for entry in fs::read_dir("/proc")? {
        // A process may end meanwhile.
        let name = fs::read_to_string(entry?.path().join("comm"));
        if name.is_ok_and(|name| name.trim_end() == ENDING) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
