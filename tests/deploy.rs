//! Tests the files in `deploy/` for systemd, Debian and Kubernetes: the package installs, upgrades and is removed
//! without a trace except what it should leave; unit and `DaemonSet` grant the rights that watching needs, and the
//! unit's filter allows its system calls.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use e2e::container::Image;
use e2e::export::Export;
use e2e::ground::Ground;
use e2e::recorder::Recorder;
use e2e::workload::Workload;
use e2e::{brokerscope, gate, table, traffic};

/// The last version that Rust 1.85 builds.
const CARGO_DEB: &str = "3.8.0";
/// `nobody`.
const USER: &str = "65534";
const PATIENCE: Duration = Duration::from_secs(120);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn deployed(file: &str) -> String {
    fs::read_to_string(root().join("deploy").join(file)).unwrap()
}

fn unit() -> String {
    deployed("systemd/brokerscope.service")
}

fn daemon_set() -> String {
    deployed("kubernetes/daemonset.yaml")
}

/// The words of every line of a unit that sets this name.
fn setting(unit: &str, name: &str) -> Vec<String> {
    let lines = unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// The fields of a pod, of its container and of its security context.
fn fields_of_pod(manifest: &str) -> Vec<&str> {
    let (_, pod) = manifest.split_once("\n    spec:\n").unwrap();
    let mut of_container = "";
    let mut fields = Vec::new();
    for line in pod.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let Some((field, _)) = line.trim_start().split_once(':') else { continue };
        let depth = line.len() - line.trim_start().len();
        if depth == 10 {
            of_container = field;
        }
        if matches!(depth, 6 | 10) || (depth == 12 && of_container == "securityContext") {
            fields.push(field);
        }
    }
    fields
}

#[test]
fn readme_explains_every_option_of_the_unit_and_the_daemon_set() {
    let (readme, unit, daemon_set) = (deployed("README.md"), unit(), daemon_set());
    let (_, tables) = readme.split_once("## Options of the unit").unwrap();
    let cells = tables.lines().filter(|line| line.starts_with("| `")).filter_map(|row| row.split('|').nth(1));
    let explained: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let names: BTreeSet<&str> =
        explained.iter().filter_map(|option| option.split(['=', ':']).next()).collect();
    let lines = unit.lines().filter(|line| !line.starts_with('#'));
    let options: Vec<&str> = lines.filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let fields = fields_of_pod(&daemon_set);
    assert!(options.len() > 40 && fields.len() > 15, "{options:?} {fields:?}");
    for option in options.iter().chain(&fields) {
        assert!(names.contains(option), "deploy/README.md does not explain {option}");
    }
    for option in explained {
        let is_there = unit.contains(&format!("\n{option}")) || daemon_set.contains(option);
        assert!(is_there, "deploy/README.md explains {option}, which is not there");
    }
}

#[test]
fn network_policy_selects_the_daemon_set_pods_and_their_port() {
    let (policy, daemon_set) = (deployed("kubernetes/networkpolicy.yaml"), daemon_set());
    let value =
        |text: &str, before| text.split_once(before).unwrap().1.lines().next().unwrap().trim().to_owned();
    for (of_policy, of_pods) in [
        ("\n  namespace:", "\n  namespace:"),
        ("\n  podSelector:\n    matchLabels:\n", "\n  template:\n    metadata:\n      labels:\n"),
        (" port:", " containerPort:"),
    ] {
        assert_eq!(value(&policy, of_policy), value(&daemon_set, of_pods), "{of_policy}");
    }
}

/// Runs a command to its end.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {text}");
    text
}

/// cargo-deb, installed below the target directory the first time.
fn cargo_deb() -> PathBuf {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    assert!(makefile.contains(&format!("\nCARGO_DEB_VERSION := {CARGO_DEB}\n")), "make deb takes another");
    let tools = root().join("target/tools").join(format!("cargo-deb-{CARGO_DEB}"));
    let binary = tools.join("bin/cargo-deb");
    if !binary.exists() {
        // Without built-in xz, which needs a library's headers; the xz program exists wherever dpkg-dev does.
        let arguments =
            ["install", "cargo-deb", "--version", CARGO_DEB, "--locked", "--no-default-features", "--quiet"];
        run(Command::new(env!("CARGO"))
            .args(arguments)
            .arg("--root")
            .arg(&tools)
            .env_remove("CARGO_TARGET_DIR"));
    }
    binary
}

