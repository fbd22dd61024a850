//! Kafka's client properties, which say how to talk to a broker.
//! Refuses those that a client without a Java VM cannot honour; ignores unknown ones, as Kafka does. Does not connect.
//! Passwords and keys never appear in errors or `Debug` output.
//! Not fuzzed: the user's own files; `broker::properties` has their format.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::Metadata;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;

use super::tls::{self, ClientKey};
use super::{jaas, pem, shorten};

/// Limit of a file: twice the size of a distribution's certificate bundle.
const MAX_BYTES: u64 = 1 << 20;
/// Mode bit of files that all users may read.
const READ_BY_OTHERS: u32 = 0o004;

/// Unsupported properties that would change what is sent to whom.
/// Those with the prefix `ssl.` or `sasl.` only matter for such listeners.
const UNSUPPORTED: [&str; 6] = [
    "config.providers",
    "ssl.engine.factory.class",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "socks5.proxy.address",
];
/// Properties that only restrict TLS versions and ciphers.
const IGNORED: [&str; 4] = ["ssl.cipher.suites", "ssl.enabled.protocols", "ssl.protocol", "ssl.provider"];

/// `security.protocol`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecurityProtocol {
    /// Neither TLS nor SASL.
    #[default]
    Plaintext,
    /// TLS.
    Ssl,
    /// SASL without TLS.
    SaslPlaintext,
    /// SASL over TLS.
    SaslSsl,
}

impl SecurityProtocol {
    const ALL: [Self; 4] = [Self::Plaintext, Self::Ssl, Self::SaslPlaintext, Self::SaslSsl];

    /// Kafka's name for the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }

    fn has_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }

    fn has_sasl(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }
}

/// `sasl.mechanism`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    Plain,
    ScramSha256,
    ScramSha512,
}

impl Mechanism {
    const ALL: [Self; 3] = [Self::Plain, Self::ScramSha256, Self::ScramSha512];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// A client's mechanism, user name and password.
pub(super) struct Credentials {
    pub(super) mechanism: Mechanism,
    pub(super) username: String,
    pub(super) password: String,
}

/// Omits the user name and the password.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("mechanism", &self.mechanism).finish_non_exhaustive()
    }
}

/// How a client talks to a broker; the default is plaintext.
#[derive(Default)]
pub struct ClientProperties {
    pub(super) protocol: SecurityProtocol,
    /// `bootstrap.servers`, as host and port.
    pub(super) servers: Vec<(String, u16)>,
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) credentials: Option<Credentials>,
    pub(super) warnings: Vec<String>,
}

/// Omits keys and passwords.
impl fmt::Debug for ClientProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientProperties").field("protocol", &self.protocol).finish_non_exhaustive()
    }
}

/// Reason why a file of client properties cannot be used, in one line.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct PropertiesError {
    /// The file, or one that it names.
    file: PathBuf,
    /// The reason, without any password.
    why: String,
}

impl ClientProperties {
    /// Reads a file and the files that it names.
    ///
    /// # Errors
    /// A file cannot be read, or a value is invalid or not supported.
    pub fn read(file: &Path) -> Result<Self, PropertiesError> {
        let (bytes, metadata) = read(file)?;
        Self::of(&Settings { file, values: broker::properties::parse(&bytes) }, &metadata)
    }

    /// Warnings about the files, for the user.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn of(settings: &Settings<'_>, metadata: &Metadata) -> Result<Self, PropertiesError> {
        let protocol = settings.protocol()?;
        settings.check_supported(protocol)?;
        let mut warnings = settings.ignored_warnings(protocol);
        if settings.has_secret() && is_open(metadata) {
            warnings.push(open_to_others(settings.file));
        }
        let tls = if protocol.has_tls() { Some(settings.tls(&mut warnings)?) } else { None };
        let credentials = if protocol.has_sasl() { Some(settings.credentials()?) } else { None };
        Ok(Self { protocol, servers: settings.servers()?, tls, credentials, warnings })
    }
}

/// The properties of a file.
struct Settings<'a> {
    file: &'a Path,
    values: BTreeMap<String, String>,
}

