//! A real Prometheus on loopback, and its HTTP API. It has a separate data directory and only the given targets.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::tcpdump::signal;

/// Timeout for starting, and for ending.
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout for one answer.
const ANSWER: Duration = Duration::from_secs(20);

/// A target, scraped every second.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its job.
    pub job: &'static str,
    /// Its address; its label `instance`.
    pub address: SocketAddr,
    /// Its label `configuration`.
    pub configuration: &'static str,
}

/// A running Prometheus; ended when dropped.
#[derive(Debug)]
pub struct Prometheus {
    child: Child,
    address: SocketAddr,
    log_path: PathBuf,
}

impl Prometheus {
    /// Starts one in a new directory, with these rules and features; it answers requests when this returns.
    ///
    /// # Panics
    /// If it does not.
    pub fn start(directory: &Path, targets: &[Target], rules: &[PathBuf], features: &str) -> Self {
        fs::create_dir_all(directory).unwrap();
        let config = directory.join("prometheus.json");
        // JSON is YAML.
        fs::write(&config, config_of(targets, rules).to_string()).unwrap();
        let log_path = directory.join("prometheus.txt");
        let output = File::create(&log_path).unwrap();
        let address = free_address();
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", directory.join("data").display()));
        command.arg(format!("--web.listen-address={address}"));
        if !features.is_empty() {
            command.arg(format!("--enable-feature={features}"));
        }
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let child = command.spawn().expect("prometheus starts (setup/debian test installs it)");
        let mut this = Self { child, address, log_path };
        this.wait_until_ready();
        this
    }

    fn wait_until_ready(&mut self) {
        let end = Instant::now() + PATIENCE;
        while get(self.address, "/-/ready").is_none_or(|(status, _)| status != 200) {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < end, "prometheus: {}", self.log());
            sleep(Duration::from_millis(50));
        }
    }

    /// Its output so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log_path).unwrap_or_default()
    }

    /// The `data` of an answer of its API (`/api/v1/…`), with these parameters.
    ///
    /// # Panics
    /// If it answers with an error: a query that it does not understand.
    pub fn get_data(&self, path: &str, parameters: &[(&str, &str)]) -> Value {
        let query: Vec<String> =
            parameters.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
        let (status, body) =
            get(self.address, &format!("/api/v1/{path}?{}", query.join("&"))).expect("prometheus answers");
        let mut answer: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
        assert_eq!((status, &answer["status"]), (200, &json!("success")), "{path} {parameters:?}: {body}");
        answer["data"].take()
    }

    /// Whether a query has a result now: a series with a number.
    ///
    /// # Panics
    /// As [`Prometheus::get_data`].
    pub fn answers(&self, query: &str) -> bool {
        let data = self.get_data("query", &[("query", query)]);
        let is_number = |sample: &Value| sample[1].as_str().is_some_and(|number| number != "NaN");
        let results = data["result"].as_array().unwrap();
        results.iter().any(|series| is_number(&series["value"]) || series["histogram"].is_array())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            signal(&self.child, Signal::TERM);
        }
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end && self.child.try_wait().is_ok_and(|status| status.is_none()) {
            sleep(Duration::from_millis(20));
        }
        // Both fail if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn config_of(targets: &[Target], rules: &[PathBuf]) -> Value {
    let mut jobs: Vec<&str> = targets.iter().map(|target| target.job).collect();
    jobs.dedup();
    let of_job = |job: &&str| {
        let of_job = targets.iter().filter(|target| target.job == *job);
        let configs: Vec<Value> = of_job
            .map(|target| {
                json!({"targets": [target.address.to_string()], "labels": {"configuration": target.configuration}})
            })
            .collect();
        json!({"job_name": job, "static_configs": configs})
    };
    json!({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": rules,
        "scrape_configs": jobs.iter().map(of_job).collect::<Vec<_>>(),
    })
}

/// A free address on loopback.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Status and body of an answer; `None` if nothing answers. Uses HTTP/1.0, so that the body ends with the connection.
pub fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut connection = TcpStream::connect(address).ok()?;
    connection.set_read_timeout(Some(ANSWER)).ok()?;
    write!(connection, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

/// Percent-encodes a text for a URL's query (RFC 3986, 2.1).
fn escape(text: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escaped).collect()
}
