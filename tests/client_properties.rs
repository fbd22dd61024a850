//! Tests `--client-properties` with a real broker: its settings in force are read over TLS and with a password, and a
//! mistake is one line.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use e2e::{brokerscope, gate, traffic};
use lab::kafka::{DEFAULT_VERSION, Kafka};
use lab::{Broker, BrokerOptions};
use serde_json::Value;

const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/watch/tests/data");
const USER: &str = "advisor";
/// Quoted in Kafka's syntax, and again in a properties file.
const PASSWORD: &str = "lab-secret \"quoted\"";
const KNOWN: &str = "changed while the broker runs (kafka-configs); the changed values are used: ";
const NOT_KNOWN: &str = "settings changed while the broker runs (kafka-configs) are not known: ";

/// A broker with TLS clients that authenticate with a password or a certificate.
struct Site {
    directory: PathBuf,
    kafka: Kafka,
    broker: Broker,
}

impl Site {
    fn start() -> Self {
        let directory = traffic::directory("client-properties");
        let kafka = Kafka::prepare(DEFAULT_VERSION).unwrap();
        let mut options = BrokerOptions::new(directory.join("broker"));
        let [port, controller, tls, sasl] = free_ports();
        options.port = Some(port);
        options.properties = properties(&directory, [port, controller, tls, sasl]);
        options.is_throwaway = true;
        let broker = Broker::start(&kafka, options).unwrap();
        let site = Self { directory, kafka, broker };
        for mechanism in ["SCRAM-SHA-256=[iterations=8192,password=", "SCRAM-SHA-512=[password="] {
            site.configure("users", USER, &format!("{mechanism}{PASSWORD}]"));
        }
        site.configure("brokers", "1", "num.io.threads=9");
        site
    }

