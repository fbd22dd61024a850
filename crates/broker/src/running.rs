//! The brokers that run on this machine, and their configuration. Does not talk to them. Fuzzed by: settings.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::{Error, Processes, properties};

/// A running broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Its process id.
    pub pid: u32,
    /// `node.id`, `broker.id`, or the id that the broker generated.
    pub node_id: Option<i32>,
    /// Its log dirs, as paths that this process can read; `metadata.log.dir` comes last if it is a different one.
    pub log_dirs: Vec<PathBuf>,
    /// Its listeners, including those for controllers.
    pub listeners: Vec<Listener>,
    /// Its configuration, from its file and its command line.
    /// Contains secrets: do not print it without filtering.
    pub properties: BTreeMap<String, String>,
    /// The path of that file.
    pub properties_file: PathBuf,
}

/// The readable brokers on this machine.
pub fn find() -> Vec<Broker> {
    Broker::all(&Processes::default()).into_iter().filter_map(Result::ok).collect()
}

impl Broker {
    /// The broker with this process id.
    ///
    /// # Errors
    /// [`Error::NoProcess`], [`Error::NotABroker`], [`Error::NoProperties`], or a file that cannot be read.
    pub fn of_pid(pid: u32) -> Result<Self, Error> {
        Self::of(&Processes::default(), pid)
    }

    /// The only broker on this machine.
    ///
    /// # Errors
    /// [`Error::NoneRuns`], [`Error::SeveralRun`], or a file of the broker that cannot be read.
    pub fn only() -> Result<Self, Error> {
        Self::only_of(&Processes::default())
    }

    /// Like [`Broker::of_pid`], with the caller's `/proc`.
    ///
    /// # Errors
    /// Like [`Broker::of_pid`].
    pub fn of(processes: &Processes, pid: u32) -> Result<Self, Error> {
        if !processes.exists(pid) {
            return Err(Error::NoProcess { pid });
        }
        let cmdline = processes.cmdline(pid).map_err(unreadable(processes, pid, "cmdline"))?;
        let command_line = parse_command_line(&cmdline).ok_or(Error::NotABroker { pid })?;
        Self::configured(processes, pid, command_line)
    }

    /// Like [`Broker::only`], with the caller's `/proc`.
    ///
    /// # Errors
    /// Like [`Broker::only`].
    pub fn only_of(processes: &Processes) -> Result<Self, Error> {
        match &pids(processes)[..] {
            [] => Err(Error::NoneRuns),
            [pid] => Self::of(processes, *pid),
            several => Err(Error::SeveralRun { pids: several.to_vec() }),
        }
    }

    /// Every broker in a `/proc`, or the reason why it cannot be read.
    pub fn all(processes: &Processes) -> Vec<Result<Self, Error>> {
        pids(processes).into_iter().map(|pid| Self::of(processes, pid)).collect()
    }

    /// The ports of its listeners.
    /// They serve clients, brokers and, if it is a controller, the clients of controllers.
    pub fn ports(&self) -> Vec<u16> {
        self.listeners.iter().map(|listener| listener.port).filter(|port| *port != 0).collect()
    }

    /// The TLS listeners for clients and brokers.
    pub fn tls_listeners(&self) -> impl Iterator<Item = &Listener> {
        self.listeners.iter().filter(|listener| !listener.controller && listener.tls)
    }

    fn configured(processes: &Processes, pid: u32, command_line: CommandLine) -> Result<Self, Error> {
        let resolve = |path: &Path| processes.resolve(pid, path).map_err(unreadable(processes, pid, "cwd"));
        let properties_file = resolve(&command_line.properties.ok_or(Error::NoProperties { pid })?)?;
        let mut properties = properties::read(&properties_file)?;
        properties.extend(command_line.overrides);
        let log_dirs = log_dirs(&properties).iter().map(|dir| resolve(dir)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            pid,
            node_id: node_id(&properties, &log_dirs),
            log_dirs,
            listeners: listeners(&properties),
            properties,
            properties_file,
        })
    }
}

