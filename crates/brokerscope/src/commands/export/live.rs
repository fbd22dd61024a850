//! Tells of the broker that runs here, until it is time to stop. What is held is bounded; what could not be taken in time is
//! dropped and counted.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use export::{BrokerInfo, Health, LogDir, MetricsService, Server};
use model::{Event, Nanos, Pid};
use watch::{Memory, Outcome};

use crate::cli::Export;
use crate::commands::record::manifest;
use crate::grounds::live::{Asked, LiveGrounds, Taker};
use crate::output;
use crate::stop::Stop;

/// Between two looks at what came: whoever is woken for every batch is woken often, and nobody asks more often than that.
const PAUSE: Duration = Duration::from_millis(50);
const GONE: &str = "the broker is gone; waiting for it to come back";

/// Exports until it is time to stop.
pub(super) fn run(args: &Export, server: Server) -> anyhow::Result<()> {
    let stop = Stop::after(None)?;
    // For as long as this is held, also for programs that are loaded after a restart. The right to ask for it is given away
    // when the watch has begun.
    let measuring = if args.measure_probes { probes::overhead::count_run_time() } else { None };
    let Export { target, filter, interface, jvm, .. } = args;
    let memory = Memory::within(args.max_memory);
    let grounds = LiveGrounds::start(Asked { target, filter, interface, jvm: *jvm, memory })?;
    if args.measure_probes && measuring.is_none() {
        output::warn("the kernel does not measure BPF programs: that takes CAP_SYS_ADMIN and Linux 5.8");
    }
    let stop = stop.within(args.duration);
    let exporter = super::exporter(args, grounds.config(args.slower_than), about(&grounds))?;
    let site = super::serve(server, exporter, measuring.is_some())?;
    let until = if args.duration.is_some() { "" } else { "; Ctrl-C ends it" };
    let pid = grounds.pid();
    args.presentation.say(&format!("exporting what is seen of broker {pid}{until}"));
    // Where the kernel does not let it, it does as much.
    let _ = watch::set_sched_batch();
    let live = Live { args, site, pid };
    while !stop.asked() {
        live.burst(&grounds)?;
    }
    live.finish(grounds)
}

fn about(grounds: &LiveGrounds) -> BrokerInfo {
    let host = manifest::host();
    let located = |dir: &PathBuf| {
        Some(LogDir { device: watch::device_of(dir)?, path: dir.to_string_lossy().into_owned() })
    };
    let seen = |outcome: &Outcome| matches!(outcome, Outcome::Active(_));
    BrokerInfo {
        log_dirs: grounds.log_dirs().iter().filter_map(located).collect(),
        node_id: grounds.node_id(),
        host: host.name,
        kernel: host.kernel,
        plan: grounds.plan().iter().map(|of| (of.purpose.clone(), seen(&of.outcome))).collect(),
        ..BrokerInfo::default()
    }
}

struct Live<'a> {
    args: &'a Export,
    site: Arc<MetricsService>,
    /// The broker's process when it began.
    pid: Pid,
}

impl Live<'_> {
    /// Takes some of what is there, and pauses after the last of it.
    fn burst(&self, grounds: &LiveGrounds) -> anyhow::Result<()> {
        let mut taken = Taken::default();
        grounds.take(Duration::ZERO, &mut taken)?;
        let Taken { events, all_until } = taken;
        for event in &events {
            self.say(event);
        }
        let is_watched = self.site.feed(|exporter| {
            for event in events {
                exporter.push(event);
            }
            if let Some(now) = all_until {
                exporter.tick(now);
            }
            exporter.is_watched()
        });
        self.site.set_ready(ready(is_watched));
        if all_until.is_some() {
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn say(&self, event: &Event) {
        if let Event::BrokerChange(change) = event {
            self.args.presentation.say_change(change, self.pid);
        }
    }

    fn finish(self, grounds: LiveGrounds) -> anyhow::Result<()> {
        let rest = grounds.end(&mut OneByOne(&self.site))?;
        self.site.feed(export::Exporter::finish);
        super::finish_traces(&self.site);
        rest.notes.iter().for_each(|note| output::warn(note));
        Ok(())
    }
}

/// Events that are handed on together: whoever scrapes waits for whoever hands them on.
#[derive(Default)]
struct Taken {
    events: Vec<Event>,
    /// They are all that was seen up to then.
    all_until: Option<Nanos>,
}

impl Taker for Taken {
    fn event(&mut self, event: Event) -> anyhow::Result<()> {
        self.events.push(event);
        Ok(())
    }

    fn tick(&mut self, now: Nanos) -> anyhow::Result<()> {
        self.all_until = Some(now);
        Ok(())
    }
}

/// The last events: how many there are does not matter to anyone who scrapes.
struct OneByOne<'s>(&'s MetricsService);

impl Taker for OneByOne<'_> {
    fn event(&mut self, event: Event) -> anyhow::Result<()> {
        self.0.feed(|exporter| exporter.push(event));
        Ok(())
    }

    fn tick(&mut self, now: Nanos) -> anyhow::Result<()> {
        self.0.feed(|exporter| exporter.tick(now));
        Ok(())
    }
}

fn ready(is_watched: bool) -> Health {
    if is_watched { Ok(()) } else { Err(GONE.to_owned()) }
}
