//! What a sandboxed thread can still do after it has started to read. Each attempt runs in a process of this test, with
//! the sandbox and, as a control, without it.

// clippy.toml allows these in test functions; a test crate is nothing else.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

use sandbox::Access;

const DIRECTORY: &str = "SANDBOX_TEST_DIRECTORY";
const ATTEMPT: &str = "SANDBOX_TEST_ATTEMPT";
const WITHOUT: &str = "SANDBOX_TEST_WITHOUT";
/// A file that is named to the sandbox, and one that is not.
const INSIDE: &str = "inside/file";
const OUTSIDE: &str = "outside";
/// The signal of a filter that kills a process.
const SIGSYS: i32 = 31;

/// Reads the named file, and then makes the attempt of [`ATTEMPT`].
/// The attempt is made in another thread.
#[test]
#[ignore = "is started by the others"]
fn parser() {
    let directory = std::env::var_os(DIRECTORY).unwrap();
    let directory = Path::new(&directory).to_owned();
    let attempt = std::env::var(ATTEMPT).unwrap();
    if std::env::var_os(WITHOUT).is_none() {
        let inside = Access::default().read(directory.join("inside"));
        let access = if attempt == "save" { inside.write(directory.join("inside")) } else { inside };
        let status = sandbox::enter(&access).unwrap();
        println!("entered: {status}");
    }
    let parsed = fs::read_to_string(directory.join(INSIDE)).unwrap();
    println!("parsed: {parsed}");
    let done = thread::spawn(move || perform(&attempt, &directory)).join().unwrap();
    println!("done: {done:?}");
}

fn perform(attempt: &str, directory: &Path) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    match attempt {
        "nothing" => Ok(()),
        "open" => File::open(directory.join(OUTSIDE)).map(drop).map_err(|error| text(&error)),
        "save" => fs::write(directory.join("inside/new"), "found").map_err(|error| text(&error)),
        "write" => fs::write(directory.join(INSIDE), "changed").map_err(|error| text(&error)),
        "remove" => fs::remove_file(directory.join(INSIDE)).map_err(|error| text(&error)),
        "ptrace" => nix::sys::ptrace::cont(nix::unistd::Pid::this(), None).map_err(|error| text(&error)),
        "bpf" => create_map().map_err(|error| text(&error)),
        "connect" => TcpStream::connect("127.0.0.1:9").map(drop).map_err(|error| text(&error)),
        "unmount" => rustix::mount::unmount(directory.join(OUTSIDE), rustix::mount::UnmountFlags::empty())
            .map_err(|error| text(&error)),
        "exec" => match Command::new("true").status() {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("signal {:?}", other.unwrap().signal())),
        },
        other => panic!("{other} is no attempt"),
    }
}

fn create_map() -> libbpf_rs::Result<()> {
    let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as u64,
        ..Default::default()
    };
    libbpf_rs::MapHandle::create(libbpf_rs::MapType::Array, Some("sandbox"), 4, 4, 1, &options).map(drop)
}

/// A directory with a named file and one that is not named.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("inside")).unwrap();
    fs::write(directory.path().join(INSIDE), "bytes of others").unwrap();
    fs::write(directory.path().join(OUTSIDE), "secret").unwrap();
    directory
}

fn run(directory: &Path, attempt: &str, is_sandboxed: bool) -> (Option<i32>, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "parser", "--ignored", "--nocapture"]);
    command.env(DIRECTORY, directory).env(ATTEMPT, attempt);
    if !is_sandboxed {
        command.env(WITHOUT, "1");
    }
    let Output { status, stdout, stderr } = command.output().unwrap();
    let output = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
    assert!(output.contains("parsed: bytes of others"), "{attempt}: it had not begun to read: {output}");
    (status.signal(), output)
}

#[test]
fn denied_system_calls_kill_the_parser() {
    for attempt in ["ptrace", "bpf", "connect", "unmount"] {
        let directory = directory();
        let (signal, output) = run(directory.path(), attempt, true);
        assert_eq!(signal, Some(SIGSYS), "{attempt}: {output}");
        let (signal, output) = run(directory.path(), attempt, false);
        assert!(signal.is_none() && output.contains("done: "), "the control, {attempt}: {output}");
    }
}

#[test]
fn parser_cannot_start_a_program() {
    let directory = directory();
    // The new process is killed, not the one that started it.
    let (_, output) = run(directory.path(), "exec", true);
    assert!(output.contains(&format!("signal {:?}", Some(SIGSYS))), "{output}");
    let (_, output) = run(directory.path(), "exec", false);
    assert!(output.contains("done: Ok"), "the control: {output}");
}

#[test]
fn parser_reads_only_named_files_and_writes_nothing() {
    for attempt in ["open", "write", "remove"] {
        let directory = directory();
        let (signal, output) = run(directory.path(), attempt, true);
        assert!(output.contains("landlock ABI"), "this kernel cannot show it: {output}");
        assert!(signal.is_none() && output.contains("done: Err(\"Permission denied"), "{attempt}: {output}");
        assert_eq!(fs::read_to_string(directory.path().join(INSIDE)).unwrap(), "bytes of others");
        let (_, output) = run(directory.path(), attempt, false);
        assert!(output.contains("done: Ok"), "the control, {attempt}: {output}");
    }
}

#[test]
fn file_of_another_user_needs_one_capability() {
    let directory = directory();
    let (_, output) = run(directory.path(), "nothing", true);
    assert!(output.contains("entered: capabilities none,"), "{output}");
    let file = directory.path().join(INSIDE);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    // Only root can give a file away and still read it.
    if std::os::unix::fs::chown(&file, Some(65_534), None).is_err() {
        eprintln!("not root: a file of another user was not tried");
        return;
    }
    let (_, output) = run(directory.path(), "nothing", true);
    assert!(output.contains("entered: capabilities CAP_DAC_"), "{output}");
    // A home directory that no other user may enter.
    for place in ["inside", "."] {
        let place = directory.path().join(place);
        fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::chown(&place, Some(65_534), None).unwrap();
        let (_, output) = run(directory.path(), "save", true);
        assert!(output.contains("CAP_DAC_OVERRIDE") && output.contains("done: Ok"), "{output}");
    }
}

#[test]
fn survey_does_not_restrict_the_caller() {
    let status = sandbox::survey().unwrap();
    assert!(status.landlock.is_ok() && status.seccomp.is_ok(), "{status}");
    let directory = directory();
    assert_eq!(fs::read_to_string(directory.path().join(OUTSIDE)).unwrap(), "secret");
    assert!(TcpStream::connect("127.0.0.1:9").is_err());
}