/// The processes that are brokers.
/// Any user can start a process with a broker's command line, so if at least one process is known to be a broker, only
/// those are returned; otherwise, all that may be one.
pub fn pids(processes: &Processes) -> Vec<u32> {
    let names_class =
        |pid: &u32| processes.cmdline(*pid).ok().and_then(|cmdline| parse_command_line(&cmdline)).is_some();
    let mut brokers = Vec::new();
    let mut unknown = Vec::new();
    for pid in processes.pids().into_iter().filter(names_class) {
        match is_broker(processes, pid) {
            Some(true) => brokers.push(pid),
            Some(false) => {}
            None => unknown.push(pid),
        }
    }
    if brokers.is_empty() { unknown } else { brokers }
}

/// Whether a process with a broker's command line is a broker.
/// It is if it has a JVM mapped, and its user is root or owns one of its log dirs or the lock file that a broker
/// creates in each. `None` if this cannot be read: another user's process, or missing log dirs.
fn is_broker(processes: &Processes, pid: u32) -> Option<bool> {
    if !processes.has_jvm(pid).ok()? {
        return Some(false);
    }
    let user = processes.user(pid)?;
    let log_dirs = Broker::of(processes, pid).ok()?.log_dirs;
    let owners: Vec<u32> = log_dirs.iter().flat_map(|dir| owners(dir)).collect();
    (!owners.is_empty()).then(|| user == 0 || owners.contains(&user))
}

/// Owners of a log dir and of its lock file: a volume often belongs to its administrator.
fn owners(log_dir: &Path) -> Vec<u32> {
    let Ok(found) = foreign::open_directory(log_dir) else { return Vec::new() };
    let path = foreign::path_of(&found);
    let owners = [fs::metadata(&path), fs::symlink_metadata(path.join(".lock"))];
    owners.into_iter().flatten().map(|found| found.uid()).collect()
}

fn unreadable(processes: &Processes, pid: u32, name: &str) -> impl FnOnce(io::Error) -> Error {
    let path = processes.path(pid, name);
    move |source| Error::Process { pid, path, source }
}

