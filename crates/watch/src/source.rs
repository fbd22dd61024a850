//! The trait of all sources of a watch, and the loop that runs them: each source is a thread that delivers events, follows the
//! broker to its current process and counts its losses.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use capture::Counters;
use model::{ClockOffset, Event, Loss, LossKind, Nanos, Pid};

use crate::cost::{Costs, Part};
use crate::health::{Sources, Status};
use crate::queue::{Sender, lock};

/// How often a source checks for a changed process and counts its losses.
/// The process is the broker's.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
const PANICKED: &str = "its thread panicked";

/// A source of events.
pub(crate) trait Source: Send + 'static {
    /// Errors that end the source.
    type Error: std::fmt::Display;

    /// The source's name, from which its thread's is made.
    const NAME: &'static str;
    /// When the source is polled, unless [`Source::pace`] is overridden.
    const PACE: Pace;
    /// Whether its thread uses `SCHED_BATCH`, to let the broker's threads go first.
    /// Not for a source that reads BPF maps by system calls, during which no BPF program runs on its CPU.
    const SCHED_BATCH: bool = true;

    /// When to poll the source next.
    fn pace(&self) -> Pace {
        Self::PACE
    }

    /// The part that sheds the whole source if watching costs too much; `None` if it always runs.
    const PART: Option<Part> = None;

    /// Drops the capabilities that this source does not need. If that fails, the watch still works.
    fn drop_capabilities() {
        let _ = crate::privileges::drop_unneeded_capabilities();
    }

    /// Starts the source, in its own thread.
    fn start(&mut self, _feed: &Feed) {}

    /// Whether the source can be polled now.
    fn is_up(&self) -> bool {
        true
    }

    /// Why the source is down although it runs; `None` while it is not.
    fn why_down(&self) -> Option<String> {
        None
    }

    /// Delivers available events; a blocking source waits for more until the timeout.
    fn poll(&mut self, feed: &Feed, timeout: Duration) -> Result<(), Self::Error>;

    /// Follows the broker to its current process, at most every [`CHECK_INTERVAL`].
    /// Returns whether losses are counted from 0 again.
    fn check(&mut self, _feed: &Feed) -> Result<bool, Self::Error> {
        Ok(false)
    }

    /// Updates counts of losses that are kept elsewhere.
    /// Called before [`Source::losses`] is read.
    fn count_losses(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Losses so far, as last counted.
    fn losses(&self) -> Vec<LossCount> {
        Vec::new()
    }

    /// Delivers the remaining events, after a stop was requested.
    fn finish(&mut self, _feed: &Feed) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Summarizes the source after its end.
    fn summarize(self, ended: Result<(), Self::Error>) -> WatchSummary;
}

/// Summary of a watch after its end.
#[derive(Debug, Default)]
pub struct WatchSummary {
    /// Counters of the capture.
    pub packets: Option<Result<Counters, capture::Error>>,
    /// The error that ended the probes early.
    pub kernel: Option<probes::Error>,
    /// Errors during the watch, such as after a restart of the broker.
    pub trouble: Vec<String>,
    /// Events dropped because they were not read in time.
    pub dropped: u64,
    /// Dropped events that no [`Event::Loss`] has reported.
    pub unreported: u64,
}

impl WatchSummary {
    pub(crate) fn add(&mut self, other: Self) {
        self.packets = other.packets.or(self.packets.take());
        self.kernel = other.kernel.or(self.kernel.take());
        self.trouble.extend(other.trouble);
    }
}

/// When a source is polled.
#[derive(Clone, Copy)]
pub(crate) enum Pace {
    /// Continuously: the source itself waits, at most this long.
    Blocking(Duration),
    /// Once in this interval.
    Every(Duration),
}

/// Kind, description and count of a loss.
pub(crate) type LossCount = (LossKind, &'static str, u64);

/// State shared by the sources.
#[derive(Clone)]
pub(crate) struct Feed {
    pub(crate) sender: Sender,
    pub(crate) clock: ClockOffset,
    pub(crate) current: CurrentBroker,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) costs: Costs,
    pub(crate) sources: Sources,
    /// Status of the source that has this feed.
    pub(crate) status: Status,
}

impl Feed {
    /// Clones the feed for a source that starts.
    fn of_source(&self, name: &'static str) -> Self {
        let status = self.sources.status(name);
        status.set_down(None, self.now());
        Self { sender: self.sender.with_newest(Arc::clone(&status.newest_ns)), status, ..self.clone() }
    }

