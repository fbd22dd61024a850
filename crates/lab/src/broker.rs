//! A real Kafka broker (KRaft), from formatting its storage to stopping it: by default one node on 127.0.0.1.

mod config;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::client::Endpoint;
use crate::error::{Error, Result};
use crate::kafka::Kafka;
use crate::net::{Network, Place};
use crate::process::{Process, in_parallel};
use crate::session::interrupt;
use crate::site::Site;
use crate::{files, process};

/// Any id will do: 16 bytes in unpadded base64, as Kafka's Uuid prints itself.
const CLUSTER_ID: &str = "brokerscope-lab-AAAAAA";
/// Arguments of every broker's JVM. The heap is small enough to leave the machine to the experiment. The collector is
/// the one that Kafka's own script chooses.
const JVM_ARGUMENTS: &[&str] = &["-Xms512m", "-Xmx512m", "-XX:+UseG1GC", "-Djava.awt.headless=true"];

/// Timeout for a broker's first answer.
const START_TIMEOUT: Duration = Duration::from_secs(180);

/// Options of a broker.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// Directory of its configuration and its text logs; created if missing.
    pub directory: PathBuf,
    /// `log.dirs`, the directory of its partitions; `data` in `directory` if `None`.
    pub log_dir: Option<PathBuf>,
    /// `metadata.log.dir`; the log directory if `None`, as in Kafka. Elsewhere, the metadata log's fsync every half
    /// second causes no journal commits on the log directory's file system.
    pub metadata_dir: Option<PathBuf>,
    /// `node.id`: 1 unless there are several.
    pub node_id: u32,
    /// The listener's port; a free one if `None`.
    pub port: Option<u16>,
    /// The store with the key for TLS ([`make_keystore`]). With it, the broker listens for TLS on another port.
    pub keystore: Option<PathBuf>,
    /// The TLS port; a free one if `None`.
    pub tls_port: Option<u16>,
    /// Whether to write Kafka's request log next to the configuration. One JSON line per request.
    pub request_log: bool,
    /// Further arguments of the JVM.
    pub jvm_arguments: Vec<String>,
    /// Further lines of server.properties; they win over the lab's own.
    pub properties: Vec<(String, String)>,
    /// Prefix of the command that starts it, such as `taskset --cpu-list 1`; it must exec what follows.
    pub launcher: Vec<String>,
    /// The network namespace in which it runs.
    pub place: Place,
    /// The network namespace of its clients.
    pub(crate) clients: Place,
    /// The address on which it listens there.
    pub address: Ipv4Addr,
    /// The site whose mark the process carries, for `brokerscope-lab clean`.
    pub site: Option<PathBuf>,
    /// Whether to kill it on drop, because nothing reads its files any more.
    pub is_throwaway: bool,
}

impl BrokerOptions {
    /// A broker with everything in `directory` and nothing special.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            log_dir: None,
            metadata_dir: None,
            node_id: 1,
            port: None,
            keystore: None,
            tls_port: None,
            request_log: false,
            jvm_arguments: Vec::new(),
            properties: Vec::new(),
            launcher: Vec::new(),
            place: Place::own(),
            clients: Place::own(),
            address: Ipv4Addr::LOCALHOST,
            site: None,
            is_throwaway: false,
        }
    }

    /// A broker in the directory `name` of a site. Its metadata log is elsewhere in the site: the log's fsyncs would
    /// cause commits that only a controller has.
    pub(crate) fn of_site(site: &Site, name: &str) -> Result<Self> {
        Ok(Self {
            metadata_dir: Some(site.directory(&format!("{name}-metadata"))?),
            site: Some(site.path().to_owned()),
            ..Self::new(site.directory(name)?)
        })
    }

    /// Makes it run on a host of this network.
    pub(crate) fn join(&mut self, network: &Network, host: u8) -> Result<()> {
        (self.place, self.clients) = (network.host(host)?, network.clients());
        self.address = Network::address(host);
        Ok(())
    }
}

