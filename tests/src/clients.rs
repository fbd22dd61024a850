//! Real clients: Kafka's own (Java), two versions of librdkafka, kafka-python, aiokafka, kafkajs, franz-go, Sarama,
//! segmentio's and rskafka. Runs them and collects their reports of what they sent.

mod install;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::kafka::Jars;
use serde_json::Value;

/// Timeout: a client that runs longer hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// Clients that use the newest versions they know. Their client ids and message ids start with these names.
pub const CLIENTS: [&str; 9] = [
    "java",
    "librdkafka",
    "librdkafka-old",
    "kafka-python",
    "aiokafka",
    "kafkajs",
    "franz-go",
    "sarama",
    "segmentio",
];

/// Clients that are set to use the versions of old brokers.
pub const PINNED: [&str; 5] =
    ["pinned-librdkafka", "pinned-librdkafka-old", "pinned-kafka-python", "pinned-franz-go", "pinned-sarama"];

/// Clients that use every version they support, one after the other.
pub const EVERY: [&str; 1] = ["every-version"];

/// The newest releases of nine client libraries. Those of which [`CLIENTS`] has an older release have another name
/// here. Java 4.4 and franz-go 1.22 start every connection with `ApiVersions` v5, which the broker does not know.
pub const NEWEST: [&str; 9] = [
    "newest-java",
    "librdkafka",
    "kafka-python",
    "aiokafka",
    "kafkajs",
    "newest-franz-go",
    "newest-sarama",
    "newest-segmentio",
    "rskafka",
];

/// Kafka's Java client alone, of a newer release than the broker.
const NEWEST_JAVA: Jars = Jars {
    name: "Kafka's newest Java client",
    directory: "newest-java-client",
    jar: "kafka-clients-4.4.0.jar",
    pom: include_str!("../clients/newest-java.xml"),
    arguments: &[],
    size: "about 20 MB",
};

/// The clients, installed.
#[derive(Debug)]
pub struct Clients {
    programs: PathBuf,
    python: PathBuf,
    python_old: PathBuf,
    node_modules: PathBuf,
    go: PathBuf,
    classpath: String,
}

/// CPU share of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Normal priority.
    Full,
    /// Only idle CPU time.
    Spare,
}

impl Share {
    fn of(self, command: Command) -> Command {
        if self == Self::Full {
            return command;
        }
        let mut idle = Command::new("chrt");
        idle.args(["--idle", "0"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => idle.env(name, value),
                None => idle.env_remove(name),
            };
        }
        idle
    }
}

/// A client's report.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its name, with which its message ids start.
    pub client: String,
    /// Its message ids are `client-0` … up to this.
    pub sent: u64,
    /// Number of further records that it sent without message ids.
    pub unnamed: u64,
}

/// Installs a list of Python packages, once, in a virtual environment; returns its interpreter.
///
/// # Panics
/// If it cannot be installed.
pub fn python(requirements: &Path) -> PathBuf {
    install::python(requirements)
}

/// Whether the installed Go builds [`NEWEST`] (`clients/go-newest/go.mod`); Debian's is older.
pub fn newest_can_be_built() -> bool {
    let output = Command::new("go").args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local").output();
    let version =
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let minor =
        version.strip_prefix("go1.").and_then(|rest| rest.split(['.', '\n']).next()?.parse::<u32>().ok());
    minor.is_some_and(|minor| minor >= 26)
}

impl Clients {
    /// Installs what is missing; `classpath` has Kafka's own jars.
    ///
    /// # Panics
    /// If something cannot be installed.
    pub fn install(classpath: &str) -> Self {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients");
        let python = install::python(&programs.join("requirements.txt"));
        let python_old = install::python(&programs.join("requirements-old.txt"));
        let node_modules = install::node(&programs);
        let go = install::go(&programs.join("go"), "./...");
        Self { programs, python, python_old, node_modules, go, classpath: classpath.to_owned() }
    }

    /// Creates the topics that the clients use.
    ///
    /// # Panics
    /// If that fails.
    pub fn set_up(&self, bootstrap: &str, logs: &Path) {
        Running::start(&mut self.java(&["setup", bootstrap]), "java-setup", logs).finish();
    }

    /// Runs clients of these names side by side to their ends.
    ///
    /// # Panics
    /// If one fails.
    pub fn run(&self, names: &[&str], share: Share, bootstrap: &str, logs: &Path) -> Vec<Report> {
        let start = |name: &&str| Running::start(&mut share.of(self.client(name, bootstrap)), name, logs);
        let running: Vec<Running> = names.iter().map(start).collect();
        running.into_iter().map(|client| report(&client.finish())).collect()
    }

