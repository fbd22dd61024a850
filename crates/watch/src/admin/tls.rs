//! TLS like Kafka's clients: which certificates are trusted, which name they must have, and the errors if not. Does not check
//! revocation, like Kafka by default. Does not connect. Not fuzzed: rustls reads what a broker sends.

use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::{Error, shorten};

/// Names of a certificate that an error lists.
const MAX_NAMES: usize = 4;

/// A client's own key and its certificate chain, the client's certificate first.
pub(super) struct ClientKey {
    pub(super) chain: Vec<Vec<u8>>,
    pub(super) pkcs8: Vec<u8>,
}

/// Builds the configuration for brokers that these certificates vouch for.
///
/// # Errors
/// What is wrong with the certificates or the key.
pub(super) fn config(
    trusted: Vec<Vec<u8>>,
    checks_name: bool,
    own: Option<ClientKey>,
) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let verifier = Arc::new(Truststore::new(trusted, checks_name, algorithms)?);
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.map_err(|error| error.to_string())?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(ClientKey { chain, pkcs8 }) => {
            let chain = chain.into_iter().map(CertificateDer::from).collect();
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pkcs8));
            let builder = builder.with_client_auth_cert(chain, key);
            builder.map_err(|error| format!("ssl.keystore: {error}"))?
        }
    };
    // There is only one connection.
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Trusts the same as Java clients: certificates in the truststore, and certificates that those signed.
#[derive(Debug)]
struct Truststore {
    certificates: Vec<CertificateDer<'static>>,
    roots: RootCertStore,
    checks_name: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Truststore {
    fn new(
        trusted: Vec<Vec<u8>>,
        checks_name: bool,
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Result<Self, String> {
        let certificates: Vec<_> = trusted.into_iter().map(CertificateDer::from).collect();
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            let added = roots.add(certificate.clone());
            added.map_err(|error| format!("ssl.truststore: a certificate cannot be read: {error}"))?;
        }
        Ok(Self { certificates, roots, checks_name, algorithms })
    }
}

impl ServerCertVerifier for Truststore {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        // As in Java, a broker's own certificate may be in the truststore, even if it claims to be an authority.
        if !self.certificates.iter().any(|trusted| trusted == end_entity) {
            let algorithms = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, algorithms)?;
        }
        if self.checks_name {
            verify_server_name(&parsed, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Converts an error of TLS; returns other errors unchanged.
pub(super) fn explain(listener: &str, source: io::Error) -> Result<Error, io::Error> {
    let listener = listener.to_owned();
    let of_tls = source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match of_tls {
        Some(rustls::Error::InvalidCertificate(error)) => {
            Ok(Error::Certificate { listener, why: distrust(error) })
        }
        // Which alert the broker sends depends on its JDK.
        Some(rustls::Error::AlertReceived(alert)) => {
            Ok(Error::Alert { listener, alert: format!("{alert:?}") })
        }
        Some(other) => Ok(Error::Tls { listener, why: shorten(&other.to_string()) }),
        None => Err(source),
    }
}

/// Strips rustls's notation from a name: `DnsName("kafka-1")` becomes `kafka-1`.
fn bare_name(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, inner)| inner.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

fn distrust(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => "no certificate in ssl.truststore has signed it".to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<_> =
                presented.iter().take(MAX_NAMES).map(|name| shorten(bare_name(name))).collect();
            let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
            format!("it is for {names}, not for {}", shorten(&expected.to_str()))
        }
        other => shorten(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use broker::Listener;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
    use rustls::server::WebPkiClientVerifier;
    use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

    use super::super::connection::{Connection, Tls};
    use super::super::{Error, pem};
    use super::{ClientKey, config, ring};

    const CA: &str = include_str!("../../tests/data/ca.pem");
    const BROKER: (&str, &str) =
        (include_str!("../../tests/data/broker.pem"), include_str!("../../tests/data/broker.key"));
    /// A self-signed certificate that claims to be an authority.
    const ALONE: (&str, &str) =
        (include_str!("../../tests/data/alone.pem"), include_str!("../../tests/data/alone.key"));

    fn der(pem: &str) -> Vec<u8> {
        pem::sections(pem).unwrap().remove(0).der
    }

    fn server((certificate, key): (&str, &str), clients: Option<&str>) -> Arc<ServerConfig> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(trusted) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from(der(trusted))).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der(key)));
        Arc::new(builder.with_single_cert(vec![CertificateDer::from(der(certificate))], key).unwrap())
    }

    /// Answers one frame with a frame of four bytes.
    fn serve(mut stream: StreamOwned<ServerConnection, TcpStream>) {
        use std::io::{Read as _, Write as _};
        let mut frame = [0; 8];
        if stream.read_exact(&mut frame).is_ok() {
            stream.write_all(&[0, 0, 0, 4, 1, 2, 3, 4]).unwrap();
        }
        // Wait for the client's alert.
        let _ = stream.read(&mut frame);
    }

    fn ask(
        of: Arc<ServerConfig>,
        trusted: &str,
        name: Option<&str>,
        own: Option<ClientKey>,
    ) -> Result<Vec<u8>, Error> {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (stream, _) = socket.accept().unwrap();
            serve(StreamOwned::new(ServerConnection::new(of).unwrap(), stream));
        });
        let listener =
            Listener { name: "SSL".to_owned(), host: String::new(), port, controller: false, tls: true };
        let config = Arc::new(config(vec![der(trusted)], name.is_some(), own).unwrap());
        let tls = Tls { config, server_name: name.unwrap_or("not a name").to_owned() };
        let end = Instant::now() + Duration::from_secs(20);
        let answer = Connection::open(&listener, Some(tls), end).unwrap().exchange(&[0, 0, 0, 4, 9, 9, 9, 9]);
        server.join().unwrap();
        answer
    }

    /// A broker that never completes a TLS record, but sends a byte now and then.
    #[test]
    fn trickling_broker_times_out_at_the_deadline() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            use std::io::Write as _;
            let (mut stream, _) = socket.accept().unwrap();
            let mut record = [0x16, 3, 3, 0x40, 0].into_iter().chain(std::iter::repeat(2));
            while stream.write_all(&[record.next().unwrap()]).is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let listener =
            Listener { name: "SSL".to_owned(), host: String::new(), port, controller: false, tls: true };
        let config = Arc::new(config(vec![der(CA)], true, None).unwrap());
        let tls = Tls { config, server_name: "kafka-1".to_owned() };
        let end = Instant::now() + Duration::from_millis(500);
        let error = Connection::open(&listener, Some(tls), end).unwrap().exchange(&[0]).unwrap_err();
        assert!(matches!(error, Error::Silent { .. }), "{error}");
        server.join().unwrap();
    }

    #[track_caller]
    fn assert_distrusted(answer: Result<Vec<u8>, Error>, expected: &str) {
        let error = answer.unwrap_err();
        assert!(matches!(&error, Error::Certificate { why, .. } if why == expected), "{error}");
    }

    #[test]
    fn trusts_a_certificate_by_its_authority_and_name() {
        let broker = || server(BROKER, None);
        assert_eq!(ask(broker(), CA, Some("kafka-1"), None).unwrap(), [1, 2, 3, 4]);
        ask(broker(), CA, Some("b.kafka.example"), None).unwrap();
        assert_distrusted(
            ask(broker(), CA, Some("kafka-2"), None),
            "it is for kafka-1, *.kafka.example, not for kafka-2",
        );
        assert_distrusted(
            ask(broker(), CA, Some("10.0.0.1"), None),
            "it is for kafka-1, *.kafka.example, not for 10.0.0.1",
        );
        assert_distrusted(
            ask(broker(), CA, Some("not a name"), None),
            "it is for kafka-1, *.kafka.example, not for 0.0.0.0",
        );
        // Only the name is not checked.
        ask(broker(), CA, None, None).unwrap();
        let unknown = "no certificate in ssl.truststore has signed it";
        assert_distrusted(ask(broker(), ALONE.0, None, None), unknown);
        assert_distrusted(ask(broker(), ALONE.0, Some("kafka-1"), None), unknown);
    }

    #[test]
    fn trusts_a_certificate_that_is_in_the_truststore() {
        for (own, name) in [(ALONE, "kafka-1"), (BROKER, "kafka-1")] {
            ask(server(own, None), own.0, Some(name), None).unwrap();
            let answer = ask(server(own, None), own.0, Some("kafka-2"), None);
            assert!(matches!(answer, Err(Error::Certificate { .. })));
        }
    }

    #[test]
    fn sends_the_client_certificate_that_a_broker_requires() {
        let broker = || server(BROKER, Some(CA));
        let of = |(chain, key): (&str, &str)| Some(ClientKey { chain: vec![der(chain)], pkcs8: der(key) });
        let without = ask(broker(), CA, Some("kafka-1"), None).unwrap_err();
        assert!(
            matches!(&without, Error::Alert { alert, .. } if alert == "CertificateRequired"),
            "{without}"
        );
        assert_eq!(ask(broker(), CA, Some("kafka-1"), of(BROKER)).unwrap(), [1, 2, 3, 4]);
        let unknown = ask(broker(), CA, Some("kafka-1"), of(ALONE)).unwrap_err();
        assert!(matches!(&unknown, Error::Alert { .. }), "{unknown}");
    }
}
