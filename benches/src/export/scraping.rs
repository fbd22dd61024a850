//! Scrapes an exporter repeatedly, as Prometheus does. Records the time of each scrape and the last result.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

const PATIENCE: Duration = Duration::from_secs(30);
/// Interval at which to check whether to stop.
const GLANCE: Duration = Duration::from_millis(20);

/// Results of the scrapes.
#[derive(Debug, Default)]
pub(super) struct ScrapeStats {
    /// Times from the connection to the last byte.
    pub(super) times_ms: Vec<f64>,
    /// Requests in the last one.
    pub(super) requests: f64,
    pub(super) lost: f64,
    /// Number of series in it.
    pub(super) series: usize,
    pub(super) bytes: usize,
}

/// A running scraper.
pub(super) struct Scraping {
    over: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<ScrapeStats>>,
}

impl Scraping {
    pub(super) fn start(address: SocketAddr, every: Duration) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let stop_flag = Arc::clone(&over);
        let thread = spawn(move || {
            let mut scraped = ScrapeStats::default();
            loop {
                let begun = Instant::now();
                let text = get(address, "/metrics")?.1;
                scraped.times_ms.push(begun.elapsed().as_secs_f64() * 1e3);
                scraped.note(&text);
                if stop_flag.load(Ordering::Relaxed) {
                    return Ok(scraped);
                }
                while begun.elapsed() < every && !stop_flag.load(Ordering::Relaxed) {
                    sleep(GLANCE);
                }
            }
        });
        Self { over, thread }
    }

    /// Scrapes once more, and returns the results.
    pub(super) fn stop(self) -> anyhow::Result<ScrapeStats> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("who scrapes died"))?
    }
}

impl ScrapeStats {
    fn note(&mut self, text: &str) {
        let series = || text.lines().filter(|line| !line.starts_with('#'));
        let sum = |name: &str| -> f64 {
            let of = series().filter(|line| line.split(['{', ' ']).next() == Some(name));
            of.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
        };
        self.requests = sum("brokerscope_requests_total");
        self.lost = sum("brokerscope_losses_total");
        (self.series, self.bytes) = (series().count(), text.len());
    }
}

/// The address in an exporter's output.
pub(super) fn address(output: &str) -> anyhow::Result<SocketAddr> {
    let url = output.lines().find_map(|line| line.strip_prefix("http://")?.strip_suffix("/metrics"));
    Ok(url.with_context(|| format!("the exporter does not say where it is: {output}"))?.parse()?)
}

/// Status line and body.
pub(super) fn get(address: SocketAddr, path: &str) -> anyhow::Result<(String, String)> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
    write!(stream, "GET {path} HTTP/1.1\r\nHost: bench\r\nAccept: {accept}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    let status = head.lines().next().unwrap_or_default().to_owned();
    ensure!(status.starts_with("HTTP/1.1 "), "{status}");
    Ok((status, body.to_owned()))
}
