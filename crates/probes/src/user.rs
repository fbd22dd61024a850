//! Names a process's own code: functions of programs and libraries by their symbol tables, compiled Java by the perf
//! map that the JVM writes on request. Unnamed code gets the name of its mapping. Changes nothing in the process.
//! Fuzzed by: symbols.

#![allow(clippy::disallowed_methods, reason = "/proc")]

pub(crate) mod elf;
pub(crate) mod mappings;
pub(crate) mod perf_map;

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use model::StackTime;

use elf::Functions;
use mappings::{CodeSource, Mapping, Mappings};
use perf_map::PerfMap;

/// Cached names; a broker runs about ten thousand methods.
const MAX_NAMES: usize = 65_536;
/// Total bytes of all files' functions; files beyond that have no names.
const MAX_FILE_BYTES: usize = 64 << 20;
/// A process with this library is a JVM.
const LIBJVM: &str = "libjvm.so";
/// Frame of compiled code that the perf map does not name.
const UNNAMED_JAVA: &str = "[java]_[j]";
const UNNAMED_CODE: &str = "[compiled]_[j]";

/// Code of a process, for naming addresses.
pub(crate) struct UserCode {
    process: PathBuf,
    mappings: Mappings,
    /// Functions by path; `None` if the file could not be read.
    files: HashMap<Arc<str>, Option<Functions>>,
    compiled: PerfMap,
    listed: Option<SystemTime>,
    pub(crate) java: Java,
    names: HashMap<u64, Option<Arc<str>>>,
}

/// Whether Java's frames can be seen and named, and what to do if not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Java {
    /// Whether the process is a JVM.
    pub is_jvm: bool,
    /// Whether `-XX:+PreserveFramePointer` is on its command line.
    pub frame_pointers: bool,
    /// Why its perf map is missing, if it is.
    pub no_perf_map: Option<String>,
    /// Whether there was compiled code that its perf map does not name.
    pub unnamed: bool,
}

impl UserCode {
    /// Reads a process's code as of now.
    pub(crate) fn of(pid: u32) -> Self {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let mut code = Self {
            mappings: Mappings::default(),
            files: HashMap::new(),
            compiled: PerfMap::default(),
            listed: None,
            java: Java::default(),
            names: HashMap::new(),
            process,
        };
        code.refresh();
        code
    }

    /// Reads again what the process has mapped and compiled.
    pub(crate) fn refresh(&mut self) {
        // For a process that has ended, the last state stays known.
        let mappings = Mappings::read(&self.process).ok().filter(|mappings| !mappings.0.is_empty());
        let Some(mappings) = mappings else { return };
        self.mappings = mappings;
        self.names.clear();
        self.java.is_jvm = self.mappings.of_file(LIBJVM).is_some();
        self.java.frame_pointers = keeps_frame_pointers(&self.process);
        self.java.no_perf_map = self.read_perf_map().err().filter(|_| self.java.is_jvm);
    }

    /// Reads the perf map: in the process's own `/tmp`, named by its id in its own pid namespace.
    fn read_perf_map(&mut self) -> Result<(), String> {
        let own_pid = own_pid(&self.process).ok_or("the process is gone")?;
        let path = self.process.join(format!("root/tmp/perf-{own_pid}.map"));
        let metadata = fs::symlink_metadata(&path).map_err(|_| format!("no /tmp/perf-{own_pid}.map"))?;
        let written = metadata.modified().ok();
        if written.is_some() && written == self.listed {
            return Ok(());
        }
        let process = fs::metadata(&self.process).map_err(|error| error.to_string())?;
        if process.modified().ok().zip(written).is_some_and(|(started, written)| written < started) {
            return Err(format!("/tmp/perf-{own_pid}.map is older than the process"));
        }
        let refused = |error| format!("/tmp/perf-{own_pid}.map: {error}");
        self.compiled = PerfMap::read(&path, process.uid()).map_err(refused)?;
        self.listed = written;
        if self.compiled.entries.is_empty() {
            Err(format!("/tmp/perf-{own_pid}.map is empty"))
        } else {
            Ok(())
        }
    }

