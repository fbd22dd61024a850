//! Checks that HTTP requests are answered while other clients are connected. The other clients may send anything.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::broker::{produce, request_event};
use super::{Scrape, about, exporter, exporter_of};
use crate::{BrokerInfo, Exporter, MetricsService, ProcessUsage, Server, SourceHealth};

/// Longer than any answer takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// Starts a service that runs until the process ends.
fn serve() -> (SocketAddr, Arc<MetricsService>) {
    serve_exporter(exporter())
}

fn serve_exporter(exporter: Exporter) -> (SocketAddr, Arc<MetricsService>) {
    serve_with(exporter, || ProcessUsage { resident_bytes: Some(7), ..ProcessUsage::default() })
}

fn serve_with(
    exporter: Exporter,
    own: impl Fn() -> ProcessUsage + Send + Sync + 'static,
) -> (SocketAddr, Arc<MetricsService>) {
    let site = Arc::new(MetricsService::new(exporter, Box::new(own)));
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let (address, shared) = (server.address, Arc::clone(&site));
    std::thread::spawn(move || server.serve(&shared));
    (address, site)
}

fn send(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // A server that stops reading has already answered.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn get(address: SocketAddr, path: &str, accept: &str) -> (String, String) {
    let answer =
        send(address, format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n").as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").expect(&answer);
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    assert_eq!(length, body.len().to_string());
    (head.to_owned(), body.to_owned())
}

#[test]
fn serves_metrics_in_the_accepted_format() {
    let (address, site) = serve();
    site.feed(|exporter| exporter.push(request_event(produce(1, "orders", 1_000, 1_020))));
    let (head, body) = get(address, "/metrics", "text/plain");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("text/plain; version=0.0.4"), "{head}");
    let metrics = Scrape::of(&body);
    assert_eq!(metrics.of_series("requests_total{api=\"PRODUCE\"}"), 1.0);
    assert!(body.contains("\nprocess_resident_memory_bytes 7\n"), "{body}");
    let (head, body) = get(address, "/metrics?x=y", "application/openmetrics-text");
    assert!(head.contains("openmetrics-text; version=1.0.0") && body.ends_with("# EOF\n"), "{head}");
    // A second scrape right away gets the same output, at almost no cost.
    let again = get(address, "/metrics", "text/plain").1;
    let scrapes = |body: &str| {
        body.lines().find(|line| line.starts_with("brokerscope_scrapes_total")).map(str::to_owned)
    };
    assert!(scrapes(&again).is_some());
}

#[test]
fn serves_health_and_readiness() {
    let (address, site) = serve();
    assert!(get(address, "/healthz", "").0.starts_with("HTTP/1.1 200 "));
    let (head, body) = get(address, "/readyz", "");
    assert!(head.starts_with("HTTP/1.1 503 ") && body == "starting\n", "{head} {body}");
    site.set_ready(Ok(()));
    assert!(get(address, "/readyz", "").0.starts_with("HTTP/1.1 200 "));
    assert!(get(address, "/", "").1.contains("/metrics"));
    assert!(get(address, "/etc/passwd", "").0.starts_with("HTTP/1.1 404 "));
}

#[test]
fn readiness_and_metrics_report_a_source_that_is_down() {
    let source = |purpose: &str, down: Option<&str>| SourceHealth {
        purpose: purpose.to_owned(),
        down: down.map(str::to_owned),
        last_event: Some(super::ms(1_500)),
    };
    let sources = vec![source("requests", None), source("file-writes", Some("its thread panicked"))];
    let own = ProcessUsage { sources, ..ProcessUsage::default() };
    let (address, site) = serve_with(exporter(), move || own.clone());
    site.set_ready(Ok(()));
    let (head, body) = get(address, "/readyz", "");
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    assert_eq!(body, "file-writes is not seen: its thread panicked\n");
    let metrics = Scrape::of(&get(address, "/metrics", "text/plain").1);
    assert_eq!(metrics.of_series("source_up{purpose=\"requests\"}"), 1.0);
    assert_eq!(metrics.of_series("source_up{purpose=\"file-writes\"}"), 0.0);
    assert_eq!(metrics.of_series("source_last_event_timestamp_seconds{purpose=\"requests\"}"), 1.5);
}