/// Builds the package with `cargo deb`. Uses the tested binary instead of a release build.
fn package(directory: &Path, version: &str) -> PathBuf {
    let target = directory.join("target");
    fs::create_dir_all(target.join("release")).unwrap();
    run(Command::new("strip")
        .arg("-o")
        .arg(target.join("release/brokerscope"))
        .arg(brokerscope::binary().unwrap()));
    run(Command::new("make").args(["manual", "sbom"]).current_dir(root()).env("CARGO", env!("CARGO")));
    let package = directory.join(format!("brokerscope_{version}.deb"));
    let mut command = Command::new(cargo_deb());
    command.current_dir(root()).env("CARGO_TARGET_DIR", &target);
    command.args([
        "-p",
        "brokerscope",
        "--no-build",
        "--no-strip",
        "--fast",
        "--deb-version",
        version,
        "--output",
    ]);
    run(command.arg(&package));
    package
}

/// Runs a script in the container.
fn inside(image: &Image, script: &str) -> String {
    run(image.command().args(["sh", "-euc", script]).stdin(Stdio::null()))
}

#[test]
fn package_installs_upgrades_and_uninstalls() {
    let Some(_alone) = gate::live("the Debian package") else { return };
    let ground = Ground::prepare("package", "");
    let directory = ground.directory().to_owned();
    let [first, second] = ["0.1.0-1", "9.0.0-1"].map(|version| package(&directory, version));
    let image = Image {
        layers: ground.path().join("layers"),
        volume: ground.path().join("volume"),
        shared: vec![directory],
    };
    installs(&image, &first);
    upgrades(&image, &second);
    goes(&image);
}

fn installs(image: &Image, package: &Path) {
    let depends = run(Command::new("dpkg-deb").args(["--field"]).arg(package).arg("Depends"));
    for library in ["libc6", "libelf1", "zlib1g"] {
        assert!(depends.contains(library), "{depends}");
    }
    let recommends = run(Command::new("dpkg-deb").args(["--field"]).arg(package).arg("Recommends"));
    assert_eq!(recommends.trim(), "ca-certificates");
    inside(image, &format!("dpkg --install {}", package.display()));
    let version = inside(image, "/usr/bin/brokerscope --version");
    assert!(version.starts_with("brokerscope "), "{version}");
    // Installing a package must not start to watch a broker.
    let enabled = inside(image, "systemctl is-enabled brokerscope.service || true");
    assert_eq!(enabled.trim(), "disabled");
    let verified = inside(image, "systemd-analyze verify brokerscope.service");
    assert!(!verified.contains("brokerscope"), "{verified}");
    let exposure = inside(image, "systemd-analyze security --offline=yes --threshold=40 brokerscope.service");
    println!("{}", exposure.lines().last().unwrap_or_default());
    for file in [
        "systemd/containers.conf",
        "cron/brokerscope",
        "sql/views.sql",
        "prometheus/brokerscope.alerts.yml",
        "grafana/broker.json",
    ] {
        inside(image, &format!("test -s /usr/share/brokerscope/{file}"));
    }
    // A host may be configured to leave out manuals: the package's contents count.
    let contents = run(Command::new("dpkg-deb").arg("--contents").arg(package));
    for file in [
        "man/man1/brokerscope-explain.1",
        "bash-completion/completions/brokerscope",
        "zsh/vendor-completions/_brokerscope",
        "fish/vendor_completions.d/brokerscope.fish",
        "doc/brokerscope/docs/how-to/service.md",
        "doc/brokerscope/brokerscope.cdx.json",
    ] {
        assert!(
            contents.contains(&format!("/usr/share/{file}")),
            "{file} is not in the package:\n{contents}"
        );
    }
}

fn upgrades(image: &Image, package: &Path) {
    inside(image, "echo 'BROKERSCOPE_EXPORT=\"--listen [::1]:9465\"' >/etc/default/brokerscope");
    inside(image, "systemctl enable brokerscope.service");
    inside(image, &format!("dpkg --install {}", package.display()));
    assert_eq!(inside(image, "dpkg-query --show --showformat '${Version}' brokerscope"), "9.0.0-1");
    assert!(inside(image, "cat /etc/default/brokerscope").contains("[::1]"), "what its user wrote is gone");
    assert_eq!(inside(image, "systemctl is-enabled brokerscope.service").trim(), "enabled");
}

