//! Exports a recording as if it happened now: as fast as it can be read, or at a multiple of the recorded speed. Keeps
//! serving after the recording has been read.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use analysis::recorder::plan;
use analysis::source;
use analysis::{EventSource, Step, Stop};
use export::{BrokerInfo, Exporter, LogDir, MetricsService, Server};
use model::{Event, Nanos};
use recording::Manifest;
use sandbox::Access;

use super::{Export, finish_traces, serve};
use crate::failure::usage;
use crate::file_access::FileAccess;
use crate::output;
use crate::own_process::OwnProcess;

/// Events fed at once: a scrape waits for them meanwhile.
const MAX_BURST: usize = 1_000;
/// Interval at which to check whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const READING: &str = "the recording is still being read";

/// Exports until it is time to stop.
pub(super) fn run(args: &Export, directory: &Path, server: Server) -> anyhow::Result<()> {
    FileAccess::of([directory])?.with(Access::use_network).enter()?;
    // Before signals are handled, so that one ends a download at once.
    let mut source = source::open(&[directory.to_owned()], &args.service.scope.read_options())?;
    let stop = Stop::after(args.service.length.duration)?;
    let Some(recording) = source.recording() else {
        return usage("--from needs a recording: a packet capture does not hold enough for metrics");
    };
    let info = info(recording.manifest());
    let exporter = args.exporter(source.config(args.service.scope.slow.slower_than), info)?;
    let service = {
        let own = OwnProcess::new();
        serve(server, exporter, move || own.usage())?
    };
    service.set_ready(Err(READING.to_owned()));
    let pace = args.speed.speed.map(Pace::new);
    let mut replay = Replay { service: &service, stop: &stop, pace, burst: Vec::new() };
    if !replay.read(&mut *source) {
        return Ok(());
    }
    service.feed(Exporter::finish);
    service.set_ready(Ok(()));
    output::log_notes(&source.gaps(args.service.scope.slow.slower_than).notes);
    tracing::info!("{}: read to its end, still serving; Ctrl-C stops", directory.display());
    while !stop.should_stop() {
        sleep(POLL_INTERVAL);
        service.feed(|_| ());
    }
    finish_traces(&service);
    Ok(source.check()?)
}

/// Labels and facts about the host and the broker for metrics.
pub(super) fn info(manifest: &Manifest) -> BrokerInfo {
    let broker = manifest.broker.as_ref();
    let dirs = broker.iter().flat_map(|broker| broker.log_dir_devices.iter().zip(&broker.log_dirs));
    let log_dirs = dirs.filter_map(|(device, dir)| {
        Some(LogDir { device: (*device)?, path: dir.to_string_lossy().into_owned() })
    });
    BrokerInfo {
        log_dirs: log_dirs.collect(),
        node_id: broker.and_then(|broker| broker.node_id),
        host: manifest.host.name.clone(),
        kernel: manifest.host.kernel.clone(),
        is_always_on: plan::sees(&manifest.plan, plan::REQUEST_LATENCIES),
        plan: plan::purposes(&manifest.plan).map(|(of, is_seen)| (of.clone(), is_seen)).collect(),
        ..BrokerInfo::default()
    }
}

/// Feeds events to the exporter when they are due.
struct Replay<'a> {
    service: &'a MetricsService,
    stop: &'a Stop,
    /// `None`: as fast as possible.
    pace: Option<Pace>,
    burst: Vec<Event>,
}

impl Replay<'_> {
    /// Reads to the end; false if it was time to stop before.
    fn read(&mut self, source: &mut dyn EventSource) -> bool {
        while let Step::Event(event) = source.next() {
            if let Some(due) = self.pace.as_mut().map(|pace| pace.due(event.time())) {
                if !self.wait_until(due) {
                    return false;
                }
            }
            self.burst.push(event);
            if self.burst.len() >= MAX_BURST {
                if self.stop.should_stop() {
                    return false;
                }
                self.feed();
            }
        }
        self.feed();
        true
    }

    /// Feeds the buffered events and waits; false if it is time to stop.
    fn wait_until(&mut self, due: Instant) -> bool {
        while let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if self.stop.should_stop() {
                return false;
            }
            self.feed();
            sleep(left.min(POLL_INTERVAL));
        }
        true
    }

    fn feed(&mut self) {
        let burst = &mut self.burst;
        self.service.feed(|exporter| burst.drain(..).for_each(|event| exporter.push(event)));
    }
}

/// Computes when events are due.
struct Pace {
    speed: f64,
    start: Option<(Instant, Nanos)>,
}

impl Pace {
    fn new(speed: f64) -> Self {
        Self { speed, start: None }
    }

    /// Returns when an event is due: its time since the first event, divided by the speed.
    /// Earlier events are due at once.
    fn due(&mut self, time: Nanos) -> Instant {
        let (start, first) = *self.start.get_or_insert_with(|| (Instant::now(), time));
        let after = (time - first).at_least_zero().0 as f64 / 1e9 / self.speed;
        let after = Duration::try_from_secs_f64(after).unwrap_or_default();
        start.checked_add(after).unwrap_or(start)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::Nanos;

    use super::Pace;

    #[test]
    fn events_are_due_by_their_time_and_the_speed() {
        let mut pace = Pace::new(10.0);
        let first = pace.due(Nanos::from_millis(5_000));
        assert_eq!(pace.due(Nanos::from_millis(6_000)), first + Duration::from_millis(100));
        assert_eq!(pace.due(Nanos::from_millis(4_000)), first);
        assert!(pace.due(Nanos::MAX) > first);
    }
}
