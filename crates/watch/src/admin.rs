//! What a running broker says its settings are: one `DescribeConfigs` request to its plaintext listener. Reads only, and is bounded in
//! time and bytes. Speaks neither TLS nor SASL, and changes nothing. Fuzzed by: settings.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use broker::{Broker, Listener};
use wire::describe_configs::{DescribeConfigsResponse, Source, broker_request};

/// For all of it: a broker that does not answer keeps nobody waiting for longer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// What the thread that asks may take longer than that before it is given up.
const GRACE: Duration = Duration::from_millis(200);
/// Some 400 settings take 40 KiB.
const MAX_BYTES: usize = 4 << 20;
/// Settings that are taken.
const MAX_SETTINGS: usize = 10_000;
const CORRELATION_ID: i32 = 1;
const CLIENT_ID: &str = "brokerscope";

/// Settings as the broker has them in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectiveConfig {
    /// Those of its file, as it read it when it started.
    pub from_file: BTreeMap<String, String>,
    /// Those that were changed while it runs.
    pub dynamic: BTreeMap<String, String>,
    /// Names of those that have Kafka's default.
    pub defaults: Vec<String>,
}

impl EffectiveConfig {
    /// Brings what a file says up to date.
    pub fn apply(self, properties: &mut BTreeMap<String, String>) {
        for name in &self.defaults {
            properties.remove(name);
        }
        properties.extend(self.from_file);
        properties.extend(self.dynamic);
    }
}

/// Why a broker's own word on its settings could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its configuration does not tell its number.
    #[error("its node.id is not known")]
    NoNodeId,
    /// Nothing speaks without TLS or SASL.
    #[error("it has no plaintext listener for clients ({listeners}), and TLS and SASL are not supported")]
    NoPlaintext {
        /// Those that it has.
        listeners: String,
    },
    /// Its addresses are another network's.
    #[error("it runs in another network namespace: run this inside it (nsenter -t {pid} -n)")]
    OtherNetwork {
        /// The process.
        pid: u32,
    },
    /// It could not be told whether it is in this network.
    #[error(
        "/proc/{pid}/ns/net cannot be read, so its addresses may be of another network namespace: {source}"
    )]
    UnknownNetwork {
        /// The process.
        pid: u32,
        /// The operating system's reason.
        source: io::Error,
    },
    /// It did not answer in time.
    #[error("{listener} did not answer within {:?}", TIMEOUT)]
    Silent {
        /// Who was asked.
        listener: String,
    },
    /// The connection could not be made, or broke.
    #[error("{listener}: {source}")]
    Connection {
        /// Who was asked.
        listener: String,
        /// The operating system's reason.
        source: io::Error,
    },
    /// What came is no answer.
    #[error("{listener}: invalid response: {why}")]
    Answer {
        /// Who was asked.
        listener: String,
        /// What is wrong.
        why: String,
    },
    /// It does not want to.
    #[error("{listener} refused DescribeConfigs (error {code}: {message}): allow it on the cluster")]
    Refused {
        /// Who was asked.
        listener: String,
        /// Kafka's error code.
        code: i16,
        /// What it said.
        message: String,
    },
}

/// Asks a broker of this machine.
///
/// # Errors
/// See [`Error`]; each is one line.
pub fn settings(broker: &Broker) -> Result<EffectiveConfig, Error> {
    let node_id = broker.node_id.ok_or(Error::NoNodeId)?;
    let listener = plaintext(broker)?.clone();
    is_same_network(broker.pid)?;
    let shown = listener.to_string();
    // A name that is looked up may take longer than anybody waits: then the thread is left behind.
    let (tell, told) = mpsc::sync_channel(1);
    let asking = move || {
        // Nobody waits any more: then there is nobody to tell.
        let _ = tell.send(ask(&listener, node_id));
    };
    std::thread::Builder::new()
        .name("ask-settings".to_owned())
        .spawn(asking)
        .map_err(|source| Error::Connection { listener: shown.clone(), source })?;
    told.recv_timeout(TIMEOUT + GRACE).map_err(|_| Error::Silent { listener: shown })?
}