fn goes(image: &Image) {
    let files = inside(image, "dpkg --listfiles brokerscope");
    inside(image, "dpkg --remove brokerscope");
    let left = |files: &str| {
        inside(
            image,
            &format!("for file in {files}; do test -d $file || ls -d $file 2>/dev/null || true; done"),
        )
    };
    let files = files.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(left(&files).trim(), "/etc/default/brokerscope");
    inside(image, "dpkg --purge brokerscope");
    assert_eq!(left(&files).trim(), "");
    let links =
        inside(image, "find /etc/systemd /var/lib/systemd/deb-systemd-helper-enabled -name '*brokerscope*'");
    assert_eq!(links, "", "what enabled it is left");
}

/// The purposes that an export of this workload reports as served. The command ends with the binary.
fn served_purposes(
    command: Command,
    workload: &Workload,
    mode: &str,
    output_path: &Path,
) -> BTreeSet<String> {
    let export =
        Export::start_by(command, output_path, &["--pid", &workload.pid().to_string(), "--watch", mode]);
    let metrics = export.metrics();
    export.stop();
    let sources = metrics.lines().filter(|line| line.starts_with("brokerscope_source_up{"));
    let up = sources.filter(|line| line.ends_with(" 1"));
    up.map(|line| line.split('"').nth(1).unwrap().to_owned()).collect()
}

fn workload(directory: &Path) -> Workload {
    let log_dir = directory.join("data");
    fs::create_dir_all(log_dir.join("topicA-0")).unwrap();
    Workload::start(&log_dir)
}

/// A command that runs the rest as this user with exactly these capabilities. Tracefs is mounted as on hosts.
fn confined(user: &str, capabilities: &[String], ambient: bool) -> Command {
    let named =
        capabilities.iter().map(|name| format!(",+{}", name.trim_start_matches("CAP_").to_lowercase()));
    let only = format!("-all{}", named.collect::<String>());
    let mounted = "mount -t tracefs tracefs /sys/kernel/tracing; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "sh",
        "-c",
        mounted,
        "sh",
        "setpriv",
        "--reuid",
        user,
        "--regid",
        user,
        "--clear-groups",
    ]);
    if ambient {
        command.args(["--inh-caps", &only, "--ambient-caps", &only]);
    }
    command.args(["--no-new-privs", "--bounding-set", &only]);
    command
}

#[test]
fn unit_and_daemon_set_grant_the_capabilities_for_watching() {
    let Some(_alone) = gate::live("the rights that deploy/ gives") else { return };
    let directory = traffic::directory("deploy-rights");
    let workload = workload(&directory);
    let of_unit = setting(&unit(), "AmbientCapabilities");
    assert_eq!(of_unit, setting(&unit(), "CapabilityBoundingSet"));
    // A container's root has the added capabilities, and no ambient set.
    let confinements = [("unit", USER, of_unit, true), ("daemon-set", "0", of_daemon_set(), false)];
    for mode in ["auto", "full"] {
        let by_root = served_purposes(brokerscope::command(), &workload, mode, &directory.join("root.txt"));
        assert!(by_root.len() > 10, "{by_root:?}");
        for (name, user, capabilities, ambient) in &confinements {
            let mut command = confined(user, capabilities, *ambient);
            command.arg(brokerscope::binary().unwrap());
            let by_this = served_purposes(command, &workload, mode, &directory.join(format!("{name}.txt")));
            let missing: Vec<&String> = by_root.difference(&by_this).collect();
            assert!(missing.is_empty(), "--watch {mode}: {name} does not see {missing:?}");
        }
    }
}

/// The capabilities that the `DaemonSet` adds.
fn of_daemon_set() -> Vec<String> {
    let manifest = daemon_set();
    let (_, after) = manifest.split_once("              add:\n").unwrap();
    let items = after.lines().map_while(|line| line.trim().strip_prefix("- "));
    let names: Vec<String> =
        items.filter_map(|item| item.split_whitespace().next()).map(str::to_owned).collect();
    assert!(names.len() > 5, "{names:?}");
    names
}

