//! The process that parses Kafka's request log: receives pieces of the log through its socket, and sends back rows.
//! Clients choose some of the log's content, so the process opens nothing and needs no capability. Fuzzed by: log.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use broker::LogRow;
use broker::server_log::{LogItem, LogScanner, LoggedRequest, Patterns, Zone};
use model::clock::ClockPair;
use model::{ClockOffset, Nanos, Request, TopicId};
use serde::{Deserialize, Serialize};

use super::channel::{Channel, Kind, invalid};
use super::transfer::take_request;
use super::{Rows, ignore_hangup};

/// A message from the watch to its request log parser.
/// Pieces of the log are sent as [`Kind::Log`] instead.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LogOrder {
    /// The first order; with `only_tls`, requests of other connections are left out.
    Begin { clock: ClockOffset, only_tls: bool },
    /// Topic ids with their names.
    Topics(Vec<(String, String)>),
    /// The log starts over; an incomplete line is not continued.
    Restart,
    /// The log has ended.
    Finish,
}

/// The parser's response to each piece and at the end.
/// Requests are sent as [`Kind::Rows`] besides.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LogCounts {
    /// Request lines that could not be parsed, or that lack the time.
    pub(crate) unreadable: u64,
    /// Requests that were dropped because they were too large.
    pub(crate) dropped: u64,
}

/// Timeout for reading an order.
const WAIT: Duration = Duration::from_millis(500);
/// Limit of topic names in memory.
const MAX_TOPICS: usize = 1 << 20;
/// All time zones differ from UTC by a multiple of this.
const QUARTER_HOUR_NS: i64 = 900 * 1_000_000_000;
/// The largest offset of a time zone from UTC; with a larger one, the line was written on another day at the same minute.
const FURTHEST_ZONE_NS: i64 = 14 * 3600 * 1_000_000_000;
/// The longest delay from the writing of a line to its reading; the time zone of older lines is not known.
const READ_WITHIN_NS: i64 = 60 * 1_000_000_000;

/// Parses a request log for the watch at the other end of the socket.
/// Ends when the watch orders the end or is gone. The caller must have entered the sandbox.
///
/// # Errors
/// The socket cannot be read or written, or a message is not an order.
pub fn parse_request_log(socket: OwnedFd) -> io::Result<()> {
    ignore_hangup(parse(Channel::new(UnixStream::from(socket))))
}

fn parse(mut channel: Channel) -> io::Result<()> {
    // The name that a thread for this would have.
    let _ = rustix::thread::set_name(c"brokerscope-log");
    let _ = probes::set_sched_batch();
    let mut log: Option<LogParser> = None;
    loop {
        let Some((kind, body)) = channel.receive(WAIT)? else { continue };
        match kind {
            Kind::Log => log.as_mut().ok_or_else(invalid)?.feed(body, crate::now()),
            Kind::Json => match (serde_json::from_slice(body)?, &mut log) {
                (LogOrder::Begin { clock, only_tls }, None) => {
                    log = Some(LogParser::new(clock, only_tls));
                    continue;
                }
                (LogOrder::Topics(topics), Some(log)) => {
                    log.learn(
                        topics.into_iter().filter_map(|(id, name)| Some((TopicId::parse(&id)?, name.into()))),
                    );
                    continue;
                }
                (LogOrder::Restart, Some(log)) => log.end(crate::now()),
                (LogOrder::Finish, Some(log)) => {
                    log.end(crate::now());
                    return log.answer(&channel);
                }
                _ => return Err(invalid()),
            },
            Kind::Rows | Kind::Time => return Err(invalid()),
        }
        log.as_mut().ok_or_else(invalid)?.answer(&channel)?;
    }
}

/// Converts a request log to rows.
pub(super) struct LogParser {
    scan: LogScanner,
    requests: LogRequests,
}

impl LogParser {
    pub(super) fn new(clock: ClockOffset, only_tls: bool) -> Self {
        // Times without a zone are parsed as UTC, and corrected when the clock is known.
        let scan = LogScanner::new(Zone::utc(), None, Patterns::default());
        let requests = LogRequests {
            clock,
            only_tls,
            topics: HashMap::new(),
            rows: Rows::default(),
            unreadable: 0,
            has_fractions: false,
        };
        Self { scan, requests }
    }

    fn learn(&mut self, topics: impl IntoIterator<Item = (TopicId, Arc<str>)>) {
        self.requests.learn(topics);
    }

    /// Parses the next piece, which was read at `now`.
    pub(super) fn feed(&mut self, piece: &[u8], now: ClockPair) {
        let Self { scan, requests } = self;
        let Ok(()) = scan.feed(piece, &mut |item| {
            requests.take(&item, now);
            Ok::<_, Infallible>(())
        });
    }

    /// Parses the last line, even if it is incomplete.
    pub(super) fn end(&mut self, now: ClockPair) {
        let Self { scan, requests } = self;
        let Ok(()) = scan.finish(&mut |item| {
            requests.take(&item, now);
            Ok::<_, Infallible>(())
        });
    }

