//! What the user wants to see of what logs tell. Does not change what is counted as read.

use std::time::{SystemTime, UNIX_EPOCH};

use broker::server_log::{LoggedRequest, Zone, parse_instant};
use model::{LogEntry, LogKind, Nanos};

use crate::cli::Logs as Args;
use crate::failure::Usage;
use crate::filter::same_api;
use crate::quantity;

/// All conditions at once.
pub(super) struct Wanted<'a> {
    args: &'a Args,
    since: Nanos,
    until: Nanos,
    timed: bool,
}

impl<'a> Wanted<'a> {
    /// What the flags say.
    pub(super) fn new(args: &'a Args, zone: &Zone) -> Result<Self, Usage> {
        let at = |flag: &str, text: &Option<String>| {
            let text = text.as_deref();
            text.map(|text| when(flag, text, zone)).transpose()
        };
        let (since, until) = (at("--since", &args.since)?, at("--until", &args.until)?);
        let timed = since.is_some() || until.is_some();
        Ok(Self { args, since: since.unwrap_or(Nanos::MIN), until: until.unwrap_or(Nanos::MAX), timed })
    }

    /// Whether an entry is wanted. Of one without a time nobody can say that it is of the time that is.
    pub(super) fn entry(&self, entry: &LogEntry) -> bool {
        let topics = &self.args.filter.topics;
        let topic = || {
            entry.topic_partition.as_ref().is_some_and(|of| topics.iter().any(|topic| *topic == *of.topic))
        };
        self.is_kind(entry.kind)
            && self.is_then(entry.at)
            && self.is_slow(entry.length)
            && (topics.is_empty() || topic())
    }

    /// Whether a request is.
    pub(super) fn request(&self, request: &LoggedRequest<'_>) -> bool {
        let (topics, apis) = (&self.args.filter.topics, &self.args.filter.apis);
        self.is_kind(LogKind::Request)
            && self.is_then(request.at)
            && self.is_slow(Some(request.times.total))
            && (apis.is_empty() || apis.iter().any(|api| same_api(api, request.api)))
            && (topics.is_empty() || topics.iter().any(|topic| request.names(topic)))
    }

    /// Whether slow requests are told one by one.
    pub(super) fn each_request(&self) -> bool {
        self.args.slower_than > Nanos::ZERO
    }

    fn is_kind(&self, kind: LogKind) -> bool {
        self.args.kinds.is_empty() || self.args.kinds.contains(&kind)
    }

    fn is_then(&self, at: Option<Nanos>) -> bool {
        !self.timed || at.is_some_and(|at| self.since <= at && at < self.until)
    }

    fn is_slow(&self, length: Option<Nanos>) -> bool {
        let slower_than = self.args.slower_than;
        slower_than <= Nanos::ZERO || length.is_some_and(|length| length >= slower_than)
    }
}

/// An instant, or so long ago.
fn when(flag: &str, text: &str, zone: &Zone) -> Result<Nanos, Usage> {
    let ago = || {
        let length = quantity::time(text).ok()?;
        Some(Nanos::from(SystemTime::now().duration_since(UNIX_EPOCH).ok()?) - length)
    };
    let wrong = "write it as 2024-05-19, '2024-05-19 15:04', 2024-05-19T15:04:47Z, or how long ago, as 2h";
    parse_instant(text, zone)
        .or_else(ago)
        .ok_or_else(|| Usage(format!("{flag} {text:?} is no time: {wrong}")))
}
