//! Asks a listener the one question every Kafka broker answers: `ApiVersions`, version 0.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Enough for a broker that is there; a later attempt follows anyway.
const PATIENCE: Duration = Duration::from_secs(1);

/// `ApiVersionsRequest` v0 with a v1 header: size 10, api key 18, version 0, correlation id 7, no client id.
const QUESTION: [u8; 14] = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff];

/// Whether a Kafka broker answers on `address`: right correlation id, error code 0.
pub(super) fn answers(address: SocketAddr) -> bool {
    ask(address).is_ok_and(|[_, _, _, _, id @ .., high, low]| id == [0, 0, 0, 7] && (high, low) == (0, 0))
}

fn ask(address: SocketAddr) -> std::io::Result<[u8; 10]> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&QUESTION)?;
    let mut answer = [0; 10];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
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
    fn only_a_broker_s_answer_counts() {
        assert!(answered_with(&[0, 0, 0, 10, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0]));
        assert!(!answered_with(&[0, 0, 0, 10, 0, 0, 0, 7, 0, 35, 0, 0, 0, 0]));
        assert!(!answered_with(b"HTTP/1.1 400 Bad Request"));
        assert!(!answered_with(b"short"));
    }
}