    fn configure(&self, kind: &str, name: &str, config: &str) {
        let mut command = self.kafka.tool("kafka.admin.ConfigCommand");
        command.args(["--bootstrap-server", &self.broker.bootstrap(), "--alter"]);
        command.args(["--entity-type", kind, "--entity-name", name, "--add-config", config]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Writes a file that only its owner can read.
    fn client(&self, name: &str, lines: &[&str]) -> PathBuf {
        let path = self.directory.join(name);
        fs::write(&path, lines.join("\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// The notes of `advise` on the settings.
    fn notes(&self, client: &Path) -> String {
        let (pid, client) = (self.broker.pid.to_string(), client.to_string_lossy());
        let arguments = ["advise", "--format", "json", "--pid", &pid, "--client-properties", &client];
        let output = brokerscope::run(arguments);
        assert_eq!(output.status, Some(0), "{}", output.stderr);
        for text in [&output.stdout, &output.stderr] {
            assert!(!text.contains("secret"), "{text}");
        }
        let summary: Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
        summary["notes"].to_string()
    }

    #[track_caller]
    fn knows(&self, client: &Path) {
        let notes = self.notes(client);
        assert!(notes.contains(KNOWN) && notes.contains("num.io.threads"), "{notes}");
    }

    #[track_caller]
    fn does_not_know(&self, client: &Path, why: &str) {
        let notes = self.notes(client);
        assert!(notes.contains(NOT_KNOWN) && notes.contains(why), "{notes}");
    }

    /// The output of `record`, and its manifest.
    fn record(&self, name: &str, client: &Path) -> (String, Value) {
        let recording = self.directory.join(name);
        let (pid, client, output) =
            (self.broker.pid.to_string(), client.to_string_lossy(), recording.to_string_lossy());
        let arguments = ["record", "-o", &output, "--for", "2s", "--pid", &pid, "--no-attach"];
        let output = brokerscope::run(arguments.iter().chain(&["--client-properties", &client]));
        assert_eq!(output.status, Some(0), "{}", output.stderr);
        let manifest = fs::read_to_string(recording.join("manifest.json")).unwrap();
        assert!(!output.stderr.contains("secret") && !manifest.contains("secret"), "{manifest}");
        (output.stderr, serde_json::from_str(&manifest).unwrap())
    }
}

fn free_ports() -> [u16; 4] {
    let sockets = [(); 4].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    sockets.map(|socket| socket.local_addr().unwrap().port())
}

/// Properties of the broker, with its keystore in `directory`. Its certificate names `kafka-1`, to which SASL clients
/// connect, but not the address to which SSL clients do.
fn properties(directory: &Path, [port, controller, tls, sasl]: [u16; 4]) -> Vec<(String, String)> {
    let read = |name: &str| fs::read_to_string(Path::new(CERTIFICATES).join(name)).unwrap();
    fs::create_dir_all(directory).unwrap();
    let keystore = directory.join("broker.pem");
    fs::write(&keystore, read("broker.key") + &read("broker.pem")).unwrap();
    let advertised = format!("PLAINTEXT://127.0.0.1:{port},SSL://127.0.0.1:{tls}");
    let bound = format!("{advertised},SASL://127.0.0.1:{sasl}");
    let plain = "org.apache.kafka.common.security.plain.PlainLoginModule required";
    let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
    let password = PASSWORD.replace('"', "\\\"");
    let all = [
        ("listeners", format!("{bound},CONTROLLER://127.0.0.1:{controller}")),
        ("advertised.listeners", format!("{advertised},SASL://kafka-1:{sasl}")),
        ("controller.quorum.voters", format!("1@127.0.0.1:{controller}")),
        (
            "listener.security.protocol.map",
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL:SASL_SSL".to_owned(),
        ),
        ("ssl.keystore.type", "PEM".to_owned()),
        ("ssl.keystore.location", keystore.to_string_lossy().into_owned()),
        ("ssl.truststore.type", "PEM".to_owned()),
        ("ssl.truststore.location", format!("{CERTIFICATES}/alone.pem")),
        ("listener.name.ssl.ssl.client.auth", "required".to_owned()),
        ("listener.name.sasl.sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512".to_owned()),
        ("listener.name.sasl.plain.sasl.jaas.config", format!("{plain} user_{USER}=\"{password}\";")),
        ("listener.name.sasl.scram-sha-256.sasl.jaas.config", scram.to_owned()),
        ("listener.name.sasl.scram-sha-512.sasl.jaas.config", scram.to_owned()),
    ];
    all.map(|(key, value)| (key.to_owned(), value)).to_vec()
}

fn jaas(password: &str) -> String {
    let password = password.replace('"', "\\\\\"");
    format!(
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n  \
         username=\"{USER}\" password=\"{password}\";"
    )
}

#[test]
fn reads_settings_in_force_over_tls_with_password_or_certificate() {
    let Some(_alone) = gate::live("settings in force over TLS") else { return };
    let site = Site::start();
    let truststore =
        |name: &str| format!("ssl.truststore.type=PEM\nssl.truststore.location={CERTIFICATES}/{name}.pem");
    let (trusted, other) = (truststore("ca"), truststore("alone"));
    let by_password = |name: &str, mechanism: &str, password: &str, trusted: &str| {
        let mechanism = format!("sasl.mechanism={mechanism}");
        site.client(name, &["security.protocol=SASL_SSL", trusted, &mechanism, &jaas(password)])
    };
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"] {
        site.knows(&by_password("right", mechanism, PASSWORD, &trusted));
        let refused = format!("refused the user name or password of --client-properties ({mechanism}: ");
        site.does_not_know(&by_password("wrong", mechanism, "other-secret", &trusted), &refused);
    }
    let unknown = "its certificate is not trusted: no certificate in ssl.truststore has signed it";
    site.does_not_know(&by_password("unknown", "PLAIN", PASSWORD, &other), unknown);

    // Clients of this listener connect to an address that the certificate does not name.
    let no_name = "ssl.endpoint.identification.algorithm=";
    let own = format!(
        "ssl.keystore.type=PEM\nssl.keystore.certificate.chain={}\nssl.keystore.key={}",
        inline("alone.pem"),
        inline("alone.key")
    );
    let by_certificate = |name: &str, more: &[&str]| {
        site.client(name, &[&["security.protocol=SSL", &trusted][..], more].concat())
    };
    site.does_not_know(
        &by_certificate("name", &[&own]),
        "it is for kafka-1, *.kafka.example, not for 127.0.0.1",
    );
    site.knows(&by_certificate("certificate", &[no_name, &own]));
    site.does_not_know(
        &by_certificate("no-certificate", &[no_name]),
        "does it require a client's certificate",
    );

    let (messages, manifest) =
        site.record("recording", &by_password("right", "SCRAM-SHA-512", PASSWORD, &trusted));
    assert_eq!(manifest["broker"]["settings_in_force"]["num.io.threads"], "9", "{manifest}");
    assert!(!messages.contains("are not known"), "{messages}");
    let (messages, manifest) =
        site.record("refused", &by_password("wrong", "PLAIN", "other-secret", &trusted));
    assert!(manifest["broker"]["settings_in_force"].is_null(), "{manifest}");
    let line = messages
        .lines()
        .filter(|line| line.contains("settings in force are not known: "))
        .collect::<Vec<_>>();
    assert!(matches!(line[..], [line] if line.contains("refused the user name or password")), "{messages}");
}

/// PEM as a value with continued lines.
fn inline(name: &str) -> String {
    let pem = fs::read_to_string(Path::new(CERTIFICATES).join(name)).unwrap();
    pem.trim_end().replace('\n', "\\\n  ")
}
