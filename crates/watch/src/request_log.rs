//! Requests from Kafka's request log, which a broker writes at DEBUG: follows the file, and has a separate process parse new
//! lines.
//!
//! If the log can no longer be read, or its parser has died, opens the log again at its end and reports a loss for the time
//! between.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use broker::server_log::{LogFollower, Piece, ReadError};
use broker::topic_ids::TopicIds;
use model::{Event, LossKind, Nanos};

use crate::parser::request_log::{LogCounts, LogOrder};
use crate::parser::transfer::take_requests;
use crate::parser::{PARSE_REQUEST_LOG, Parser};
use crate::queue::Batch;
use crate::source::{BrokerProcess, Feed, LossCount, Pace, Source, WatchSummary};

/// How often to check whether the log has grown.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Limit of pieces per check, of 64 KiB each: more than a broker writes in that time.
const MAX_PIECES: usize = 64;
/// Delay after a failure until the next attempt.
const RETRY: Duration = Duration::from_secs(5);
/// Entries of a list in one message; names have at most 249 bytes.
const LIST: usize = 1_000;

/// Reads requests from Kafka's request log.
pub(crate) struct RequestLogSource {
    path: PathBuf,
    /// The program to run as parser.
    program: PathBuf,
    /// Whether requests of plaintext connections are left out.
    /// They are left out because packets show them.
    only_tls: bool,
    broker: BrokerProcess,
    /// Set while requests of TLS connections are read.
    is_read: Arc<AtomicBool>,
    /// `None` after a failure, until the next attempt.
    session: Option<Session>,
    outage: Option<(String, Instant)>,
    covered_until: Option<Nanos>,
    /// Counts of the running parser.
    counts: LogCounts,
    /// Whether the counts start from 0 again.
    is_recounted: bool,
}

/// A log and the process that parses it.
struct Session {
    log: LogFollower,
    parser: Parser,
    topics: TopicIds,
}

/// Reasons why following the log failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] ReadError),
    /// The parser does not respond, or has ended.
    #[error("its parser: {0}")]
    Parser(#[from] io::Error),
}

impl RequestLogSource {
    /// Follows a log from its end, and has a program parse it.
    pub(crate) fn open(
        (path, program): (PathBuf, PathBuf),
        only_tls: bool,
        broker: BrokerProcess,
        is_read: Arc<AtomicBool>,
    ) -> Result<Self, FollowError> {
        let session = Some(Session::begin(&path, &program)?);
        Ok(Self {
            path,
            program,
            only_tls,
            broker,
            is_read,
            session,
            outage: None,
            covered_until: None,
            counts: LogCounts::default(),
            is_recounted: false,
        })
    }

    fn fail(&mut self, why: &FollowError, feed: &Feed) {
        if self.session.take().is_some() {
            self.counts = LogCounts::default();
            self.is_recounted = true;
            self.covered_until = Some(feed.now() - Nanos::from_millis(1_000));
        }
        self.is_read.store(false, Ordering::Relaxed);
        self.outage = Some((format!("{}: {why}", self.path.display()), Instant::now()));
    }

    fn order(&mut self, feed: &Feed) -> Result<(), FollowError> {
        let Some(session) = &mut self.session else { return Ok(()) };
        session.parser.send_order(&LogOrder::Begin { clock: feed.clock, only_tls: self.only_tls }, None)?;
        session.name_topics(&self.broker)?;
        self.is_read.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Sends new pieces of the log to the parser, and delivers the requests.
    fn follow(&mut self, feed: &Feed, max_pieces: usize) -> Result<(), FollowError> {
        let Some(Session { log, parser, .. }) = &mut self.session else { return Ok(()) };
        let counts = &mut self.counts;
        let mut take = |piece: Piece<'_>| {
            match piece {
                Piece::Data(bytes) => parser.send_log(bytes)?,
                Piece::Restart => parser.send_order(&LogOrder::Restart, None)?,
            }
            *counts = deliver(parser, feed)?;
            Ok::<(), FollowError>(())
        };
        for _ in 0..max_pieces {
            if !log.poll(&mut take)? {
                break;
            }
        }
        Ok(())
    }

