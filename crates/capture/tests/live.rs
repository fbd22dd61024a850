//! Live capture on this machine's loopback interface. Needs root (`CAP_NET_RAW`) and says so when it does
//! not run.
#![cfg(feature = "live")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use capture::link::{self, Flags};
use capture::{Live, LiveConfig};

const ENABLE: &str = "BROKERSCOPE_LIVE_TESTS";
const MESSAGES: [(&[u8], &[u8]); 3] =
    [(b"one", b"ONE"), (b"twenty-two", b"TWENTY-TWO"), (&[7; 40_000], b"x")];

/// A payload packet: who sent it, its sequence number, its bytes.
type Seen = (SocketAddr, u32, Vec<u8>);

fn is_enabled() -> bool {
    let enabled = std::env::var(ENABLE).as_deref() == Ok("1");
    if !enabled {
        eprintln!("NOT RUN: needs root and {ENABLE}=1");
    }
    enabled
}

/// Asks and answers over one connection; returns the client's address. Every message waits for its
/// answer, so that each is a packet of its own.
fn talk(listener: &TcpListener) -> SocketAddr {
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, address) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    for (question, answer) in MESSAGES {
        for (mut from, mut to, bytes) in [(&client, &server, question), (&server, &client, answer)] {
            from.write_all(bytes).unwrap();
            let mut got = vec![0; bytes.len()];
            to.read_exact(&mut got).unwrap();
        }
    }
    address
}

/// Captures until both sides' FIN were seen.
fn capture_all(live: &mut Live) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut fins = 0;
    let deadline = Instant::now() + Duration::from_secs(20);
    while fins < 2 {
        assert!(Instant::now() < deadline, "the connection's end was never captured; seen: {}", seen.len());
        live.next_packets(Duration::from_millis(100), &mut |packet| {
            let segment = link::segment(packet).expect("the filter lets only TCP through");
            assert_eq!(segment.missing, 0);
            fins += u32::from(segment.flags.has(Flags::FIN));
            if !segment.payload.is_empty() {
                seen.push((segment.src, segment.seq, segment.payload.to_vec()));
            }
        })
        .unwrap();
    }
    seen
}

fn sees_each_packet_once(interface: &str, address: &str) {
    let listener = TcpListener::bind(address).unwrap();
    let broker = listener.local_addr().unwrap();
    let config =
        LiveConfig { interface: interface.to_owned(), ports: vec![broker.port()], ..LiveConfig::default() };
    let mut live = Live::open(&config).expect("opening the live capture");
    let client = talk(&listener);
    let seen = capture_all(&mut live);
    let mut once = BTreeMap::new();
    for (src, seq, payload) in &seen {
        assert!(*src == client || *src == broker, "{src} is none of ours");
        assert!(once.insert((*src, *seq), payload).is_none(), "{src} seq {seq} was seen twice");
    }
    for (sender, is_client) in [(client, true), (broker, false)] {
        let said: Vec<u8> = seen
            .iter()
            .filter(|(src, ..)| *src == sender)
            .flat_map(|(_, _, payload)| payload.clone())
            .collect();
        let expected: Vec<u8> = MESSAGES
            .iter()
            .flat_map(|(question, answer)| if is_client { *question } else { *answer })
            .copied()
            .collect();
        assert!(
            said == expected,
            "{interface} {address}: {sender} said {} bytes, not {}",
            said.len(),
            expected.len()
        );
    }
    assert_eq!(live.drops().unwrap(), 0);
}

#[test]
fn each_packet_on_loopback_is_seen_exactly_once() {
    if is_enabled() {
        sees_each_packet_once("lo", "127.0.0.1:0");
        sees_each_packet_once("lo", "[::1]:0");
        sees_each_packet_once("any", "127.0.0.1:0");
    }
}

#[test]
fn an_unknown_interface_is_named_in_one_line() {
    if is_enabled() {
        let config = LiveConfig { interface: "nosuchif0".to_owned(), ..LiveConfig::default() };
        let error = Live::open(&config).err().expect("there is no such interface").to_string();
        assert!(error.contains("nosuchif0") && !error.contains('\n'), "{error}");
    }
}
