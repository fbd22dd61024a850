//! Collects what a page shows of events and verdicts, in bounded memory. Takes each of them once, as it arrives. One
//! thread can feed each of its parts: all requests ([`Traffic`]), all other events except the network's ([`Work`]),
//! and the events around slow requests with the verdicts ([`SlowRequests`]). Does not reach verdicts.

use model::row_summary::RequestColumns;
use model::{Event, Loss, Nanos, Verdict};
use report::explanation::Conclusion;
use report::thread_state::ThreadState;

use crate::detail::{Draft, Pool};
use crate::devices::Beneath;
use crate::files::TopFiles;
use crate::grid::{self, Grid};
use crate::latency::Latency;
use crate::partitions::Partitions;
use crate::recent::{self, Recent};
use crate::selection::DetailSelection;
use crate::slow::Slow;
use crate::stacks::Stacks;
use crate::threads::Threads;
use crate::{LossData, RecordingData, RecordingInfo, story};

/// Collects events and verdicts.
/// Feed it each event before the engine, and each verdict when it is reached.
///
/// For a long recording, feed each of its parts in its own thread: [`Collector::part`].
pub struct Collector {
    traffic: Traffic,
    work: Work,
    cases: SlowRequests,
}

impl Collector {
    /// Creates an empty collector. The axis starts at `origin`, or with the first event.
    pub fn new(origin: Option<Nanos>, slower_than: Nanos) -> Self {
        let axis = Axis { origin, grid: None };
        let partitions = Partitions::new(slower_than);
        let traffic = Traffic { axis, latency: Latency::default(), partitions };
        let work = Work {
            axis,
            threads: Threads::new(),
            beneath: Beneath::new(),
            stacks: Stacks::default(),
            files: TopFiles::new(),
            losses: Vec::new(),
        };
        let (slow, selection, recent) = (Slow::new(), DetailSelection::default(), Recent::new(slower_than));
        Self { traffic, work, cases: SlowRequests { axis, slow, selection, slower_than, recent } }
    }

    /// Splits it into its parts. Requires that it was created with an origin.
    /// The parts are for all requests, for all other events that are not of the network, and for the events around slow
    /// requests and the verdicts.
    pub fn part(self) -> (Traffic, Work, SlowRequests) {
        (self.traffic, self.work, self.cases)
    }

    /// Joins the parts again.
    pub fn of(traffic: Traffic, work: Work, cases: SlowRequests) -> Self {
        Self { traffic, work, cases }
    }

    /// Takes an event.
    pub fn event(&mut self, event: &Event) {
        for axis in [&mut self.traffic.axis, &mut self.work.axis, &mut self.cases.axis] {
            axis.begin(event);
        }
        match event {
            Event::Request(request) => self.traffic.request(&(&**request).into()),
            Event::SocketOp(_) | Event::TcpEvent(_) => {}
            _ => self.work.event(event),
        }
        self.cases.event(event);
    }

    /// Takes a verdict.
    pub fn verdict(&mut self, verdict: &Verdict) {
        self.cases.verdict(verdict);
    }

    /// Builds the data of the recording.
    pub fn finish(self, about: RecordingInfo, conclusion: &Conclusion) -> RecordingData {
        let Self { traffic, work, cases } = self;
        let SlowRequests { slow, selection, slower_than, axis: cases_axis, .. } = cases;
        let grid = Axis::shared([&traffic.axis, &work.axis, &cases_axis]);
        let summary = &conclusion.summary;
        let latency = traffic.latency.finish(&grid);
        let slow = slow.finish(&grid, summary, slower_than);
        let (devices, figures, commits) = work.beneath.finish(&grid);
        let joins = &summary.joins;
        let mut pool = Pool::default();
        let drafts = selection.finish(slow.by_root.iter().map(|root| &*root.root));
        let requests = drafts.into_iter().map(|draft| draft.into_detail(&grid, &mut pool)).collect();
        RecordingData {
            about,
            origin_ns: grid.origin.0.to_string(),
            end_ns: grid.since(grid.end),
            bucket_ns: grid.width,
            buckets: grid.buckets(),
            story: story::build(summary, &slow, &latency),
            latency,
            slow,
            advice: None,
            requests,
            spans: pool.spans,
            coarse_buckets: grid::COARSE,
            partitions: traffic.partitions.finish(&grid),
            thread_states: ThreadState::ALL.map(ThreadState::as_str).to_vec(),
            threads: work.threads.finish(&grid),
            devices,
            figures,
            commits,
            flames: work.stacks.finish(&grid),
            files: work.files.finish(&grid),
            losses: work.losses.iter().map(|loss| LossData::of(&grid, loss)).collect(),
            loss_totals: summary.losses.iter().map(|&(kind, count)| (kind.as_str(), count)).collect(),
            joins: [
                ("by CRC", joins.by_crc),
                ("by base offset", joins.by_base_offset),
                ("not found", joins.unjoined),
                ("not written", joins.not_written),
            ],
            unobservable: conclusion.unobservable.clone(),
            notes: conclusion.notes.clone(),
        }
    }
}

