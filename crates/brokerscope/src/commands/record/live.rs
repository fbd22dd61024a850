//! Writes what a watch sees to a recording, several times a second, until it is time to stop.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use model::{BrokerChange, Event, Loss, LossKind, Nanos};
use recording::{Manifest, Writer, WriterOptions};
use report::explanation::Unobservable;
use report::numbers::counted;
use watch::{Ended, FlightRecorder, Memory, Watch};

use super::{manifest, partial};
use crate::cli::Record;
use crate::output;
use crate::stop::Stop;
use crate::watched;

/// Between two looks at what came: whoever is woken for every batch is woken often.
const PAUSE: Duration = Duration::from_millis(20);
/// The same where that much would come meanwhile that the queue might be full.
const SHORT_PAUSE: Duration = Duration::from_millis(1);
/// How often the manifest gets a new pair of clock readings and the losses so far.
const UPDATE: Duration = Duration::from_secs(10);
/// Pairs kept: a week's worth at that rate.
const MOST_PAIRS: usize = 60_480;
/// What counts as slow where nothing was said.
const SLOW: Nanos = Nanos::from_millis(100);
/// Events written between two looks at the clocks and the signals.
const BURST: usize = 1_000;

/// Records until it is time to stop.
pub(super) fn run(args: &Record) -> anyhow::Result<()> {
    let stop = Stop::after(args.duration)?;
    let broker = watched::broker(&args.target)?;
    // Before anything is watched: what is asked here is nothing of what is recorded.
    let asked = watch::admin::settings(&broker);
    let packets = watched::packets(&args.filter, &broker, &args.interface);
    let memory = Memory::within(args.max_memory);
    let jvm = args.jvm.recording();
    let mut watch = watched::start(&args.target, &broker, Some(packets), true, jvm, memory)?;
    if args.cpu_samples > 0 {
        watch.sample_cpu(broker.pid, args.cpu_samples);
    }
    watched::probe_jvm(&mut watch, broker.pid, args.lock_waits);
    let manifest = manifest::at_start(args, &broker, asked, &watch);
    // Before the writer has a thread of its own, which could do what this one can. What keeps the directory from being
    // made is the writer's to say.
    let _ = fs::create_dir_all(&args.output);
    watched::drop_privileges(Some(&args.output));
    let writer = Writer::create(&args.output, &manifest, WriterOptions::default())?;
    for line in not_seen(&super::missing(&manifest.plan)) {
        output::warn(&line);
    }
    let until = if args.duration.is_some() { "" } else { "; Ctrl-C ends it" };
    args.presentation.say(&format!("recording broker {} into {}{until}", broker.pid, args.output.display()));
    let mut recorder = Recorder {
        writer,
        manifest,
        flight: args.slower_than.map(|slower_than| partial::flight(slower_than, memory)),
        counts: Counts::default(),
        updated: Instant::now(),
        since_pause: 0,
        failed: false,
    };
    // Where the kernel does not let it, it does as much.
    let _ = watch::step_back();
    while !stop.asked() {
        recorder.burst(&watch, args);
    }
    recorder.finish(args, watch)
}

/// One line for all that lack the same.
fn not_seen(missing: &[Unobservable]) -> Vec<String> {
    let mut lines: Vec<(String, &str)> = Vec::new();
    for Unobservable { what, why } in missing {
        match lines.iter_mut().find(|(_, known)| known == why) {
            Some((purposes, _)) => purposes.extend([", ", what]),
            None => lines.push((what.clone(), why)),
        }
    }
    lines.into_iter().map(|(purposes, why)| format!("not seen: {purposes}: {why}")).collect()
}

/// What was recorded.
#[derive(Default)]
struct Counts {
    requests: u64,
    slow: u64,
    file_ops: u64,
    journal_commits: u64,
}

impl Counts {
    fn count(&mut self, event: &Event, slower_than: Nanos) {
        match event {
            Event::Request(request) => {
                self.requests += 1;
                self.slow += u64::from(request.latency().is_some_and(|latency| latency >= slower_than));
            }
            Event::FileOp(_) => self.file_ops += 1,
            Event::JournalCommit(_) => self.journal_commits += 1,
            _ => {}
        }
    }
}

/// From where on a request counts as slow in what is said at the end.
fn slow_from(args: &Record) -> Nanos {
    args.slower_than.unwrap_or(SLOW)
}

struct Recorder {
    writer: Writer,
    manifest: Manifest,
    /// Decides what is kept, where not everything is.
    flight: Option<FlightRecorder>,
    counts: Counts,
    updated: Instant,
    /// Events taken since it paused last.
    since_pause: usize,
    failed: bool,
}

