//! Paths of this workspace's programs: `brokerscope`, which experiments run, and `brokerscope-lab`, which serves
//! devices. Also finds the processes that a program has started.

use std::path::PathBuf;

use crate::error::{Error, Result};

/// Finds `brokerscope`: the path in `BROKERSCOPE_BIN`, else next to this program.
///
/// # Errors
/// [`Error::Missing`] if it is not there.
pub fn brokerscope() -> Result<PathBuf> {
    find("brokerscope", "brokerscope", "BROKERSCOPE_BIN")
}

/// Finds `brokerscope-lab`: the path in `BROKERSCOPE_LAB_BIN`, else next to this program.
///
/// # Errors
/// [`Error::Missing`] if it is not there.
pub fn lab() -> Result<PathBuf> {
    find("brokerscope-lab", "lab", "BROKERSCOPE_LAB_BIN")
}

/// Cargo puts tests into a directory below the programs.
fn find(name: &str, package: &str, variable: &str) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        return Ok(PathBuf::from(path));
    }
    let this = std::env::current_exe().map_err(Error::system("find this program"))?;
    let beside = this.ancestors().skip(1).take(2).map(|directory| directory.join(name));
    beside.into_iter().find(|path| path.is_file()).ok_or_else(|| Error::Missing {
        tool: name.to_owned(),
        remedy: format!("build it beside {} (cargo build -p {package}), or set {variable}", this.display()),
    })
}

/// The children of all threads of a process: a recorder parses packets in another process.
pub fn children(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    children.flat_map(|pids| pids.split_whitespace().flat_map(str::parse).collect::<Vec<_>>()).collect()
}

/// The child of a process that has this argument.
pub fn child_with(pid: u32, argument: &str) -> Option<u32> {
    let has_it = |child: &u32| {
        let arguments = std::fs::read_to_string(format!("/proc/{child}/cmdline"));
        arguments.is_ok_and(|arguments| arguments.split('\0').any(|one| one == argument))
    };
    children(pid).into_iter().find(has_it)
}