/// The part that takes all requests.
pub struct Traffic {
    axis: Axis,
    latency: Latency,
    partitions: Partitions,
}

impl Traffic {
    /// Takes a request: its times, API, acks, terms and errors, and the names and bytes of its partitions.
    pub fn request(&mut self, request: &RequestColumns) {
        let grid = self.axis.reach(request.last_seen());
        self.latency.request(grid, request);
        self.partitions.request(grid, request);
    }
}

/// Limit on the losses listed one by one.
const MAX_LOSSES: usize = 1_000;

/// The part that takes all events that are not of the network: neither requests nor events of sockets and connections.
pub struct Work {
    axis: Axis,
    threads: Threads,
    beneath: Beneath,
    stacks: Stacks,
    files: TopFiles,
    losses: Vec<Loss>,
}

impl Work {
    /// Takes an event.
    pub fn event(&mut self, event: &Event) {
        let grid = self.axis.reach(event.time());
        match event {
            Event::FileOp(op) => self.files.op(grid, op),
            Event::BlockIo(io) => self.beneath.block_io(grid, io),
            Event::JournalCommit(commit) => self.beneath.commit(commit),
            Event::HostSample(sample) => self.beneath.sample(grid, sample),
            Event::Loss(loss) if self.losses.len() < MAX_LOSSES => self.losses.push(loss.clone()),
            _ => {}
        }
        self.threads.event(grid, event);
        self.stacks.event(grid, event);
    }
}

/// The part that takes the events around slow requests, and the verdicts on them.
pub struct SlowRequests {
    axis: Axis,
    slow: Slow,
    selection: DetailSelection,
    slower_than: Nanos,
    recent: Recent,
}

impl SlowRequests {
    /// Takes an event, before the engine does.
    pub fn event(&mut self, event: &Event) {
        if matches!(event, Event::SocketOp(_) | Event::TcpEvent(_)) {
            return;
        }
        self.axis.reach(event.time());
        self.recent.event(event);
    }

    /// Takes a verdict when it is reached.
    pub fn verdict(&mut self, verdict: &Verdict) {
        let grid = self.axis.grid(verdict.request.arrival);
        self.slow.verdict(grid, verdict);
        self.selection.offer(verdict, || Draft::of(verdict, &self.recent));
    }
}

/// An axis that starts at a known moment, or with the first event.
#[derive(Clone, Copy, Debug)]
struct Axis {
    origin: Option<Nanos>,
    grid: Option<Grid>,
}

impl Axis {
    /// Starts the axis at the event's start, unless it has an origin.
    fn begin(&mut self, event: &Event) {
        self.origin.get_or_insert_with(|| match event {
            Event::Request(request) => request.arrival,
            _ => recent::span(event).map_or(event.time(), |(start, _)| start),
        });
    }

    /// The axis, as far as it reaches.
    fn grid(&mut self, at: Nanos) -> &mut Grid {
        let origin = *self.origin.get_or_insert(at);
        self.grid.get_or_insert_with(|| Grid::new(origin))
    }

    /// The axis, extended to a moment.
    fn reach(&mut self, at: Nanos) -> &Grid {
        let grid = self.grid(at);
        grid.reach(at);
        grid
    }

    /// An axis that covers all of these.
    fn shared(parts: [&Self; 3]) -> Grid {
        let mut grid = Grid::new(parts.iter().find_map(|part| part.origin).unwrap_or_default());
        for part in parts.iter().filter_map(|part| part.grid.as_ref()) {
            grid.reach(part.end);
        }
        grid
    }
}
