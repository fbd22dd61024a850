//! What carries a client's requests: a TCP socket, alone or beneath TLS.

use std::collections::VecDeque;
use std::io::{Error, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};

/// Where a broker listens, and whether it speaks TLS there.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// The listener's address.
    pub address: SocketAddr,
    /// Whether its protocol is `SSL` and not `PLAINTEXT`.
    pub is_tls: bool,
}

impl From<SocketAddr> for Endpoint {
    /// One in plaintext.
    fn from(address: SocketAddr) -> Self {
        Self { address, is_tls: false }
    }
}

/// A connection's two ends of a stream. Like a socket it is read and written through a shared reference, by two threads at the
/// same time.
#[derive(Debug)]
pub struct Transport {
    socket: TcpStream,
    tls: Option<Arc<Mutex<Session>>>,
}

/// What TLS knows of a connection.
#[derive(Debug)]
struct Session {
    tls: ClientConnection,
    /// Decrypted, and not yet read: rustls takes no more while it has one record of the largest size itself.
    received: VecDeque<u8>,
}

impl Session {
    /// Decrypts what came from the socket.
    fn take(&mut self, mut encrypted: &[u8]) -> Result<()> {
        // It reads nothing more where the other side has said that it ends.
        while !encrypted.is_empty() && self.tls.read_tls(&mut encrypted)? > 0 {
            let state = self.tls.process_new_packets().map_err(Error::other)?;
            let mut bytes = vec![0; state.plaintext_bytes_to_read()];
            self.tls.reader().read_exact(&mut bytes)?;
            self.received.extend(bytes);
        }
        Ok(())
    }

    /// Encrypts what is to be sent.
    fn encrypt(&mut self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut encrypted = Vec::new();
        self.tls.writer().write_all(bytes)?;
        while self.tls.wants_write() {
            self.tls.write_tls(&mut encrypted)?;
        }
        Ok(encrypted)
    }
}

/// Read from the socket at once: small, so that a client that reads slowly leaves the rest to the broker.
const READ_BYTES: usize = 4096;

impl Transport {
    /// On a socket that is connected to this endpoint; shakes hands where it speaks TLS.
    ///
    /// # Errors
    /// It cannot shake hands.
    pub fn open(mut socket: TcpStream, endpoint: Endpoint) -> Result<Self> {
        if !endpoint.is_tls {
            return Ok(Self { socket, tls: None });
        }
        let name = ServerName::from(endpoint.address.ip());
        let mut tls = ClientConnection::new(Arc::clone(&CONFIG), name).map_err(Error::other)?;
        // A batch of some MiB is encrypted in one go.
        tls.set_buffer_limit(None);
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        Ok(Self { socket, tls: Some(Arc::new(Mutex::new(Session { tls, received: VecDeque::new() }))) })
    }

    /// To wait for.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Reads at least something of what the socket has, and hands over all that it means; false at its end. Nothing is kept, so
    /// that one who waits for the socket misses nothing.
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

    /// Decrypts what the socket has next; false at its end.
    fn receive(&self, session: &Mutex<Session>) -> Result<bool> {
        let mut bytes = [0; READ_BYTES];
        // Without the lock: the other thread may have something to send meanwhile.
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
    /// As one or more records of TLS, all of them sent when it returns. One thread of a connection writes.
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let Some(session) = &self.tls else { return (&self.socket).write(bytes) };
        let encrypted = lock(session).encrypt(bytes)?;
        // Without the lock: the reader goes on while the broker takes nothing.
        (&self.socket).write_all(&encrypted)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Of every client: it has no certificate, and trusts any broker.
static CONFIG: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(AnyBroker(Arc::clone(&provider)));
    #[expect(clippy::expect_used, reason = "the provider has cipher suites of both versions")]
    let versions = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3");
    Arc::new(versions.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
});

/// Accepts every certificate. The lab has started the broker itself, on this machine, with a key that it made a moment ago and
/// whose certificate names no host: there is nobody to be protected from.
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

    /// An Ed25519 key (RFC 8410) of nobody, and a certificate that is none: nobody looks at it.
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

    /// A client of a server that does this with its end.
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
    fn one_thread_reads_while_another_is_stuck_in_a_write() {
        const BYTES: usize = 24 << 20;
        // It takes more from nobody before what it has is taken: neither socket's buffers hold all.
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
    fn records_of_any_size_are_read_in_any_pieces() {
        const BYTES: usize = 4 << 20;
        let sent: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
        let expected = sent.clone();
        let (client, server) = client_of(move |mut stream| {
            // Small ones end in the same read as the largest there are.
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
    fn each_write_leaves_as_a_record_and_the_end_is_an_end() {
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