    /// Names of frames, outermost first.
    ///
    /// `frames` are addresses, innermost first. An address that is no code ends the stack, which could not be followed
    /// further (no frame pointers); frames outside it are left out.
    pub(crate) fn names(&mut self, frames: &[u64]) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = Vec::with_capacity(frames.len());
        for (depth, &address) in frames.iter().enumerate() {
            // If a call is a function's last instruction, its return address is the first of the next function.
            let address = if depth == 0 { address } else { address.saturating_sub(1) };
            let Some(name) = self.name(address) else { break };
            let repeats = name.starts_with('[') && names.last() == Some(&name);
            if !repeats {
                names.push(name);
            }
        }
        names.reverse();
        names
    }

    fn name(&mut self, address: u64) -> Option<Arc<str>> {
        if let Some(name) = self.names.get(&address) {
            return name.clone();
        }
        if self.names.len() >= MAX_NAMES {
            self.names.clear();
        }
        let name = self.look_up(address);
        self.names.insert(address, name.clone());
        name
    }

    fn look_up(&mut self, address: u64) -> Option<Arc<str>> {
        let mapping = self.mappings.mapping_at(address)?;
        match &mapping.what {
            CodeSource::Memory => Some(self.compiled_name(address)),
            CodeSource::Kernel(name) => Some(Arc::clone(name)),
            CodeSource::File(path) | CodeSource::Deleted(path) => {
                let path = Arc::clone(path);
                let offset = (address - mapping.start).saturating_add(mapping.offset);
                if !self.files.contains_key(&path) {
                    let known_bytes: usize = self.files.values().flatten().map(Functions::bytes).sum();
                    let functions = if known_bytes < MAX_FILE_BYTES {
                        functions_of(&self.process, mapping, &path)
                    } else {
                        None
                    };
                    self.files.insert(Arc::clone(&path), functions);
                }
                let functions = self.files.get(&path).and_then(Option::as_ref);
                let name = functions.and_then(|functions| functions.name_at(offset));
                let file = path.rsplit_once('/').map_or(&*path, |(_, name)| name);
                Some(name.map_or_else(|| format!("[{}]", as_frame(file)), |name| as_frame(&name)).into())
            }
        }
    }

    fn compiled_name(&mut self, address: u64) -> Arc<str> {
        match self.compiled.name_of(address) {
            Some(name) => format!("{}{}", as_frame(name), StackTime::COMPILED).into(),
            None if self.java.is_jvm => {
                self.java.unnamed = true;
                UNNAMED_JAVA.into()
            }
            None => UNNAMED_CODE.into(),
        }
    }
}

/// Replaces characters that a frame may not contain.
fn as_frame(name: &str) -> String {
    name.replace(';', ",")
}

/// Functions of the mapped file itself, if this process may open it; else of the file at its path.
fn functions_of(process: &Path, mapping: &Mapping, path: &str) -> Option<Functions> {
    let mapped = process.join(format!("map_files/{:x}-{:x}", mapping.start, mapping.end));
    let exactly = Functions::read(&mapped).ok();
    if exactly.is_some() || matches!(mapping.what, CodeSource::Deleted(_)) {
        return exactly;
    }
    Functions::read(&process.join("root").join(path.trim_start_matches('/'))).ok()
}

/// The process's id in the innermost namespace. It is the last number of `NSpid:` in `/proc/PID/status`.
fn own_pid(process: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}

fn keeps_frame_pointers(process: &Path) -> bool {
    let arguments = fs::read(process.join("cmdline")).unwrap_or_default();
    arguments.split(|&byte| byte == 0).any(|argument| argument == b"-XX:+PreserveFramePointer")
}

#[cfg(test)]
mod tests {
    use super::UserCode;

    #[test]
    fn stack_ends_at_an_unknown_address() {
        let mut code = UserCode::of(std::process::id());
        assert!(!code.java.is_jvm);
        let here = stack_ends_at_an_unknown_address as fn() as usize as u64;
        let names = code.names(&[here, here + 1, 0x10, here]);
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names[0].contains("stack_ends_at_an_unknown_address"), "{names:?}");
    }

    #[test]
    fn ended_process_has_no_names() {
        let mut code = UserCode::of(u32::MAX);
        assert!(code.names(&[0x1000]).is_empty());
    }

    #[test]
    fn perf_map_names_compiled_code() {
        let path = format!("/tmp/perf-{}.map", std::process::id());
        let code = crate::user::tests::executable_page();
        std::fs::write(&path, format!("{code:x} 1000 int a.b.C;D.run(int)\n")).unwrap();
        let mut own = UserCode::of(std::process::id());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(own.names(&[code])[0].as_ref(), "a.b.C,D.run_[j]");
        let names = own.names(&[code + 0x1001, code + 0x1002]);
        assert_eq!(names.iter().map(AsRef::as_ref).collect::<Vec<_>>(), ["[compiled]_[j]"]);
    }

    /// Two pages of executable memory; never run, and never unmapped.
    fn executable_page() -> u64 {
        let access = libc::PROT_READ | libc::PROT_EXEC;
        // SAFETY: a new mapping without a file, at an address of the kernel's choice.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), 8192, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        at as u64
    }
}
