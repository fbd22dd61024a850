//! Tells of a recording as if it happened now: as fast as it can be read, or so many times as fast as it was. Answers on when it
//! has been read.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use export::{BrokerInfo, LogDir, MetricsService, Server};
use model::{Event, Nanos};
use recording::Manifest;

use super::BURST;
use crate::cli::Export;
use crate::commands::record;
use crate::failure::Usage;
use crate::grounds::Grounds;
use crate::stop::Stop;

/// How often it is looked whether it is time to stop.
const LOOK: Duration = Duration::from_millis(50);
const READING: &str = "the recording is still being read";

/// It was time to stop before all was read.
#[derive(Debug)]
struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("stopped")
    }
}

impl std::error::Error for Stopped {}

/// Exports until it is time to stop.
pub(super) fn run(args: &Export, dir: &Path, server: Server) -> anyhow::Result<()> {
    let stop = Stop::after(args.duration)?;
    let mut grounds = Grounds::open(&[dir.to_owned()], &[], &args.filter, &args.target)?;
    let Some(recording) = grounds.recording() else {
        return Err(Usage("--from is for a recording: packets alone tell too little".to_owned()).into());
    };
    let about = about(recording.manifest());
    let exporter = super::exporter(args, grounds.config(args.slower_than), about)?;
    let site = super::serve(server, exporter, false)?;
    site.set_ready(Err(READING.to_owned()));
    let mut replay = Replay { site: &site, stop: &stop, pace: args.speed.map(Pace::new), burst: Vec::new() };
    match grounds.read(&mut |event| replay.take(event)) {
        Err(error) if error.is::<Stopped>() => return Ok(()),
        read => read?,
    }
    replay.hand_on();
    site.feed(export::Exporter::finish);
    site.set_ready(Ok(()));
    args.presentation.say_each(&grounds.known(args.slower_than, &args.presentation).notes);
    args.presentation.say(&format!("{}: read to its end; Ctrl-C ends this", dir.display()));
    while !stop.asked() {
        sleep(LOOK);
        site.feed(|_| ());
    }
    super::finish_traces(&site);
    grounds.check()
}

fn about(manifest: &Manifest) -> BrokerInfo {
    let broker = manifest.broker.as_ref();
    let dirs = broker.iter().flat_map(|broker| broker.log_dir_devices.iter().zip(&broker.log_dirs));
    let log_dirs = dirs.filter_map(|(device, dir)| {
        Some(LogDir { device: (*device)?, path: dir.to_string_lossy().into_owned() })
    });
    let seen = |outcome: &str| outcome.starts_with(record::SEEN);
    BrokerInfo {
        log_dirs: log_dirs.collect(),
        node_id: broker.and_then(|broker| broker.node_id),
        host: manifest.host.name.clone(),
        kernel: manifest.host.kernel.clone(),
        plan: manifest.plan.iter().map(|(purpose, outcome)| (purpose.clone(), seen(outcome))).collect(),
        ..BrokerInfo::default()
    }
}

/// Hands events on, in time.
struct Replay<'a> {
    site: &'a MetricsService,
    stop: &'a Stop,
    /// None as fast as it goes.
    pace: Option<Pace>,
    burst: Vec<Event>,
}

impl Replay<'_> {
    fn take(&mut self, event: Event) -> anyhow::Result<()> {
        if let Some(due) = self.pace.as_mut().map(|pace| pace.due(event.time())) {
            self.wait_until(due)?;
        }
        self.burst.push(event);
        if self.burst.len() >= BURST {
            if self.stop.asked() {
                return Err(Stopped.into());
            }
            self.hand_on();
        }
        Ok(())
    }

    /// What is there is told before it is waited for more.
    fn wait_until(&mut self, due: Instant) -> anyhow::Result<()> {
        while let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if self.stop.asked() {
                return Err(Stopped.into());
            }
            self.hand_on();
            sleep(left.min(LOOK));
        }
        Ok(())
    }

    fn hand_on(&mut self) {
        let burst = &mut self.burst;
        self.site.feed(|exporter| burst.drain(..).for_each(|event| exporter.push(event)));
    }
}

/// When which event is due.
struct Pace {
    speed: f64,
    begun: Option<(Instant, Nanos)>,
}

impl Pace {
    fn new(speed: f64) -> Self {
        Self { speed, begun: None }
    }

    /// As long after the first event as that was then, by the speed; an event from before it at once.
    fn due(&mut self, time: Nanos) -> Instant {
        let (begun, first) = *self.begun.get_or_insert_with(|| (Instant::now(), time));
        let after = (time - first).at_least_zero().0 as f64 / 1e9 / self.speed;
        let after = Duration::try_from_secs_f64(after).unwrap_or_default();
        begun.checked_add(after).unwrap_or(begun)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::Nanos;

    use super::Pace;

    #[test]
    fn events_are_due_as_they_came_by_the_speed() {
        let mut pace = Pace::new(10.0);
        let first = pace.due(Nanos::from_millis(5_000));
        assert_eq!(pace.due(Nanos::from_millis(6_000)), first + Duration::from_millis(100));
        assert_eq!(pace.due(Nanos::from_millis(4_000)), first);
        assert!(pace.due(Nanos::MAX) > first);
    }
}
