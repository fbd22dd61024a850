//! Writes the events of a watch to a recording until it is time to stop. Writes several times a second. The threads
//! that observe events add them to the recording's columns themselves (`intake.rs`).

use std::time::{Duration, Instant};

use analysis::Stop;
use analysis::recorder::{partial, plan, processes, settings};
use analysis::source::{self, LiveOptions};
use anyhow::Context as _;
use model::{BrokerChange, Event, Loss, LossKind, Nanos, TlsTotals};
use recording::{Directory, DiskLimit, Manifest, Writer};
use report::explanation::Unobservable;
use report::quantity::format_count_of;
use report::tls::tls_lines;
use watch::{EventSink as _, Memory, Slice, Watch, WatchSummary};

use super::intake::{Counts, Intake};
use super::{Record, manifest};
use crate::args::CPU_SAMPLES_HZ;
use crate::watch_mode::Preference;

/// Pause between two checks for events to write.
const PAUSE: Duration = Duration::from_millis(50);
/// Like [`PAUSE`], for an always-on watch, which mostly has nothing to write.
const ALWAYS_ON_PAUSE: Duration = Duration::from_millis(250);
/// Interval of manifest updates. The manifest gets a new pair of clock readings and the losses so far.
const UPDATE_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of pairs: a week's worth at that rate.
const MAX_CLOCK_PAIRS: usize = 60_480;
/// Default threshold of slow requests.
const DEFAULT_SLOW: Nanos = Nanos::from_millis(100);

/// Records until it is time to stop.
pub(super) fn run(args: &Record) -> anyhow::Result<()> {
    let client = args.client.read()?;
    let stop = Stop::after(args.service.length.duration)?;
    source::lower_priority();
    let broker = source::broker(args.service.scope.target.pid)?;
    // Before the watch starts, so that this request is not recorded.
    let answer = watch::admin::settings(&broker, client);
    if let (Some(_), Err(error)) = (&args.client.client_properties, &answer) {
        tracing::warn!("the broker's settings in force are not known: {error}");
    }
    let always_on = choose(args)?;
    let memory = Memory::within(args.service.memory.max_memory);
    let watch = source::start_watch(
        &broker,
        &LiveOptions {
            always_on,
            max_cost: Some(args.mode.max_cost(always_on)),
            min_lock_wait: Some(args.lock_waits),
            cpu_samples_hz: args.cpu_samples.unwrap_or(CPU_SAMPLES_HZ),
            ..args.service.live_options()
        },
    )?;
    let manifest = manifest::at_start(args, &broker, answer, &watch);
    let directory = Directory::create(&args.output)?;
    // Before the writer starts a thread, which would keep this thread's privileges.
    source::drop_privileges();
    let writer = Writer::create_in(directory, &manifest, args.writer_options())?;
    for line in format_missing(&plan::missing(&manifest.plan)) {
        tracing::warn!("{line}");
    }
    tracing::info!(
        "recording broker {} into {}{}",
        broker.pid,
        args.output.display(),
        args.service.length.until()
    );
    let flight = args.flight_threshold().map(|slower_than| partial::flight(slower_than, memory));
    let rows = writer.intake(memory.waiting_bytes());
    let intake = Intake::new(rows.clone(), flight, slow_threshold(args));
    watch.set_sink(Box::new(intake.clone()));
    let (updated, tls) = (Instant::now(), TlsTotals::default());
    let (costs, sources) = (watch.costs(), watch.sources());
    let mut recorder = Recorder {
        costs,
        sources,
        shed: 0,
        writer,
        rows,
        manifest,
        intake,
        updated,
        tls,
        failed: false,
        full: false,
    };
    // If the kernel refuses, the recorder works all the same.
    let _ = watch::set_sched_batch();
    let pause = if always_on.is_some() { ALWAYS_ON_PAUSE } else { PAUSE };
    while !stop.should_stop() {
        std::thread::sleep(pause);
        recorder.poll();
        if recorder.must_end(args) {
            break;
        }
    }
    recorder.finish(args, watch)
}