    /// Takes the rows so far, as the watch reads them.
    pub(super) fn take_rows(&mut self) -> Vec<Request> {
        let bytes = std::mem::take(&mut self.requests.rows.bytes);
        let mut rows = bytes.as_slice();
        std::iter::from_fn(|| take_request(&mut rows)).map(|row| *row).collect()
    }

    fn counts(&self) -> LogCounts {
        let unreadable = self.scan.counts().unreadable_requests + self.requests.unreadable;
        LogCounts { unreadable, dropped: self.requests.rows.dropped }
    }

    fn answer(&mut self, channel: &Channel) -> io::Result<()> {
        self.requests.rows.send(channel)?;
        channel.send_json(&self.counts(), None)
    }
}

/// Makes rows of the scanned requests.
struct LogRequests {
    clock: ClockOffset,
    only_tls: bool,
    topics: HashMap<TopicId, Arc<str>>,
    rows: Rows,
    unreadable: u64,
    /// Whether any line's time had a fraction of a second.
    has_fractions: bool,
}

impl LogRequests {
    fn take(&mut self, item: &LogItem<'_>, now: ClockPair) {
        let LogItem::Request(logged) = item else { return };
        match self.row(logged, now) {
            Some(row) => self.push(row),
            None => self.unreadable += 1,
        }
    }

    /// Makes a row; `None` if its time is unknown, as in a log with whole seconds only.
    fn row(&mut self, logged: &LoggedRequest<'_>, now: ClockPair) -> Option<LogRow> {
        let at = logged.at?;
        self.has_fractions |= at.0 % 1_000_000_000 != 0;
        let written = in_zone(at, Nanos(now.realtime_ns)).filter(|_| self.has_fractions)?;
        logged.row(self.clock.from_realtime(written.0, now))
    }

    fn push(&mut self, LogRow { mut request, is_tls, topics }: LogRow) {
        self.learn(topics);
        if is_tls || !self.only_tls {
            self.name_topics(&mut request);
            self.rows.push(&request);
        }
    }

    fn name_topics(&self, request: &mut Request) {
        for partition in &mut request.partitions {
            let named = partition.topic_id.and_then(|id| self.topics.get(&id));
            partition.topic = partition.topic.take().or_else(|| named.cloned());
        }
    }

    fn learn(&mut self, topics: impl IntoIterator<Item = (TopicId, Arc<str>)>) {
        let capacity = MAX_TOPICS.saturating_sub(self.topics.len());
        self.topics.extend(topics.into_iter().take(capacity));
    }
}

