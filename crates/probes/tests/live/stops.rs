//! Ways to stop this very process from outside for a while. They return when it runs again.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::scene::current_tid;

/// Minimum length of a stop.
pub(crate) const STOP: Duration = Duration::from_millis(50);

/// Stops with `SIGSTOP`, from a shell.
pub(crate) fn by_signal() {
    assert!(
        shell("kill -STOP \"$0\"; sleep 0.05; kill -CONT \"$0\"", "".as_ref()),
        "cannot stop this process"
    );
}

/// Stops with the freezer of a version 2 cgroup.
pub(crate) fn by_freezer() {
    let frozen = in_group(&["cgroup2", "none"], "echo 1 >$1/t/cgroup.freeze", "echo 0 >$1/t/cgroup.freeze");
    assert!(frozen, "cannot freeze this process");
}

/// Stops with the freezer of a version 1 cgroup, while one thread works. It freezes threads in some system calls where
/// they sleep. A sleeping thread is in another group, which is thawed a [`STOP`] later. Returns false if the kernel has
/// no such freezer.
pub(crate) fn by_old_freezer() -> bool {
    let over = AtomicBool::new(false);
    let (sender, tid) = std::sync::mpsc::channel();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        threads.spawn(|| {
            sender.send(current_tid()).unwrap();
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        let sleeper = tid.recv().unwrap();
        let write = |group: &str, state: &str| format!("echo {state} >$1/{group}/freezer.state");
        let freeze = format!(
            "mkdir $1/s && echo {sleeper} >$1/s/tasks && {} && {}",
            write("s", "FROZEN"),
            write("t", "FROZEN")
        );
        let thaw = format!(
            "{}; sleep 0.05; {}; echo {sleeper} >$1/tasks; rmdir $1/s",
            write("t", "THAWED"),
            write("s", "THAWED")
        );
        let done = in_group(&["cgroup", "-o", "freezer", "none"], &freeze, &thaw);
        over.store(true, Ordering::Relaxed);
        done
    })
}

/// The shell stays outside the group: it exists before this process is moved into it.
fn in_group(mount: &[&str], freeze: &str, thaw: &str) -> bool {
    let root = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount").arg("-t").args(mount).arg(root.path()).stderr(Stdio::null()).status();
    if !mounted.unwrap().success() {
        return false;
    }
    let done = shell(
        &format!(
            "mkdir $1/t && echo $0 >$1/t/cgroup.procs && {freeze} && sleep 0.05; {thaw}
            echo $0 >$1/cgroup.procs; rmdir $1/t"
        ),
        root.path(),
    );
    assert!(Command::new("umount").arg("-l").arg(root.path()).status().unwrap().success());
    done
}

fn shell(script: &str, argument: &Path) -> bool {
    let pid = std::process::id().to_string();
    Command::new("sh").args(["-c", script, &pid]).arg(argument).status().unwrap().success()
}

/// Stops with a tracer that halts these threads.
pub(crate) fn by_tracer(tids: &[i32]) {
    // SAFETY: the child only makes system calls that take numbers, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        for &tid in tids {
            // SAFETY: as above.
            unsafe {
                libc::ptrace(libc::PTRACE_SEIZE, tid, 0, 0);
                libc::ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0);
            }
        }
        // SAFETY: as above. When a tracer exits, its threads run on.
        unsafe {
            libc::usleep(STOP.as_micros() as u32);
            libc::_exit(0);
        }
    }
    let mut status = -1;
    // SAFETY: the call writes one number.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } != child {}
    assert_eq!(status, 0);
}

/// Ids of all threads of this process.
pub(crate) fn threads() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks.map(|task| task.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect()
}
