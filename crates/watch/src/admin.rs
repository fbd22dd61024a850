//! Reads a running broker's settings with one `DescribeConfigs` request.
//! The request goes to a plaintext listener, unless client properties name another protocol. Read-only; bounded in time
//! and bytes. Fuzzed by: settings.

mod client_properties;
mod connection;
mod jaas;
mod listener;
mod pem;
mod sasl;
mod scram;
mod tls;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use broker::{Broker, Listener};
use wire::describe_configs::{DescribeConfigsResponse, Source, broker_request};

use crate::privileges::drop_all_capabilities;
use connection::{Connection, Tls};
use sasl::Session;

pub use client_properties::{ClientProperties, PropertiesError, SecurityProtocol};
#[doc(hidden)]
pub use sasl::fuzzing;

/// Limit for the whole exchange with a broker.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How much longer to wait for the thread that sends the request.
/// Afterwards, the thread is abandoned.
const GRACE: Duration = Duration::from_millis(200);
/// Limit of settings in a response.
const MAX_SETTINGS: usize = 10_000;
const CORRELATION_ID: i32 = 1;
const CLIENT_ID: &str = "brokerscope";

/// The settings in force in a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectiveConfig {
    /// Settings from its file, as of its start.
    pub from_file: BTreeMap<String, String>,
    /// Settings that were changed at run time.
    pub dynamic: BTreeMap<String, String>,
    /// Names of settings with Kafka's default.
    pub defaults: Vec<String>,
}

impl EffectiveConfig {
    /// Updates the settings of a file.
    pub fn apply(self, properties: &mut BTreeMap<String, String>) {
        for name in &self.defaults {
            properties.remove(name);
        }
        properties.extend(self.from_file);
        properties.extend(self.dynamic);
    }
}

/// Reasons why a broker's settings cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The broker's configuration does not have its node id.
    #[error("its node.id is not known")]
    NoNodeId,
    /// No listener has the client's security protocol.
    #[error(
        "it has no {protocol} listener for clients ({listeners}): name another security.protocol with --client-properties FILE"
    )]
    NoListener {
        /// The client's security protocol.
        protocol: &'static str,
        /// The broker's listeners.
        listeners: String,
    },
    /// The broker is in another network namespace.
    #[error("it runs in another network namespace: run this inside it (nsenter -t {pid} -n)")]
    OtherNetwork {
        /// The process.
        pid: u32,
    },
    /// The broker's network namespace cannot be determined.
    #[error(
        "/proc/{pid}/ns/net cannot be read, so its addresses may be of another network namespace: {source}"
    )]
    UnknownNetwork {
        /// The process.
        pid: u32,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The broker did not respond in time.
    #[error("{listener} did not answer within {:?}", TIMEOUT)]
    Silent {
        /// The listener.
        listener: String,
    },
    /// The connection failed.
    #[error("{listener}: {source}")]
    Connection {
        /// The listener.
        listener: String,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The broker's certificate is not trusted.
    #[error("{listener}: its certificate is not trusted: {why}")]
    Certificate {
        /// The listener.
        listener: String,
        /// Why the certificate is not trusted.
        why: String,
    },
    /// The broker ended TLS, usually because it requires a client certificate.
    #[error(
        "{listener} ended TLS ({alert}): does it require a client's certificate (ssl.keystore in --client-properties)?"
    )]
    Alert {
        /// The listener.
        listener: String,
        /// The TLS alert.
        alert: String,
    },
    /// Another error of TLS.
    #[error("{listener}: TLS: {why}")]
    Tls {
        /// The listener.
        listener: String,
        /// The reason.
        why: String,
    },
    /// The broker does not support the SASL mechanism.
    #[error("{listener} has no SASL mechanism {mechanism}, but {others}")]
    Mechanism {
        /// The listener.
        listener: String,
        /// The client's mechanism.
        mechanism: &'static str,
        /// The mechanisms that the broker supports.
        others: String,
    },
    /// The broker does not accept the credentials.
    #[error("{listener} refused the user name or password of --client-properties ({mechanism}: {message})")]
    Credentials {
        /// The listener.
        listener: String,
        /// The client's mechanism.
        mechanism: &'static str,
        /// The broker's message.
        message: String,
    },
    /// The response is invalid.
    #[error("{listener}: invalid response: {why}")]
    Answer {
        /// The listener.
        listener: String,
        /// The reason.
        why: String,
    },
    /// The broker refused the request.
    #[error("{listener} refused DescribeConfigs (error {code}: {message}): allow it on the cluster")]
    Refused {
        /// The listener.
        listener: String,
        /// Kafka's error code.
        code: i16,
        /// The broker's message.
        message: String,
    },
}

