//! Tests recordings in a bucket of a third-party S3 server (moto). The server checks signatures and rights. `fleet` and
//! the commands that read one recording give the same output as for the same recordings in a directory.
//!
//! Live tests need Python and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

#[path = "../benches/src/fleet/made.rs"]
#[allow(dead_code, reason = "others plant more")]
mod made;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use e2e::brokerscope::{self, CommandOutput};
use e2e::clients;
use e2e::gate;
use e2e::traffic::directory;
use serde_json::Value;

use made::Size;

/// Timeout for its end.
const PATIENCE: Duration = Duration::from_secs(20);
const SITE: &str = "s3://recordings/site";

/// A server; it ends when its standard input closes, and so with the test, however that ends.
struct Bucket {
    child: Child,
    /// Its address, and the keys.
    endpoints: Value,
    copies: PathBuf,
}

impl Bucket {
    /// Starts one with the files of a folder.
    fn start(folder: &Path, beside: &Path) -> Self {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("store");
        let python = clients::python(&programs.join("requirements.txt"));
        let log_path = beside.join("bucket.txt");
        let mut command = Command::new(python);
        without_settings(&mut command);
        command.arg(programs.join("bucket.py")).arg(folder).arg(beside).env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&log_path).unwrap());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let endpoints = serde_json::from_str(&line);
        let endpoints =
            endpoints.unwrap_or_else(|_| panic!("no bucket: {}", fs::read_to_string(&log_path).unwrap()));
        let copies = beside.join("copies");
        fs::create_dir_all(&copies).unwrap();
        Self { child, endpoints, copies }
    }

    fn key(&self, user: &str, part: &str) -> &str {
        self.endpoints[user][part].as_str().unwrap()
    }

    /// Sets a command's environment for the bucket and the credentials.
    fn settings(&self, command: &mut Command, id: &str, secret: &str) {
        without_settings(command);
        command
            .env("AWS_ENDPOINT_URL", self.endpoints["endpoint"].as_str().unwrap())
            .env("AWS_ALLOW_HTTP", "true");
        command.env("AWS_ACCESS_KEY_ID", id).env("AWS_SECRET_ACCESS_KEY", secret);
    }

    /// Runs a command with a key and a secret. Checks that it leaves nothing behind.
    fn run_as(&self, id: &str, secret: &str, arguments: &[&str]) -> CommandOutput {
        let mut command = brokerscope::command();
        self.settings(&mut command, id, secret);
        command.env("TMPDIR", &self.copies);
        let finished = finished(command.args(arguments));
        assert!(fs::read_dir(&self.copies).unwrap().next().is_none(), "{arguments:?} left something behind");
        assert!(!finished.stderr.contains(secret), "{}", finished.stderr);
        finished
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.run_as(self.key("reader", "id"), self.key("reader", "secret"), arguments)
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end && self.child.try_wait().is_ok_and(|status| status.is_none()) {
            sleep(Duration::from_millis(20));
        }
        // Both fail if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn finished(command: &mut Command) -> CommandOutput {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    CommandOutput { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Removes the settings of the user who runs the tests.
fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let is_one = |name: &str| {
            ["AWS_", "SSL_CERT_"].iter().any(|of| name.starts_with(of))
                || name.to_lowercase().ends_with("_proxy")
        };
        if name.to_str().is_some_and(is_one) {
            command.env_remove(name);
        }
    }
}

/// Creates recordings of five brokers with their verdicts. Another one has parts of some MiB.
fn plant(folder: &Path) {
    let site = folder.join("site");
    made::write(&site, Size { brokers: 5, seconds: 60, requests: 20 }).unwrap();
    for number in 1..=5 {
        let recording = made::folder(&site, number);
        let _ = brokerscope::run(["explain", recording.to_str().unwrap(), "--save", "--quiet"]).done();
    }
    made::write(&folder.join("large"), Size { brokers: 1, seconds: 100, requests: 1200 }).unwrap();
}

#[test]
fn bucket_and_directory_give_the_same_output() {
    let Some(_alone) = gate::live("recordings in a bucket of moto's server") else { return };
    let beside = directory("stores");
    let folder = beside.join("recordings");
    plant(&folder);
    let bucket = Bucket::start(&folder, &beside);
    let local = |place: &str| folder.join(place).to_str().unwrap().to_owned();
    let site = local("site");
    for more in
        [&["--format", "json"][..], &["--figures", "--format", "csv"], &["--wide", "--date", "2026-01-01"]]
    {
        let here = brokerscope::run([&["fleet", site.as_str()][..], more].concat()).done();
        let there = bucket.run(&[&["fleet", SITE][..], more].concat()).done();
        assert!(here.stdout.lines().count() > 5, "{}", here.stdout);
        assert_eq!(there.stdout, here.stdout, "{more:?}");
    }
    let one = "site/cluster=prod/broker=2/date=2026-01-01/00h";
    let (directory, url) = (local(one), format!("s3://recordings/{one}"));
    for command in
        [&["explain", "--format", "json"][..], &["io", "--summary", "--from"], &["files", "--from"]]
    {
        let here = brokerscope::run([command, &[directory.as_str()]].concat()).done();
        let there = bucket.run(&[command, &[url.as_str()]].concat()).done();
        assert_eq!((there.stdout, there.stderr), (here.stdout, here.stderr), "{command:?}");
    }
    assert_views_say_the_same(&bucket, &site);
    assert_refusals(&bucket);
    assert_same_over_tls(&bucket, &site);
    assert_large_parts_come_in_part(&bucket, &local("large"));
}

