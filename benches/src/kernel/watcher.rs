//! Who watches the broker while it is measured: nobody; `brokerscope record`; the same on a process that does nothing,
//! so that of its hooks the broker's threads pay but what every thread of the host pays; or what an operator would
//! use without it: tcpdump and a bpftrace script.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::accounts;

/// How long a watcher may take to begin, and to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// When to ask it once more to end.
const AGAIN: Duration = Duration::from_secs(15);
/// What that process is called.
const ENDING: &str = "brokerscope-end";
/// Let pass after it has begun.
const SETTLE: Duration = Duration::from_millis(500);

/// Writes that took 10 ms or longer, by tracepoints alone: this kernel may have no kprobes.
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

/// Who watches.
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
    said: PathBuf,
}

impl Watcher {
    /// `brokerscope record`, when everything is attached: it writes its manifest then.
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

    /// The same of an always-on watch, which looks for causes of requests that are slower.
    pub(crate) fn always_on(
        binary: &Path,
        recording: &Path,
        pid: u32,
        slower_than: &str,
    ) -> anyhow::Result<Self> {
        Self::brokerscope(binary, recording, pid, &["--watch", "always-on", "--slower-than", slower_than])
    }

    /// `brokerscope export` on a free port, when everything is attached: [`Watcher::said`] has its address then.
    pub(crate) fn exporter(binary: &Path, said: &Path, pid: u32) -> anyhow::Result<Self> {
        let mut command = Command::new(binary);
        command.args(["export", "--listen", "127.0.0.1:0", "--pid", &pid.to_string()]);
        Self::start("brokerscope export", command, said, |said| said.contains("exporting metrics of"))
    }

    pub(crate) fn tcpdump(file: &Path, port: u16) -> anyhow::Result<Self> {
        let mut command = Command::new("tcpdump");
        command.args(["-i", "any", "-w"]).arg(file).args(["tcp", "port", &port.to_string()]);
        Self::start("tcpdump", command, &file.with_extension("err"), |said| said.contains("listening on"))
    }

    pub(crate) fn bpftrace(file: &Path, pid: u32) -> anyhow::Result<Self> {
        let script = SCRIPT.replace("PID", &pid.to_string());
        fs::write(file, script)?;
        // bpftrace wants tracefs, which need not be mounted: it gets its own one. `exec` keeps the process.
        let mounted = "[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &format!("({mounted}) && exec bpftrace \"$0\"")]).arg(file);
        Self::start("bpftrace", command, &file.with_extension("err"), |said| said.contains("ready"))
    }

    fn start(
        name: &'static str,
        mut command: Command,
        said: &Path,
        begun: impl Fn(&str) -> bool,
    ) -> anyhow::Result<Self> {
        let output = fs::File::create(said)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = command.spawn().with_context(|| format!("cannot run {name}"))?;
        let mut watcher = Self { name, child, said: said.to_owned() };
        let end = Instant::now() + PATIENCE;
        while !begun(&watcher.said()) {
            let ended = watcher.child.try_wait()?;
            ensure!(ended.is_none() && Instant::now() < end, "{name} did not begin: {}", watcher.said());
            sleep(Duration::from_millis(20));
        }
        sleep(SETTLE);
        Ok(watcher)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn processor_time(&self) -> anyhow::Result<Duration> {
        accounts::processor_time(self.pid()).with_context(|| format!("{}: {}", self.name, self.said()))
    }

    /// Ends it as Ctrl-C does; returns what it said.
    pub(crate) fn stop(mut self) -> anyhow::Result<String> {
        let end = Instant::now() + PATIENCE;
        let mut asked: Option<Instant> = None;
        loop {
            // More than once: bpftrace misses one now and then.
            if asked.is_none_or(|asked| asked.elapsed() > AGAIN) {
                kill(Pid::from_raw(self.pid() as i32), Signal::SIGINT)?;
                asked = Some(Instant::now());
            }
            if let Some(status) = self.child.try_wait()? {
                ensure!(status.success(), "{} ended with {status}: {}", self.name, self.said());
                await_hooks_gone()?;
                return Ok(self.said());
            }
            if Instant::now() > end {
                bail!("{} does not end: {}", self.name, self.said());
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// All that it printed.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }
}

/// A recorder leaves the closing of its hooks to another process. Who is measured next must not pay for them.
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
        // Both fail where it has ended, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
