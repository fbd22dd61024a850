//! Simulates a broker under a steady load of produce requests: which thread serves which request when. At intervals a
//! journal commit blocks one append, and with it requests that wait for that partition's log, for a handler, or for an
//! answer on the same connection; sometimes a garbage collection stops all threads. Writes nothing.
//!
//! The rules are Kafka's: one request per connection at a time, one append per partition at a time, as many requests as
//! there are handlers, each taken by the handler that has waited longest. Everything happens in order of time: nothing
//! waits for a thread or a log that another will take only later.

mod trouble;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use fastrand::Rng;
use trouble::Trouble;
pub(super) use trouble::{Incident, Incidents};

/// Requests per second.
pub(crate) const RATE: u64 = 5_000;
pub(super) const CONNECTIONS: usize = 64;
pub(super) const PARTITIONS: usize = 48;
pub(super) const HANDLERS: usize = 8;
pub(super) const NETWORK_THREADS: usize = 3;
/// One in this many requests has two partitions.
const TWO_PARTITIONS: u64 = 16;

pub(super) const MICRO: i64 = 1_000;
pub(super) const MILLI: i64 = 1_000 * MICRO;
pub(super) const SECOND: i64 = 1_000 * MILLI;

/// A time interval in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stretch {
    pub(super) start: i64,
    pub(super) end: i64,
}

/// The append of one partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Append {
    pub(super) partition: usize,
    /// Number of earlier appends in that partition.
    pub(super) place: i64,
    pub(super) time: Stretch,
    /// The number of the commit that it waited for.
    pub(super) held_by: Option<u32>,
}

/// One request, with the times of its steps.
#[derive(Clone, Debug, Default)]
pub(super) struct ServedRequest {
    pub(super) number: u64,
    pub(super) connection: usize,
    pub(super) handler: usize,
    pub(super) arrival: Stretch,
    pub(super) head_of_line: i64,
    /// Reads of its length and of the rest. Kafka reads the length first (`NetworkReceive`).
    pub(super) reads: [Stretch; 2],
    pub(super) appends: Vec<Append>,
    pub(super) write: Stretch,
    pub(super) end: i64,
}

impl ServedRequest {
    pub(super) fn network_thread(&self) -> usize {
        self.connection % NETWORK_THREADS
    }
}

/// A scheduled step. Numbers are those of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Arrival,
    Read(u64),
    Queued(u64),
    WantLog(u64),
    Append(u64),
    Appended(u64),
    /// A handler becomes idle.
    Free(usize),
    Answer(u64),
    Answered(u64),
}

/// A request in progress.
struct UnderWay {
    served: ServedRequest,
    /// Partitions that it has not appended to yet.
    partitions: VecDeque<usize>,
}

/// A connection's requests; the first one is being served.
struct Connection {
    requests: VecDeque<u64>,
    /// Arrival of the last byte of the last one.
    arrived: i64,
    /// When the last one was answered.
    answered: i64,
}

/// A partition's log, and the requests that wait for it.
#[derive(Default)]
struct Log {
    appended: i64,
    is_held: bool,
    waiting: VecDeque<u64>,
}

pub(super) struct Simulation {
    rng: Rng,
    now: i64,
    /// Requests that have arrived, and those that are still to arrive.
    arrived: u64,
    to_arrive: u64,
    trouble: Trouble,
    /// Steps ordered by time, and, if equal, by when they were scheduled.
    calendar: BinaryHeap<Reverse<(i64, u64, Step)>>,
    decided: u64,
    under_way: BTreeMap<u64, UnderWay>,
    connections: Vec<Connection>,
    network_threads_free: [i64; NETWORK_THREADS],
    /// Requests that were read, or handlers that wait for one: never both.
    queue: VecDeque<u64>,
    idle: VecDeque<usize>,
    logs: Vec<Log>,
}