/// A running broker; dropping it stops it.
#[derive(Debug)]
pub struct Broker {
    /// Its process id.
    pub pid: u32,
    /// Its listener's port.
    pub port: u16,
    /// The port of its TLS listener, if it has one.
    pub tls_port: Option<u16>,
    /// The options that it was started with.
    pub(crate) options: BrokerOptions,
    /// The directory of its partitions.
    pub log_dir: PathBuf,
    /// Its server.properties.
    pub properties: PathBuf,
    /// Its log.
    pub server_log: PathBuf,
    /// Kafka's request log, if requested.
    pub request_log: Option<PathBuf>,
    process: Process,
}

impl Broker {
    /// Formats the storage, starts the broker and waits until it answers.
    ///
    /// # Errors
    /// [`Error::Ended`] or [`Error::TooSlow`] with the end of the broker's log; [`Error::Tool`] with `StorageTool`'s
    /// output.
    pub fn start(kafka: &Kafka, options: BrokerOptions) -> Result<Self> {
        let directory =
            std::path::absolute(&options.directory).map_err(Error::io("resolve", &options.directory))?;
        let log_dir = options.log_dir.clone().unwrap_or_else(|| directory.join("data"));
        files::make(&directory)?;
        files::make(&log_dir)?;
        let port = options.port.map_or_else(free_port, Ok)?;
        let properties = directory.join("server.properties");
        let tls_port = || options.tls_port.map_or_else(free_port, Ok);
        let tls_port = options.keystore.as_ref().map(|_| tls_port()).transpose()?;
        files::write(&properties, config::text(&options, &log_dir, (port, free_port()?, tls_port)))?;
        let request_log = options.request_log.then(|| directory.join("request.log"));
        let logging = directory.join("log4j2.xml");
        files::write(&logging, config::xml(request_log.as_deref()))?;
        format_storage(kafka, &properties)?;
        let server_log = directory.join("broker.log");
        let mut command = server_command(kafka, &options, &logging, &properties);
        let logged = process::log_output(command.current_dir(&directory), &server_log)?;
        let mut process = Process::spawn(logged, options.site.as_deref())?;
        process.is_throwaway = options.is_throwaway;
        let pid = process.pid();
        let mut broker =
            Self { pid, port, tls_port, options, log_dir, properties, server_log, request_log, process };
        broker.wait_until_it_answers()?;
        Ok(broker)
    }

    /// The address that clients connect to.
    pub fn bootstrap(&self) -> String {
        self.listener().to_string()
    }

    /// Like [`Broker::bootstrap`], for clients that use TLS if the broker has it.
    pub fn clients_bootstrap(&self) -> String {
        self.clients_endpoint().address.to_string()
    }

    /// The endpoint of clients: the TLS listener if there is one.
    pub fn clients_endpoint(&self) -> Endpoint {
        let address = SocketAddr::from((self.options.address, self.tls_port.unwrap_or(self.port)));
        Endpoint { address, is_tls: self.tls_port.is_some() }
    }

    /// Its listener.
    pub fn listener(&self) -> SocketAddr {
        SocketAddr::from((self.options.address, self.port))
    }

    /// Creates a topic with Kafka's own `TopicCommand`.
    pub fn create_topic(&self, kafka: &Kafka, topic: &str, partitions: u32) -> Result<()> {
        self.create_topics(kafka, &[(topic, partitions)])
    }

    /// Creates topics in parallel: most of the time goes into starting the JVMs.
    pub fn create_topics(&self, kafka: &Kafka, topics: &[(&str, u32)]) -> Result<()> {
        let create = |&(topic, partitions): &(&str, u32)| {
            let mut command = kafka.tool("org.apache.kafka.tools.TopicCommand");
            command.args(["--bootstrap-server", &self.bootstrap(), "--create", "--topic", topic]);
            command.args(["--partitions", &partitions.to_string(), "--replication-factor", "1"]);
            process::output(&mut command).map(drop)
        };
        in_parallel(topics.iter().collect(), create).into_iter().collect()
    }

