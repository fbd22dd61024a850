//! Which clients the user means: by what they call themselves, or by where they are. Does not look names up.

use std::net::{IpAddr, SocketAddr};

use model::Request;

/// `--client`: a client id, with `*` at an end for any more; an address; or an address and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    id: Id,
    place: Option<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Id {
    Exactly(String),
    Begins(String),
    Ends(String),
    Contains(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Host(IpAddr),
    Port(SocketAddr),
}

impl From<&str> for Client {
    fn from(text: &str) -> Self {
        Self { id: Id::from(text), place: Place::of(text) }
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        match (text.strip_prefix('*'), text.strip_suffix('*')) {
            (Some(rest), Some(_)) => Self::Contains(rest.strip_suffix('*').unwrap_or_default().to_owned()),
            (Some(end), None) => Self::Ends(end.to_owned()),
            (None, Some(beginning)) => Self::Begins(beginning.to_owned()),
            (None, None) => Self::Exactly(text.to_owned()),
        }
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
    /// Whether the request came from it. A client without an id has an empty one.
    pub(crate) fn sent(&self, request: &Request) -> bool {
        let id = request.client_id.as_deref().unwrap_or_default();
        self.id.is(id) || self.place.is_some_and(|place| place.is(request.client))
    }
}

impl Id {
    fn is(&self, id: &str) -> bool {
        match self {
            Self::Exactly(text) => id == text,
            Self::Begins(text) => id.starts_with(text.as_str()),
            Self::Ends(text) => id.ends_with(text.as_str()),
            Self::Contains(text) => id.contains(text.as_str()),
        }
    }
}

impl Place {
    /// An IPv4 address is the same where it is written as an IPv6 one.
    fn is(self, client: SocketAddr) -> bool {
        let host = client.ip().to_canonical();
        match self {
            Self::Host(wanted) => wanted.to_canonical() == host,
            Self::Port(wanted) => wanted.ip().to_canonical() == host && wanted.port() == client.port(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::{Client, Place};

    #[test]
    fn a_client_is_known_by_its_id() {
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
    fn a_client_is_known_by_its_address() {
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
}