impl Simulation {
    /// Creates a simulation of `requests` requests that starts at `now`.
    pub(super) fn new(seed: u64, now: i64, requests: u64, incidents: Incidents) -> Self {
        let mut rng = Rng::with_seed(seed);
        let trouble = Trouble::new(incidents, now, &mut rng);
        let connection = || Connection { requests: VecDeque::new(), arrived: now, answered: now };
        let mut simulation = Self {
            rng,
            now,
            arrived: 0,
            to_arrive: requests,
            trouble,
            calendar: BinaryHeap::new(),
            decided: 0,
            under_way: BTreeMap::new(),
            connections: std::iter::repeat_with(connection).take(CONNECTIONS).collect(),
            network_threads_free: [now; NETWORK_THREADS],
            queue: VecDeque::new(),
            idle: (0..HANDLERS).collect(),
            logs: std::iter::repeat_with(Log::default).take(PARTITIONS).collect(),
        };
        simulation.due(now, Step::Arrival);
        simulation
    }

    pub(super) fn now(&self) -> i64 {
        self.now
    }

    /// No later report starts before this time: a request is reported when it has been answered.
    pub(super) fn earliest_report_start(&self) -> i64 {
        let begun = self.under_way.values().map(|one| one.served.arrival.start);
        begun.min().map_or(self.now, |first| first.min(self.now))
    }

    /// The next answered request, and the incidents meanwhile; `None` after the last.
    pub(super) fn next(&mut self) -> Option<(ServedRequest, Vec<Incident>)> {
        let mut incidents = Vec::new();
        loop {
            let Reverse((at, _, step)) = self.calendar.pop()?;
            self.now = at;
            incidents.extend(self.trouble.over(at, &mut self.rng));
            // During a garbage collection only packets move.
            let awake = self.trouble.awake(at);
            if awake > at && step != Step::Arrival {
                self.due(awake, step);
            } else if let Some(served) = self.take(step) {
                return Some((served, incidents));
            }
        }
    }

    fn take(&mut self, step: Step) -> Option<ServedRequest> {
        match step {
            Step::Arrival => self.arrival(),
            Step::Read(number) => self.read(number),
            Step::Queued(number) => match self.idle.pop_front() {
                Some(handler) => self.handle(number, handler),
                None => self.queue.push_back(number),
            },
            Step::WantLog(number) => self.want_log(number),
            Step::Append(number) => self.append(number),
            Step::Appended(number) => self.appended(number),
            Step::Free(handler) => match self.queue.pop_front() {
                Some(number) => self.handle(number, handler),
                None => self.idle.push_back(handler),
            },
            Step::Answer(number) => self.answer(number),
            Step::Answered(number) => return self.answered(number),
        }
        None
    }

    fn arrival(&mut self) {
        if self.to_arrive == 0 {
            return;
        }
        self.to_arrive -= 1;
        self.arrived += 1;
        let number = self.arrived;
        let at = self.below(CONNECTIONS as i64) as usize;
        let count = if self.below(TWO_PARTITIONS as i64) == 0 { 2 } else { 1 };
        let first = self.below(PARTITIONS as i64) as usize;
        let partitions = (0..count).map(|more| (first + more) % PARTITIONS).collect();
        let took = 10 * MICRO + self.below(20 * MICRO);
        if let Some(connection) = self.connections.get_mut(at) {
            let start = self.now.max(connection.arrived);
            connection.arrived = start + took;
            connection.requests.push_back(number);
            let is_first = connection.requests.len() == 1;
            let arrival = Stretch { start, end: start + took };
            let served = ServedRequest { number, connection: at, arrival, ..ServedRequest::default() };
            self.under_way.insert(number, UnderWay { served, partitions });
            if is_first {
                self.notice(at);
            }
        }
        let next = self.now + self.below(2 * SECOND / RATE as i64);
        self.due(next, Step::Arrival);
    }

