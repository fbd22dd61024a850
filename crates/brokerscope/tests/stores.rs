//! Tests recordings by URL, from a small server in the test: the same output as from a directory, the errors when the
//! store fails, and that nothing is left behind. The workspace's `tests/stores.rs` uses a third-party server.

// clippy.toml allows these in test functions only; this whole crate is tests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
#![cfg(feature = "object-stores")]

#[path = "../../../benches/src/fleet/made.rs"]
#[allow(dead_code, reason = "others plant more")]
mod made;
#[path = "stores/served.rs"]
mod served;

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use made::Size;
use served::{Odd, Oddity, StoreServer};

/// Timeout: what takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Never printed.
const SECRET: &str = "known-to-nobody-else";

/// Recordings, a server for them, and a directory for copies.
struct Scene {
    recordings: tempfile::TempDir,
    copies: tempfile::TempDir,
    served: StoreServer,
}

impl Scene {
    fn new(brokers: usize, odd: Oddity) -> Self {
        let (recordings, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        made::write(&recordings.path().join("site"), Size { brokers, seconds: 20, requests: 20 }).unwrap();
        let served = StoreServer::start(recordings.path(), odd);
        Self { recordings, copies, served }
    }

    /// A command without the settings of the test run's environment.
    fn command(&self, arguments: &[&str], settings: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_brokerscope"));
        command.args(arguments).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let is_one = |name: &str| {
                ["AWS_", "SSL_CERT_"].iter().any(|of| name.starts_with(of))
                    || name.to_lowercase().ends_with("_proxy")
            };
            if name.to_str().is_some_and(is_one) {
                command.env_remove(name);
            }
        }
        let endpoint = format!("http://{}", self.served.address);
        command
            .env("AWS_ENDPOINT_URL", endpoint)
            .env("AWS_ALLOW_HTTP", "true")
            .env("TMPDIR", self.copies.path());
        command.env("AWS_ACCESS_KEY_ID", "id").env("AWS_SECRET_ACCESS_KEY", SECRET);
        for (name, value) in settings {
            if value.is_empty() {
                command.env_remove(name)
            } else {
                command.env(name, value)
            };
        }
        command
    }

    /// Runs a command: exit status, standard output and standard error. Checks that nothing is left behind.
    fn run(&self, arguments: &[&str], settings: &[(&str, &str)]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = self.command(arguments, settings).output().unwrap();
        assert!(is_empty(self.copies.path()), "{arguments:?} left something behind");
        let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(!stderr.contains(SECRET), "{stderr}");
        (status.code(), stdout, stderr)
    }

    /// The one line of a failure.
    fn failure(&self, arguments: &[&str], settings: &[(&str, &str)]) -> String {
        let (status, stdout, stderr) = self.run(arguments, settings);
        assert_eq!((status, stdout.as_str(), stderr.lines().count()), (Some(1), "", 1), "{stderr}");
        stderr
    }

