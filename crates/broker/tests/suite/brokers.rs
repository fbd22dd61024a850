//! Brokers found in a directory that looks like `/proc`.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use broker::{Broker, Error, Processes};

/// A machine with processes and their files.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap() };
        machine.process("self", "", &["brokerscope"], "/", "mnt:[1]");
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn processes(&self) -> Processes {
        Processes::at(self.path("proc"))
    }

    /// Creates a process with a working directory and a root directory.
    fn process(&self, pid: &str, cwd: &str, arguments: &[&str], root: &str, namespace: &str) {
        let proc = self.path("proc").join(pid);
        fs::create_dir_all(proc.join("ns")).unwrap();
        let cmdline: Vec<u8> = arguments.iter().flat_map(|argument| argument.bytes().chain([0])).collect();
        fs::write(proc.join("cmdline"), cmdline).unwrap();
        symlink(root, proc.join("root")).unwrap();
        symlink(cwd, proc.join("cwd")).unwrap_or_default();
        symlink(namespace, proc.join("ns/mnt")).unwrap();
    }

    /// A broker in its own directory of this machine.
    fn broker(&self, pid: u32, properties: &str, overrides: &[&str]) -> PathBuf {
        let cwd = self.path(&format!("home{pid}"));
        fs::create_dir_all(cwd.join("config")).unwrap();
        fs::write(cwd.join("config/server.properties"), properties).unwrap();
        let arguments =
            [&["/jvm/bin/java", "-Xmx1G", "kafka.Kafka", "config/server.properties"], overrides].concat();
        self.process(&pid.to_string(), cwd.to_str().unwrap(), &arguments, "/", "mnt:[1]");
        fs::canonicalize(cwd).unwrap()
    }

    /// Gives a process this mapped library and a user.
    /// The user is the owner of the process's files, or another one if `is_other` is set.
    fn map_library(&self, pid: u32, library: &str, is_other: bool) {
        let proc = self.path("proc").join(pid.to_string());
        let user = fs::metadata(&proc).unwrap().uid() + u32::from(is_other);
        fs::write(proc.join("maps"), format!("7f00-7f01 r-xp 0 08:01 1 {library}\n")).unwrap();
        fs::write(proc.join("status"), format!("Name:\tjava\nUid:\t9 {user} 9 9\n")).unwrap();
    }
}

#[test]
fn reads_a_broker_with_its_overrides() {
    let machine = Machine::new();
    let cwd = machine.broker(
        70,
        "node.id=1\nlisteners=PLAINTEXT://:9192,CONTROLLER://:9193\ncontroller.listener.names=CONTROLLER\n\
         log.dirs=data/a, /absent/b\nmetadata.log.dir=meta\nssl.key.password=x",
        &["--override", "node.id=5"],
    );
    fs::create_dir_all(cwd.join("real")).unwrap();
    fs::create_dir_all(cwd.join("data")).unwrap();
    symlink(cwd.join("real"), cwd.join("data/a")).unwrap();
    let broker = Broker::of(&machine.processes(), 70).unwrap();
    assert_eq!(broker.node_id, Some(5));
    assert_eq!(broker.log_dirs, [cwd.join("real"), PathBuf::from("/absent/b"), cwd.join("meta")]);
    assert_eq!(broker.ports(), [9192, 9193]);
    assert_eq!(broker.properties["ssl.key.password"], "x");
    assert_eq!(broker.properties_file, cwd.join("config/server.properties"));
    assert_eq!(Broker::only_of(&machine.processes()).unwrap(), broker);
}

#[test]
fn missing_node_id_is_read_from_meta_properties() {
    let machine = Machine::new();
    let cwd = machine.broker(7, "broker.id=-1\nlog.dir=d", &[]);
    assert_eq!(Broker::of(&machine.processes(), 7).unwrap().node_id, None);
    fs::create_dir(cwd.join("d")).unwrap();
    fs::write(cwd.join("d/meta.properties"), "#\nversion=0\nbroker.id=1003\n").unwrap();
    assert_eq!(Broker::of(&machine.processes(), 7).unwrap().node_id, Some(1003));
}

