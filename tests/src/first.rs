//! Ahead of what else runs on a machine: who observes loses nothing and is late for nothing, and what is injected takes as
//! long as it is meant to, however busy it is.

use rustix::process::{getpriority_process, setpriority_process};

/// What a command is started by to run so.
pub const FIRST: [&str; 3] = ["nice", "-n", "-15"];
const AHEAD: i32 = -15;

/// Starts processes that run so: they have the priority that the thread has which starts them.
///
/// # Panics
/// Where that is not permitted.
pub fn ahead<T>(start: impl FnOnce() -> T) -> T {
    let _before = Before(getpriority_process(None).unwrap());
    setpriority_process(None, AHEAD).expect("root may run processes ahead of others");
    start()
}

/// The thread's own priority; put back when dropped.
struct Before(i32);

impl Drop for Before {
    fn drop(&mut self) {
        if let Err(error) = setpriority_process(None, self.0) {
            eprintln!("this thread stays ahead of others: {error}");
        }
    }
}