    /// Whether it is still running.
    pub fn runs(&mut self) -> bool {
        matches!(self.process.exit_status(), Ok(None))
    }

    /// Stops it: SIGTERM, then SIGKILL if it does not end.
    pub fn stop(mut self) {
        self.process.stop();
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let address = self.listener();
        let (process, log, options) = (&mut self.process, &self.server_log, &self.options);
        let ready = || match process.exit_status()? {
            Some(_) => Err(Error::ended("the broker", log)),
            None => Ok(options.place.within(|| answers(address))?.then_some(())),
        };
        let what = format!("the broker's first answer on {address}");
        interrupt().wait(START_TIMEOUT, &what, ready).map_err(|error| match error {
            Error::TooSlow { what, limit, .. } => {
                Error::TooSlow { what, limit, hint: format!("; its log says:\n{}", process::tail(log)) }
            }
            error => error,
        })
    }
}

fn format_storage(kafka: &Kafka, properties: &Path) -> Result<()> {
    let mut command = kafka.tool("kafka.tools.StorageTool");
    command.args(["format", "--ignore-formatted", "--cluster-id", CLUSTER_ID, "--config"]).arg(properties);
    process::output(&mut command).map(drop)
}

fn server_command(kafka: &Kafka, options: &BrokerOptions, logging: &Path, properties: &Path) -> Command {
    let mut arguments: Vec<String> = JVM_ARGUMENTS.iter().map(|&argument| argument.to_owned()).collect();
    arguments.push(format!("-Dlog4j2.configurationFile={}", logging.display()));
    arguments.extend(options.jvm_arguments.iter().cloned());
    let mut command = kafka.command(&arguments, "kafka.Kafka");
    command.arg(properties);
    with_launcher(&[options.place.entering(), options.launcher.clone()].concat(), command)
}

/// Prefixes `command` with `launcher`, if there is one, in the same environment.
pub(crate) fn with_launcher(launcher: &[String], command: Command) -> Command {
    let [program, arguments @ ..] = launcher else { return command };
    let mut whole = Command::new(program);
    whole.args(arguments).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => whole.env(name, value),
            None => whole.env_remove(name),
        };
    }
    whole
}

/// Ports handed out: a JVM starts between that and the moment when its broker listens on the port.
static RESERVED_PORTS: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port that was free a moment ago, and that was not handed out before.
fn free_port() -> Result<u16> {
    loop {
        let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let port = bound.map_err(Error::system("find a free port on 127.0.0.1"))?.port();
        if RESERVED_PORTS.lock().unwrap_or_else(PoisonError::into_inner).insert(port) {
            return Ok(port);
        }
    }
}

/// Enough for a running broker; another attempt follows anyway.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// A correlation id that no client counts up to: a later client may get the same port.
const QUESTION_ID: [u8; 4] = *b"lab?";
/// `ApiVersionsRequest` v0 with a v1 header: size 10, api key 18, version 0, correlation id, no client id.
const QUESTION: [u8; 14] = {
    let [a, b, c, d] = QUESTION_ID;
    [0, 0, 0, 10, 0, 18, 0, 0, a, b, c, d, 0xff, 0xff]
};

/// Whether a Kafka broker answers on `address`: right correlation id, error code 0.
fn answers(address: SocketAddr) -> bool {
    ask(address).is_ok_and(|[_, _, _, _, id @ .., high, low]| id == QUESTION_ID && (high, low) == (0, 0))
}

fn ask(address: SocketAddr) -> std::io::Result<[u8; 10]> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(&QUESTION)?;
    let mut answer = [0; 10];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// Number of brokers of a cluster.
