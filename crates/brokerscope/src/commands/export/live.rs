//! Tells of the broker that runs here, until it is time to stop. What is held is bounded; what could not be taken in time is
//! dropped and counted.

use std::sync::Arc;
use std::time::Duration;

use broker::Broker;
use diagnose::Config;
use export::{About, Health, LogDir, Server, Site};
use model::{Event, Nanos, Pid};
use watch::{Ended, Memory, Outcome, Watch};

use super::BURST;
use crate::cli::Export;
use crate::commands::record::manifest;
use crate::options::{CPU_SAMPLES, Jfr, LEAST_LOCK_WAIT};
use crate::output;
use crate::stop::Stop;
use crate::watched;

/// Between two looks at what came: whoever is woken for every batch is woken often.
const PAUSE: Duration = Duration::from_millis(20);
const GONE: &str = "the broker is gone; waiting for it to come back";

/// Exports until it is time to stop.
pub(super) fn run(args: &Export, server: Server) -> anyhow::Result<()> {
    let stop = Stop::after(None)?;
    let broker = watched::broker(&args.target)?;
    let packets = watched::packets(&args.filter, &broker, &args.interface);
    // For as long as this is held, also for programs that are loaded after a restart.
    let measuring = if args.measure_probes { probes::overhead::count_run_time() } else { None };
    if args.measure_probes && measuring.is_none() {
        output::warn("the kernel does not measure BPF programs: that takes CAP_SYS_ADMIN and Linux 5.8");
    }
    let memory = Memory::within(args.max_memory);
    let jvm = args.jvm.recording();
    let mut watch = watched::start(&args.target, &broker, Some(packets), true, jvm, memory)?;
    watch.sample_cpu(broker.pid, CPU_SAMPLES);
    watched::probe_jvm(&mut watch, broker.pid, LEAST_LOCK_WAIT);
    watched::drop_privileges(None);
    let stop = stop.within(args.duration);
    let exporter = super::exporter(args, config(args, &watch), about(&broker, &watch))?;
    let site = super::serve(server, exporter, measuring.is_some())?;
    let until = if args.duration.is_some() { "" } else { "; Ctrl-C ends it" };
    args.presentation.say(&format!("exporting what is seen of broker {}{until}", broker.pid));
    // Where the kernel does not let it, it does as much.
    let _ = watch::step_back();
    let live = Live { args, site, pid: broker.pid };
    while !stop.asked() {
        live.burst(&watch);
    }
    live.finish(watch);
    Ok(())
}

/// As soon as everything has had time to be told: the JVM's flight recorder takes its time.
fn config(args: &Export, watch: &Watch) -> Config {
    let live = Config { file_ops_observed: watch.sees_files(), ..Config::live(args.slower_than) };
    if matches!(args.jvm.flight_recorder, Jfr::Never) { live } else { live.with_jvm() }
}

fn about(broker: &Broker, watch: &Watch) -> About {
    let host = manifest::host();
    let located = |dir: &std::path::PathBuf| {
        Some(LogDir { device: watch::device_of(dir)?, path: dir.to_string_lossy().into_owned() })
    };
    let seen = |outcome: &Outcome| matches!(outcome, Outcome::Seen(_));
    About {
        log_dirs: broker.log_dirs.iter().filter_map(located).collect(),
        node_id: broker.node_id,
        host: host.name,
        kernel: host.kernel,
        plan: watch.plan().iter().map(|of| (of.purpose.clone(), seen(&of.outcome))).collect(),
        ..About::default()
    }
}

struct Live<'a> {
    args: &'a Export,
    site: Arc<Site>,
    /// The broker's process when it began.
    pid: Pid,
}

impl Live<'_> {
    /// Takes some of what is there, and pauses after the last of it.
    fn burst(&self, watch: &Watch) {
        let events: Vec<Event> = std::iter::from_fn(|| watch.next(Duration::ZERO))
            .take(BURST)
            .inspect(|event| self.say(event))
            .collect();
        let all = events.len() < BURST;
        let is_watched = self.site.feed(|exporter| {
            for event in events {
                exporter.push(event);
            }
            if all {
                // Sources that are read seldom come within the engine's disorder.
                exporter.tick(now(watch));
            }
            exporter.is_watched()
        });
        self.site.set_ready(ready(is_watched));
        if all {
            std::thread::sleep(PAUSE);
        }
    }

    fn say(&self, event: &Event) {
        if let Event::BrokerChange(change) = event {
            self.args.presentation.say_change(change, self.pid);
        }
    }

    fn finish(self, watch: Watch) {
        let ended = watch.stop(&mut |rest| self.site.feed(|exporter| exporter.push(rest)));
        self.site.feed(export::Exporter::finish);
        super::finish_traces(&self.site);
        say_trouble(&ended);
    }
}

fn ready(is_watched: bool) -> Health {
    if is_watched { Ok(()) } else { Err(GONE.to_owned()) }
}

/// The time, on the clock of what was seen.
fn now(watch: &Watch) -> Nanos {
    watch.clock().0.from_monotonic(watch::now().monotonic_ns)
}

fn say_trouble(ended: &Ended) {
    if let Some(error) = &ended.kernel {
        output::warn(&format!("the probes ended early: {error}"));
    }
    if let Some(Err(error)) = &ended.packets {
        output::warn(&format!("the capture ended early: {error}"));
    }
    for trouble in &ended.trouble {
        output::warn(trouble);
    }
}
