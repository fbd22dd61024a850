//! A JVM of user nobody with thread names of a broker, killed when dropped.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The JVM's user, which is not the test's.
pub(crate) const NOBODY: u32 = 65_534;
/// The number of its request handlers.
pub(crate) const HANDLERS: usize = 3;

const SOURCE: &str = r#"
public class Named {
    public static void main(String[] args) throws Exception {
        for (int i = 0; i < 3; i++) {
            Thread thread = new Thread(() -> {
                try { Thread.sleep(600_000); } catch (InterruptedException e) { }
            }, "data-plane-kafka-request-handler-" + i);
            thread.setDaemon(true);
            thread.start();
        }
        System.out.println("ready");
        // It ends when the test does.
        System.in.read();
    }
}
"#;

/// The JDKs here, Debian's first.
pub(crate) fn homes() -> Vec<PathBuf> {
    let found = fs::read_dir("/usr/lib/jvm").unwrap().flatten().map(|entry| entry.path());
    let is_home = |path: &PathBuf| !path.is_symlink() && path.join("bin/javac").exists();
    let mut homes: Vec<_> = found.filter(is_home).collect();
    homes.sort();
    assert!(!homes.is_empty(), "no JDK below /usr/lib/jvm");
    homes
}

/// The process.
pub(crate) struct Java {
    home: PathBuf,
    directory: TempDir,
    process: Child,
}

impl Java {
    /// Starts it, and waits until its threads run.
    pub(crate) fn start(home: &Path, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        let source = directory.path().join("Named.java");
        fs::write(&source, SOURCE).unwrap();
        let output = File::create(directory.path().join("output")).unwrap();
        let mut command = Command::new(home.join("bin/java"));
        command.args(["-Xmx64m", "-XX:TieredStopAtLevel=1"]).args(arguments).arg(&source);
        command.current_dir(directory.path()).env_remove("JAVA_TOOL_OPTIONS").uid(NOBODY).gid(NOBODY);
        command.stdin(Stdio::piped()).stdout(output.try_clone().unwrap()).stderr(output);
        let mut java = Self { home: home.to_owned(), process: command.spawn().unwrap(), directory };
        let begun = Instant::now();
        while !java.output().contains("ready") {
            assert!(java.runs() && begun.elapsed() < Duration::from_secs(60), "{}", java.output());
            std::thread::sleep(Duration::from_millis(50));
        }
        java
    }

    /// Its JDK.
    #[allow(dead_code, reason = "not every test runs a tool of the JDK")]
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn runs(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }

    /// Its output so far.
    pub(crate) fn output(&self) -> String {
        fs::read_to_string(self.directory.path().join("output")).unwrap()
    }

    /// Its threads and their names in the kernel.
    pub(crate) fn comms(&self) -> Vec<(u32, String)> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap().flatten();
        let comm = |tid: u32| fs::read_to_string(format!("/proc/{tid}/comm")).unwrap();
        tasks
            .map(|task| task.file_name().to_str().unwrap().parse().unwrap())
            .map(|tid| (tid, comm(tid)))
            .collect()
    }

    pub(crate) fn delete_socket(&self) {
        fs::remove_file(format!("/tmp/.java_pid{}", self.pid())).unwrap();
    }

    /// Trigger files that made it listen.
    pub(crate) fn left_behind(&self) -> Vec<PathBuf> {
        let name = format!(".attach_pid{}", self.pid());
        [self.directory.path(), Path::new("/tmp")]
            .map(|dir| dir.join(&name))
            .into_iter()
            .filter(|path| path.exists())
            .collect()
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        // A killed JVM leaves its socket.
        let _ = fs::remove_file(format!("/tmp/.java_pid{}", self.pid()));
    }
}