/// Chooses the mode: the threshold of an always-on watch, or `None` for a full one.
fn choose(args: &Record) -> anyhow::Result<Option<Nanos>> {
    let [tls, request_log, interface, message_id] = args.service.full_flags();
    let samples = ("--cpu-samples", args.cpu_samples.is_some_and(|hz| hz > 0));
    let default = if args.flight_threshold().is_some() { Preference::AlwaysOn } else { Preference::Full };
    args.mode.choose(default, &[tls, request_log, interface, message_id, samples], args.service.scope.slow)
}

/// Formats one line for all purposes that lack the same.
fn format_missing(missing: &[Unobservable]) -> Vec<String> {
    let mut lines: Vec<(String, &str)> = Vec::new();
    for Unobservable { what, why } in missing {
        match lines.iter_mut().find(|(_, known)| known == why) {
            Some((purposes, _)) => purposes.extend([", ", what]),
            None => lines.push((what.clone(), why)),
        }
    }
    lines.into_iter().map(|(purposes, why)| format!("not seen: {purposes}: {why}")).collect()
}

/// Threshold of slow requests in the summary at the end.
fn slow_threshold(args: &Record) -> Nanos {
    args.flight_threshold().unwrap_or(DEFAULT_SLOW)
}

struct Recorder {
    writer: Writer,
    /// Rows that wait for the writer.
    rows: recording::Intake,
    manifest: Manifest,
    intake: Intake,
    updated: Instant,
    /// Totals of TLS traffic.
    tls: TlsTotals,
    costs: watch::Costs,
    sources: watch::Sources,
    /// Number of shed purposes that the manifest already notes.
    shed: usize,
    failed: bool,
    /// Whether it was reported that the disk limit is reached.
    full: bool,
}

impl Recorder {
    /// Writes rows that have waited long enough. Notes changes of the broker's process in the manifest at once.
    fn poll(&mut self) {
        self.write_out();
        for change in self.intake.take_changes() {
            self.note_change(&change);
        }
        for traffic in self.intake.take_tls() {
            source::announce_tls(&mut self.tls, &traffic);
        }
        let has_shed = plan::note_shed(&mut self.manifest.plan, &self.costs, &mut self.shed);
        if has_shed || self.updated.elapsed() >= UPDATE_INTERVAL {
            self.updated = Instant::now();
            self.update();
        }
    }

    fn write_out(&mut self) {
        let (rows, mut slice) = (&self.rows, Slice::new(Slice::SHORT));
        let mut rest = || {
            slice.rest_if_over(|| rows.is_filling());
        };
        let ticked = self.writer.tick_with(Instant::now(), &mut rest);
        self.check(ticked);
        self.record_losses();
    }

    /// Reports, once, that a disk limit was reached; returns whether that ends the recording.
    fn must_end(&mut self, args: &Record) -> bool {
        let Some(limit) = self.writer.limit() else { return false };
        let ends = args.flight_threshold().is_none();
        let why = match limit {
            DiskLimit::MaxBytes => "the recording has reached --max-disk",
            DiskLimit::MinFree => "less of its file system is free than --min-free says",
        };
        if ends {
            self.manifest.settings.insert(settings::ENDED_BECAUSE.to_owned(), why.to_owned());
        }
        if !std::mem::replace(&mut self.full, true) {
            let consequence =
                if ends { "it ends" } else { "what there is no room for is dropped and counted" };
            tracing::warn!("{}: {why}: {consequence}", args.output.display());
        }
        ends
    }

    /// Records losses: rows that were not written or were removed from the recording.
    fn record_losses(&mut self) {
        let losses = self.writer.take_losses();
        if !losses.is_empty() {
            self.intake.take(losses.into_iter().map(Event::Loss).collect(), &mut |_| ());
        }
    }

    fn note_change(&mut self, change: &BrokerChange) {
        let Some(broker) = &mut self.manifest.broker else { return };
        let first = broker.pid;
        processes::note(broker, change);
        source::announce(change, first);
        self.update();
    }