#[test]
fn reads_a_containers_broker_below_its_root() {
    let machine = Machine::new();
    let root = machine.path("container");
    fs::create_dir_all(root.join("opt/kafka")).unwrap();
    fs::write(root.join("opt/kafka/server.properties"), "log.dirs=/var/lib/kafka,here").unwrap();
    let arguments = ["java", "kafka.Kafka", "server.properties"];
    machine.process("9", "/opt/kafka", &arguments, root.to_str().unwrap(), "mnt:[2]");
    let broker = Broker::of(&machine.processes(), 9).unwrap();
    let below = machine.path("proc/9/root");
    assert_eq!(broker.log_dirs, [below.join("var/lib/kafka"), below.join("opt/kafka/here")]);
}

#[test]
fn unset_log_dir_and_listeners_have_kafkas_defaults() {
    let machine = Machine::new();
    machine.broker(7, "log.dirs=\n", &[]);
    let broker = Broker::of(&machine.processes(), 7).unwrap();
    assert!(broker.log_dirs[0].ends_with("kafka-logs"), "{:?}", broker.log_dirs);
    assert_eq!(broker.ports(), [9092]);
}

#[test]
fn errors_have_one_line_and_name_a_remedy() {
    let machine = Machine::new();
    let message = |result: Result<Broker, Error>| {
        let message = result.unwrap_err().to_string();
        assert!(!message.contains('\n'));
        message
    };
    let processes = machine.processes();
    assert!(message(Broker::only_of(&processes)).contains("no Kafka broker runs here"));
    assert!(message(Broker::of(&processes, 3)).contains("there is no process 3"));
    machine.process("12", "/", &["bash"], "/", "mnt:[1]");
    machine.process("13", "/", &["grep", "kafka.Kafka"], "/", "mnt:[1]");
    assert!(message(Broker::only_of(&processes)).contains("no Kafka broker runs here"));
    assert!(message(Broker::of(&processes, 12)).contains("process 12 is not a Kafka broker"));
    machine.process("14", "/", &["java", "kafka.Kafka"], "/", "mnt:[1]");
    assert!(message(Broker::of(&processes, 14)).contains("--log-dir"));
    let cwd = machine.broker(15, "", &[]);
    let both = message(Broker::only_of(&processes));
    assert!(both.contains("processes 14, 15: name one with --pid"), "{both}");
    fs::remove_file(cwd.join("config/server.properties")).unwrap();
    assert!(message(Broker::of(&processes, 15)).contains("server.properties: No such file"));
    fs::remove_file(machine.path("proc/15/cwd")).unwrap();
    assert!(message(Broker::of(&processes, 15)).contains("run as root"));
    assert_eq!(Broker::all(&processes).len(), 2);
}

#[test]
fn skips_processes_that_only_look_like_a_broker() {
    const JVM: &str = "/jvm/lib/server/libjvm.so";
    let machine = Machine::new();
    let data = machine.broker(7, "log.dirs=d", &[]).join("d");
    fs::create_dir(&data).unwrap();
    // No JVM, a log dir of another user, a pipe without a writer, and a directory that cannot be read.
    for pid in [8, 9, 10, 11] {
        machine.broker(pid, &format!("log.dirs={}", data.display()), &[]);
    }
    let pipe = machine.path("home10/config/server.properties");
    fs::remove_file(&pipe).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (pid, library, is_other) in
        [(7, JVM, false), (8, "/usr/bin/python3", false), (9, JVM, true), (10, JVM, true)]
    {
        machine.map_library(pid, library, is_other);
    }
    let processes = machine.processes();
    assert_eq!(Broker::only_of(&processes).unwrap().pid, 7);
    assert_eq!(Broker::all(&processes).len(), 1);
    assert_eq!(Broker::of(&processes, 8).unwrap().pid, 8, "the user named it");
    fs::remove_dir_all(machine.path("proc/7")).unwrap();
    assert_eq!(broker::pids(&processes), [10, 11], "it is not known what they are");
    for pid in ["10", "11"] {
        fs::remove_dir_all(machine.path("proc").join(pid)).unwrap();
    }
    assert!(matches!(Broker::only_of(&processes), Err(Error::NoneRuns)));
}

#[test]
fn this_process_is_not_a_broker() {
    let pid = std::process::id();
    assert!(matches!(Broker::of_pid(pid), Err(Error::NotABroker { pid: p }) if p == pid));
    assert!(broker::find().iter().all(|broker| broker.pid != pid));
    assert!(Path::new("/proc/self").exists());
}
