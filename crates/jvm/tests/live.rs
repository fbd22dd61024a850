//! Attaches to real JVMs, of every JDK below `/usr/lib/jvm` that is 17 or newer. Needs root and
//! `BROKERSCOPE_LIVE_TESTS=1`; without the variable it prints that it did not run, and with it anything missing is a
//! failure.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "live/java.rs"]
mod java;

use std::time::Instant;

use java::{Java, NOBODY};
use jvm::attach::{Bounds, Client, listens};
use jvm::{Error, Machine, Owner, act_as, threads};

fn live(test: &str) -> bool {
    let is_enabled = std::env::var_os("BROKERSCOPE_LIVE_TESTS").is_some_and(|value| value == "1");
    if !is_enabled {
        eprintln!("NOT RUN: {test}: needs root, a JDK and BROKERSCOPE_LIVE_TESTS=1");
    }
    is_enabled
}

/// Runs `ask` as the JVM's user in a separate thread: this one stays root.
fn as_owner<T: Send + 'static>(machine: Machine, ask: impl FnOnce(&Machine) -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(move || {
        act_as(&machine).unwrap();
        ask(&machine)
    });
    thread.join().unwrap()
}

#[test]
fn reads_full_thread_names_of_another_users_jvm() {
    if !live("reads_full_thread_names_of_another_users_jvm") {
        return;
    }
    for home in java::homes() {
        let java = Java::start(&home, &[]);
        let machine = Machine::of(java.pid()).unwrap();
        assert_eq!(machine.owner, Owner { uid: NOBODY, gid: NOBODY });
        assert!(!listens(&machine));
        let (names, version) = as_owner(machine.clone(), |machine| {
            let client = Client::of(machine).unwrap();
            let names = threads::parse_names(threads::request_dump(&client).unwrap().as_bytes());
            (names, client.jcmd("VM.version", Bounds::default()).unwrap())
        });
        assert!(listens(&machine) && version.contains("VM version"), "{version}");
        for (tid, comm) in java.comms().iter().filter(|(_, comm)| comm.starts_with("data-plane-kafk")) {
            let full = &names[tid];
            assert!(full.starts_with("data-plane-kafka-request-handler-"), "{tid} {comm} {full}");
        }
        let handlers = names.values().filter(|name| name.starts_with("data-plane-kafka-request-handler-"));
        assert_eq!(handlers.count(), java::HANDLERS, "{}: {names:?}", home.display());
        assert_eq!(java.left_behind(), [] as [std::path::PathBuf; 0]);
    }
}

#[test]
fn jvm_with_disabled_attach_is_refused_and_runs_on() {
    if !live("jvm_with_disabled_attach_is_refused_and_runs_on") {
        return;
    }
    let mut java = Java::start(&java::homes()[0], &["-XX:+DisableAttachMechanism"]);
    let begun = Instant::now();
    let refused = Client::of(&Machine::of(java.pid()).unwrap()).unwrap_err();
    assert!(matches!(refused, Error::Disabled { .. }), "{refused}");
    assert!(begun.elapsed().as_secs() < 5, "it was waited for");
    assert!(java.runs() && !java.output().contains("Full thread dump"), "it got SIGQUIT");
}

/// With `-Xrs` a JVM does not handle SIGQUIT and would die of it; it listens from its start instead, until its socket
/// is deleted.
#[test]
fn jvm_without_a_sigquit_handler_gets_no_signal() {
    if !live("jvm_without_a_sigquit_handler_gets_no_signal") {
        return;
    }
    let mut java = Java::start(&java::homes()[0], &["-Xrs"]);
    let machine = Machine::of(java.pid()).unwrap();
    assert!(!machine.catches_sigquit && listens(&machine));
    let attached = as_owner(machine.clone(), |machine| Client::of(machine).map(drop));
    assert!(attached.is_ok(), "{attached:?}");
    java.delete_socket();
    let refused = as_owner(machine, |machine| Client::of(machine).unwrap_err());
    assert!(matches!(refused, Error::NoSigquitHandler { .. }), "{refused}");
    assert!(java.runs());
    assert_eq!(java.left_behind(), [] as [std::path::PathBuf; 0]);
}