    /// Starts again after a failure, if it is time to retry. Reports a loss for the time between.
    fn retry(&mut self, feed: &Feed) {
        let Some((why, since)) = &self.outage else {
            self.covered_until = Some(feed.now());
            return;
        };
        let detail = format!("Kafka's request log was not read: {why}");
        if since.elapsed() >= RETRY {
            let result = Session::begin(&self.path, &self.program).and_then(|session| {
                self.session = Some(session);
                self.order(feed)
            });
            match result {
                Ok(()) => self.outage = None,
                Err(why) => self.fail(&why, feed),
            }
        }
        let start = self.covered_until.unwrap_or_else(|| feed.now());
        self.covered_until = Some(feed.report_off(LossKind::SourceDown, start, &detail));
    }
}

impl Session {
    fn begin(path: &Path, program: &Path) -> Result<Self, FollowError> {
        let log = LogFollower::open_at_end(path)?;
        let parser = Parser::start(program, PARSE_REQUEST_LOG)?;
        Ok(Self { log, parser, topics: TopicIds::default() })
    }

    /// Sends new topics to the parser.
    fn name_topics(&mut self, broker: &BrokerProcess) -> Result<(), FollowError> {
        let new = self.topics.changes(&broker.log_dirs, &mut || ());
        for some in new.chunks(LIST) {
            let some = some.iter().map(|(id, name)| (id.to_string(), name.to_string())).collect();
            self.parser.send_order(&LogOrder::Topics(some), None)?;
        }
        Ok(())
    }
}

/// Delivers the requests of a piece, and returns the parser's counts so far.
fn deliver(parser: &mut Parser, feed: &Feed) -> io::Result<LogCounts> {
    let mut batch = Batch::of(&feed.sender);
    let counts =
        parser.receive_response(|rows| take_requests(rows, |request| batch.push(Event::Request(request))))?;
    batch.send();
    Ok(counts)
}

impl Source for RequestLogSource {
    type Error = Infallible;

    const NAME: &'static str = "request-log";
    const PACE: Pace = Pace::Every(LOOK_INTERVAL);

    fn is_up(&self) -> bool {
        self.session.is_some()
    }

    fn why_down(&self) -> Option<String> {
        self.outage.as_ref().map(|(why, _)| why.clone())
    }

    fn start(&mut self, feed: &Feed) {
        self.covered_until = Some(feed.now());
        if let Err(why) = self.order(feed) {
            self.fail(&why, feed);
        }
    }

    fn poll(&mut self, feed: &Feed, _: Duration) -> Result<(), Infallible> {
        if let Err(why) = self.follow(feed, MAX_PIECES) {
            self.fail(&why, feed);
        }
        Ok(())
    }

    fn check(&mut self, feed: &Feed) -> Result<bool, Infallible> {
        if let Some(broker) = feed.current.get() {
            self.broker = broker;
        }
        let named = self.session.as_mut().map(|session| session.name_topics(&self.broker));
        if let Some(Err(why)) = named {
            self.fail(&why, feed);
        }
        self.retry(feed);
        Ok(std::mem::take(&mut self.is_recounted))
    }

    fn losses(&self) -> Vec<LossCount> {
        vec![
            (
                LossKind::FramesUndecodable,
                "lines of Kafka's request log could not be read, or do not say when",
                self.counts.unreadable,
            ),
            (LossKind::EventsDropped, "requests of Kafka's request log were too large", self.counts.dropped),
        ]
    }

    /// Reads the last lines first.
    fn finish(&mut self, feed: &Feed) -> Result<(), Infallible> {
        let mut finished = self.follow(feed, MAX_PIECES);
        if let (Ok(()), Some(Session { parser, .. })) = (&finished, &mut self.session) {
            let response = parser.send_order(&LogOrder::Finish, None).and_then(|()| deliver(parser, feed));
            finished = response.map(|counts| self.counts = counts).map_err(FollowError::from);
        }
        if let Err(why) = finished {
            let start = self.covered_until.unwrap_or_else(|| feed.now());
            let detail = format!("the last of Kafka's request log was not read: {why}");
            self.fail(&why, feed);
            feed.report_off(LossKind::SourceDown, start, &detail);
        }
        Ok(())
    }

    fn summarize(self, _: Result<(), Infallible>) -> WatchSummary {
        WatchSummary::default()
    }
}