    fn local(&self, below: &str) -> String {
        self.recordings.path().join(below).to_str().unwrap().to_owned()
    }
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

const GOOD: Oddity = |_| None;

#[test]
fn fleet_gives_the_same_output_for_a_bucket_and_a_directory() {
    let scene = Scene::new(5, GOOD);
    for more in [&["--figures"][..], &[], &["--cluster", "prod", "--date", "2026-01-01", "--wide"]] {
        for format in ["json", "table"] {
            let arguments = |input| [&["fleet", input, "--format", format][..], more].concat();
            let directory = scene.local("site");
            let local = scene.run(&arguments(&directory), &[]);
            let (status, stdout, stderr) = scene.run(&arguments("s3://b/site/"), &[]);
            assert_eq!((local.0, status), (Some(0), Some(0)), "{stderr}");
            assert!(stdout.lines().count() > 3 && stdout == local.1, "{more:?}: {stdout}\nnot\n{}", local.1);
            let said = format!("{}5 recordings read\n", local.2.strip_suffix("5 recordings read\n").unwrap());
            assert!(stderr.starts_with(&said) && stderr.ends_with(" fetched\n"), "{stderr}");
        }
    }
    let targets = scene.served.requested_targets();
    assert!(targets.iter().any(|target| target.contains("/file_ops/part-00001.parquet")), "{targets:?}");
    assert!(
        !targets.iter().any(|target| target.contains("prefix=&") || target.contains("/off_cpu/")),
        "{targets:?}"
    );
    let one =
        scene.run(&["fleet", "s3://b/site/cluster=prod/broker=3", "--figures", "--format", "json"], &[]);
    assert!(one.1.lines().count() == 1 && one.1.contains(r#""broker":"00h""#), "{one:?}");
}

#[test]
fn single_recording_commands_read_a_url() {
    let scene = Scene::new(1, GOOD);
    let place = "site/cluster=prod/broker=1/date=2026-01-01/00h";
    let (url, local) = (format!("s3://b/{place}"), scene.local(place));
    for arguments in [
        &["io", "--format", "json", "--from"][..],
        &["files", "--by", "kind", "--from"],
        &["explain", "--slower-than", "0", "--format", "json"],
    ] {
        let (here, there) = ([arguments, &[local.as_str()]].concat(), [arguments, &[url.as_str()]].concat());
        let (here, there) = (scene.run(&here, &[]), scene.run(&there, &[]));
        assert_eq!(here, there, "{arguments:?}");
        assert!(here.0 == Some(0) && here.1.len() > 100, "{here:?}");
    }
    let error = scene.failure(&["explain", "s3://b/site"], &[]);
    assert!(error.contains("s3://b/site: it is not a recording (it has no manifest.json)"), "{error}");
    let (status, _, error) = scene.run(&["explain", &url, "--save"], &[]);
    assert!(status == Some(2) && error.contains("an object store is only read"), "{error}");
    let error = scene.failure(&["compare", &url, &url], &[]);
    assert!(error.contains("URLs cannot be read here"), "{error}");
    let error = scene.failure(&["segment", &url], &[]);
    assert!(error.contains("URLs cannot be read here"), "{error}");
}

#[test]
fn store_refusal_is_reported_in_one_line_without_retry() {
    let missing = Scene::new(1, |_| Some(Odd::Status(404, "NoSuchBucket")));
    let error = missing.failure(&["fleet", "s3://b/site"], &[]);
    assert!(error.contains("s3://b/site: there is no such bucket: check its name"), "{error}");
    let denied = Scene::new(1, |_| Some(Odd::Status(403, "AccessDenied")));
    let error = denied.failure(&["fleet", "s3://b"], &[]);
    assert!(error.contains("s3://b: access denied (AccessDenied): check AWS_ACCESS_KEY_ID"), "{error}");
    let empty = Scene::new(1, GOOD).failure(&["fleet", "s3://b/none"], &[]);
    assert!(empty.contains("s3://b/none: it holds no recording"), "{empty}");
    assert_eq!(denied.served.requested_targets().len(), 1, "nobody asks again who was refused");
}

#[test]
fn hostile_store_answers_are_reported_in_one_line() {
    let elsewhere = Scene::new(1, |_| Some(Odd::Redirect));
    let error = elsewhere.failure(&["fleet", "s3://b/site"], &[]);
    assert!(
        error.contains("s3://b/site: the bucket is in another region or at another endpoint: set AWS_REGION"),
        "{error}"
    );
    assert_eq!(elsewhere.served.requested_targets().len(), 1, "nobody goes where a store sends");
    let odd: [(Oddity, &str); 4] = [
        (|_| Some(Odd::Long(17 << 20)), "s3://b/site: cannot read: an answer is longer than 16 MiB"),
        (|_| Some(Odd::Body("no list")), "s3://b/site: cannot read: "),
        (
            |_| {
                Some(Odd::Body(
                    "<ListBucketResult><Contents><Key>site//manifest.json</Key><Size>1</Size>\
                     <LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>",
                ))
            },
            "empty path segment",
        ),
        (
            |_| {
                Some(Odd::Body(
                    "<ListBucketResult><Contents><Key>site/manifest.json</Key><Size>18446744073709551615</Size>\
                     <LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>",
                ))
            },
            "s3://b/site: cannot write a copy of manifest.json: ",
        ),
    ];
    for (odd, told) in odd {
        let error = Scene::new(1, odd).failure(&["fleet", "s3://b/site"], &[]);
        assert!(error.contains(told), "{error}, not {told}");
    }
}

#[test]
fn unavailable_store_is_retried_a_bounded_number_of_times() {
    let busy = Scene::new(1, |_| Some(Odd::Status(503, "SlowDown")));
    let error = busy.failure(&["fleet", "s3://b/site"], &[]);
    assert!(error.contains("s3://b/site: cannot read: SlowDown: Not today."), "{error}");
    assert_eq!(busy.served.requested_targets().len(), 4);
    let silent = Scene::new(1, |_| Some(Odd::Silence));
    let error = silent.failure(&["fleet", "s3://b/site"], &[("AWS_TIMEOUT", "100ms")]);
    assert!(error.contains("no answer in time: check AWS_ENDPOINT_URL and the network"), "{error}");
    assert_eq!(silent.served.requested_targets().len(), 4);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = [("AWS_ENDPOINT_URL", &*format!("http://{closed}"))];
    let error = silent.failure(&["fleet", "s3://b/site"], &nobody);
    assert!(error.contains("s3://b/site: cannot connect (Connection refused"), "{error}");
}

#[test]
fn invalid_environment_is_reported_before_any_request() {
    let scene = Scene::new(1, GOOD);
    let error = scene.failure(&["fleet", "s3://b/site"], &[("AWS_ALLOW_HTTP", "")]);
    assert!(error.contains("plain HTTP: use an https:// URL, or set AWS_ALLOW_HTTP=true"), "{error}");
    let error = scene.failure(&["fleet", "s3://b/site"], &[("AWS_ENDPOINT_URL", "localhost:9000")]);
    assert!(error.contains("s3://b/site: AWS_ENDPOINT_URL is not https://HOST:PORT; check"), "{error}");
    let error = scene.failure(&["fleet", "s3://b/site"], &[("AWS_TIMEOUT", "soon")]);
    assert!(error.contains("s3://b/site: AWS_TIMEOUT is not a duration (soon)"), "{error}");
    let (file, directory) = (tempfile::NamedTempFile::new().unwrap(), tempfile::tempdir().unwrap());
    let nobody = [
        ("SSL_CERT_FILE", file.path().to_str().unwrap()),
        ("SSL_CERT_DIR", directory.path().to_str().unwrap()),
    ];
    let error = scene.failure(&["fleet", "s3://b/site"], &nobody);
    assert!(error.contains("s3://b/site: no CA certificates on this host"), "{error}");
    let error = scene.failure(&["fleet", "s3://b/site"], &[("AWS_SECRET_ACCESS_KEY", "")]);
    assert!(error.contains("check the AWS_ environment variables"), "{error}");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = format!("http://{closed}");
    let settings =
        [("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", ""), ("AWS_METADATA_ENDPOINT", &nobody)];
    let error = scene.failure(&["fleet", "s3://b/site"], &settings);
    assert!(error.contains("no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"), "{error}");
    for (url, told) in [("gs://b/site", "unsupported URL: name s3://"), ("s3://b/a//b", "unsupported URL")] {
        let error = scene.failure(&["fleet", url], &[]);
        assert!(error.contains(told), "{error}");
    }
    assert_eq!(scene.served.requested_targets(), [""; 0]);
}

/// Whether an object belongs to broker 2; lists still name it.
fn is_of_broker_2(target: &str) -> bool {
    target.starts_with("/b/") && target.contains("broker=2/")
}

#[test]
fn missing_or_replaced_object_is_reported_and_the_rest_compared() {
    let odd: [(Oddity, &str); 2] = [
        (
            |target| is_of_broker_2(target).then_some(Odd::Status(404, "NoSuchKey")),
            "the object does not exist, or no longer",
        ),
        (
            |target| is_of_broker_2(target).then_some(Odd::Status(412, "PreconditionFailed")),
            "the object was replaced",
        ),
    ];
    for (odd, told) in odd {
        let scene = Scene::new(6, odd);
        let (status, stdout, stderr) = scene.run(&["fleet", "s3://b/site"], &[]);
        assert_eq!(status, Some(1), "{stderr}");
        let of = "broker 2 of prod: s3://b/site/cluster=prod/broker=2/";
        assert!(stderr.contains(of) && stderr.contains(told), "{stderr}");
        assert!(
            stderr.contains("a part of it is damaged") && stdout.contains("broker 4 of prod"),
            "{stderr}{stdout}"
        );
    }
}

#[test]
fn damaged_part_is_named_by_its_url() {
    let scene = Scene::new(4, GOOD);
    let spoilt = made::folder(&scene.recordings.path().join("site"), 1);
    std::fs::write(spoilt.join("file_ops/part-00001.parquet"), b"PAR1 no more").unwrap();
    std::fs::write(made::folder(&scene.recordings.path().join("site"), 3).join("manifest.json"), b"{")
        .unwrap();
    let (status, _, stderr) = scene.run(&["fleet", "s3://b/site"], &[]);
    assert_eq!(status, Some(1), "{stderr}");
    for place in [
        "broker=1/date=2026-01-01/00h/file_ops/part-00001.parquet",
        "broker=3/date=2026-01-01/00h/manifest.json",
    ] {
        assert!(stderr.contains(&format!("s3://b/site/cluster=prod/{place} is damaged")), "{stderr}");
    }
}

#[test]
fn errors_of_one_recording_name_its_url() {
    let scene = Scene::new(2, GOOD);
    let site = scene.recordings.path().join("site");
    std::fs::write(made::folder(&site, 1).join("file_ops/part-00001.parquet"), b"PAR1 no more").unwrap();
    std::fs::write(made::folder(&site, 2).join("manifest.json"), b"{").unwrap();
    for broker in [1, 2] {
        let url = format!("s3://b/site/cluster=prod/broker={broker}/date=2026-01-01/00h");
        let (status, _, stderr) = scene.run(&["explain", &url], &[]);
        assert_eq!(status, Some(1), "{stderr}");
        let last = stderr.lines().last().unwrap();
        assert!(last.starts_with(&format!("brokerscope: {url}")), "{stderr}");
    }
}

#[test]
fn signal_removes_temporary_copies() {
    let scene = Scene::new(1, |target| target.contains("part-").then_some(Odd::Silence));
    let mut command = scene.command(&["fleet", "s3://b/site"], &[]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + PATIENCE;
    while !scene.served.requested_targets().iter().any(|target| target.contains("part-")) {
        assert!(
            Instant::now() < end && child.try_wait().unwrap().is_none(),
            "{:?}",
            scene.served.requested_targets()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!is_empty(scene.copies.path()), "a copy is being made");
    let told = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status().unwrap();
    assert!(told.success());
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > end {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(130));
    assert!(is_empty(scene.copies.path()));
}
