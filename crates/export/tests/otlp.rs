//! Sends verdicts on the sample to a collector in the test. The collector hangs up, asks for a retry, or refuses.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use diagnose::{Config, Engine};
use model::{Nanos, Verdict};
use recording::Recording;
use serde_json::Value as Json;

use export::otlp::{Options, Otlp, Resource, RetryPolicy};

const LONG: Duration = Duration::from_secs(60);
const TAKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
const LATER: &str = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
const NEVER: &str = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
const HANGS_UP: &str = "";

/// A collector that gives these answers in turn. Keeps the bodies that it accepted.
struct Collector {
    address: SocketAddr,
    accepted: Arc<Mutex<Vec<Json>>>,
    request_lines: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    fn start(answers: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (accepted, request_lines) =
            (Arc::<Mutex<Vec<Json>>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let stop = Arc::new(AtomicBool::new(false));
        let (bodies, lines, stopped) = (Arc::clone(&accepted), Arc::clone(&request_lines), Arc::clone(&stop));
        let serve = move || {
            for (connection, answer) in listener.incoming().zip(answers.iter().cycle()) {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let mut connection = connection.unwrap();
                let (line, body) = read(&connection);
                lines.lock().unwrap().push(line);
                if *answer == TAKEN {
                    bodies.lock().unwrap().push(body);
                }
                // Stored before the answer, because the client may check the bodies after it.
                connection.write_all(answer.as_bytes()).unwrap();
            }
        };
        Self { address, accepted, request_lines, stop, thread: Some(std::thread::spawn(serve)) }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn spans(&self) -> Vec<Json> {
        let accepted = self.accepted.lock().unwrap();
        let of = |body: &Json| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
        accepted.iter().flat_map(of).collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        let ended = self.thread.take().unwrap().join();
        assert!(std::thread::panicking() || ended.is_ok());
    }
}

/// The first line of a request and its body.
fn read(connection: &TcpStream) -> (String, Json) {
    let mut reader = BufReader::new(connection);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let length = lines.iter().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    assert!(lines.contains(&"Content-Type: application/json".to_owned()), "{lines:?}");
    (lines.swap_remove(0), serde_json::from_slice(&body).unwrap())
}

fn verdicts() -> Vec<Verdict> {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/journal-stall");
    let mut engine = Engine::new(Config::replay(Nanos::from_millis(100)));
    for event in Recording::open(&sample).unwrap().events() {
        engine.push(event.unwrap());
    }
    engine.finish();
    engine.take_verdicts()
}

fn source() -> Resource {
    Resource { host: "kafka-1".to_owned(), broker_id: Some("7".to_owned()), version: "0.1.0".to_owned() }
}

fn options(traces_per_second: usize) -> Options {
    let quick = Duration::from_millis(1);
    let retry = RetryPolicy { answer: LONG, first_pause: quick, longest_pause: quick, total: LONG };
    Options { traces_per_second, retry }
}

/// Offers verdicts as they come, second by second on the recording's clock.
fn offer(otlp: &mut Otlp, verdicts: &[Verdict]) {
    for verdict in verdicts {
        otlp.tick(verdict.request.last_seen());
        otlp.offer(verdict);
    }
}

fn attribute<'a>(span: &'a Json, key: &str) -> Option<&'a str> {
    let attributes = span["attributes"].as_array().unwrap();
    attributes.iter().find(|one| one["key"] == key)?["value"]["stringValue"].as_str()
}

fn length(span: &Json) -> i64 {
    let at = |key: &str| span[key].as_str().unwrap().parse::<i64>().unwrap();
    at("endTimeUnixNano") - at("startTimeUnixNano")
}

#[test]
fn retries_until_the_collector_accepts_all_slow_requests() {
    let collector = Collector::start(&[HANGS_UP, LATER, TAKEN, TAKEN, LATER]);
    let verdicts = verdicts();
    let mut otlp = Otlp::start(collector.url().parse().unwrap(), source(), options(1_000), || ()).unwrap();
    offer(&mut otlp, &verdicts);
    let counts = otlp.close(LONG);
    let offered = verdicts.len() as u64;
    assert!(offered > 200, "{offered}");
    assert_eq!((counts.sent, counts.sampled_out, counts.dropped, counts.refused), (offered, 0, 0, 0));
    assert!(counts.retries >= 2, "{counts:?}");
    assert!(collector.request_lines.lock().unwrap().iter().all(|line| line == "POST /v1/traces HTTP/1.1"));
    let spans = collector.spans();
    assert_requests(&spans, &verdicts);
    assert_evidence(&spans);
}

