//! A container without a container runtime: pid, mount and network namespaces, an overlay as root, a volume. Goes with
//! everything in it when dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long its first process may take to become what it is to be.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where a container's files come from.
#[derive(Clone, Debug)]
pub struct Image {
    /// For the overlay's own files; not on the root file system. What is written below `PATH` in the container's root
    /// is in `layers/upper/PATH`.
    pub layers: PathBuf,
    /// A directory that the container sees as [`Image::PLACE`].
    pub volume: PathBuf,
    /// Directories of the host that it sees where they are.
    pub shared: Vec<PathBuf>,
}

impl Image {
    /// Where the volume is in the container.
    pub const PLACE: &str = "/var/lib/kafka";

    /// A command that runs, in its own container, what is added to it.
    ///
    /// # Panics
    /// Where the directories cannot be made.
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

/// The first process of a container, as the host numbers it, once its command line has this word.
///
/// # Panics
/// Where that does not come.
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

/// A command that runs, in these of a process's namespaces (`nsenter`'s flags), what is added to it.
pub fn enter(pid: u32, namespaces: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--target", &pid.to_string()]).args(namespaces).arg("--").stdin(Stdio::null());
    command
}
