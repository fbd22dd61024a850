//! A container without a container runtime: pid, mount and network namespaces, an overlay as root, a volume. Removed with
//! everything in it when dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Timeout for its first process to start the intended program.
const PATIENCE: Duration = Duration::from_secs(120);

/// The source of a container's files.
#[derive(Clone, Debug)]
pub struct Image {
    /// Directory for the overlay's files; not on the root file system. Files written to `PATH` in the container's root
    /// are in `layers/upper/PATH`.
    pub layers: PathBuf,
    /// A directory that the container sees as [`Image::PLACE`].
    pub volume: PathBuf,
    /// Directories of the host, at the same paths in the container.
    pub shared: Vec<PathBuf>,
}

impl Image {
    /// Path of the volume in the container.
    pub const PLACE: &str = "/var/lib/kafka";

    /// A command that runs its further arguments in a separate container.
    ///
    /// # Panics
    /// If the directories cannot be made.
    pub fn command(&self) -> Command {
        for directory in [&self.layers, &self.volume] {
            fs::create_dir_all(directory).unwrap();
        }
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount", "--net", "sh"]);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/container.sh"));
        command.arg(&self.layers).arg(&self.volume).arg(Self::PLACE).args(&self.shared).arg("--");
        command
    }
}

/// The host's id of a container's first process. Waits until its command line contains this word.
///
/// # Panics
/// If that does not come.
pub fn first_process(unshare: &Child, word: &str) -> u32 {
    let parent = unshare.id();
    let end = Instant::now() + PATIENCE;
    loop {
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        let child = children.unwrap_or_default().split_whitespace().next().map(str::to_owned);
        if let Some(child) = child {
            let cmdline = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            let mut words = cmdline.split(|&byte| byte == 0);
            if words.next().is_some_and(|program| program.ends_with(b"java"))
                && words.any(|found| found == word.as_bytes())
            {
                return child.parse().unwrap();
            }
        }
        assert!(Instant::now() < end, "no {word} in the container");
        sleep(Duration::from_millis(20));
    }
}

/// A command that runs its further arguments in some of a process's namespaces. `namespaces` are `nsenter`'s flags.
pub fn enter(pid: u32, namespaces: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--target", &pid.to_string()]).args(namespaces).arg("--").stdin(Stdio::null());
    command
}