/// Corrects a line's time, which was parsed as UTC, by the broker's time zone.
/// The zone follows from the time of reading, `now`. `None` if the two do not fit.
fn in_zone(at: Nanos, now: Nanos) -> Option<Nanos> {
    let east_ns = (at - now).0;
    let zone_ns = (east_ns + QUARTER_HOUR_NS / 2).div_euclid(QUARTER_HOUR_NS) * QUARTER_HOUR_NS;
    let fits = (east_ns - zone_ns).abs() <= READ_WITHIN_NS && zone_ns.abs() <= FURTHEST_ZONE_NS;
    fits.then(|| at - Nanos(zone_ns))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use model::clock::ClockPair;
    use model::{ClockOffset, Nanos, TopicId};

    use super::{Channel, Duration, Kind, LogCounts, LogOrder, LogParser, parse};

    /// 2024-05-19 15:04:47,458 UTC.
    const AT: i64 = 1_716_131_087_458_000_000;
    const ID: &str = "due63qYgSzyHFkAqWkWjMg";

    fn line(time: &str, protocol: &str) -> String {
        format!(
            r#"[2024-05-19 {time}] DEBUG Completed request:{{"requestHeader":{{"requestApiKey":0,"requestApiVersion":13,"correlationId":8,"clientId":"a","requestApiKeyName":"PRODUCE"}},"request":{{"acks":1,"topicData":[{{"topicId":"{ID}","partitionData":[{{"index":3,"recordsSizeInBytes":90}}]}}]}},"response":{{"responses":[]}},"connection":"127.0.0.1:9092-10.0.0.7:60670-0-1","totalTimeMs":6.25,"requestQueueTimeMs":0.5,"localTimeMs":4.0,"remoteTimeMs":0.125,"throttleTimeMs":0,"responseQueueTimeMs":0.625,"sendTimeMs":1.0,"securityProtocol":"{protocol}"}} (kafka.request.logger)
"#
        )
    }

    fn metadata(name: &str) -> String {
        let json = line("15:04:47,458", "SSL").replace("\"requestApiKey\":0", "\"requestApiKey\":3");
        let response = format!(r#""response":{{"topics":[{{"name":"{name}","topicId":"{ID}"}}]}}"#);
        json.replace(r#""response":{"responses":[]}"#, &response)
    }

    /// The recording's clock is half a second ahead of the wall clock.
    fn now(realtime_ns: i64) -> ClockPair {
        ClockPair { monotonic_ns: realtime_ns.unsigned_abs(), realtime_ns }
    }

    fn parser(only_tls: bool) -> LogParser {
        LogParser::new(ClockOffset::from_ns(500_000_000), only_tls)
    }

    #[test]
    fn time_zone_is_the_one_in_which_the_line_is_recent() {
        for (time, fits) in [
            ("15:04:47,458", true),
            ("17:04:47,458", true),
            ("09:34:47,458", true),
            ("15:05:46,458", true),
            ("15:06:47,458", false),
            ("14:58:00,000", false),
            ("00:04:47,458", false),
        ] {
            let mut log = parser(false);
            log.feed(line(time, "SSL").as_bytes(), now(AT + 20_000_000));
            let ends: Vec<_> = log.take_rows().into_iter().filter_map(|row| row.end).collect();
            let second = if time.starts_with("15:05") { 59_000_000_000 } else { 0 };
            let expected: &[Nanos] = if fits { &[Nanos(AT + second + 500_000_000)] } else { &[] };
            assert_eq!((&*ends, log.counts().unreadable), (expected, u64::from(!fits)), "{time}");
        }
    }

    #[test]
    fn lines_without_milliseconds_are_unreadable() {
        let mut log = parser(true);
        let text =
            ["15:04:47", "15:04:47,000", "15:04:47,458", "15:04:47,000"].map(|at| line(at, "SSL")).concat();
        log.feed(text.as_bytes(), now(AT));
        assert_eq!((log.take_rows().len(), log.counts().unreadable), (2, 2));
    }

    #[test]
    fn plaintext_requests_are_left_out_with_only_tls() {
        let text =
            ["SSL", "PLAINTEXT", "SASL_SSL", "SASL_PLAINTEXT"].map(|of| line("15:04:47,458", of)).concat();
        for (only_tls, rows) in [(true, 2), (false, 4)] {
            let mut log = parser(only_tls);
            log.feed(text.as_bytes(), now(AT));
            assert_eq!((log.take_rows().len(), log.counts().unreadable), (rows, 0));
        }
    }

    #[test]
    fn topic_names_come_from_log_dirs_or_responses() {
        let topic = |log: &mut LogParser| {
            log.feed(line("15:04:47,458", "SSL").as_bytes(), now(AT));
            log.take_rows().pop().unwrap().partitions[0].topic.clone()
        };
        assert_eq!(topic(&mut parser(true)), None);
        let mut log = parser(true);
        log.learn([(TopicId::parse(ID).unwrap(), "orders".into())]);
        assert_eq!(topic(&mut log).as_deref(), Some("orders"));
        let mut log = parser(true);
        log.feed(metadata("told").as_bytes(), now(AT));
        assert_eq!(topic(&mut log).as_deref(), Some("told"));
    }

    #[test]
    fn counts_unreadable_lines_and_joins_pieces() {
        let good = line("15:04:47,458", "SSL");
        let hostile = [
            good.replace("\"acks\":1", "\"acks\":\"1\""),
            good.replace("9092-10", "9092+10"),
            good.replace("[2024-05-19 15:04:47,458] ", ""),
            "Completed request:{\"a\":\u{0}}\n".to_owned(),
        ];
        let mut log = parser(true);
        let text = hostile.concat() + &good;
        for piece in text.as_bytes().chunks(7) {
            log.feed(piece, now(AT));
        }
        assert_eq!((log.take_rows().len(), log.counts().unreadable), (1, 4));
    }

    #[test]
    fn answers_each_piece_and_counts_the_last_line_at_the_end() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut watch, process) = (Channel::new(ours), Channel::new(theirs));
        let ended = std::thread::spawn(move || parse(process));
        let answer = |watch: &mut Channel| -> (usize, LogCounts) {
            let mut rows = 0;
            loop {
                match watch.receive(Duration::from_secs(10)).unwrap() {
                    Some((Kind::Rows, body)) => rows += body.len(),
                    Some((_, body)) => return (rows, serde_json::from_slice(body).unwrap()),
                    None => panic!("no answer"),
                }
            }
        };
        let begin = LogOrder::Begin { clock: ClockOffset::from_ns(0), only_tls: true };
        watch.send_json(&begin, None).unwrap();
        // From another year: the time zone is not known.
        let old = line("15:04:47,458", "SSL");
        let (some, rest) = old.split_at(300);
        for piece in [some, rest] {
            watch.send(Kind::Log, piece.as_bytes(), None).unwrap();
            answer(&mut watch);
        }
        watch.send_json(&LogOrder::Finish, None).unwrap();
        let (rows, counts) = answer(&mut watch);
        assert_eq!((rows, counts.unreadable, counts.dropped), (0, 1, 0));
        ended.join().unwrap().unwrap();
    }

    #[test]
    fn piece_before_the_first_order_is_an_error() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        Channel::new(ours).send(Kind::Log, b"x", None).unwrap();
        assert!(parse(Channel::new(theirs)).is_err());
    }
}
