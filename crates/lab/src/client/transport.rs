//! Transport of a client's requests: a TCP socket, with or without TLS.

use std::collections::VecDeque;
use std::io::{Error, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};

/// A broker's listener, and whether it speaks TLS.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// The listener's address.
    pub address: SocketAddr,
    /// Whether its protocol is `SSL` and not `PLAINTEXT`.
    pub is_tls: bool,
}

impl From<SocketAddr> for Endpoint {
    /// Makes a plaintext endpoint.
    fn from(address: SocketAddr) -> Self {
        Self { address, is_tls: false }
    }
}

/// Both directions of a connection. Like a socket, it is read and written through a shared reference, by two threads at
/// the same time.
#[derive(Debug)]
pub struct Transport {
    socket: TcpStream,
    tls: Option<Arc<Mutex<Session>>>,
}

/// TLS state of a connection.
#[derive(Debug)]
struct Session {
    tls: ClientConnection,
    /// Decrypted but not yet read: rustls takes no more while it holds one record of the largest size.
    received: VecDeque<u8>,
}

impl Session {
    /// Decrypts bytes from the socket.
    fn take(&mut self, mut encrypted: &[u8]) -> Result<()> {
        // It reads nothing more after the peer has closed.
        while !encrypted.is_empty() && self.tls.read_tls(&mut encrypted)? > 0 {
            let state = self.tls.process_new_packets().map_err(Error::other)?;
            let mut bytes = vec![0; state.plaintext_bytes_to_read()];
            self.tls.reader().read_exact(&mut bytes)?;
            self.received.extend(bytes);
        }
        Ok(())
    }

    /// Encrypts bytes to send.
    fn encrypt(&mut self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut encrypted = Vec::new();
        self.tls.writer().write_all(bytes)?;
        while self.tls.wants_write() {
            self.tls.write_tls(&mut encrypted)?;
        }
        Ok(encrypted)
    }
}

/// Bytes per read of the socket: few, so that a client that reads slowly leaves the rest to the broker.
const READ_BYTES: usize = 4096;

impl Transport {
    /// Wraps a socket connected to this endpoint; does the handshake for TLS.
    ///
    /// # Errors
    /// The handshake failed.
    pub fn open(mut socket: TcpStream, endpoint: Endpoint) -> Result<Self> {
        if !endpoint.is_tls {
            return Ok(Self { socket, tls: None });
        }
        let name = ServerName::from(endpoint.address.ip());
        let mut tls = ClientConnection::new(Arc::clone(&CONFIG), name).map_err(Error::other)?;
        // A batch of some MiB is encrypted at once.
        tls.set_buffer_limit(None);
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        Ok(Self { socket, tls: Some(Arc::new(Mutex::new(Session { tls, received: VecDeque::new() }))) })
    }

    /// The socket, to poll it.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Reads at least some of what the socket has, and passes on all of its plaintext; returns false at the end. Keeps
    /// nothing back, so that polling the socket misses nothing.
    ///
    /// # Errors
    /// The connection failed.
    pub fn read_available(&self, into: &mut Vec<u8>) -> Result<bool> {
        let Some(session) = &self.tls else {
            let mut bytes = [0; READ_BYTES];
            let length = (&self.socket).read(&mut bytes)?;
            into.extend_from_slice(bytes.get(..length).unwrap_or_default());
            return Ok(length > 0);
        };
        let is_open = self.receive(session)?;
        into.extend(lock(session).received.drain(..));
        Ok(is_open)
    }

    /// Another handle on the same connection.
    pub(super) fn try_clone(&self) -> Result<Self> {
        Ok(Self { socket: self.socket.try_clone()?, tls: self.tls.clone() })
    }

    /// Decrypts what the socket has next; returns false at its end.
    fn receive(&self, session: &Mutex<Session>) -> Result<bool> {
        let mut bytes = [0; READ_BYTES];
        // Without the lock: the other thread may need to send meanwhile.
        let length = (&self.socket).read(&mut bytes)?;
        lock(session).take(bytes.get(..length).unwrap_or_default())?;
        Ok(length > 0)
    }
}

fn lock(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Read for &Transport {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let Some(session) = &self.tls else { return (&self.socket).read(into) };
        while lock(session).received.is_empty() && self.receive(session)? {}
        lock(session).received.read(into)
    }
}