/// `log.dirs`, else `log.dir`, else Kafka's default; then `metadata.log.dir` if it is not among them.
fn log_dirs(properties: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let listed = |key: &str| {
        let value = properties.get(key).map_or("", String::as_str);
        value.split(',').map(str::trim).filter(|dir| !dir.is_empty()).map(PathBuf::from).collect::<Vec<_>>()
    };
    let mut dirs = listed("log.dirs");
    if dirs.is_empty() {
        dirs = listed("log.dir");
    }
    if dirs.is_empty() {
        dirs.push(PathBuf::from("/tmp/kafka-logs"));
    }
    for dir in listed("metadata.log.dir") {
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    dirs
}

/// The configured id; if there is none (or -1), the one that the broker stored in its log dirs.
fn node_id(properties: &BTreeMap<String, String>, log_dirs: &[PathBuf]) -> Option<i32> {
    configured_id(properties).or_else(|| {
        let stored = |dir: &PathBuf| properties::read(&dir.join("meta.properties")).ok();
        log_dirs.iter().filter_map(stored).find_map(|stored| configured_id(&stored))
    })
}

fn configured_id(properties: &BTreeMap<String, String>) -> Option<i32> {
    let id = |key: &str| properties.get(key)?.trim().parse().ok().filter(|id| *id >= 0);
    id("node.id").or_else(|| id("broker.id"))
}

// A broker's command line: whether it is one, its configuration file and its overrides. Does not read the
// configuration.

/// Whether this is a main class of Kafka.
/// It is Kafka's own, also after its move to another package, or the one that Confluent's packages start instead.
fn is_main_class(argument: &[u8]) -> bool {
    matches!(argument, b"kafka.Kafka" | b"io.confluent.support.metrics.SupportedKafka")
        || argument.starts_with(b"org.apache.kafka.") && argument.ends_with(b".Kafka")
}

/// A broker's arguments (`Kafka.getPropsFromArgs`).
#[derive(Clone, Debug, PartialEq, Eq)]
struct CommandLine {
    /// The `server.properties`, as written on the command line; `None` if there is none.
    properties: Option<PathBuf>,
    /// `--override key=value`, in order.
    overrides: Vec<(String, String)>,
}

/// Parses `/proc/PID/cmdline`: arguments, each terminated by a zero byte.
/// `None` if it is not a broker's.
fn parse_command_line(cmdline: &[u8]) -> Option<CommandLine> {
    let mut arguments = cmdline.split(|&byte| byte == 0);
    let program = Path::new(OsStr::from_bytes(arguments.next()?));
    // Other commands name the class too: a grep for it, a shell that starts it.
    if program.file_name() != Some(OsStr::new("java")) {
        return None;
    }
    arguments.by_ref().find(|argument| is_main_class(argument))?;
    let properties = arguments.next().filter(|path| !path.is_empty());
    let properties = properties.map(|path| PathBuf::from(OsStr::from_bytes(path)));
    Some(CommandLine { properties, overrides: overrides(arguments) })
}

fn overrides<'a>(mut arguments: impl Iterator<Item = &'a [u8]>) -> Vec<(String, String)> {
    let mut overrides = Vec::new();
    while let Some(argument) = arguments.next() {
        let setting = match argument.strip_prefix(b"--override") {
            Some(b"") => arguments.next(),
            Some(joined) => joined.strip_prefix(b"="),
            None => None,
        };
        let setting = setting.map(String::from_utf8_lossy);
        if let Some((key, value)) = setting.as_deref().and_then(|setting| setting.split_once('=')) {
            overrides.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    overrides
}

// A broker's listeners, from its configuration. Does not look at sockets.

/// One listener: `PLAINTEXT://0.0.0.0:9092`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its name: a security protocol, unless the configuration maps it to one.
    pub name: String,
    /// The address or host name that it binds; empty for the default interface.
    pub host: String,
    /// Its port; 0 if the system chooses one.
    pub port: u16,
    /// Whether it serves KRaft controllers, not clients.
    pub controller: bool,
    /// Whether its connections are TLS.
    pub tls: bool,
}

/// As in the configuration.
impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "{}://[{}]:{}", self.name, self.host, self.port)
        } else {
            write!(f, "{}://{}:{}", self.name, self.host, self.port)
        }
    }
}

/// The listeners of a configuration; Kafka's default is `PLAINTEXT://:9092`.
fn listeners(properties: &BTreeMap<String, String>) -> Vec<Listener> {
    let setting = |key: &str| properties.get(key).map_or("", |value| value.trim());
    let controllers: Vec<&str> = setting("controller.listener.names").split(',').map(str::trim).collect();
    let listed =
        Some(setting("listeners")).filter(|listed| !listed.is_empty()).unwrap_or("PLAINTEXT://:9092");
    let protocols = setting("listener.security.protocol.map");
    listed.split(',').filter_map(|text| parse_listener(text.trim(), &controllers, protocols)).collect()
}

/// Whether a listener's security protocol uses TLS: the protocol to which its name is mapped (`NAME:SSL,…`), or else
/// its name (`SecurityProtocol`: `SSL`, `SASL_SSL`).
fn is_tls(name: &str, protocols: &str) -> bool {
    let mut mapped = protocols.split(',').filter_map(|entry| entry.trim().split_once(':'));
    let mapped = mapped.find(|(listener, _)| listener.trim().eq_ignore_ascii_case(name));
    let protocol = mapped.map_or(name, |(_, protocol)| protocol.trim());
    ["SSL", "SASL_SSL"].iter().any(|tls| protocol.eq_ignore_ascii_case(tls))
}

/// Parses `NAME://host:port`, with the host perhaps in brackets.
/// See `EndPoint` in Kafka's `SocketServerConfigs`.
fn parse_listener(text: &str, controllers: &[&str], protocols: &str) -> Option<Listener> {
    let (name, address) = text.split_once("://")?;
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some(Listener {
        name: name.to_owned(),
        host: host.to_owned(),
        port: port.parse().ok()?,
        controller: controllers.iter().any(|controller| controller.eq_ignore_ascii_case(name)),
        tls: is_tls(name, protocols),
    })
}

