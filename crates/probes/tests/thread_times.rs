//! Times of this very process's threads, by the kernel's iterator and by the files in `/proc`. Needs root, BPF, Linux 6.1
//! and `BROKERSCOPE_LIVE_TESTS=1`; without that it says loudly that it did not run, and with it anything that is missing
//! is a failure.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "live/gate.rs"]
mod gate;

use std::collections::HashMap;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use probes::ThreadTimes;
use probes::thread_times::{ThreadList, ThreadLister};

fn list(threads: &ThreadList) -> HashMap<u32, ThreadTimes> {
    let (mut listed, mut portions) = (HashMap::new(), threads.begin().unwrap());
    loop {
        let before = listed.len();
        listed.extend(portions.next_portion().unwrap().map(|times| (times.tid, times)));
        if listed.len() == before {
            return listed;
        }
    }
}

/// A thread's times by its file.
fn file_of(tid: u32) -> ThreadTimes {
    let line = fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap();
    let figures: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    ThreadTimes { tid, ran_ns: figures[0], waited_ns: figures[1], switches: figures[2] }
}

#[test]
fn lists_every_thread_with_the_times_of_its_file() {
    if !gate::is_open() {
        return;
    }
    let lister = ThreadLister::load().expect("the kernel takes the program");
    let threads = lister.of_process(std::process::id()).expect("Linux 6.1");
    let (finish, wait) = channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    // More than fit into one portion.
    let (started, starts) = channel();
    let workers: Vec<_> = (0..600)
        .map(|_| {
            let (wait, started) = (wait.clone(), started.clone());
            thread::spawn(move || {
                started.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
                let _ = wait.lock().unwrap().recv();
            })
        })
        .collect();
    let tids: Vec<u32> = starts.iter().take(workers.len()).collect();
    // They wait for one another now, so their times do not change.
    thread::sleep(Duration::from_millis(100));
    let times = list(&threads);
    assert!(tids.iter().all(|&tid| times[&tid] == file_of(tid)), "some differ from their files");
    assert_eq!(times.len(), fs::read_dir("/proc/self/task").unwrap().count());
    drop(finish);
    for worker in workers {
        worker.join().unwrap();
    }
    assert!(list(&threads).len() < 600, "they have ended");
}

#[test]
fn a_process_that_has_ended_has_no_threads() {
    if !gate::is_open() {
        return;
    }
    let lister = ThreadLister::load().expect("the kernel takes the program");
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let threads = lister.of_process(child.id()).unwrap();
    assert_eq!(list(&threads).keys().collect::<Vec<_>>(), [&child.id()]);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(list(&threads).is_empty());
}