impl Recorder {
    /// Notes in the manifest, at once, what became of the broker's process.
    fn changed(&mut self, change: &BrokerChange, args: &Record) {
        let Some(broker) = &mut self.manifest.broker else { return };
        let first = broker.pid;
        super::processes::note(broker, change);
        args.presentation.say_change(change, first);
        self.update();
    }

    /// Writes some of what is there, and pauses after the last of it.
    fn burst(&mut self, watch: &Watch, args: &Record) {
        let mut taken = 0;
        while taken < BURST {
            let Some(event) = watch.next(Duration::ZERO) else { break };
            self.take(event, args);
            taken += 1;
        }
        self.since_pause += taken;
        if taken < BURST {
            let is_much = std::mem::take(&mut self.since_pause) > watch.queue_events() / 4;
            std::thread::sleep(if is_much { SHORT_PAUSE } else { PAUSE });
        }
        let ticked = self.writer.tick(Instant::now());
        self.check(ticked);
        if self.updated.elapsed() >= UPDATE {
            self.updated = Instant::now();
            self.update();
        }
    }

    /// Takes what the watch saw: all of it, or what a flight recorder lets through.
    fn take(&mut self, event: Event, args: &Record) {
        self.counts.count(&event, slow_from(args));
        match self.flight.take() {
            Some(mut flight) => {
                flight.push(event, &mut |decided| self.write(&decided, args));
                self.flight = Some(flight);
            }
            None => self.write(&event, args),
        }
    }

    fn write(&mut self, event: &Event, args: &Record) {
        match event {
            Event::Loss(loss) => {
                *self.manifest.losses.entry(loss.kind.as_str().to_owned()).or_default() += loss.count;
            }
            Event::BrokerChange(change) => self.changed(change, args),
            _ => {}
        }
        let written = self.writer.write(event);
        self.check(written);
    }

    fn update(&mut self) {
        if self.manifest.clock.pairs.len() < MOST_PAIRS {
            self.manifest.clock.pairs.push(manifest::pair(watch::now()));
        }
        self.manifest.rows = self.writer.rows();
        let updated = self.writer.update(&self.manifest);
        self.check(updated);
    }

    /// A full disk may have room again: what fails is counted, and said once.
    fn check(&mut self, done: Result<(), recording::Error>) {
        if let Err(error) = done {
            if !self.failed {
                output::warn(&format!("brokerscope: {error}; recording goes on"));
            }
            self.failed = true;
        }
    }

    fn finish(mut self, args: &Record, watch: Watch) -> anyhow::Result<()> {
        let (offset, started) = watch.clock();
        let ended = watch.stop(&mut |event| self.take(event, args));
        if let Some(flight) = self.flight.take() {
            let held = flight.finish(&mut |decided| self.write(&decided, args));
            self.manifest.settings.insert(partial::LEFT_OUT.to_owned(), held.to_string());
        }
        let now = watch::now();
        self.manifest.ended_ns = Some(now.realtime_ns);
        self.manifest.clock.pairs.push(manifest::pair(now));
        let dropped = ended.untold + self.writer.dropped_rows();
        if dropped > 0 {
            let (start, end) =
                (offset.from_monotonic(started.monotonic_ns), offset.from_monotonic(now.monotonic_ns));
            let detail = "events were dropped before they could be recorded".into();
            let loss = Loss { start, end, kind: LossKind::EventsDropped, count: dropped, detail };
            self.write(&Event::Loss(loss), args);
        }
        say_trouble(&ended);
        self.manifest.rows = self.writer.rows();
        self.writer.finish(&self.manifest).with_context(|| {
            format!("{}: not finished, but readable as far as it goes", args.output.display())
        })?;
        let counts = self.counts;
        args.presentation.say(&format!(
            "recorded {} ({} took {} or longer), {}, {}; `brokerscope explain {}` says why",
            counted(counts.requests, "request"),
            counts.slow,
            slow_from(args),
            counted(counts.file_ops, "file operation"),
            counted(counts.journal_commits, "journal commit"),
            args.output.display(),
        ));
        Ok(())
    }
}

fn say_trouble(ended: &Ended) {
    if let Some(error) = &ended.kernel {
        output::warn(&format!("brokerscope: the probes ended early: {error}"));
    }
    if let Some(Err(error)) = &ended.packets {
        output::warn(&format!("brokerscope: the capture ended early: {error}"));
    }
    for trouble in &ended.trouble {
        output::warn(&format!("brokerscope: {trouble}"));
    }
    if ended.dropped > 0 {
        output::warn(&format!(
            "{} dropped: they came faster than they could be recorded",
            counted(ended.dropped, "event")
        ));
    }
}
