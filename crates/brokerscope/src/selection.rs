//! Conditions on output: requests by client, errors and waits; functions by name.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use analysis::filter::RequestFilter;
use clap::Args;
use model::{Nanos, Request};

use crate::args::Filter;

/// Conditions on requests, beyond the filter.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Filter")]
pub(crate) struct Selection {
    /// Show only this client: its client id (`*` at the beginning, the end or both matches anything, as in app-*), its
    /// address, or address:port (repeatable).
    #[arg(id = "client", long, value_name = "CLIENT")]
    pub(crate) clients: Vec<Client>,
    /// Show only requests with an error code, and those that could not be read or were not answered.
    #[arg(long)]
    pub(crate) errors: bool,
    /// Leave out long polls: fetches that returned no data, and group members that waited for others. The latency of a
    /// fetch that waited for data counts from the arrival of the data.
    #[arg(long)]
    pub(crate) no_waits: bool,
}

/// Conditions on requests, all of which must hold.
#[derive(Clone, Debug)]
pub(crate) struct RequestConditions<'a> {
    filter: RequestFilter,
    selection: &'a Selection,
    slower_than: Nanos,
}

impl<'a> RequestConditions<'a> {
    /// Reads the conditions from a command's flags.
    pub(crate) fn new(filter: &Filter, selection: &'a Selection, slower_than: Nanos) -> Self {
        Self { filter: filter.requests(), selection, slower_than }
    }

    /// Whether every request matches.
    pub(crate) fn is_all(&self) -> bool {
        let Selection { clients, errors, no_waits } = self.selection;
        self.slower_than <= Nanos::ZERO
            && self.filter.is_empty()
            && clients.is_empty()
            && !errors
            && !no_waits
    }

    /// Whether a request matches and is slow enough; removes its partitions of other topics.
    /// Without a threshold, a request without a latency (acks=0, no response) matches too.
    pub(crate) fn admit(&self, request: &mut Request) -> bool {
        let Selection { clients, errors, no_waits } = self.selection;
        // Decided from the whole request: a fetch that returned data of another topic did not wait in vain.
        let waited = *no_waits && request.intended_wait().is_some();
        let latency = if *no_waits { request.latency_less_wait() } else { request.latency() };
        let slow =
            self.slower_than <= Nanos::ZERO || latency.is_some_and(|latency| latency >= self.slower_than);
        if waited || !slow || !self.filter.matches(request) {
            return false;
        }
        // Decided from the rest: an error of a topic that was not requested does not count.
        self.filter.narrow(request);
        (clients.is_empty() || clients.iter().any(|client| client.sent(request)))
            && (!errors || request.failed())
    }

    /// Whether a request matches.
    pub(crate) fn matches(&self, request: &Request) -> bool {
        self.is_all() || self.admit(&mut request.clone())
    }
}

/// `--client`: a client id, with a `*` at either end as a wildcard; an address; or an address and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    id: Pattern,
    place: Option<Place>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Host(IpAddr),
    Port(SocketAddr),
}

impl From<&str> for Client {
    fn from(text: &str) -> Self {
        Self { id: Pattern::from(text), place: Place::of(text) }
    }
}

impl Place {
    /// `10.0.0.7`, `10.0.0.7:41234`, `fe80::7`, `[fe80::7]`, `[fe80::7]:41234`.
    fn of(text: &str) -> Option<Self> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        match bare.parse::<IpAddr>() {
            Ok(host) => Some(Self::Host(host)),
            Err(_) => text.parse().ok().map(Self::Port),
        }
    }
}

impl Client {
    /// Whether the request came from this client. A client without an id has an empty one.
    pub(crate) fn sent(&self, request: &Request) -> bool {
        let id = request.client_id.as_deref().unwrap_or_default();
        self.id.is(id) || self.place.is_some_and(|place| place.is(request.client))
    }
}

impl Place {
    /// Whether a client has this address. An IPv4 address equals its IPv4-mapped IPv6 form.
    fn is(self, client: SocketAddr) -> bool {
        let host = client.ip().to_canonical();
        match self {
            Self::Host(wanted) => wanted.to_canonical() == host,
            Self::Port(wanted) => wanted.ip().to_canonical() == host && wanted.port() == client.port(),
        }
    }
}

/// A name, with a `*` at either end as a wildcard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(String);