/// Reads the settings of a broker on this host, with these client properties.
/// The request is sent by a thread without capabilities; the password is dropped with it.
///
/// # Errors
/// See [`Error`]; each is one line.
pub fn settings(broker: &Broker, client: ClientProperties) -> Result<EffectiveConfig, Error> {
    let question = Question::of(broker, client)?;
    is_same_network(broker.pid)?;
    let address = question.listener.to_string();
    // A DNS lookup may take longer than the timeout: then the thread is abandoned.
    let (sender, receiver) = mpsc::sync_channel(1);
    let ask = move || {
        // If it may not drop them, it goes on with the capabilities that it has.
        let _ = drop_all_capabilities();
        // Fails if the receiver has timed out.
        let _ = sender.send(question.ask());
    };
    std::thread::Builder::new()
        .name("ask-settings".to_owned())
        .spawn(ask)
        .map_err(|source| Error::Connection { listener: address.clone(), source })?;
    receiver.recv_timeout(TIMEOUT + GRACE).map_err(|_| Error::Silent { listener: address })?
}

/// A request to a listener for the settings of a broker.
struct Question {
    node_id: i32,
    listener: Listener,
    server_name: String,
    client: ClientProperties,
}

impl Question {
    fn of(broker: &Broker, client: ClientProperties) -> Result<Self, Error> {
        let node_id = broker.node_id.ok_or(Error::NoNodeId)?;
        let listener = listener::choose(broker, &client)?.clone();
        let server_name = listener::server_name(broker, &listener, &client);
        Ok(Self { node_id, listener, server_name, client })
    }

    fn ask(self) -> Result<EffectiveConfig, Error> {
        let address = self.listener.to_string();
        let tls = self.client.tls.map(|config| Tls { config, server_name: self.server_name });
        let mut connection = Connection::open(&self.listener, tls, Instant::now() + TIMEOUT)?;
        if let Some(credentials) = &self.client.credentials {
            let exchange = &mut |frame: &[u8]| connection.exchange(frame);
            let nonce =
                scram::nonce().map_err(|source| Error::Connection { listener: address.clone(), source })?;
            Session { listener: &address, credentials, nonce: &nonce, exchange }.authenticate()?;
        }
        let answer = connection.exchange(&broker_request(self.node_id, CORRELATION_ID, CLIENT_ID))?;
        parse_response(&address, &answer)
    }
}

fn is_same_network(pid: u32) -> Result<(), Error> {
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net"));
    let theirs = network(&pid.to_string()).map_err(|source| Error::UnknownNetwork { pid, source })?;
    match network("self") {
        Ok(own) if own == theirs => Ok(()),
        _ => Err(Error::OtherNetwork { pid }),
    }
}

/// Parses a response, without its length.
#[doc(hidden)]
pub fn parse_response(listener: &str, answer: &[u8]) -> Result<EffectiveConfig, Error> {
    let wrong = |why: String| Error::Answer { listener: listener.to_owned(), why };
    let body = body(listener, answer, CORRELATION_ID)?;
    let response = DescribeConfigsResponse::parse(body).map_err(|error| wrong(error.to_string()))?;
    if response.error_code != 0 {
        let message = shorten(response.error_message.unwrap_or("no reason given"));
        return Err(Error::Refused { listener: listener.to_owned(), code: response.error_code, message });
    }
    Ok(effective_config(&response))
}

/// Strips the header from a response after checking its correlation id.
fn body<'a>(listener: &str, answer: &'a [u8], correlation_id: i32) -> Result<&'a [u8], Error> {
    let wrong = |why: &str| Error::Answer { listener: listener.to_owned(), why: why.to_owned() };
    let (id, body) = answer.split_first_chunk::<4>().ok_or_else(|| wrong("it is too short"))?;
    let is_its = i32::from_be_bytes(*id) == correlation_id;
    if is_its { Ok(body) } else { Err(wrong("its correlation id is of another request")) }
}

fn effective_config(response: &DescribeConfigsResponse<'_>) -> EffectiveConfig {
    let mut effective = EffectiveConfig::default();
    for config in response.configs().take(MAX_SETTINGS) {
        let name = config.name.to_owned();
        match (config.source, config.value) {
            (Source::Dynamic, Some(value)) => effective.dynamic.extend([(name, value.to_owned())]),
            (Source::Static, Some(value)) => effective.from_file.extend([(name, value.to_owned())]),
            (Source::Default, _) => effective.defaults.push(name),
            _ => {}
        }
    }
    effective
}