    /// Schedules the read of a connection's first request. It starts once the request is complete and the one before it
    /// is answered.
    fn notice(&mut self, connection: usize) {
        let Some(connection) = self.connections.get(connection) else { return };
        let Some(number) = connection.requests.front().copied() else { return };
        let Some(one) = self.under_way.get_mut(&number) else { return };
        let from = one.served.arrival.end.max(connection.answered);
        one.served.head_of_line = from - one.served.arrival.end;
        let noticed = from.max(self.now) + 10 * MICRO + self.below(20 * MICRO);
        self.due(noticed, Step::Read(number));
    }

    fn read(&mut self, number: u64) {
        let Some(start) = self.network_thread(number, 8 * MICRO) else { return };
        let stretch = |from: i64, until: i64| Stretch { start: start + from, end: start + until };
        let reads = [stretch(0, 2 * MICRO), stretch(3 * MICRO, 7 * MICRO)];
        if let Some(one) = self.under_way.get_mut(&number) {
            one.served.reads = reads;
        }
        self.due(start + 17 * MICRO, Step::Queued(number));
    }

    /// Reserves the network thread of a request's connection for this long. Returns when the thread can start.
    fn network_thread(&mut self, number: u64, takes: i64) -> Option<i64> {
        let thread = self.under_way.get(&number)?.served.network_thread();
        let free = self.network_threads_free.get_mut(thread)?;
        let start = self.now.max(*free);
        *free = start + takes;
        Some(start)
    }

    fn handle(&mut self, number: u64, handler: usize) {
        if let Some(one) = self.under_way.get_mut(&number) {
            one.served.handler = handler;
        }
        self.validate(number, 5 * MICRO);
    }

    /// The handler's work before it takes a partition's log lock.
    fn validate(&mut self, number: u64, after: i64) {
        let at = self.now + after + 15 * MICRO + self.below(20 * MICRO);
        self.due(at, Step::WantLog(number));
    }

    fn want_log(&mut self, number: u64) {
        let partition = self.under_way.get(&number).and_then(|one| one.partitions.front());
        let Some(log) = partition.and_then(|&partition| self.logs.get_mut(partition)) else { return };
        if log.is_held {
            log.waiting.push_back(number);
        } else {
            log.is_held = true;
            self.append(number);
        }
    }

    fn append(&mut self, number: u64) {
        let quick = self.now + 15 * MICRO + self.below(30 * MICRO);
        let Some(one) = self.under_way.get_mut(&number) else { return };
        let Some(partition) = one.partitions.pop_front() else { return };
        let Some(log) = self.logs.get_mut(partition) else { return };
        let held = self.trouble.hold_up(self.now);
        let time = Stretch { start: self.now, end: held.map_or(quick, |(_, until)| until) };
        let held_by = held.map(|(commit, _)| commit);
        one.served.appends.push(Append { partition, place: log.appended, time, held_by });
        log.appended += 1;
        self.due(time.end, Step::Appended(number));
    }

    fn appended(&mut self, number: u64) {
        let Some(one) = self.under_way.get(&number) else { return };
        let (is_done, handler) = (one.partitions.is_empty(), one.served.handler);
        let partition = one.served.appends.last().map(|append| append.partition);
        if let Some(log) = partition.and_then(|partition| self.logs.get_mut(partition)) {
            let next = log.waiting.pop_front();
            log.is_held = next.is_some();
            // The next waiter for the log wakes up this much later.
            if let Some(next) = next {
                self.due(self.now + 20 * MICRO, Step::Append(next));
            }
        }
        if is_done {
            self.due(self.now + 15 * MICRO, Step::Free(handler));
            let answered = self.now + 40 * MICRO + self.below(40 * MICRO);
            self.due(answered, Step::Answer(number));
        } else {
            self.validate(number, 0);
        }
    }

    fn answer(&mut self, number: u64) {
        let Some(start) = self.network_thread(number, 10 * MICRO) else { return };
        let Some(one) = self.under_way.get_mut(&number) else { return };
        one.served.write = Stretch { start, end: start + 8 * MICRO };
        one.served.end = start + 10 * MICRO;
        self.due(start + 10 * MICRO, Step::Answered(number));
    }