impl Write for &Transport {
    /// Writes one or more TLS records, and returns when all are sent. Only one thread of a connection writes.
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let Some(session) = &self.tls else { return (&self.socket).write(bytes) };
        let encrypted = lock(session).encrypt(bytes)?;
        // Without the lock: the reader can continue while the broker reads nothing.
        (&self.socket).write_all(&encrypted)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Configuration of every client: it has no certificate, and trusts any broker.
static CONFIG: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(AnyBroker(Arc::clone(&provider)));
    #[expect(clippy::expect_used, reason = "the provider has cipher suites of both versions")]
    let versions = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3");
    Arc::new(versions.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
});

/// Accepts every certificate. The lab has started the broker itself, on this machine, with a key that it has just made
/// and whose certificate names no host: there is no attacker to protect against.
#[derive(Debug)]
struct AnyBroker(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyBroker {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;
    use std::time::Duration;

    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use rustls::sign::{CertifiedKey, SingleCertAndKey};
    use rustls::{ServerConfig, ServerConnection, StreamOwned};

    use super::*;

    /// A server's configuration with an arbitrary Ed25519 key (RFC 8410). Its certificate is invalid, and is never
    /// checked.
    fn server() -> ServerConfig {
        let key =
            [b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20", &[7; 32][..]].concat();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key));
        let key = ring::sign::any_supported_type(&key).unwrap();
        let certified = CertifiedKey::new(vec![CertificateDer::from(b"lab".to_vec())], key);
        ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
    }

    /// A client of a server that runs `serve` on its end.
    fn client_of(
        serve: impl FnOnce(StreamOwned<ServerConnection, TcpStream>) + Send + 'static,
    ) -> (Transport, thread::JoinHandle<()>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let endpoint = Endpoint { address: listener.local_addr().unwrap(), is_tls: true };
        let server = thread::spawn(move || {
            let (socket, _) = listener.accept().unwrap();
            serve(StreamOwned::new(ServerConnection::new(Arc::new(server())).unwrap(), socket));
        });
        let socket = TcpStream::connect(endpoint.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        (Transport::open(socket, endpoint).unwrap(), server)
    }

    #[test]
    fn one_thread_reads_while_another_blocks_in_a_write() {
        const BYTES: usize = 24 << 20;
        // The server reads no more until its bytes are read: neither socket's buffers hold everything.
        let (client, server) = client_of(|mut stream| {
            let mut bytes = vec![0; 64 << 10];
            let mut left = BYTES;
            while left > 0 {
                let length = stream.read(&mut bytes).unwrap();
                stream.write_all(bytes.get(..length).unwrap()).unwrap();
                left -= length;
            }
        });
        let reader = client.try_clone().unwrap();
        let sent: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
        let expected = sent.clone();
        let writer = thread::spawn(move || (&client).write_all(&sent).unwrap());
        let mut received = vec![0; BYTES];
        (&reader).read_exact(&mut received).unwrap();
        writer.join().unwrap();
        server.join().unwrap();
        assert!(received == expected, "other bytes came back");
    }

    #[test]
    fn reads_tls_records_of_any_size() {
        const BYTES: usize = 4 << 20;
        let sent: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
        let expected = sent.clone();
        let (client, server) = client_of(move |mut stream| {
            // Small records end in the same read as the largest ones.
            for pair in sent.chunks(16_384 + 100) {
                pair.chunks(16_384).for_each(|piece| stream.write_all(piece).unwrap());
            }
        });
        let mut received = Vec::new();
        let mut piece = vec![0; 60_000];
        while let length @ 1.. = (&client).read(&mut piece).unwrap() {
            received.extend_from_slice(piece.get(..length).unwrap());
        }
        server.join().unwrap();
        assert!(received == expected, "{} of {BYTES} bytes came, or others", received.len());
    }

    #[test]
    fn sends_each_write_as_a_record_and_reads_until_close() {
        let (client, server) = client_of(|mut stream| {
            let mut bytes = [0; 16];
            assert_eq!(stream.read(&mut bytes).unwrap(), 2);
            stream.write_all(b"abc").unwrap();
        });
        (&client).write_all(b"12").unwrap();
        let mut all = Vec::new();
        (&client).read_to_end(&mut all).unwrap();
        server.join().unwrap();
        assert_eq!(all, b"abc");
    }
}