pub(crate) const CLUSTER_SIZE: u8 = 3;
const LEADER: u8 = 1;
/// The port is the same in every namespace.
const PORT: u16 = 9092;
const CONTROLLER_PORT: u16 = 9093;
/// Small heaps, because three brokers run on one machine.
const HEAP: [&str; 2] = ["-Xms256m", "-Xmx256m"];

/// Makes the broker of these options a member of a cluster; the first member must answer before the others start.
pub(crate) fn join_cluster(options: &mut BrokerOptions, network: &Network, number: u8) -> Result<()> {
    options.join(network, number)?;
    options.port = Some(PORT);
    options.tls_port = Some(CLIENTS_TLS_PORT);
    options.jvm_arguments.extend(HEAP.map(str::to_owned));
    options.properties.extend(properties(number, options.keystore.is_some()));
    Ok(())
}

/// Properties of a member, which win over those of a single node.
fn properties(number: u8, has_tls_clients: bool) -> Vec<(String, String)> {
    let (own, controller) = (Network::address(number), Network::address(LEADER));
    let clients = clients_listeners(number, has_tls_clients);
    let (roles, listeners) = if number == LEADER {
        ("broker,controller", format!("{clients},CONTROLLER://{own}:{CONTROLLER_PORT}"))
    } else {
        ("broker", clients)
    };
    let own = [
        ("process.roles", roles.to_owned()),
        ("node.id", number.to_string()),
        ("controller.quorum.voters", format!("{LEADER}@{controller}:{CONTROLLER_PORT}")),
        ("listeners", listeners),
    ];
    own.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The listeners except the controller's: brokers use the plaintext one, and clients too unless they use TLS.
fn clients_listeners(number: u8, has_tls_clients: bool) -> String {
    let own = Network::address(number);
    let tls = if has_tls_clients { format!(",SSL://{own}:{CLIENTS_TLS_PORT}") } else { String::new() };
    format!("PLAINTEXT://{own}:{PORT}{tls}")
}

/// The port of a cluster's TLS clients.
const CLIENTS_TLS_PORT: u16 = 9095;
/// The port that brokers use among themselves over TLS.
const TLS_PORT: u16 = 9094;
/// An experiment's keys protect nothing, so the password is no secret.
const STORE_PASSWORD: &str = "brokerscope-lab";

/// Makes a key that every broker of a cluster has and trusts. Does nothing if the directory has it already.
///
/// # Errors
/// `keytool` failed.
pub fn make_keystore(directory: &Path) -> Result<PathBuf> {
    let keystore = directory.join("keystore.p12");
    if !keystore.exists() {
        let mut command = Command::new("keytool");
        command.args(["-genkeypair", "-alias", "broker", "-keyalg", "EC", "-groupname", "secp256r1"]);
        command.args(["-dname", "CN=lab", "-validity", "7", "-storetype", "PKCS12"]);
        command.args(["-storepass", STORE_PASSWORD, "-keystore"]).arg(&keystore);
        process::output(&mut command)?;
    }
    Ok(keystore)
}

/// Properties with which Kafka's own clients speak TLS to a broker with this key.
pub fn tls_client_properties(keystore: &Path) -> String {
    let protocol = ("security.protocol".to_owned(), "SSL".to_owned());
    let all = std::iter::once(protocol).chain(key_properties(keystore));
    all.fold(String::new(), |text, (key, value)| text + &key + "=" + &value + "\n")
}

/// The properties of the key, for a broker or a client.
fn key_properties(keystore: &Path) -> Vec<(String, String)> {
    let keystore = keystore.to_string_lossy();
    let all = [
        ("ssl.keystore.location", &*keystore),
        ("ssl.keystore.password", STORE_PASSWORD),
        ("ssl.keystore.type", "PKCS12"),
        ("ssl.truststore.location", &*keystore),
        ("ssl.truststore.password", STORE_PASSWORD),
        ("ssl.truststore.type", "PKCS12"),
        // The certificate names no host.
        ("ssl.endpoint.identification.algorithm", ""),
    ];
    all.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Makes a broker of a cluster speak TLS with the others. Clients do not use the listener for that.
pub(crate) fn replicate_over_tls(options: &mut BrokerOptions, number: u8, keystore: &Path) {
    options.properties.extend(tls_properties(number, keystore, options.keystore.is_some()));
}

fn tls_properties(number: u8, keystore: &Path, has_tls_clients: bool) -> Vec<(String, String)> {
    let own = Network::address(number);
    let advertised = format!("{},REPLICATION://{own}:{TLS_PORT}", clients_listeners(number, has_tls_clients));
    let controller = format!(",CONTROLLER://{own}:{CONTROLLER_PORT}");
    let listeners = format!("{advertised}{}", if number == LEADER { &*controller } else { "" });
    let protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,REPLICATION:SSL";
    let all = [
        ("listeners", &*listeners),
        ("advertised.listeners", &*advertised),
        ("listener.security.protocol.map", protocols),
        ("inter.broker.listener.name", "REPLICATION"),
    ];
    let all = all.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    all.chain(key_properties(keystore)).collect()
}

#[cfg(test)]
mod greeting_tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn answered_with(bytes: &'static [u8]) -> bool {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let broker = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = [0; QUESTION.len()];
            stream.read_exact(&mut question).unwrap();
            assert_eq!(question, QUESTION);
            stream.write_all(bytes).unwrap();
        });
        let answered = answers(address);
        broker.join().unwrap();
        answered
    }

    #[test]
    fn accepts_only_the_answer_of_a_broker() {
        assert!(answered_with(&[0, 0, 0, 10, b'l', b'a', b'b', b'?', 0, 0, 0, 0, 0, 0]));
        assert!(!answered_with(&[0, 0, 0, 10, b'l', b'a', b'b', b'?', 0, 35, 0, 0, 0, 0]));
        assert!(!answered_with(b"HTTP/1.1 400 Bad Request"));
        assert!(!answered_with(b"short"));
    }
}

