//! Address of a collector: `http://HOST[:PORT][/PATH]`. Does not connect.

use std::str::FromStr;

use super::Error;

/// Default port of collectors for OTLP/HTTP.
const DEFAULT_PORT: u16 = 4318;
/// Default path for traces.
const DEFAULT_PATH: &str = "/v1/traces";

/// A collector's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// A name or an address; IPv6 without its brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Starts with `/`.
    pub(super) path: String,
}

impl Endpoint {
    /// The value of the `Host` header.
    pub(super) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self, Error> {
        let wrong = |why| Error::Address { url: url.to_owned(), why };
        if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(wrong("it contains a space or a control character"));
        }
        if url.starts_with("https://") {
            return Err(wrong(
                "TLS is not supported: use a collector on this host, which can forward with TLS",
            ));
        }
        let rest = url.strip_prefix("http://").ok_or_else(|| wrong("it does not begin with http://"))?;
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        if authority.contains('@') {
            return Err(wrong("it contains a user name"));
        }
        let (host, port) =
            split(authority).ok_or_else(|| wrong("it has no host, or no port after the colon"))?;
        let path = if path.len() <= 1 { DEFAULT_PATH } else { path };
        Ok(Self { host: host.to_owned(), port, path: path.to_owned() })
    }
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`.
fn split(authority: &str) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
        }
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Some(DEFAULT_PORT), |port| port.parse().ok())?;
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::Endpoint;

    #[test]
    fn parses_collector_urls_with_defaults() {
        for (url, host, port, path) in [
            ("http://collector", "collector", 4318, "/v1/traces"),
            ("http://127.0.0.1:9/", "127.0.0.1", 9, "/v1/traces"),
            ("http://[::1]:4318", "::1", 4318, "/v1/traces"),
            ("http://[::1]/otlp/v1/traces?x=1", "::1", 4318, "/otlp/v1/traces?x=1"),
            ("http://c:80/other", "c", 80, "/other"),
        ] {
            let endpoint: Endpoint = url.parse().unwrap();
            assert_eq!((&*endpoint.host, endpoint.port, &*endpoint.path), (host, port, path), "{url}");
        }
    }

    #[test]
    fn refuses_invalid_urls_with_a_reason() {
        for (url, why) in [
            ("https://collector", "TLS"),
            ("collector:4318", "http://"),
            ("http://", "no host"),
            ("http://:4318", "no host"),
            ("http://c:http", "no port"),
            ("http://[::1:4318", "no host"),
            ("http://user@c", "user"),
            ("http://c/\r\nX: y", "space"),
        ] {
            let error = url.parse::<Endpoint>().unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains('\n'), "{url}: {error}");
        }
    }
}