    fn update(&mut self) {
        if self.manifest.clock.pairs.len() < MAX_CLOCK_PAIRS {
            self.manifest.clock.pairs.push(watch::now());
        }
        self.describe();
        let updated = self.writer.update(&self.manifest);
        self.check(updated);
    }

    /// Updates the manifest's rows, losses and sources.
    fn describe(&mut self) {
        self.manifest.rows = self.writer.rows();
        self.manifest.losses = self.intake.inner().notes.losses.clone();
        self.manifest.sources = manifest::sources(self.sources.health());
        // The plan notes shed purposes.
        self.manifest.sources.retain(|purpose, _| plan::sees(&self.manifest.plan, purpose));
    }

    /// Reports the first failure.
    /// A full disk may have room again, so recording continues and failures are counted.
    fn check(&mut self, done: Result<(), recording::Error>) {
        if let Err(error) = done {
            if !self.failed {
                tracing::warn!("brokerscope: {error}; recording goes on");
            }
            self.failed = true;
        }
    }

    fn finish(mut self, args: &Record, watch: Watch) -> anyhow::Result<()> {
        let (offset, started) = watch.clock();
        let (ended, refused) = self.end(watch);
        self.poll();
        if let Some(flight) = self.intake.take_flight() {
            let left_out = flight.finish(&mut |decided| {
                let written = self.writer.write(&decided);
                self.check(written);
            });
            self.manifest.settings.insert(settings::LEFT_OUT.to_owned(), left_out.to_string());
        }
        let now = watch::now();
        self.manifest.ended_ns = Some(now.realtime_ns);
        self.manifest.clock.pairs.push(now);
        let flushed = self.writer.flush();
        self.check(flushed);
        self.record_losses();
        let dropped = ended.unreported + refused;
        if dropped > 0 {
            let (start, end) =
                (offset.from_monotonic(started.monotonic_ns), offset.from_monotonic(now.monotonic_ns));
            let detail = "events were dropped before they could be recorded".into();
            let loss = Loss { start, end, kind: LossKind::EventsDropped, count: dropped, detail };
            self.intake.take(vec![Event::Loss(loss)], &mut |_| ());
        }
        log_errors(&ended);
        for line in tls_lines(&self.tls) {
            tracing::warn!("{line}");
        }
        self.describe();
        self.writer.finish(&self.manifest).with_context(|| {
            format!("{}: the recording was not finished; what was written can be read", args.output.display())
        })?;
        let Counts { requests, slow, file_ops, journal_commits } = self.intake.inner().counts;
        tracing::info!(
            "recorded {} ({} took {} or longer), {}, {}; `brokerscope explain {}` says why",
            format_count_of(requests, "request"),
            slow,
            slow_threshold(args),
            format_count_of(file_ops, "file operation"),
            format_count_of(journal_commits, "journal commit"),
            args.output.display(),
        );
        Ok(())
    }

    /// Ends the watch while writing continues.
    /// Also returns how many of its last events did not fit.
    fn end(&mut self, watch: Watch) -> (WatchSummary, u64) {
        let (mut last, mut refused) = (self.intake.clone(), 0);
        let ended = watch.stop_with(&mut |event| match event {
            Some(event) => last.take(vec![event], &mut |_| refused += 1),
            None => self.write_out(),
        });
        (ended, refused)
    }
}

fn log_errors(ended: &WatchSummary) {
    if let Some(error) = &ended.kernel {
        tracing::warn!("brokerscope: the probes ended early: {error}");
    }
    if let Some(Err(error)) = &ended.packets {
        tracing::warn!("brokerscope: the capture ended early: {error}");
    }
    for trouble in &ended.trouble {
        tracing::warn!("brokerscope: {trouble}");
    }
    if ended.dropped > 0 {
        tracing::warn!(
            "{} dropped: they came faster than they could be recorded",
            format_count_of(ended.dropped, "event")
        );
    }
}
