//! A process that attaches a part of the hooks to a broker or its stand-in. They stay attached until its standard input
//! ends.

use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use capture::live::{Live, LiveConfig};
use probes::{Facts, Mechanism, Plan, Probes, Purpose, State, Target, always_on};

/// Timeout of the packet reader for a block.
const WAIT: Duration = Duration::from_millis(100);

/// Attaches them, prints `ready`, and ends with its standard input.
pub(crate) fn attach(hooks: &str, process: u32, port: u16) -> anyhow::Result<()> {
    match hooks {
        "system-calls" => hold_probes(process, |plan| {
            keep(plan, |hook| match hook.mechanism {
                Mechanism::Functions => hook.functions.iter().all(|it| it.name.contains("_sys_")),
                Mechanism::Tracepoints => {
                    hook.points.iter().all(|it| it.tracepoint.name.starts_with("syscalls/"))
                }
                _ => false,
            });
        }),
        "scheduler" => hold_probes(process, |plan| {
            keep(plan, |hook| [Purpose::OffCpu, Purpose::Wakeups].contains(&hook.purpose));
        }),
        "tap" => hold_tap(port),
        "always-on" => hold_always_on(process, port, true),
        "always-on-requests" => hold_always_on(process, port, false),
        _ => bail!("no such hooks: {hooks}"),
    }
}

fn keep(plan: &mut Plan, is_kept: impl Fn(&probes::Hook) -> bool) {
    for hook in plan.hooks.iter_mut().filter(|hook| hook.is_used()) {
        if !is_kept(hook) {
            hook.state = State::Missing { why: "not measured".to_owned(), remedy: None };
            hook.points.clear();
            hook.functions.clear();
        }
    }
}

fn hold_probes(pid: u32, reduce: impl Fn(&mut Plan)) -> anyhow::Result<()> {
    let mut plan = Plan::choose(&Facts::survey());
    reduce(&mut plan);
    ensure!(plan.used().next().is_some(), "this kernel offers none of these hooks");
    let _probes = Probes::attach(&plan, &Target { pid, stacks: false })?;
    await_end()
}

/// Attaches the programs to the process itself, so that they do their full work.
fn hold_always_on(pid: u32, port: u16, has_waits: bool) -> anyhow::Result<()> {
    let options = always_on::Options { ports: vec![port], ..always_on::Options::default() };
    let plan = always_on::Plan::choose(&Facts::survey());
    let mut session = always_on::Session::attach(&plan, pid, &options)?;
    if !has_waits {
        session.detach(always_on::Purpose::Waits, "not measured");
    }
    await_end()
}

/// Copies packets into the ring and releases them unread.
fn hold_tap(port: u16) -> anyhow::Result<()> {
    let mut live = Live::open(&LiveConfig { ports: vec![port], ..LiveConfig::default() })?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                live.next_packets(WAIT, &mut |_, _| ())?;
            }
            anyhow::Ok(())
        });
        let ended = await_end();
        is_over.store(true, Ordering::Relaxed);
        ended.and(reader.join().ok().context("the reader of packets failed")?)
    })
}

fn await_end() -> anyhow::Result<()> {
    println!("ready");
    std::io::stdout().flush()?;
    std::io::stdin().lock().read_to_end(&mut Vec::new())?;
    Ok(())
}