impl Settings<'_> {
    /// Returns a value without surrounding blanks, if it is not empty.
    fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    fn error(&self, why: impl Into<String>) -> PropertiesError {
        PropertiesError { file: self.file.to_owned(), why: why.into() }
    }

    fn unsupported(&self, key: &str, value: &str, possible: &str) -> PropertiesError {
        self.error(format!("{key}={} is not supported: {possible}", shorten(value)))
    }

    fn protocol(&self) -> Result<SecurityProtocol, PropertiesError> {
        let Some(value) = self.get("security.protocol") else { return Ok(SecurityProtocol::default()) };
        let found = SecurityProtocol::ALL.into_iter().find(|one| one.name().eq_ignore_ascii_case(value));
        let possible = "use PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL";
        found.ok_or_else(|| self.unsupported("security.protocol", value, possible))
    }

    fn check_supported(&self, protocol: SecurityProtocol) -> Result<(), PropertiesError> {
        let mut set = UNSUPPORTED.into_iter().filter(|key| concerns(key, protocol));
        match set.find(|key| self.get(key).is_some()) {
            Some(key) => Err(self.error(format!("{key} is not supported: take it out"))),
            None => Ok(()),
        }
    }

    fn ignored_warnings(&self, protocol: SecurityProtocol) -> Vec<String> {
        let set = IGNORED.into_iter().filter(|key| concerns(key, protocol) && self.get(key).is_some());
        set.map(|key| format!("{}: {key} is ignored: TLS 1.2 and 1.3 are spoken", self.file.display()))
            .collect()
    }

    fn has_secret(&self) -> bool {
        let is_secret = |key: &String| {
            key.ends_with("password") || matches!(key.as_str(), "sasl.jaas.config" | "ssl.keystore.key")
        };
        self.values.keys().any(is_secret)
    }

    /// `HOST:PORT,...`
    fn servers(&self) -> Result<Vec<(String, u16)>, PropertiesError> {
        let listed = self.get("bootstrap.servers").unwrap_or_default();
        let texts = listed.split(',').map(str::trim).filter(|text| !text.is_empty());
        let server = |text: &str| {
            let (host, port) = text.rsplit_once(':')?;
            // Kafka accepts a protocol prefix, too.
            let host = host.rsplit_once("://").map_or(host, |(_, host)| host);
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            Some((host.to_owned(), port.parse().ok()?))
        };
        let parse = |text| {
            server(text).ok_or_else(|| self.unsupported("bootstrap.servers", text, "use HOST:PORT,HOST:PORT"))
        };
        texts.map(parse).collect()
    }

    fn credentials(&self) -> Result<Credentials, PropertiesError> {
        let value = self.get("sasl.mechanism").unwrap_or("GSSAPI");
        let found = Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == value);
        let possible = "use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512";
        let mechanism = found.ok_or_else(|| self.unsupported("sasl.mechanism", value, possible))?;
        let jaas = self.get("sasl.jaas.config").ok_or_else(|| {
            self.error("sasl.jaas.config is missing: it has the user name and the password")
        })?;
        let (username, password) = jaas::username_and_password(jaas)
            .map_err(|why| self.error(format!("sasl.jaas.config: {why}")))?;
        if mechanism != Mechanism::Plain && !(username.is_ascii() && password.is_ascii()) {
            let why = "sasl.jaas.config: a user name or password with characters outside ASCII is not supported with SCRAM";
            return Err(self.error(why));
        }
        Ok(Credentials { mechanism, username, password })
    }

    fn tls(&self, warnings: &mut Vec<String>) -> Result<Arc<ClientConfig>, PropertiesError> {
        let key = "ssl.endpoint.identification.algorithm";
        let checks_name = match self.values.get(key).map(|value| value.trim()) {
            None => true,
            Some("") => false,
            Some(value) if value.eq_ignore_ascii_case("https") => true,
            Some(value) => return Err(self.unsupported(key, value, "use https, or nothing after the =")),
        };
        let own = self.own_key(warnings)?;
        let config =
            tls::config(self.trusted_certificates()?, checks_name, own).map_err(|why| self.error(why))?;
        Ok(Arc::new(config))
    }

    /// Reads the trusted certificates.
    fn trusted_certificates(&self) -> Result<Vec<Vec<u8>>, PropertiesError> {
        let Some(text) = self.store("ssl.truststore", "ssl.truststore.certificates", &mut Vec::new())? else {
            let why = "ssl.truststore.location is missing: name a PEM file with the certificate authority of the broker, and \
                set ssl.truststore.type=PEM";
            return Err(self.error(why));
        };
        let certificates = self.certificates(&text)?;
        if certificates.is_empty() {
            return Err(self.error("ssl.truststore: it has no certificate in PEM"));
        }
        Ok(certificates)
    }

    /// Reads the client's own key and its certificates.
    fn own_key(&self, warnings: &mut Vec<String>) -> Result<Option<ClientKey>, PropertiesError> {
        let chain = self.store("ssl.keystore", "ssl.keystore.certificate.chain", warnings)?;
        let Some(chain) = chain else { return Ok(None) };
        let key = self.get("ssl.keystore.key").unwrap_or(&chain);
        let sections = pem::sections(key).map_err(|why| self.error(format!("ssl.keystore: {why}")))?;
        let key = sections.into_iter().find(|section| section.label.ends_with("PRIVATE KEY"));
        match key {
            Some(key) if key.label == "PRIVATE KEY" => {
                Ok(Some(ClientKey { chain: self.certificates(&chain)?, pkcs8: key.der }))
            }
            Some(key) => Err(self.error(format!(
                "ssl.keystore: a key of the kind {} is not supported: openssl pkcs8 -topk8 -nocrypt makes a PRIVATE KEY of it",
                shorten(&key.label)
            ))),
            None => Err(self.error("ssl.keystore: it has no PRIVATE KEY in PEM")),
        }
    }

    fn certificates(&self, text: &str) -> Result<Vec<Vec<u8>>, PropertiesError> {
        let sections = pem::sections(text).map_err(|why| self.error(why))?;
        Ok(sections.into_iter().filter(|section| section.label == "CERTIFICATE").map(|one| one.der).collect())
    }

    /// The PEM text of a store: from its file or the property `inline`; `None` if neither is set.
    fn store(
        &self,
        store: &str,
        inline: &str,
        warnings: &mut Vec<String>,
    ) -> Result<Option<String>, PropertiesError> {
        let location = self.get(&format!("{store}.location"));
        let inline_text = self.get(inline);
        if location.is_none() && inline_text.is_none() {
            return Ok(None);
        }
        let type_key = format!("{store}.type");
        let value = self.get(&type_key).unwrap_or("JKS");
        if value != "PEM" {
            let how = if location.is_some() { HOW_TO_PEM } else { "use PEM" };
            return Err(self.unsupported(&type_key, value, how));
        }
        match (location, inline_text) {
            (Some(_), Some(_)) => {
                Err(self.error(format!("{store}.location and {inline} exclude each other")))
            }
            (Some(location), None) => {
                let file = Path::new(location);
                let (bytes, metadata) = read(file)?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                if text.contains("PRIVATE KEY-----") && is_open(&metadata) {
                    warnings.push(open_to_others(file));
                }
                Ok(Some(text))
            }
            (None, text) => Ok(text.map(str::to_owned)),
        }
    }
}