impl From<&str> for Pattern {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Pattern {
    /// Whether a name matches.
    pub(crate) fn is(&self, name: &str) -> bool {
        match (self.0.strip_prefix('*'), self.0.strip_suffix('*')) {
            (Some(rest), Some(_)) => rest.strip_suffix('*').is_none_or(|part| name.contains(part)),
            (Some(end), None) => name.ends_with(end),
            (None, Some(beginning)) => name.starts_with(beginning),
            (None, None) => name == self.0,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use model::{Nanos, Partition, Request};

    use super::{Client, Place, RequestConditions, Selection};
    use crate::args::Filter;

    #[test]
    fn client_filter_matches_ids() {
        for (wanted, ids, others) in [
            ("app", &["app"][..], &["app-1", "my-app", ""][..]),
            ("app*", &["app", "app-1"], &["my-app"]),
            ("*app", &["app", "my-app"], &["app-1"]),
            ("*app*", &["app", "my-app-1"], &["ap"]),
            ("*", &["app", ""], &[]),
            ("a*b", &["a*b"], &["axb"]),
            ("", &[""], &["app"]),
        ] {
            let client = Client::from(wanted);
            assert!(ids.iter().all(|id| client.id.is(id)), "{wanted}");
            assert!(!others.iter().any(|id| client.id.is(id)), "{wanted}");
        }
    }

    #[test]
    fn client_filter_matches_addresses() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (wanted, address, same) in [
            ("10.0.0.7", "10.0.0.7:41234", true),
            ("10.0.0.7", "10.0.0.70:41234", false),
            ("10.0.0.7", "[::ffff:10.0.0.7]:41234", true),
            ("10.0.0.7:41234", "10.0.0.7:41234", true),
            ("10.0.0.7:41234", "10.0.0.7:41235", false),
            ("fe80::7", "[fe80::7]:41234", true),
            ("[fe80::7]", "[fe80::7]:41234", true),
            ("[fe80::7]:41234", "[fe80::7]:41234", true),
            ("[fe80::7]:41234", "[fe80::7]:1", false),
        ] {
            assert_eq!(Place::of(wanted).unwrap().is(at(address)), same, "{wanted} {address}");
        }
        assert_eq!(Place::of("app"), None);
    }

    /// A fetch that returned data of topic A only; topic B was answered with this error code.
    fn fetch(code_of_b: i16) -> Request {
        let of = |topic: &str, bytes, code| Partition {
            topic: Some(topic.into()),
            bytes,
            error_code: Some(code),
            ..Partition::default()
        };
        Request {
            arrival: Nanos(1_000),
            arrival_end: Nanos(1_000),
            response: Some(Nanos(9_000)),
            end: Some(Nanos(9_000)),
            api_key: 1,
            api: "FETCH",
            api_version: 12,
            correlation_id: 1,
            request_bytes: 100,
            response_bytes: Some(20),
            min_bytes: Some(1),
            max_wait_ms: Some(500),
            error_code: Some(0),
            partitions: vec![of("A", 100, 0), of("B", 0, code_of_b)],
            ..Request::new(([10, 0, 0, 7], 41_234).into(), ([10, 0, 0, 1], 9_092).into())
        }
    }

    fn admit(mut request: Request, topic: &str, errors: bool, no_waits: bool) -> Option<usize> {
        let filter = Filter { topics: vec![topic.to_owned()], ..Filter::default() };
        let selection = Selection { errors, no_waits, ..Selection::default() };
        let is_admitted = RequestConditions::new(&filter, &selection, Nanos::ZERO).admit(&mut request);
        is_admitted.then_some(request.partitions.len())
    }

    #[test]
    fn ignores_errors_of_other_topics_but_counts_their_data() {
        assert_eq!(admit(fetch(6), "B", true, false), Some(1));
        assert_eq!(admit(fetch(6), "A", true, false), None);
        assert_eq!(admit(fetch(0), "B", false, true), Some(1));
        let empty = Request { partitions: fetch(0).partitions.split_off(1), ..fetch(0) };
        assert_eq!(admit(empty.clone(), "B", false, true), None);
        assert_eq!(admit(empty, "B", false, false), Some(1));
    }

    #[test]
    fn latency_excludes_the_wait_for_data_with_no_waits() {
        let at = |ms| Nanos(1_000) + Nanos::from_millis(ms);
        let late = Request { response: Some(at(300)), end: Some(at(300)), data: Some(at(297)), ..fetch(0) };
        let admits = |no_waits, slower_than| {
            let selection = Selection { no_waits, ..Selection::default() };
            let slower_than = Nanos::from_millis(slower_than);
            RequestConditions::new(&Filter::default(), &selection, slower_than).admit(&mut late.clone())
        };
        assert!(admits(false, 100));
        assert!(!admits(true, 100));
        assert!(admits(true, 3));
    }
}