/// Compares the views of `deploy/sql` for the bucket and for the directory. Runs them in `DuckDB`.
fn assert_views_say_the_same(bucket: &Bucket, site: &str) {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rows = |recordings: &str| {
        let mut command = Command::new(clients::python(&programs.join("store/requirements.txt")));
        command
            .arg(programs.join("sql/views.py"))
            .arg("duckdb")
            .arg(programs.join("../deploy/sql"))
            .arg(recordings);
        bucket.settings(&mut command, bucket.key("reader", "id"), bucket.key("reader", "secret"));
        let output = command.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{recordings}: {}", String::from_utf8_lossy(&output.stderr));
        let mut rows: Vec<String> =
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        rows.sort_unstable();
        rows
    };
    let (here, there) = (rows(site), rows(SITE));
    assert!(here.len() > 20, "{here:?}");
    assert_eq!(there.len(), here.len());
    for (there, here) in there.iter().zip(&here) {
        assert_alike(&serde_json::from_str(there).unwrap(), &serde_json::from_str(here).unwrap());
    }
}

/// Compares values, with a tolerance for floating-point sums in another order.
fn assert_alike(there: &Value, here: &Value) {
    for (name, here) in here.as_object().unwrap() {
        let there = &there[name];
        let is_close = match (there.as_f64(), here.as_f64()) {
            (Some(there), Some(here)) => (there - here).abs() <= 1e-9 * here.abs(),
            _ => there == here,
        };
        assert!(is_close, "{name}: {there}, not {here}");
    }
}

/// Checks that a certificate is accepted only with its authority in the settings.
fn assert_same_over_tls(bucket: &Bucket, site: &str) {
    let fleet = |authority: bool| {
        let mut command = brokerscope::command();
        bucket.settings(&mut command, bucket.key("reader", "id"), bucket.key("reader", "secret"));
        command
            .env("AWS_ENDPOINT_URL", bucket.endpoints["tls"].as_str().unwrap())
            .env_remove("AWS_ALLOW_HTTP");
        command.env("TMPDIR", &bucket.copies);
        if authority {
            command.env("SSL_CERT_FILE", bucket.endpoints["authority"].as_str().unwrap());
        }
        finished(command.args(["fleet", SITE, "--format", "json"]))
    };
    let here = brokerscope::run(["fleet", site, "--format", "json"]).done();
    assert_eq!(fleet(true).done().stdout, here.stdout);
    let refused = fleet(false);
    assert!(refused.status == Some(1) && refused.stderr.lines().count() == 1, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("the server's certificate is not trusted (invalid peer certificate"),
        "{}",
        refused.stderr
    );
}

/// Checks that only the columns for figures are read of large parts. Those are too large for one request.
fn assert_large_parts_come_in_part(bucket: &Bucket, local: &str) {
    let here = brokerscope::run(["fleet", local, "--figures", "--format", "json"]).done();
    let there = bucket.run(&["fleet", "s3://recordings/large", "--figures", "--format", "json"]).done();
    assert_eq!(there.stdout, here.stdout);
    let last_line = there.stderr.lines().last().unwrap();
    let (came, of) = last_line.strip_suffix(" fetched").unwrap().split_once(" of ").unwrap();
    println!("{last_line}");
    assert!(mib(of) > 2.0 && mib(came) < mib(of), "{last_line}");
}

fn mib(size: &str) -> f64 {
    let (value, unit) = size.split_once(' ').unwrap();
    let value: f64 = value.parse().unwrap();
    match unit {
        "MiB" => value,
        "KiB" => value / 1_024.0,
        _ => panic!("{size}"),
    }
}

fn assert_refusals(bucket: &Bucket) {
    let (id, secret) = (bucket.key("reader", "id"), bucket.key("reader", "secret"));
    let (stranger, its_secret) = (bucket.key("stranger", "id"), bucket.key("stranger", "secret"));
    for (id, secret, url, expected) in [
        (id, secret, "s3://no-such-bucket/site", "there is no such bucket"),
        (id, secret, "s3://recordings/none", "it holds no recording"),
        (id, "no such secret", SITE, "access denied (SignatureDoesNotMatch)"),
        ("AKIANOSUCHKEY", secret, SITE, "access denied (InvalidAccessKeyId)"),
        (stranger, its_secret, SITE, "access denied (AccessDenied)"),
    ] {
        let finished = bucket.run_as(id, secret, &["fleet", url]);
        assert_eq!((finished.status, finished.stdout.as_str()), (Some(1), ""), "{}", finished.stderr);
        let line = finished.stderr;
        assert!(
            line.lines().count() == 1 && line.contains(url) && line.contains(expected),
            "{line}, not {expected}"
        );
    }
}