    /// Clones the feed for a source that is stopped separately.
    pub(crate) fn with_own_stop(&self) -> Self {
        Self { stop: Arc::default(), ..self.clone() }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The current time on the recording's clock.
    pub(crate) fn now(&self) -> Nanos {
        self.clock.from_monotonic(crate::clock::monotonic_ns())
    }

    /// Sets why this feed's source is down; `None` if it is up.
    fn set_down(&self, why: Option<String>) {
        self.status.set_down(why, self.now());
    }

    /// Reports that a source was down from `start` until now.
    /// Verdicts that can depend on it are then not exact. Returns the end.
    pub(crate) fn report_off(&self, kind: LossKind, start: Nanos, detail: &str) -> Nanos {
        let end = self.now();
        let seconds =
            (end - start + Nanos::from_millis(500)).at_least_zero().0.unsigned_abs() / 1_000_000_000;
        let count = seconds.max(1);
        self.sender.send(Event::Loss(Loss { start, end, kind, count, detail: detail.into() }));
        end
    }
}

/// A broker's process, its log dirs as this process sees them, and its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BrokerProcess {
    pub(crate) pid: Pid,
    pub(crate) log_dirs: Vec<PathBuf>,
    pub(crate) ports: Vec<u16>,
}

/// The broker's current process; `None` while it is down.
#[derive(Clone, Default)]
pub(crate) struct CurrentBroker(Arc<Mutex<Option<BrokerProcess>>>);

impl CurrentBroker {
    pub(crate) fn get(&self) -> Option<BrokerProcess> {
        lock(&self.0).clone()
    }

    pub(crate) fn set(&self, process: Option<BrokerProcess>) {
        *lock(&self.0) = process;
    }
}

/// A source that is running in a thread.
pub(crate) struct Running {
    thread: JoinHandle<WatchSummary>,
    stop: Arc<AtomicBool>,
    status: Status,
}

impl Running {
    /// Starts a source.
    pub(crate) fn start<S: Source>(source: S, feed: &Feed) -> std::io::Result<Self> {
        Self::spawn_as(S::NAME, feed, move |feed| {
            S::drop_capabilities();
            if S::SCHED_BATCH {
                // If that is not permitted, the source still works.
                let _ = probes::set_sched_batch();
            }
            run(source, feed)
        })
    }

    /// Starts another thread that ends when the feed's flag is set.
    pub(crate) fn spawn(
        name: &'static str,
        feed: &Feed,
        run: impl FnOnce() -> WatchSummary + Send + 'static,
    ) -> std::io::Result<Self> {
        Self::spawn_as(name, feed, move |_| {
            let _ = crate::privileges::drop_unneeded_capabilities();
            let _ = probes::set_sched_batch();
            run()
        })
    }

    /// Starts a thread.
    /// If it panics, it reports losses until the feed's flag is set, and then resumes the panic.
    fn spawn_as(
        name: &'static str,
        feed: &Feed,
        run: impl FnOnce(&Feed) -> WatchSummary + Send + 'static,
    ) -> std::io::Result<Self> {
        let feed = feed.of_source(name);
        let (stop, status) = (Arc::clone(&feed.stop), feed.status.clone());
        let run = move || {
            catch_unwind(AssertUnwindSafe(|| run(&feed))).unwrap_or_else(|panic| {
                feed.set_down(Some(PANICKED.to_owned()));
                report_off(name, LossKind::SourceDown, PANICKED, feed.now(), &feed);
                resume_unwind(panic)
            })
        };
        Ok(Self { thread: thread(name).spawn(run)?, stop, status })
    }

    /// Requests a stop.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Whether the source is down, for now or for good.
    pub(crate) fn is_down(&self) -> bool {
        self.status.is_down() || self.has_ended()
    }

    /// Waits until the source has ended.
    pub(crate) fn join(self) -> WatchSummary {
        let name = self.thread.thread().name().unwrap_or_default().to_owned();
        let trouble = || vec![format!("the thread {name} panicked")];
        self.thread.join().unwrap_or_else(|_| WatchSummary { trouble: trouble(), ..WatchSummary::default() })
    }
}

fn thread(name: &str) -> std::thread::Builder {
    std::thread::Builder::new().name(thread_name(name))
}

/// Name of a source's thread; the kernel keeps 15 characters.
pub(crate) fn thread_name(source: &str) -> String {
    format!("brokerscope-{source}").chars().take(15).collect()
}

fn run<S: Source>(mut source: S, feed: &Feed) -> WatchSummary {
    source.start(feed);
    let ended = poll_until_stopped(&mut source, feed);
    let ended_at = feed.now();
    let failure = ended.as_ref().err().map(ToString::to_string);
    // Otherwise the status stays as it was at the end.
    if failure.is_some() {
        feed.set_down(failure.clone());
    }
    // Detaching programs takes seconds.
    let summary = source.summarize(ended);
    if let Some(why) = failure {
        report_off(S::NAME, LossKind::SourceDown, &why, ended_at, feed);
    } else if S::PART.is_some_and(|part| feed.costs.is_shed(part)) {
        report_off(S::NAME, LossKind::SourceShed, &feed.costs.why_shed(), ended_at, feed);
    }
    summary
}

