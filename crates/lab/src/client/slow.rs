//! Clients that are slow on purpose: bytes that trickle out, responses that are read a little at a time.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::error::Error;

/// Connects with a receive buffer of about so many bytes: set before connecting, so that the window offered is small
/// from the start (tcp(7)).
pub(crate) fn connect_with_small_window(address: SocketAddr, bytes: usize) -> Result<TcpStream, Error> {
    let connect = || -> rustix::io::Result<TcpStream> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
        rustix::net::connect(&socket, &address)?;
        Ok(TcpStream::from(socket))
    };
    connect().map_err(|error| Error::system(&format!("connect to the broker on {address}"))(error.into()))
}

/// Writes `bytes` in so many pieces, so that the last leaves `time` after the first.
pub(crate) fn trickle(mut to: &TcpStream, bytes: &[u8], pieces: u32, time: Duration) -> Result<(), Error> {
    let pieces = (pieces as usize).clamp(2, bytes.len().max(2));
    let pause = time / (pieces as u32 - 1);
    for (number, piece) in bytes.chunks(bytes.len().div_ceil(pieces).max(1)).enumerate() {
        if number > 0 {
            thread::sleep(pause);
        }
        to.write_all(piece).map_err(Error::system("trickle a request"))?;
    }
    Ok(())
}

/// Reads one response, `piece` bytes at a time with a pause after each; returns its size.
pub(crate) fn sip(mut from: &TcpStream, piece: usize, pause: Duration) -> Result<usize, Error> {
    let doing = || Error::system("read a response slowly");
    let mut size = [0; 4];
    from.read_exact(&mut size).map_err(doing())?;
    let size = u32::from_be_bytes(size) as usize;
    let mut sip = vec![0; piece.max(1)];
    let mut left = size;
    while left > 0 {
        let wanted = left.min(sip.len());
        let read = from.read(sip.get_mut(..wanted).unwrap_or_default()).map_err(doing())?;
        if read == 0 {
            return Err(Error::Unusable("the broker hung up within a response".to_owned()));
        }
        left -= read;
        thread::sleep(pause);
    }
    Ok(size)
}

/// Waits until the broker has closed the connection.
pub(crate) fn wait_for_close(mut from: &TcpStream) -> Result<(), Error> {
    let mut rest = [0; 4096];
    loop {
        match from.read(&mut rest) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(Error::system("wait for a broker to hang up")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_trickles_arrives_whole_and_late() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sent: Vec<u8> = (0..101).collect();
        let expected = sent.clone();
        let writer = thread::spawn(move || {
            let stream = TcpStream::connect(address).unwrap();
            trickle(&stream, &sent, 7, Duration::from_millis(60)).unwrap();
        });
        let (mut stream, _) = listener.accept().unwrap();
        let started = Instant::now();
        let mut read = Vec::new();
        stream.read_to_end(&mut read).unwrap();
        writer.join().unwrap();
        assert_eq!(read, expected);
        assert!(started.elapsed() >= Duration::from_millis(40));
    }

    #[test]
    fn a_response_is_read_to_its_end_and_no_further() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let writer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(&[0, 0, 0, 5, 1, 2, 3, 4, 5, 99]).unwrap();
        });
        let mut stream = connect_with_small_window(address, 4096).unwrap();
        assert_eq!(sip(&stream, 2, Duration::ZERO).unwrap(), 5);
        let mut next = [0];
        stream.read_exact(&mut next).unwrap();
        assert_eq!(next, [99]);
        writer.join().unwrap();
    }
}