#[cfg(test)]
mod command_line_tests {
    use super::parse_command_line as parse;
    use std::path::Path;

    fn cmdline(arguments: &[&str]) -> Vec<u8> {
        arguments.iter().flat_map(|argument| argument.bytes().chain([0])).collect()
    }

    #[test]
    fn parses_a_brokers_command_line() {
        let parsed = parse(&cmdline(&[
            "/usr/lib/jvm/java-17/bin/java",
            "-Xmx1G",
            "-cp",
            "/opt/kafka/libs/*",
            "-Dx=kafka.Kafka",
            "kafka.Kafka",
            "config/server.properties",
            "--override",
            "broker.id=3",
            "--override=log.dirs=/a,/b",
            "--other",
            "--override",
        ]))
        .unwrap();
        assert_eq!(parsed.properties.unwrap(), Path::new("config/server.properties"));
        let overrides: Vec<_> = parsed.overrides.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(overrides, [("broker.id", "3"), ("log.dirs", "/a,/b")]);
        let confluent =
            cmdline(&["java", "io.confluent.support.metrics.SupportedKafka", "/etc/kafka/server.properties"]);
        assert!(parse(&confluent).is_some());
        assert_eq!(parse(&cmdline(&["java", "kafka.Kafka"])).unwrap().properties, None);
    }

    #[test]
    fn refuses_other_command_lines() {
        for arguments in [
            &["grep", "kafka.Kafka"][..],
            &["bash", "-c", "java -cp x kafka.Kafka server.properties"],
            &["java", "-cp", "x", "org.apache.kafka.tools.ProducerPerformance"],
            &["java", "-Dmain=kafka.Kafka", "Other"],
            &["java"],
            &[""],
            &[],
        ] {
            assert_eq!(parse(&cmdline(arguments)), None, "{arguments:?}");
        }
    }
}

#[cfg(test)]
mod listener_tests {
    use super::listeners as of;
    use std::collections::BTreeMap;

    fn listeners(settings: &[(&str, &str)]) -> Vec<(String, u16, bool)> {
        let properties: BTreeMap<_, _> =
            settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        of(&properties).into_iter().map(|l| (l.to_string(), l.port, l.controller)).collect()
    }

    #[test]
    fn parses_listeners_and_their_roles() {
        assert_eq!(listeners(&[]), [("PLAINTEXT://:9092".to_owned(), 9092, false)]);
        assert_eq!(
            listeners(&[
                (
                    "listeners",
                    "PLAINTEXT://127.0.0.1:29092, CONTROLLER://[::1]:29093,SSL://host:9094,broken,X://y:99999"
                ),
                ("controller.listener.names", "CONTROLLER"),
            ]),
            [
                ("PLAINTEXT://127.0.0.1:29092".to_owned(), 29092, false),
                ("CONTROLLER://[::1]:29093".to_owned(), 29093, true),
                ("SSL://host:9094".to_owned(), 9094, false),
            ]
        );
    }

    #[test]
    fn listener_tls_follows_from_the_protocol_map() {
        let listeners = "REPLICATION-9091://0.0.0.0:9091,PLAIN-9092://:9092,SSL://:9093,sasl_ssl://:9094,SASL_PLAINTEXT://:9095";
        let map = "CONTROLPLANE-9090:SSL, replication-9091:SSL,PLAIN-9092:PLAINTEXT,SSL:SASL_PLAINTEXT";
        let tls = |settings: &[(&str, &str)]| {
            let properties: BTreeMap<_, _> =
                settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            of(&properties).into_iter().filter(|l| l.tls).map(|l| l.port).collect::<Vec<_>>()
        };
        assert_eq!(tls(&[("listeners", listeners)]), [9093, 9094]);
        assert_eq!(tls(&[("listeners", listeners), ("listener.security.protocol.map", map)]), [9091, 9094]);
    }
}
