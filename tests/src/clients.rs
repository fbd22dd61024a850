//! Real clients: Kafka's own (Java), librdkafka, kafka-python, aiokafka, and kafkajs where there is npm.
//! Installs what they need into a cache directory, runs them, collects what they say they sent.
//!
//! `BROKERSCOPE_CLIENTS_CACHE` names the directory; else it is `brokerscope` in the user's cache.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A client that works longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The clients, installed.
#[derive(Debug)]
pub struct Clients {
    programs: PathBuf,
    python: PathBuf,
    node_modules: Option<PathBuf>,
    classpath: String,
}

/// What a client says of itself.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its name, with which its message ids begin.
    pub client: String,
    /// Its message ids are `client-0` … up to this.
    pub sent: u64,
}

impl Clients {
    /// Installs what is missing; `classpath` has Kafka's own jars.
    ///
    /// # Panics
    /// Where something cannot be installed.
    pub fn install(classpath: &str) -> Self {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients");
        let python = install_python(&programs);
        let node_modules = install_node(&programs);
        Self { programs, python, node_modules, classpath: classpath.to_owned() }
    }

    /// Makes the topics that the clients use.
    ///
    /// # Panics
    /// Where that fails.
    pub fn set_up(&self, bootstrap: &str, logs: &Path) {
        Running::start(&mut self.java(&["setup", bootstrap]), "java-setup", logs).finish();
    }

    /// Runs all clients side by side to their ends.
    ///
    /// # Panics
    /// Where one fails.
    pub fn mix(&self, bootstrap: &str, logs: &Path) -> Vec<Report> {
        let mut running = vec![Running::start(&mut self.java(&["mix", bootstrap]), "java", logs)];
        for client in ["librdkafka", "kafka_python", "aiokafka"] {
            let mut command = Command::new(&self.python);
            command.arg(self.programs.join(format!("{client}_client.py"))).arg(bootstrap);
            // A bytecode cache does not belong among the sources.
            command.env("PYTHONDONTWRITEBYTECODE", "1");
            running.push(Running::start(&mut command, client, logs));
        }
        if let Some(home) = &self.node_modules {
            let mut command = Command::new("node");
            command.arg(self.programs.join("kafkajs_client.js")).arg(bootstrap);
            command.env("KAFKAJS_HOME", home).env("KAFKAJS_NO_PARTITIONER_WARNING", "1");
            running.push(Running::start(&mut command, "kafkajs", logs));
        }
        running.into_iter().map(|client| report(&client.finish())).collect()
    }

    /// Starts a light load of single records, 200 a second at most, that ends by itself.
    pub fn trickle(&self, bootstrap: &str, seconds: u64, logs: &Path) -> Running {
        Running::start(&mut self.java(&["trickle", bootstrap, &seconds.to_string()]), "trickle", logs)
    }

    fn java(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("java");
        command
            .args(["-Xmx512m", "-cp", &self.classpath])
            .arg(self.programs.join("Clients.java"))
            .args(arguments);
        command
    }
}

/// The last line that is JSON.
fn report(said: &str) -> Report {
    let report = said.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
    let report = report.unwrap_or_else(|| panic!("no report in {said}"));
    Report { client: report["client"].as_str().unwrap().to_owned(), sent: report["sent"].as_u64().unwrap() }
}

/// A client at work; killed when dropped.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    said: PathBuf,
}

impl Running {
    fn start(command: &mut Command, name: &str, logs: &Path) -> Self {
        let said = logs.join(format!("{name}.txt"));
        let file = File::create(&said).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let child = command.spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        Self { name: name.to_owned(), child, said }
    }

    /// Waits for its end and returns what it said.
    ///
    /// # Panics
    /// Where it fails or hangs.
    pub fn finish(mut self) -> String {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "{} hangs: {}", self.name, self.said());
            sleep(Duration::from_millis(20));
        };
        assert!(status.success(), "{} failed: {}", self.name, self.said());
        self.said()
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail where it has ended, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cache(name: &str, pinned: &Path) -> PathBuf {
    let pinned = fs::read(pinned).unwrap();
    let base = match std::env::var_os("BROKERSCOPE_CLIENTS_CACHE") {
        Some(directory) => PathBuf::from(directory),
        None => user_cache().join("brokerscope"),
    };
    base.join(format!("clients-{name}-{:016x}", fnv1a(&pinned)))
}

fn user_cache() -> PathBuf {
    let xdg = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    xdg.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").expect("HOME is set")).join(".cache"))
}

/// FNV-1a: another list of versions, another directory.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Runs `install` in an empty directory unless an earlier run of it succeeded there.
fn once(directory: &Path, install: impl FnOnce(&Path)) {
    let ready = directory.join("installed");
    if ready.exists() {
        return;
    }
    if directory.exists() {
        fs::remove_dir_all(directory).unwrap();
    }
    fs::create_dir_all(directory).unwrap();
    install(directory);
    File::create(ready).unwrap();
}

fn install_python(programs: &Path) -> PathBuf {
    let requirements = programs.join("requirements.txt");
    let directory = cache("python", &requirements);
    let python = directory.join("bin/python");
    once(&directory, |directory| {
        eprintln!("installing Python clients into {}", directory.display());
        must(Command::new("python3").args(["-m", "venv"]).arg(directory));
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
        must(pip.arg(&requirements));
    });
    python
}

fn install_node(programs: &Path) -> Option<PathBuf> {
    if Command::new("npm").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("NOT RUN: kafkajs: there is no npm");
        return None;
    }
    let directory = cache("node", &programs.join("package-lock.json"));
    once(&directory, |directory| {
        eprintln!("installing kafkajs into {}", directory.display());
        for file in ["package.json", "package-lock.json"] {
            fs::copy(programs.join(file), directory.join(file)).unwrap();
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]).current_dir(directory);
        must(&mut npm);
    });
    Some(directory)
}

fn must(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?} failed: {}{stderr}",
        String::from_utf8_lossy(&output.stdout)
    );
}
