//! Priority over everything else on a machine: observers lose nothing and are never late, and injected delays have their
//! intended length, however busy it is.

use rustix::process::{getpriority_process, setpriority_process};

/// The prefix of a command that runs so.
pub const FIRST: [&str; 3] = ["nice", "-n", "-15"];
const AHEAD: i32 = -15;

/// Starts processes that run so: they inherit the priority of the thread that starts them.
///
/// # Panics
/// If that is not permitted.
pub fn ahead<T>(start: impl FnOnce() -> T) -> T {
    let _before = Before(getpriority_process(None).unwrap());
    setpriority_process(None, AHEAD).expect("root may run processes ahead of others");
    start()
}

/// The thread's own priority; restored when dropped.
struct Before(i32);

impl Drop for Before {
    fn drop(&mut self) {
        if let Err(error) = setpriority_process(None, self.0) {
            eprintln!("this thread stays ahead of others: {error}");
        }
    }
}
