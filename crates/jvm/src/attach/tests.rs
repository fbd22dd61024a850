//! Attaches to a fake JVM: a `/proc` with the files of a JVM's process, and a socket that answers.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;

use super::{Bounds, Client};
use crate::{Error, Machine};

const PID: u32 = 4_194_305;
const OWN: u32 = 7;

/// A JVM's answer to a request.
type Answering = fn(&[u8]) -> &'static [u8];

/// A directory and the `/proc` in it.
fn proc() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let proc = dir.path().join("proc");
    (dir, proc)
}

/// A JVM that listens in its `/tmp` and answers each request with `answer`.
fn listening(machine: &Machine, answer: Answering) {
    let socket = machine.path(&format!("root/tmp/.java_pid{OWN}"));
    let listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(socket, fs::Permissions::from_mode(0o600)).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut request, mut byte, mut words) = (Vec::new(), [1], 0);
            // A version, a command and three arguments.
            while words < 5 && stream.read_exact(&mut byte).is_ok() {
                request.push(byte[0]);
                words += u32::from(byte == [0]);
            }
            let _ = stream.write_all(answer(&request));
        }
    });
}

fn machine(proc: &Path, pid: u32, caught: &str) -> Machine {
    let dir = proc.join(pid.to_string());
    fs::create_dir_all(dir.join("root/tmp")).unwrap();
    fs::create_dir_all(dir.join("cwd")).unwrap();
    let user = fs::metadata(&dir).unwrap().uid();
    let status = format!(
        "Pid:\t{pid}\nUid:\t{user} {user} 0 0\nGid:\t0 0 0 0\nNSpid:\t{pid}\t{OWN}\nSigCgt:\t{caught}\n"
    );
    let maps = "7f00-7f01 r-xp 0 08:01 1 /opt/lib/server/libjvm.so\n";
    for (name, text) in [("status", status.as_str()), ("maps", maps), ("cmdline", "java\0")] {
        fs::write(dir.join(name), text).unwrap();
    }
    Machine::at(proc, pid).unwrap()
}

#[test]
fn jcmd_works_with_the_old_and_the_streaming_attach_protocol() {
    let old = |request: &[u8]| match request {
        b"1\0getversion\0options\0\0\0" => &b"-1\nOperation getversion not recognized!\n"[..],
        b"1\0jcmd\0VM.uptime\0\0\0" => b"0\n12.3 s\n",
        _ => b"-1\n\n  java.lang.IllegalArgumentException: Unknown\x1b[31m diagnostic command\nmore\n",
    };
    let new = |request: &[u8]| match request {
        b"1\0getversion\0options\0\0\0" => &b"0\n2 streaming"[..],
        b"1\0jcmd streaming=0\0VM.uptime\0\0\0" => b"0\n12.3 s\n",
        _ => b"-1\n",
    };
    for answer in [old as Answering, new] {
        let (_dir, proc) = proc();
        let machine = machine(&proc, std::process::id(), "4");
        listening(&machine, answer);
        let client = Client::of(&machine).unwrap();
        assert_eq!(client.jcmd("VM.uptime", Bounds::default()).unwrap(), "12.3 s\n");
        let message = client.jcmd("No.such command", Bounds::default()).unwrap_err().to_string();
        assert!(message.contains("refused No.such: ") && !message.contains(char::is_control), "{message}");
    }
}

#[test]
fn refuses_a_socket_that_is_not_the_jvms() {
    let refused = |machine: &Machine, why: &str| {
        let error = Client::of(machine).unwrap_err().to_string();
        assert!(error.contains("it is not the JVM's") && error.contains(why), "{error}");
    };
    let (_dir, proc) = proc();
    let own = machine(&proc, std::process::id(), "4");
    listening(&own, |_| b"0\n2");
    assert!(Client::of(&own).is_ok() && super::listens(&own));
    let (mut of_another_user, mut of_another_process) = (own.clone(), own.clone());
    of_another_user.owner.uid += 1;
    of_another_process.pid = PID;
    refused(&of_another_user, "is user");
    assert!(!super::listens(&of_another_user));
    refused(&of_another_process, "listens there");
    let socket = own.path(&format!("root/tmp/.java_pid{OWN}"));
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    refused(&own, "mode 140666");
    // A link, even to a valid socket.
    let moved = own.path("root/tmp/socket");
    fs::rename(&socket, &moved).unwrap();
    fs::set_permissions(&moved, fs::Permissions::from_mode(0o600)).unwrap();
    symlink("socket", &socket).unwrap();
    refused(&own, "mode 120777");
}

#[test]
fn trigger_file_is_not_written_outside_the_process_root() {
    let (dir, proc) = proc();
    let machine = machine(&proc, PID, "4");
    let host = dir.path().join("host");
    fs::create_dir(&host).unwrap();
    for place in ["cwd", "root/tmp"] {
        fs::remove_dir(machine.path(place)).unwrap();
    }
    symlink(&host, machine.path("root/tmp")).unwrap();
    assert!(super::put_trigger(&machine).is_err());
    assert_eq!(fs::read_dir(host).unwrap().count(), 0);
}

/// A process that SIGQUIT kills, even if this process ignores the signal. A process that a shell runs in the background
/// does so.
fn sleeping() -> Child {
    let process = Command::new("env").args(["--default-signal=QUIT", "sleep", "600"]).spawn().unwrap();
    let comm = format!("/proc/{}/comm", process.id());
    while fs::read_to_string(&comm).unwrap() != "sleep\n" {
        std::thread::yield_now();
    }
    process
}

#[test]
fn process_without_a_sigquit_handler_gets_no_signal_and_no_file() {
    let (_dir, proc) = proc();
    let mut process = sleeping();
    // Every signal except SIGQUIT.
    let refused = Client::of(&machine(&proc, process.id(), "fffffffffffffffb")).unwrap_err();
    let left = ["cwd", "root/tmp"]
        .map(|place| fs::read_dir(proc.join(format!("{}/{place}", process.id()))).unwrap().count());
    // The same process once it seems to handle the signal: it gets it, and dies of it.
    let handler = super::Handler::of(&machine(&proc, process.id(), "4")).unwrap();
    let alive = process.try_wait().unwrap().is_none();
    handler.signal().unwrap();
    let died = process.wait().unwrap();
    assert!(alive, "it died of a signal that it does not handle");
    assert!(matches!(refused, Error::NoSigquitHandler { .. }), "{refused}");
    assert_eq!(left, [0, 0]);
    assert_eq!(died.signal(), Some(3));
}

#[test]
fn trigger_file_is_removed_on_drop() {
    let (_dir, proc) = proc();
    let machine = machine(&proc, PID, "4");
    let [cwd, tmp] = ["cwd", "root/tmp"].map(|place| proc.join(format!("{PID}/{place}")));
    let file = |directory: &Path| directory.join(format!(".attach_pid{OWN}"));
    let put = super::put_trigger(&machine).unwrap();
    assert!(file(&cwd).exists() && !file(&tmp).exists());
    drop(put);
    assert!(!file(&cwd).exists());
    // Its working directory takes no files: removed, because permissions do not stop root.
    fs::remove_dir(&cwd).unwrap();
    let put = super::put_trigger(&machine).unwrap();
    assert!(file(&tmp).exists());
    // The process ends, and the paths to its files with it.
    fs::rename(proc.join(PID.to_string()), proc.join("gone")).unwrap();
    drop(put);
    assert_eq!(fs::read_dir(proc.join("gone/root/tmp")).unwrap().count(), 0);
}
