//! Live capture on this machine's loopback interface. Needs root (`CAP_NET_RAW`); says so if it does not run.
#![cfg(feature = "live")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use capture::link::{self, Flags};
use capture::{Analyzer, Config, Live, LiveConfig};

/// The frames that the library's own tests are made of.
#[allow(dead_code)]
#[path = "../src/tests/kafka.rs"]
mod kafka;

const ENABLE: &str = "BROKERSCOPE_LIVE_TESTS";
const MESSAGES: [(&[u8], &[u8]); 3] =
    [(b"one", b"ONE"), (b"twenty-two", b"TWENTY-TWO"), (&[7; 40_000], b"x")];

/// A packet with payload: its sender, sequence number and bytes.
type PacketCopy = (SocketAddr, u32, Vec<u8>);

fn is_enabled() -> bool {
    let enabled = std::env::var(ENABLE).as_deref() == Ok("1");
    if !enabled {
        eprintln!("NOT RUN: needs root and {ENABLE}=1");
    }
    enabled
}

/// Sends and answers messages over one connection; returns the client's address. Every message waits for its answer, so
/// that each is a separate packet.
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

/// Captures until the FINs of both sides have been captured.
fn capture_all(live: &mut Live) -> Vec<PacketCopy> {
    let mut seen = Vec::new();
    let mut fins = 0;
    let deadline = Instant::now() + Duration::from_secs(120);
    while fins < 2 {
        assert!(Instant::now() < deadline, "the connection's end was never captured; seen: {}", seen.len());
        live.next_packets(Duration::from_millis(100), &mut |packet, _| {
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
        let sent: Vec<u8> = seen
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
            sent == expected,
            "{interface} {address}: {sender} sent {} bytes, not {}",
            sent.len(),
            expected.len()
        );
    }
    assert_eq!(live.drops().unwrap(), 0);
}

#[test]
fn captures_each_loopback_packet_exactly_once() {
    if is_enabled() {
        sees_each_packet_once("lo", "127.0.0.1:0");
        sees_each_packet_once("lo", "[::1]:0");
        sees_each_packet_once("any", "127.0.0.1:0");
    }
}

/// Sends one request after the other over one connection. Each is answered before the next.
fn ask(listener: &TcpListener, exchanges: &[(Vec<u8>, Vec<u8>)]) {
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    for (question, answer) in exchanges {
        client.write_all(question).unwrap();
        server.read_exact(&mut vec![0; question.len()]).unwrap();
        server.write_all(answer).unwrap();
        client.read_exact(&mut vec![0; answer.len()]).unwrap();
    }
}

#[test]
fn snap_length_loses_only_later_partitions_and_rows_have_an_error() {
    if !is_enabled() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = vec![listener.local_addr().unwrap().port()];
    let config = LiveConfig {
        interface: "lo".to_owned(),
        ports: ports.clone(),
        snaplen: 512,
        ..LiveConfig::default()
    };
    let mut live = Live::open(&config).expect("opening the live capture");
    let mut analyzer = Analyzer::new(Config { ports, ..Config::default() });
    let (small, large) = (kafka::batch(1, 1, &[1; 40]), kafka::batch(2, 9, &vec![2; 20_000]));
    let answer = |id| kafka::produced(id, "topicA", [(2, 0, 100), (5, 0, 200)]);
    ask(
        &listener,
        &[
            // Both partitions start in the first 512 bytes of their packet.
            (kafka::produce(1, 1, "topicA", [&small, &large]), answer(1)),
            // The second does not.
            (kafka::produce(2, 1, "topicA", [&large, &small]), answer(2)),
            (kafka::small_request(3), kafka::response(3, &[0; 12])),
        ],
    );
    let mut rows = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(120);
    while rows.len() < 3 && Instant::now() < deadline {
        live.next_packets(Duration::from_millis(50), &mut |packet, _| {
            assert!(packet.bytes.len() <= 512, "{} bytes", packet.bytes.len());
            analyzer.packet(packet, &mut |row| rows.push(*row));
        })
        .unwrap();
    }
    let [whole, lacking, behind] = &rows[..] else { panic!("{rows:#?}") };
    assert_eq!((whole.error.as_deref(), whole.partitions.len()), (None, 2));
    assert_eq!(
        whole.partitions.iter().map(|of| (of.bytes, of.base_offset)).collect::<Vec<_>>(),
        [(small.len() as u32, Some(100)), (large.len() as u32, Some(200))]
    );
    assert!(lacking.error.is_some(), "{lacking:#?}");
    assert_eq!((lacking.correlation_id, lacking.end.is_some()), (2, true));
    assert_eq!((behind.correlation_id, behind.error.as_deref()), (3, None));
    assert_eq!(analyzer.counters().truncated_packets, 2);
    assert_eq!(live.drops().unwrap(), 0);
}

#[test]
fn unknown_interface_error_names_it_in_one_line() {
    if is_enabled() {
        let config = LiveConfig { interface: "nosuchif0".to_owned(), ..LiveConfig::default() };
        let error = Live::open(&config).err().expect("there is no such interface").to_string();
        assert!(error.contains("nosuchif0") && !error.contains('\n'), "{error}");
    }
}