/// Checks that every slow request is one span. Checks that its child spans, the stages, add up to it.
fn assert_requests(spans: &[Json], verdicts: &[Verdict]) {
    let requests: Vec<&Json> = spans.iter().filter(|span| span["kind"] == 2).collect();
    assert_eq!(requests.len(), verdicts.len());
    let mut stages: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for span in spans.iter().filter(|span| span["parentSpanId"].is_string()) {
        let of = (span["traceId"].as_str().unwrap(), span["parentSpanId"].as_str().unwrap());
        *stages.entry(of).or_default() += length(span);
    }
    assert_eq!(stages.len(), requests.len());
    let mut sent_causes = BTreeMap::new();
    for request in requests {
        let id = (request["traceId"].as_str().unwrap(), request["spanId"].as_str().unwrap());
        assert_eq!(stages[&id], length(request), "{request}");
        assert!(request["name"].as_str().unwrap().starts_with("PRODUCE topic"), "{request}");
        *sent_causes.entry(attribute(request, "brokerscope.cause").unwrap()).or_insert(0) += 1;
    }
    let mut causes = BTreeMap::new();
    for verdict in verdicts {
        *causes.entry(verdict.cause.as_str()).or_insert(0) += 1;
    }
    assert_eq!(sent_causes, causes);
}

/// Checks that evidence is sent once, and that every link leads to it.
fn assert_evidence(spans: &[Json]) {
    let id = |span: &Json| {
        (span["traceId"].as_str().unwrap().to_owned(), span["spanId"].as_str().unwrap().to_owned())
    };
    let ids: BTreeSet<_> = spans.iter().map(id).collect();
    assert_eq!(ids.len(), spans.len(), "no span is sent twice");
    let of_requests = spans.iter().filter(|span| span["kind"] == 2);
    let links: Vec<_> =
        of_requests.flat_map(|span| span["links"].as_array().into_iter().flatten()).map(id).collect();
    assert!(links.iter().all(|link| ids.contains(link)), "a link leads nowhere");
    let evidence: Vec<&Json> =
        spans.iter().filter(|span| attribute(span, "brokerscope.evidence").is_some()).collect();
    for name in ["file-op", "lock-wait", "kernel", "block-io"] {
        assert!(evidence.iter().any(|span| span["name"] == name), "no {name}");
    }
    let linked: BTreeSet<_> = links.iter().cloned().collect();
    assert_eq!(linked.len(), evidence.len());
    let most = evidence.iter().map(|span| links.iter().filter(|link| **link == id(span)).count()).max();
    assert!(most > Some(10), "one commit holds up many requests: {most:?}");
    let holder = evidence.iter().find(|span| span["name"] == "lock-wait").unwrap();
    assert!(attribute(holder, "brokerscope.evidence").unwrap().contains("log lock"), "{holder}");
}

#[test]
fn sends_the_slowest_requests_of_each_second() {
    let collector = Collector::start(&[TAKEN]);
    let verdicts = verdicts();
    let mut otlp = Otlp::start(collector.url().parse().unwrap(), source(), options(3), || ()).unwrap();
    otlp.offer(&verdicts[0]);
    let slowest: BTreeSet<i64> = {
        let mut latencies: Vec<i64> =
            verdicts.iter().map(|verdict| verdict.request.latency().unwrap().0).collect();
        latencies.sort_unstable();
        latencies.split_off(latencies.len() - 3).into_iter().collect()
    };
    for verdict in &verdicts[1..] {
        otlp.offer(verdict);
    }
    let counts = otlp.close(LONG);
    assert_eq!((counts.sent, counts.sampled_out), (3, verdicts.len() as u64 - 3));
    let spans = collector.spans();
    let sent: BTreeSet<i64> = spans.iter().filter(|span| span["kind"] == 2).map(length).collect();
    assert_eq!(sent, slowest);
}

#[test]
fn does_not_retry_refused_batches() {
    let collector = Collector::start(&[NEVER]);
    let verdicts = verdicts();
    let mut otlp = Otlp::start(collector.url().parse().unwrap(), source(), options(5), || ()).unwrap();
    verdicts.iter().take(5).for_each(|verdict| otlp.offer(verdict));
    let counts = otlp.close(LONG);
    assert_eq!((counts.sent, counts.refused, counts.dropped, counts.retries), (0, 5, 0, 0));
    assert_eq!(collector.request_lines.lock().unwrap().len(), 1);
}

#[test]
fn counts_dropped_traces_if_the_collector_stays_unreachable() {
    // Nothing listens there: the listener is closed.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let verdicts = verdicts();
    let mut otlp =
        Otlp::start(format!("http://{address}").parse().unwrap(), source(), options(5), || ()).unwrap();
    verdicts.iter().take(5).for_each(|verdict| otlp.offer(verdict));
    let counts = otlp.close(Duration::from_millis(50));
    assert_eq!((counts.sent, counts.refused, counts.dropped), (0, 0, 5), "{counts:?}");
}