fn shorten(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use broker::{Broker, Listener};

    use super::{ClientProperties, Error};

    fn settings(broker: &Broker) -> Result<super::EffectiveConfig, Error> {
        super::settings(broker, ClientProperties::default())
    }

    /// A broker that answers one request with these bytes.
    /// It closes the connection if there are none.
    fn answering_broker(bytes: Vec<u8>) -> (Broker, JoinHandle<Vec<u8>>) {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let serve = move || {
            let (mut stream, _) = socket.accept().unwrap();
            let mut length = [0; 4];
            stream.read_exact(&mut length).unwrap();
            let mut frame = vec![0; u32::from_be_bytes(length) as usize];
            stream.read_exact(&mut frame).unwrap();
            stream.write_all(&bytes).unwrap();
            frame
        };
        (broker("PLAINTEXT", port), std::thread::spawn(serve))
    }

    fn broker(name: &str, port: u16) -> Broker {
        let listener =
            Listener { name: name.to_owned(), host: String::new(), port, controller: false, tls: false };
        Broker {
            pid: std::process::id(),
            node_id: Some(1),
            log_dirs: Vec::new(),
            listeners: vec![listener],
            properties: BTreeMap::new(),
            properties_file: "server.properties".into(),
        }
    }

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as i16).to_be_bytes()[..], text.as_bytes()].concat()
    }

    #[test]
    fn error_with_a_brokers_reason_has_no_control_characters() {
        let reason = text("not\n\x1b[31mallowed");
        let refusal =
            [&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 31][..], &reason, &[4, 0, 0, 0, 0, 0, 0]].concat();
        let refused = super::parse_response("PLAINTEXT://:9092", &refusal).unwrap_err().to_string();
        assert!(refused.contains("not[31mallowed") && !refused.contains(char::is_control), "{refused:?}");
    }

    /// A response frame with an error code and settings, each with its source.
    fn frame(code: i16, configs: &[(&str, &str, u8)]) -> Vec<u8> {
        let mut body = [&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1][..], &code.to_be_bytes()].concat();
        body.extend(
            [&text("not allowed")[..], &[4], &text("1"), &(configs.len() as u32).to_be_bytes()].concat(),
        );
        for (name, value, source) in configs {
            body.extend([&text(name)[..], &text(value), &[0, *source, 0, 0, 0, 0, 0]].concat());
        }
        [&(body.len() as u32).to_be_bytes()[..], &body].concat()
    }

    #[test]
    fn effective_settings_replace_those_of_the_file() {
        let configs =
            [("num.io.threads", "16", 2), ("log.dirs", "/data", 4), ("num.network.threads", "3", 5)];
        let (broker, served) = answering_broker(frame(0, &configs));
        let effective = settings(&broker).unwrap();
        assert_eq!(served.join().unwrap()[..4], [0, 32, 0, 1], "DescribeConfigs, version 1");
        assert_eq!(effective.dynamic.get("num.io.threads").map(String::as_str), Some("16"));
        let file = [("num.io.threads", "8"), ("num.network.threads", "6"), ("x", "y")];
        let mut properties = file.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        effective.apply(&mut properties);
        let expected = [("log.dirs", "/data"), ("num.io.threads", "16"), ("x", "y")];
        assert_eq!(properties, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn refusals_and_malformed_responses_are_one_line_errors() {
        let refused = settings(&answering_broker(frame(31, &[])).0).unwrap_err();
        assert!(
            matches!(&refused, Error::Refused { code: 31, message, .. } if message == "not allowed"),
            "{refused}"
        );
        let huge = settings(&answering_broker(vec![0x7f, 0xff, 0xff, 0xff]).0).unwrap_err();
        assert!(huge.to_string().contains("2147483647 bytes"), "{huge}");
        let short = settings(&answering_broker(vec![0, 0, 0, 2, 0, 0]).0).unwrap_err();
        assert!(matches!(short, Error::Answer { .. }), "{short}");
        let other = settings(&answering_broker(vec![0, 0, 0, 4, 0, 0, 0, 9]).0).unwrap_err();
        assert!(other.to_string().contains("another request"), "{other}");
        let cut = settings(&answering_broker(frame(0, &[("a", "b", 2)])[..30].to_vec()).0).unwrap_err();
        assert!(matches!(cut, Error::Connection { .. }), "{cut}");
        let closed = settings(&answering_broker(Vec::new()).0).unwrap_err();
        assert!(matches!(closed, Error::Connection { .. }), "{closed}");
        for error in [refused, huge, short, other, cut, closed] {
            assert_eq!(error.to_string().lines().count(), 1);
        }
    }

    #[test]
    fn connects_only_to_a_plaintext_listener_by_default() {
        let secure = settings(&broker("SASL_SSL", 9)).unwrap_err();
        assert!(
            matches!(&secure, Error::NoListener { protocol: "PLAINTEXT", listeners } if listeners == "SASL_SSL://:9"),
            "{secure}"
        );
        let mut mapped = broker("INTERNAL", 9);
        let map = "CLIENTS:SASL_PLAINTEXT, INTERNAL:PLAINTEXT".to_owned();
        mapped.properties.insert("listener.security.protocol.map".to_owned(), map);
        assert_eq!(super::listener::choose(&mapped, &ClientProperties::default()).unwrap().name, "INTERNAL");
        assert!(matches!(settings(&Broker { node_id: None, ..mapped }), Err(Error::NoNodeId)));
    }
}