/// The listener for clients that speaks plaintext, by what its name is mapped to (`listener.security.protocol.map`).
fn plaintext(broker: &Broker) -> Result<&Listener, Error> {
    let map = broker.properties.get("listener.security.protocol.map").map_or("", String::as_str);
    let mapped = |name: &str| {
        let mut pairs = map.split(',').filter_map(|pair| pair.trim().split_once(':'));
        let found = pairs.find(|(of, _)| of.trim().eq_ignore_ascii_case(name));
        found.map_or(name, |(_, to)| to.trim()).eq_ignore_ascii_case("PLAINTEXT")
    };
    let clients = || broker.listeners.iter().filter(|listener| !listener.controller && listener.port != 0);
    clients().find(|listener| mapped(&listener.name)).ok_or_else(|| Error::NoPlaintext {
        listeners: clients().map(ToString::to_string).collect::<Vec<_>>().join(" "),
    })
}

fn is_same_network(pid: u32) -> Result<(), Error> {
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net"));
    let theirs = network(&pid.to_string()).map_err(|source| Error::UnknownNetwork { pid, source })?;
    match network("self") {
        Ok(own) if own == theirs => Ok(()),
        _ => Err(Error::OtherNetwork { pid }),
    }
}

fn ask(listener: &Listener, node_id: i32) -> Result<EffectiveConfig, Error> {
    let shown = listener.to_string();
    let broken = |source: io::Error| match source.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Silent { listener: shown.clone() },
        _ => Error::Connection { listener: shown.clone(), source },
    };
    let end = Instant::now() + TIMEOUT;
    let mut stream = connect(listener, end).map_err(broken)?;
    let body =
        exchange(&mut stream, &broker_request(node_id, CORRELATION_ID, CLIENT_ID), end).map_err(broken)?;
    understand(&shown, &body)
}

/// What an answer says, without its length.
#[doc(hidden)]
pub fn understand(listener: &str, answer: &[u8]) -> Result<EffectiveConfig, Error> {
    let wrong = |why: String| Error::Answer { listener: listener.to_owned(), why };
    let (correlation_id, body) =
        answer.split_first_chunk::<4>().ok_or_else(|| wrong("it is too short".to_owned()))?;
    if i32::from_be_bytes(*correlation_id) != CORRELATION_ID {
        return Err(wrong("its correlation id is of another request".to_owned()));
    }
    let response = DescribeConfigsResponse::parse(body).map_err(|error| wrong(error.to_string()))?;
    if response.error_code != 0 {
        let message = shortened(response.error_message.unwrap_or("no reason given"));
        return Err(Error::Refused { listener: listener.to_owned(), code: response.error_code, message });
    }
    Ok(taken(&response))
}

fn taken(response: &DescribeConfigsResponse<'_>) -> EffectiveConfig {
    let mut answered = EffectiveConfig::default();
    for config in response.configs().take(MAX_SETTINGS) {
        let name = config.name.to_owned();
        match (config.source, config.value) {
            (Source::Dynamic, Some(value)) => answered.dynamic.extend([(name, value.to_owned())]),
            (Source::Static, Some(value)) => answered.from_file.extend([(name, value.to_owned())]),
            (Source::Default, _) => answered.defaults.push(name),
            _ => {}
        }
    }
    answered
}

/// Where it listens on all interfaces, the loopback is one of them.
fn connect(listener: &Listener, end: Instant) -> io::Result<TcpStream> {
    let host = listener.host.as_str();
    let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        _ if host.is_empty() => loopbacks(listener.port),
        Ok(address) if address.is_unspecified() => loopbacks(listener.port),
        Ok(address) => vec![SocketAddr::new(address, listener.port)],
        Err(_) => (host, listener.port).to_socket_addrs()?.collect(),
    };
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(&address, left(end)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn loopbacks(port: u16) -> Vec<SocketAddr> {
    vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))]
}

/// Sends a frame and reads the one that comes back, without its length.
fn exchange(stream: &mut TcpStream, frame: &[u8], end: Instant) -> io::Result<Vec<u8>> {
    stream.set_write_timeout(Some(left(end)?))?;
    stream.write_all(frame)?;
    let mut length = [0; 4];
    read(stream, &mut length, end)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_BYTES {
        return Err(io::Error::other(format!("its response of {length} bytes is too large")));
    }
    // As it comes, not as it was announced.
    let mut body = Vec::new();
    let mut piece = [0; 16 << 10];
    while body.len() < length {
        let wanted = piece.len().min(length - body.len());
        let Some(room) = piece.get_mut(..wanted) else { break };
        read(stream, room, end)?;
        body.extend_from_slice(room);
    }
    Ok(body)
}