    fn client(&self, name: &str, bootstrap: &str) -> Command {
        let mut command = match name {
            "java" => return self.java(&["mix", bootstrap, name]),
            "newest-java" => {
                let jars = NEWEST_JAVA.prepare().unwrap_or_else(|error| panic!("{error}"));
                return self.java_of(&jars.join("*").to_string_lossy(), &["mix", bootstrap, name]);
            }
            "librdkafka" => self.python_client(&self.python, "librdkafka_client.py"),
            "librdkafka-old" => self.python_client(&self.python_old, "librdkafka_client.py"),
            "kafka-python" => self.python_client(&self.python, "kafka_python_client.py"),
            "aiokafka" => self.python_client(&self.python, "aiokafka_client.py"),
            "kafkajs" => self.javascript("kafkajs_client.js"),
            "franz-go" | "pinned-franz-go" => Command::new(self.go.join("franz")),
            "newest-franz-go" => self.newest_go("franz"),
            "newest-sarama" => self.newest_go("sarama"),
            "newest-segmentio" => self.newest_go("segmentio"),
            "rskafka" => Command::new(install::cargo(&self.programs.join("rskafka"), "rskafka_client")),
            "sarama" | "pinned-sarama" => Command::new(self.go.join("sarama")),
            "segmentio" => Command::new(self.go.join("segmentio")),
            "every-version" => Command::new(self.go.join("versions")),
            "pinned-librdkafka" => self.python_client(&self.python, "librdkafka_old_versions.py"),
            "pinned-librdkafka-old" => self.python_client(&self.python_old, "librdkafka_old_versions.py"),
            "pinned-kafka-python" => self.python_client(&self.python, "kafka_python_old_versions.py"),
            _ => panic!("no client is called {name}"),
        };
        command.args([bootstrap, name]);
        if matches!(name, "pinned-franz-go" | "pinned-sarama") {
            command.arg("old");
        }
        command
    }

    fn newest_go(&self, program: &str) -> Command {
        let built = install::go(&self.programs.join("go-newest"), "tool");
        Command::new(built.join(program))
    }

    fn python_client(&self, python: &Path, program: &str) -> Command {
        let mut command = Command::new(python);
        // A bytecode cache does not belong among the sources.
        command.arg(self.programs.join(program)).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    fn javascript(&self, program: &str) -> Command {
        let mut command = Command::new("node");
        command.arg(self.programs.join(program));
        command.env("KAFKAJS_HOME", &self.node_modules).env("KAFKAJS_NO_PARTITIONER_WARNING", "1");
        command
    }

    /// Starts a light load of single records that ends by itself. It is at most 200 records per second.
    pub fn trickle(&self, bootstrap: &str, seconds: u64, logs: &Path) -> Running {
        Running::start(&mut self.java(&["trickle", bootstrap, &seconds.to_string()]), "trickle", logs)
    }

    fn java(&self, arguments: &[&str]) -> Command {
        self.java_of(&self.classpath, arguments)
    }

    fn java_of(&self, classpath: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("java");
        command.args(["-Xmx512m", "-cp", classpath]).arg(self.programs.join("Clients.java")).args(arguments);
        command
    }
}

/// Parses the last line that is JSON.
fn report(output: &str) -> Report {
    let report = output.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
    let report = report.unwrap_or_else(|| panic!("no report in {output}"));
    Report {
        client: report["client"].as_str().unwrap().to_owned(),
        sent: report["sent"].as_u64().unwrap(),
        unnamed: report["unnamed"].as_u64().unwrap_or(0),
    }
}

/// A client at work; killed when dropped.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    output_path: PathBuf,
}

impl Running {
    fn start(command: &mut Command, name: &str, logs: &Path) -> Self {
        let output_path = logs.join(format!("{name}.txt"));
        let file = File::create(&output_path).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let child = command.spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        Self { name: name.to_owned(), child, output_path }
    }

    /// Waits for its end and returns its output.
    ///
    /// # Panics
    /// If it fails or hangs.
    pub fn finish(mut self) -> String {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "{} hangs: {}", self.name, self.output());
            sleep(Duration::from_millis(20));
        };
        assert!(status.success(), "{} failed: {}", self.name, self.output());
        self.output()
    }

    fn output(&self) -> String {
        fs::read_to_string(&self.output_path).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