/// How to convert a Java keystore to PEM.
const HOW_TO_PEM: &str = "use PEM; `keytool -exportcert -rfc -keystore STORE -alias ALIAS` writes a certificate of it as PEM, and \
    `openssl pkcs12 -in STORE -nodes` the keys too";

fn concerns(key: &str, protocol: SecurityProtocol) -> bool {
    (protocol.has_tls() || !key.starts_with("ssl.")) && (protocol.has_sasl() || !key.starts_with("sasl."))
}

fn is_open(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & READ_BY_OTHERS != 0
}

fn open_to_others(file: &Path) -> String {
    let file = file.display();
    format!("{file} holds a secret and every user of this host can read it: chmod o= {file}")
}

fn read(file: &Path) -> Result<(Vec<u8>, Metadata), PropertiesError> {
    let error = |why: String| PropertiesError { file: file.to_owned(), why };
    let read = || -> io::Result<(Vec<u8>, Metadata)> {
        let opened = foreign::open_named(file)?;
        let metadata = opened.metadata()?;
        let mut bytes = Vec::new();
        opened.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        Ok((bytes, metadata))
    };
    let (bytes, metadata) = read().map_err(|source| error(source.to_string()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(error(format!("it is larger than {MAX_BYTES} bytes")));
    }
    Ok((bytes, metadata))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};

    use tempfile::TempDir;

    use super::{ClientProperties, Mechanism, SecurityProtocol};

    const CA: &str = include_str!("../../tests/data/ca.pem");
    const KEY: &str = include_str!("../../tests/data/alone.key");
    const CHAIN: &str = include_str!("../../tests/data/alone.pem");
    const JAAS: &str = "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username=\"u\" password=\"secret\";\n";

    fn file(directory: &TempDir, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    fn read(text: &str) -> Result<ClientProperties, String> {
        let directory = tempfile::tempdir().unwrap();
        ClientProperties::read(&file(&directory, "client.properties", text, 0o600))
            .map_err(|error| error.to_string())
    }

    /// Formats PEM as a property value that is continued over several lines.
    fn inline(pem: &str) -> String {
        pem.trim_end().replace('\n', "\\\n  ")
    }

    #[test]
    fn defaults_to_plaintext_and_ignores_unknown_properties() {
        let read = read("# comment\nacks=all\nbootstrap.servers=kafka-1:9092, SSL://[::1]:9093\nmy.own=1\nssl.truststore.type=JKS\n").unwrap();
        assert_eq!(
            (read.protocol, read.tls.is_none(), read.credentials.is_none()),
            (SecurityProtocol::Plaintext, true, true)
        );
        assert_eq!(read.servers, [("kafka-1".to_owned(), 9092), ("::1".to_owned(), 9093)]);
        assert_eq!(read.warnings(), <[String; 0]>::default());
    }

    #[test]
    fn reads_tls_and_passwords_and_hides_them_in_debug_output() {
        let text = format!(
            "security.protocol=sasl_ssl\nssl.truststore.type=PEM\nssl.truststore.certificates={}\nsasl.mechanism=SCRAM-SHA-512\n{JAAS}",
            inline(CA)
        );
        let read = read(&text).unwrap();
        let credentials = read.credentials.as_ref().unwrap();
        assert!(read.tls.is_some() && credentials.mechanism == Mechanism::ScramSha512);
        assert_eq!((credentials.username.as_str(), credentials.password.as_str()), ("u", "secret"));
        let debug = format!("{read:?} {credentials:?}");
        assert!(!debug.contains("secret") && debug.contains("SaslSsl"), "{debug}");
    }

    #[test]
    fn reads_a_client_key_from_a_file_and_from_properties() {
        let directory = tempfile::tempdir().unwrap();
        let trusted_certificates = file(&directory, "ca.pem", CA, 0o644);
        let own = file(&directory, "own.pem", &format!("{KEY}{CHAIN}"), 0o604);
        let base = format!(
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={}\nssl.keystore.type=PEM\n",
            trusted_certificates.display()
        );
        let text = format!("{base}ssl.keystore.location={}\n", own.display());
        let of_file = ClientProperties::read(&file(&directory, "a", &text, 0o644)).unwrap();
        let warning = format!(
            "{0} holds a secret and every user of this host can read it: chmod o= {0}",
            own.display()
        );
        assert_eq!((of_file.warnings(), of_file.tls.is_some()), (&[warning][..], true));
        let text = format!(
            "{base}ssl.keystore.certificate.chain={}\nssl.keystore.key={}\n",
            inline(CHAIN),
            inline(KEY)
        );
        let path = file(&directory, "b", &text, 0o644);
        let inline = ClientProperties::read(&path).unwrap();
        assert!(inline.tls.is_some() && inline.warnings().len() == 1, "{:?}", inline.warnings());
        assert!(inline.warnings()[0].starts_with(&path.display().to_string()));
    }

    #[test]
    fn warns_of_a_password_file_that_others_can_read() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n{JAAS}");
        for (mode, warnings) in [(0o600, 0), (0o640, 0), (0o644, 1)] {
            let read = ClientProperties::read(&file(&directory, "p", &text, mode)).unwrap();
            assert_eq!(read.warnings().len(), warnings, "{mode:o}");
        }
    }

    #[track_caller]
    fn assert_refused(text: &str, why: &str) {
        let error = read(text).unwrap_err();
        let message = error.split_once("client.properties: ").unwrap().1;
        assert!(message.starts_with(why), "{message}");
        assert!(!error.contains("secret") && !error.contains(char::is_control), "{error}");
    }

    #[test]
    fn refuses_unsupported_properties_with_a_reason() {
        let tls = format!(
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates={}\n",
            inline(CA)
        );
        assert_refused(
            "security.protocol=TLS",
            "security.protocol=TLS is not supported: use PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
        );
        assert_refused("security.protocol=SSL", "ssl.truststore.location is missing");
        assert_refused(
            "security.protocol=SSL\nssl.truststore.location=/x.jks",
            "ssl.truststore.type=JKS is not supported: use PEM; `keytool",
        );
        assert_refused(
            "security.protocol=SSL\nssl.truststore.location=/x\nssl.truststore.type=PKCS12",
            "ssl.truststore.type=PKCS12 is not supported",
        );
        assert_refused(
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates=x",
            "ssl.truststore: it has no certificate",
        );
        assert_refused(
            &format!("{tls}ssl.endpoint.identification.algorithm=LDAPS"),
            "ssl.endpoint.identification.algorithm=LDAPS is not supported",
        );
        assert_refused(&format!("{tls}ssl.keystore.location=/x"), "ssl.keystore.type=JKS is not supported");
        let own = format!("{tls}ssl.keystore.type=PEM\nssl.keystore.certificate.chain={}\n", inline(CHAIN));
        assert_refused(&own, "ssl.keystore: it has no PRIVATE KEY in PEM");
        assert_refused(
            &format!(
                "{own}ssl.keystore.key=-----BEGIN ENCRYPTED PRIVATE KEY-----AAAA-----END ENCRYPTED PRIVATE KEY-----"
            ),
            "ssl.keystore: a key of the kind ENCRYPTED PRIVATE KEY",
        );
        let others = include_str!("../../tests/data/broker.key");
        assert_refused(&format!("{own}ssl.keystore.key={}", inline(others)), "ssl.keystore: ");
        assert_refused(
            &format!("{tls}ssl.engine.factory.class=x"),
            "ssl.engine.factory.class is not supported",
        );
        assert_refused("config.providers=secret", "config.providers is not supported");
        assert_refused("bootstrap.servers=kafka", "bootstrap.servers=kafka is not supported");
        let sasl = "security.protocol=SASL_PLAINTEXT\n";
        assert_refused(&format!("{sasl}{JAAS}"), "sasl.mechanism=GSSAPI is not supported: use PLAIN,");
        assert_refused(&format!("{sasl}sasl.mechanism=OAUTHBEARER\n{JAAS}"), "sasl.mechanism=OAUTHBEARER");
        assert_refused(&format!("{sasl}sasl.mechanism=PLAIN"), "sasl.jaas.config is missing");
        assert_refused(&format!("{sasl}sasl.mechanism=PLAIN\nsasl.jaas.config=secret"), "sasl.jaas.config: ");
        let umlaut = JAAS.replace("secret", "secret\\u00fc");
        assert_refused(
            &format!("{sasl}sasl.mechanism=SCRAM-SHA-256\n{umlaut}"),
            "sasl.jaas.config: a user name or password",
        );
        read(&format!("{sasl}sasl.mechanism=PLAIN\n{umlaut}")).unwrap();
    }

    #[test]
    fn ignores_tls_version_limits_with_a_warning() {
        let text = format!(
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates={}\nssl.enabled.protocols=TLSv1.3\n",
            inline(CA)
        );
        let read = read(&text).unwrap();
        assert!(
            read.warnings().len() == 1
                && read.warnings()[0]
                    .ends_with("ssl.enabled.protocols is ignored: TLS 1.2 and 1.3 are spoken")
        );
    }

    #[test]
    fn missing_or_too_large_file_is_a_one_line_error() {
        let none = ClientProperties::read(Path::new("/no/such/file")).unwrap_err().to_string();
        assert!(none.starts_with("/no/such/file: "), "{none}");
        let large = "a".repeat((1 << 20) + 1);
        assert_refused(&large, "it is larger than 1048576 bytes");
    }
}