#[cfg(test)]
mod cluster_tests {
    use super::*;

    #[test]
    fn first_broker_is_the_only_controller() {
        let of = |number, key: &str| {
            let found = properties(number, false).into_iter().find(|(name, _)| name == key);
            found.map(|(_, value)| value).unwrap()
        };
        assert_eq!(of(1, "process.roles"), "broker,controller");
        assert_eq!(of(3, "process.roles"), "broker");
        assert_eq!(of(1, "controller.quorum.voters"), of(3, "controller.quorum.voters"));
        assert_eq!(of(2, "listeners"), "PLAINTEXT://198.18.0.2:9092");
    }

    #[test]
    fn tls_replication_adds_a_listener_beside_the_plaintext_one() {
        let of = |number, key: &str| {
            let found =
                tls_properties(number, Path::new("/k"), false).into_iter().find(|(name, _)| name == key);
            found.map(|(_, value)| value).unwrap()
        };
        let clients = "PLAINTEXT://198.18.0.2:9092,REPLICATION://198.18.0.2:9094";
        assert_eq!([of(2, "listeners"), of(2, "advertised.listeners")], [clients, clients]);
        assert!(of(1, "listeners").ends_with(",CONTROLLER://198.18.0.1:9093"));
        assert!(!of(1, "advertised.listeners").contains("CONTROLLER"));
    }

    #[test]
    fn tls_clients_get_their_own_listener() {
        let of = |properties: Vec<(String, String)>| {
            let found = properties.into_iter().find(|(name, _)| name == "listeners");
            found.map(|(_, value)| value).unwrap()
        };
        let clients = "PLAINTEXT://198.18.0.2:9092,SSL://198.18.0.2:9095";
        assert_eq!(of(properties(2, true)), clients);
        let replication = of(tls_properties(2, Path::new("/k"), true));
        assert_eq!(replication, format!("{clients},REPLICATION://198.18.0.2:9094"));
    }
}