/// Fills it, in the time that is left.
fn read(stream: &mut TcpStream, room: &mut [u8], end: Instant) -> io::Result<()> {
    let mut filled = 0;
    while let Some(rest) = room.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        stream.set_read_timeout(Some(left(end)?))?;
        match stream.read(rest)? {
            0 => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
            some => filled += some,
        }
    }
    Ok(())
}

fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use broker::{Broker, Listener};

    use super::{Error, settings};

    /// A broker that answers one request with these bytes, or closes the connection where there are none.
    fn answering(bytes: Vec<u8>) -> (Broker, JoinHandle<Vec<u8>>) {
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
    fn a_brokers_reason_is_part_of_one_line() {
        let reason = text("not\n\x1b[31mallowed");
        let refusal =
            [&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 31][..], &reason, &[4, 0, 0, 0, 0, 0, 0]].concat();
        let refused = super::understand("PLAINTEXT://:9092", &refusal).unwrap_err().to_string();
        assert!(refused.contains("not[31mallowed") && !refused.contains(char::is_control), "{refused:?}");
    }

    /// A frame that answers with an error code and settings, each with its source.
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
    fn what_a_broker_says_replaces_what_its_file_says() {
        let told = [("num.io.threads", "16", 2), ("log.dirs", "/data", 4), ("num.network.threads", "3", 5)];
        let (broker, served) = answering(frame(0, &told));
        let answered = settings(&broker).unwrap();
        assert_eq!(served.join().unwrap()[..4], [0, 32, 0, 1], "DescribeConfigs, version 1");
        assert_eq!(answered.dynamic.get("num.io.threads").map(String::as_str), Some("16"));
        let file = [("num.io.threads", "8"), ("num.network.threads", "6"), ("x", "y")];
        let mut properties = file.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        answered.apply(&mut properties);
        let expected = [("log.dirs", "/data"), ("num.io.threads", "16"), ("x", "y")];
        assert_eq!(properties, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn a_broker_that_refuses_or_answers_nonsense_is_told_of_in_a_line() {
        let refused = settings(&answering(frame(31, &[])).0).unwrap_err();
        assert!(
            matches!(&refused, Error::Refused { code: 31, message, .. } if message == "not allowed"),
            "{refused}"
        );
        let huge = settings(&answering(vec![0x7f, 0xff, 0xff, 0xff]).0).unwrap_err();
        assert!(huge.to_string().contains("2147483647 bytes"), "{huge}");
        let short = settings(&answering(vec![0, 0, 0, 2, 0, 0]).0).unwrap_err();
        assert!(matches!(short, Error::Answer { .. }), "{short}");
        let other = settings(&answering(vec![0, 0, 0, 4, 0, 0, 0, 9]).0).unwrap_err();
        assert!(other.to_string().contains("another request"), "{other}");
        let cut = settings(&answering(frame(0, &[("a", "b", 2)])[..30].to_vec()).0).unwrap_err();
        assert!(matches!(cut, Error::Connection { .. }), "{cut}");
        let closed = settings(&answering(Vec::new()).0).unwrap_err();
        assert!(matches!(closed, Error::Connection { .. }), "{closed}");
        for error in [refused, huge, short, other, cut, closed] {
            assert_eq!(error.to_string().lines().count(), 1);
        }
    }

    #[test]
    fn only_a_plaintext_listener_is_asked() {
        let secure = settings(&broker("SASL_SSL", 9)).unwrap_err();
        assert!(
            matches!(&secure, Error::NoPlaintext { listeners } if listeners == "SASL_SSL://:9"),
            "{secure}"
        );
        let mut mapped = broker("INTERNAL", 9);
        let map = "CLIENTS:SASL_PLAINTEXT, INTERNAL:PLAINTEXT".to_owned();
        mapped.properties.insert("listener.security.protocol.map".to_owned(), map);
        assert_eq!(super::plaintext(&mapped).unwrap().name, "INTERNAL");
        assert!(matches!(settings(&Broker { node_id: None, ..mapped }), Err(Error::NoNodeId)));
    }
}