/// Reports a loss each second after a source has ended.
fn report_off(source: &str, kind: LossKind, why: &str, mut start: Nanos, feed: &Feed) {
    let detail = format!("the source {source} is off: {why}");
    while !feed.is_stopped() {
        std::thread::park_timeout(CHECK_INTERVAL);
        start = feed.report_off(kind, start, &detail);
    }
}

fn poll_until_stopped<S: Source>(source: &mut S, feed: &Feed) -> Result<(), S::Error> {
    let mut losses = Losses::default();
    let (mut next_poll, mut next_check) = (Instant::now(), Instant::now() + CHECK_INTERVAL);
    loop {
        let stopping = feed.is_stopped() || S::PART.is_some_and(|part| feed.costs.is_shed(part));
        if let (Pace::Every(interval), false) = (source.pace(), stopping) {
            let wait = next_poll.saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                std::thread::park_timeout(wait);
                continue;
            }
            // Do not catch up on missed polls.
            next_poll = (next_poll + interval).max(Instant::now());
        }
        let timeout = match source.pace() {
            Pace::Blocking(timeout) if !stopping => timeout,
            _ => Duration::ZERO,
        };
        if source.is_up() {
            source.poll(feed, timeout)?;
        } else {
            std::thread::park_timeout(timeout);
        }
        if stopping {
            source.finish(feed)?;
        }
        if stopping || Instant::now() >= next_check {
            next_check = (next_check + CHECK_INTERVAL).max(Instant::now());
            source.count_losses()?;
            losses.report(&source.losses(), feed);
            if !stopping && source.check(feed)? {
                losses.reported.clear();
            }
            feed.set_down(source.why_down());
        }
        if stopping {
            return Ok(());
        }
    }
}

/// Losses of a source at the last report.
#[derive(Default)]
struct Losses {
    at: Option<Nanos>,
    reported: Vec<LossCount>,
}

impl Losses {
    fn report(&mut self, losses: &[LossCount], feed: &Feed) {
        let end = feed.now();
        let start = self.at.replace(end).unwrap_or(end - Nanos::from_millis(1_000));
        for (index, &(kind, detail, count)) in losses.iter().enumerate() {
            let count = count.saturating_sub(self.reported.get(index).map_or(0, |(_, _, before)| *before));
            if count > 0 {
                feed.sender.send(Event::Loss(Loss { start, end, kind, count, detail: detail.into() }));
            }
        }
        self.reported = losses.to_vec();
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::{
        Arc, Costs, Duration, Feed, Instant, LossCount, Nanos, Pace, Part, Running, Source, Sources, Status,
        WatchSummary,
    };
    use crate::health::Health;
    use crate::queue::{Queue, queue};
    use model::{ClockOffset, Event, Loss, LossKind};

    /// Loses one event in each poll, and counts losses on request.
    #[derive(Default)]
    struct Leaky {
        lost: u64,
        counted: u64,
    }

    impl Source for Leaky {
        type Error = Infallible;
        const NAME: &'static str = "leaky";
        const PACE: Pace = Pace::Every(Duration::from_secs(3_600));
        const PART: Option<Part> = Some(Part::Host);

        fn poll(&mut self, _: &Feed, _: Duration) -> Result<(), Infallible> {
            self.lost += 1;
            Ok(())
        }

        fn count_losses(&mut self) -> Result<(), Infallible> {
            self.counted = self.lost;
            Ok(())
        }

        fn check(&mut self, feed: &Feed) -> Result<bool, Infallible> {
            assert!(!feed.stop.load(super::Ordering::Relaxed), "a source that ends is not attached again");
            Ok(false)
        }

        fn losses(&self) -> Vec<LossCount> {
            vec![
                (LossKind::ProbeMapFull, "nothing", 0),
                (LossKind::ProbeEventsDropped, "a leak", self.counted),
            ]
        }

        fn summarize(self, ended: Result<(), Infallible>) -> WatchSummary {
            WatchSummary { trouble: vec![format!("{ended:?}")], ..WatchSummary::default() }
        }
    }

    fn feed() -> (Feed, Queue) {
        let (sender, queue) = queue(16);
        let feed = Feed {
            sender,
            clock: ClockOffset::from_ns(0),
            current: super::CurrentBroker::default(),
            stop: Arc::default(),
            costs: Costs::default(),
            sources: Sources::default(),
            status: Status::default(),
        };
        (feed, queue)
    }

    fn next_loss(queue: &Queue, kind: LossKind) -> Loss {
        let end = Instant::now() + Duration::from_secs(20);
        let mut events = std::iter::from_fn(|| queue.next(end - Instant::now()).ok().flatten());
        let loss = events.find_map(|event| match event {
            Event::Loss(loss) if loss.kind == kind => Some(loss),
            _ => None,
        });
        loss.unwrap()
    }

    /// Delivers one event and then ends.
    struct Short {
        panics: bool,
        sent: bool,
    }

    impl Source for Short {
        type Error = &'static str;
        const NAME: &'static str = "short";
        const PACE: Pace = Pace::Every(Duration::from_millis(1));

        fn poll(&mut self, feed: &Feed, _: Duration) -> Result<(), &'static str> {
            if std::mem::replace(&mut self.sent, true) {
                assert!(!self.panics, "as it was asked to");
                return Err("refused");
            }
            let (at, state) = (Nanos(7), model::BrokerState::Watched);
            feed.sender.send(model::BrokerChange { at, pid: 1, state }.into());
            Ok(())
        }

        fn summarize(self, _: Result<(), &'static str>) -> WatchSummary {
            WatchSummary::default()
        }
    }