#[test]
fn accepts_head_and_refuses_post() {
    let (address, _site) = serve();
    let post = send(address, b"POST /metrics HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}");
    assert!(post.starts_with("HTTP/1.1 405 "), "{post}");
    let head = send(address, b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn refuses_malformed_requests_while_silent_clients_are_connected() {
    let (address, _site) = serve();
    // Fewer silent clients than there are slots.
    let silent: Vec<_> = (0..12).map(|_| TcpStream::connect(address).unwrap()).collect();
    let endless = [b"GET /metrics HTTP/1.1\r\nA: ".as_slice(), &vec![b'a'; 100_000]].concat();
    for nonsense in
        [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".as_slice(), b"\r\n\r\nx\r\n", &endless]
    {
        let answer = send(address, nonsense);
        // Unread data may cause a reset of the connection before the answer is read.
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    assert!(get(address, "/metrics", "").0.starts_with("HTTP/1.1 200 "));
    drop(silent);
}

/// An exporter whose output is larger than what the sockets on both sides buffer.
fn large_exporter() -> Exporter {
    let mut exporter = exporter_of(BrokerInfo { top_topics: 400, ..about() });
    for topic in 0..400 {
        exporter.push(request_event(produce(1, &format!("{topic:0200}"), 1_000, 1_020)));
    }
    exporter
}

/// A client at an address of the loopback network, with a tiny receive buffer.
fn connect_from(host: u32, to: SocketAddr) -> TcpStream {
    let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    set_socket_recv_buffer_size(&client, 4_096).unwrap();
    bind(&client, &SocketAddrV4::new(Ipv4Addr::from(0x7f00_0001 + host), 0)).unwrap();
    connect(&client, &to).unwrap();
    client.into()
}

#[test]
fn silent_and_slow_clients_do_not_block_scrapes() {
    let limit = getrlimit(Resource::Nofile);
    let enough = limit.current.map(|current| current.max(8_192));
    setrlimit(Resource::Nofile, Rlimit { current: enough, ..limit }).unwrap();
    // All clients at the scraper's own address, then at many.
    for hosts in [1, 250] {
        let (address, _site) = serve_exporter(large_exporter());
        let slow: Vec<_> = (0..200).map(|n| connect_from(n % hosts, address)).collect();
        for mut client in &slow {
            // The first of them may already be closed.
            let _ = client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
        }
        let silent: Vec<_> = (0..2_000).map(|n| connect_from(n % hosts, address)).collect();
        for path in ["/metrics", "/healthz", "/metrics", "/", "/metrics"] {
            let start = Instant::now();
            assert!(get(address, path, "").0.starts_with("HTTP/1.1 200 "), "{path}");
            assert!(start.elapsed() < PATIENCE, "{path} took {:?}", start.elapsed());
        }
        drop((slow, silent));
    }
}

#[test]
fn incomplete_request_times_out() {
    let (address, _site) = serve();
    let (mut silent, connected) = (TcpStream::connect(address).unwrap(), Instant::now());
    silent.write_all(b"GET /metrics").unwrap();
    // Closed, whether or not the server read the data.
    assert_eq!(silent.read(&mut [0]).unwrap_or(0), 0);
    let (least, most) = (Duration::from_millis(250), Duration::from_millis(1_500));
    assert!((least..most).contains(&connected.elapsed()), "{:?}", connected.elapsed());
}

#[test]
fn hanging_feeding_thread_does_not_block_answers() {
    let (address, site) = serve();
    let (hangs, is_hanging) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let feeding = std::thread::spawn(move || {
        site.feed(|_| {
            hangs.send(()).unwrap();
            released.recv()
        })
    });
    is_hanging.recv().unwrap();
    assert!(get(address, "/metrics", "").0.starts_with("HTTP/1.1 503 "));
    assert!(get(address, "/healthz", "").0.starts_with("HTTP/1.1 200 "), "it has not hung for long");
    release.send(()).unwrap();
    feeding.join().unwrap().unwrap();
    assert!(get(address, "/metrics", "").0.starts_with("HTTP/1.1 200 "));
}

#[test]
fn bind_error_names_the_address_in_use() {
    let (address, _site) = serve();
    let error = Server::bind(address).unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}