    fn answered(&mut self, number: u64) -> Option<ServedRequest> {
        let served = self.under_way.remove(&number)?.served;
        let connection = self.connections.get_mut(served.connection)?;
        connection.answered = served.end;
        connection.requests.pop_front();
        self.notice(served.connection);
        Some(served)
    }

    fn due(&mut self, at: i64, step: Step) {
        self.decided += 1;
        self.calendar.push(Reverse((at, self.decided, step)));
    }

    fn below(&mut self, limit: i64) -> i64 {
        self.rng.u64(..limit.unsigned_abs()) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than an undisturbed request.
    const LONG: i64 = MILLI;
    /// Time from one holder of a log or handler to the next. Includes the next one's first work.
    const HANDED_ON: i64 = 100 * MICRO;

    fn stalls() -> (Vec<ServedRequest>, Vec<Stretch>) {
        let (mut all, mut collections) = (Vec::new(), Vec::new());
        let mut simulation = Simulation::new(6, 0, 30 * RATE, Incidents::Often);
        let mut earliest_report_start = simulation.earliest_report_start();
        while let Some((served, incidents)) = simulation.next() {
            assert!(served.arrival.start >= earliest_report_start, "{served:?}");
            earliest_report_start = simulation.earliest_report_start();
            collections.extend(incidents.into_iter().filter_map(|incident| match incident {
                Incident::Collection(_, stretch) => Some(stretch),
                Incident::Commit(..) => None,
            }));
            all.push(served);
        }
        (all, collections)
    }

    /// The requests' appends grouped by `of`, in order of time.
    fn by(
        all: &[ServedRequest],
        of: impl Fn(&ServedRequest, &Append) -> usize,
    ) -> Vec<Vec<(&ServedRequest, &Append)>> {
        let mut lists = vec![Vec::new(); HANDLERS.max(PARTITIONS)];
        for served in all {
            for append in &served.appends {
                lists[of(served, append)].push((served, append));
            }
        }
        for list in &mut lists {
            list.sort_by_key(|(_, append)| append.time.start);
        }
        lists
    }

    #[test]
    fn a_log_and_a_handler_serve_one_request_at_a_time() {
        let (all, _) = stalls();
        assert_eq!(all.len() as u64, 30 * RATE);
        for log in by(&all, |_, append| append.partition) {
            for pair in log.windows(2) {
                assert!(pair[0].1.time.end < pair[1].1.time.start && pair[0].1.place + 1 == pair[1].1.place);
            }
        }
        for handler in by(&all, |served, _| served.handler) {
            for pair in handler.windows(2) {
                let apart = pair[0].0.number != pair[1].0.number;
                assert!(pair[0].1.time.end < pair[1].1.time.start, "{pair:?}");
                assert!(!apart || pair[0].1.time.end == pair[0].0.appends.last().unwrap().time.end);
            }
        }
    }

    /// Checks that verdicts can find the cause of each wait.
    #[test]
    fn every_wait_has_a_gc_pause_or_an_earlier_append_as_its_cause() {
        let (all, collections) = stalls();
        let logs = by(&all, |_, append| append.partition);
        let handlers = by(&all, |served, _| served.handler);
        let right_before = |list: &[(&ServedRequest, &Append)], time: i64| {
            let before = list.partition_point(|(_, append)| append.time.end <= time);
            before.checked_sub(1).is_some_and(|last| time - list[last].1.time.end <= HANDED_ON)
        };
        let mut waited = 0;
        for served in &all {
            let (read, first) = (served.reads[1].end, served.appends[0]);
            if first.time.start - read > LONG {
                waited += 1;
                let stopped = collections.iter().any(|stop| stop.start < first.time.start && stop.end > read);
                let log = right_before(&logs[first.partition], first.time.start);
                let handler = right_before(&handlers[served.handler], first.time.start);
                assert!(stopped || log || handler, "{served:?}");
            }
        }
        assert!(waited > 100, "{waited}");
    }
}