    #[test]
    fn ended_source_is_down_and_reports_a_loss() {
        for (panics, why) in [(false, "refused"), (true, "its thread panicked")] {
            let (feed, queue) = feed();
            feed.sources.serve(Short::NAME, &["requests"]);
            let up =
                Health { purpose: "requests".to_owned(), down: None, down_since: None, last_event: None };
            assert_eq!(feed.sources.health(), std::slice::from_ref(&up));
            let running = Running::start(Short { panics, sent: false }, &feed).unwrap();
            let loss = next_loss(&queue, LossKind::SourceDown);
            assert_eq!(&*loss.detail, format!("the source short is off: {why}"));
            let (down, last_event) = (Some(why.to_owned()), Some(Nanos(7)));
            let [found] = &feed.sources.health()[..] else { panic!("{:?}", feed.sources.health()) };
            let down_since = found.down_since.filter(|since| *since <= loss.end);
            assert_eq!(*found, Health { down, down_since, last_event, ..up });
            assert!(down_since.is_some());
            assert!(running.is_down() && !running.has_ended());
            running.stop();
            let trouble = running.join().trouble;
            assert_eq!(trouble.iter().any(|why| why.contains("panicked")), panics, "{trouble:?}");
        }
    }

    /// Is down, with a reason.
    struct Blind;

    impl Source for Blind {
        type Error = Infallible;
        const NAME: &'static str = "blind";
        const PACE: Pace = Pace::Every(Duration::from_millis(1));

        fn why_down(&self) -> Option<String> {
            Some("no interface".to_owned())
        }

        fn poll(&mut self, _: &Feed, _: Duration) -> Result<(), Infallible> {
            Ok(())
        }

        fn summarize(self, _: Result<(), Infallible>) -> WatchSummary {
            WatchSummary::default()
        }
    }

    #[test]
    fn source_down_at_the_end_stays_down() {
        let (feed, _queue) = feed();
        feed.sources.serve(Blind::NAME, &["requests"]);
        let running = Running::start(Blind, &feed).unwrap();
        running.stop();
        running.join();
        let down: Vec<_> = feed.sources.health().into_iter().map(|health| health.down).collect();
        assert_eq!(down, [Some("no interface".to_owned())]);
    }

    #[test]
    fn shed_source_reports_a_loss_until_the_watch_ends() {
        let (feed, queue) = feed();
        let running = Running::start(Leaky::default(), &feed).unwrap();
        feed.costs.offer(Part::Host, &["leaks"]);
        feed.costs.shed_next("it costs too much".to_owned());
        running.thread.thread().unpark();
        let loss = next_loss(&queue, LossKind::SourceShed);
        assert_eq!((loss.count, &*loss.detail), (1, "the source leaky is off: it costs too much"));
        assert!(loss.end > loss.start);
        running.stop();
        assert_eq!(running.join().trouble, ["Ok(())"]);
    }

    #[test]
    fn stopped_source_delivers_remaining_events_and_losses() {
        let (feed, queue) = feed();
        let running = Running::start(Leaky::default(), &feed).unwrap();
        running.stop();
        assert_eq!(running.join().trouble, ["Ok(())"]);
        let Ok(Some(Event::Loss(loss))) = queue.next(Duration::ZERO) else { panic!("no loss") };
        assert_eq!((loss.kind, &*loss.detail), (LossKind::ProbeEventsDropped, "a leak"));
        assert!(loss.count == 1 || loss.count == 2, "polled once before it stopped, or not: {}", loss.count);
        assert_eq!(queue.next(Duration::ZERO), Ok(None));
    }
}
