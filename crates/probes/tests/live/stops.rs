//! Ways to stop this very process from outside, and to let it go on after a while. Return when it has gone on.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::scene::current_tid;

/// How long it stands still at least.
pub(crate) const STOP: Duration = Duration::from_millis(50);

/// By `SIGSTOP`, from a shell.
pub(crate) fn by_signal() {
    assert!(
        shell("kill -STOP \"$0\"; sleep 0.05; kill -CONT \"$0\"", "".as_ref()),
        "cannot stop this process"
    );
}

/// By the freezer of a cgroup of version 2.
pub(crate) fn by_freezer() {
    let frozen = in_group(&["cgroup2", "none"], "echo 1 >$1/t/cgroup.freeze", "echo 0 >$1/t/cgroup.freeze");
    assert!(frozen, "cannot freeze this process");
}

/// By that of version 1, which freezes threads that sleep in some system calls where they are: while one is at work. A thread
/// that sleeps is in another group, which is thawed a [`STOP`] later. False where the kernel has none.
pub(crate) fn by_old_freezer() -> bool {
    let over = AtomicBool::new(false);
    let (tell, tid) = std::sync::mpsc::channel();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        threads.spawn(|| {
            tell.send(current_tid()).unwrap();
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

/// The shell is outside the group: it was there before this process was put into it.
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

/// By a tracer that halts these threads.
pub(crate) fn by_tracer(tids: &[i32]) {
    // SAFETY: the child makes system calls that take numbers only, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        for &tid in tids {
            // SAFETY: as above.
            unsafe {
                libc::ptrace(libc::PTRACE_SEIZE, tid, 0, 0);
                libc::ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0);
            }
        }
        // SAFETY: as above. A tracer that ends lets its threads go on.
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

/// All threads of this process.
pub(crate) fn threads() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks.map(|task| task.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect()
}