#[test]
fn unit_system_call_filter_allows_every_call_of_an_export() {
    let Some(_alone) = gate::live("the system calls that the unit allows") else { return };
    let allowed =
        setting(&unit(), "SystemCallFilter").iter().flat_map(|name| calls_of(name)).collect::<BTreeSet<_>>();
    let directory = traffic::directory("deploy-calls");
    let mut workload = workload(&directory);
    let counts = directory.join("calls.txt");
    let mut command = confined(USER, &setting(&unit(), "AmbientCapabilities"), true);
    // The file that strace writes must belong to that user.
    let writable = File::create(&counts).unwrap();
    std::os::unix::fs::fchown(&writable, Some(65534), Some(65534)).unwrap();
    command.args(["strace", "--follow-forks", "--summary-only", "--output"]).arg(&counts);
    command.arg(brokerscope::binary().unwrap());
    // The full mode makes more calls than the default.
    let arguments = ["--watch", "full", "--pid", &workload.pid().to_string()];
    let export = Export::start_by(command, &directory.join("said.txt"), &arguments);
    workload.order("open s topicA-0/00000000000000000000.log create");
    workload.order("write s 1000");
    assert!(export.metrics().contains("brokerscope_events_total"));
    export.stop();
    let made = calls_in(&fs::read_to_string(&counts).unwrap());
    assert!(made.contains("bpf") && made.contains("perf_event_open") && made.len() > 30, "{made:?}");
    let refused: Vec<_> = made.difference(&allowed).collect();
    assert!(refused.is_empty(), "{refused:?} are made and not allowed");
}

/// The system calls of a name in a filter: itself, or the calls of a set.
fn calls_of(name: &str) -> Vec<String> {
    if !name.starts_with('@') {
        return vec![name.to_owned()];
    }
    let listed = run(Command::new("systemd-analyze").args(["syscall-filter", "--no-pager", name]));
    let words =
        listed.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    words.flat_map(calls_of).collect()
}

/// The last column of strace's table.
fn calls_in(table: &str) -> BTreeSet<String> {
    let rows = table.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
    let names = rows.filter_map(|row| row.split_whitespace().last());
    names.filter(|name| *name != "total").map(str::to_owned).collect()
}

/// A memory cgroup; removed when dropped.
struct Group(PathBuf);

impl Group {
    fn make(name: &str) -> Self {
        // Version 1 has a separate hierarchy for each controller.
        let places = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
        let place = places.into_iter().find(|place| Path::new(place).join("cgroup.procs").exists());
        let directory =
            Path::new(place.expect("control groups")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        Self(directory)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The process that detaches the hooks outlives its recorder by some seconds.
        let end = Instant::now() + PATIENCE;
        while fs::remove_dir(&self.0).is_err() && Instant::now() < end {
            sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn samples_the_broker_cgroup_from_another_cgroup_namespace() {
    let Some(_alone) = gate::live("a recorder in a cgroup namespace") else { return };
    let directory = traffic::directory("deploy-cgroups");
    let groups = ["broker", "watcher"].map(Group::make);
    let workload = workload(&directory);
    fs::write(groups[0].0.join("cgroup.procs"), workload.pid().to_string()).unwrap();
    let mut watcher = Command::new("sh");
    watcher.args(["-c", "echo 0 >\"$1/cgroup.procs\"; shift; exec unshare --cgroup \"$@\"", "sh"]);
    watcher.arg(&groups[1].0).arg(brokerscope::binary().unwrap());
    let recording = directory.join("recording");
    let recorder = Recorder::start_by(watcher, &recording, workload.pid());
    sleep(Duration::from_millis(2200));
    recorder.stop();
    drop(workload);
    let samples = table::rows(&recording, "host_samples");
    let of_group = samples.iter().filter(|row| row.text("scope") == "cgroup");
    let name = groups[0].0.file_name().unwrap().to_string_lossy().into_owned();
    let memory =
        of_group.filter(|row| row.text("metric") == "memory_bytes" && row.text("name").ends_with(&name));
    assert!(memory.count() > 0, "no figures of {name}");
}
