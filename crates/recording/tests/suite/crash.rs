//! A recorder that is killed at any moment: everything that it reported as written is there.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use model::Event;
use recording::{Manifest, Recording, Table, Writer, WriterOptions};

use crate::samples::{numbered, off_cpu};

const DIRECTORY: &str = "RECORDING_CRASH_DIR";

/// The process to kill: writes numbered events forever and prints which are flushed.
#[test]
#[ignore = "the child process of the test below; it never ends by itself"]
fn writer_process() {
    let dir = std::env::var_os(DIRECTORY).expect("a directory from the parent test");
    // Small parts, so that kills hit conversions, renames and removals too.
    let options =
        WriterOptions { rotate_rows: 300, flush_every: Duration::from_millis(1), ..WriterOptions::default() };
    let mut writer = Writer::create(dir.as_ref(), &Manifest::default(), options).unwrap();
    let mut out = std::io::stdout();
    for n in 0.. {
        writer.write(&numbered(n)).unwrap();
        writer.write(&off_cpu(n)).unwrap();
        if n % 64 == 63 {
            writer.flush().unwrap();
            writeln!(out, "flushed {n}").unwrap();
            writer.tick(Instant::now()).unwrap();
        }
    }
}

/// Kills a writer after some time; returns the last event that it reported as flushed.
fn kill_after(dir: &std::path::Path, delay: Duration) -> u64 {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::writer_process", "--ignored", "--nocapture"])
        .env(DIRECTORY, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines().map(Result::unwrap);
    let number = |line: String| line.rsplit_once("flushed ").and_then(|(_, n)| n.parse::<u64>().ok());
    let first = lines.by_ref().find_map(number).unwrap();
    let reader = std::thread::spawn(move || lines.filter_map(number).last().unwrap_or(first));
    sleep(delay);
    writer.kill().unwrap();
    writer.wait().unwrap();
    reader.join().unwrap()
}

#[test]
fn flushed_events_survive_a_kill_without_gaps() {
    for round in 0..12 {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("recording");
        let flushed = kill_after(&dir, Duration::from_millis(5 + 17 * round));
        let recording = Recording::open(&dir).unwrap();
        assert!(recording.manifest().ended_ns.is_none());
        let (mut losses, mut off_cpus) = (0, 0);
        for event in recording.events() {
            match event.unwrap() {
                event @ Event::Loss(_) => {
                    assert_eq!(event, numbered(losses));
                    losses += 1;
                }
                event => {
                    assert_eq!(event, off_cpu(off_cpus));
                    off_cpus += 1;
                }
            }
        }
        assert!(losses > flushed && off_cpus > flushed, "{flushed} flushed, {losses} and {off_cpus} read");
    }
}

#[test]
fn damaged_manifest_falls_back_to_the_initial_one() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, manifest) = (dir.path(), Manifest { started_ns: 7, ..Manifest::default() });
    let mut writer = Writer::create(dir, &manifest, WriterOptions::default()).unwrap();
    writer.write(&numbered(1)).unwrap();
    writer.flush().unwrap();
    writer.update(&Manifest { rows: writer.rows(), ..manifest.clone() }).unwrap();
    assert_eq!(Recording::open(dir).unwrap().manifest().rows.len(), 1);
    for left in ["", "\0\0\0\0", "{\"format\": \"brokersc"] {
        fs::write(dir.join("manifest.json"), left).unwrap();
        let recording = Recording::open(dir).unwrap();
        assert_eq!((recording.manifest(), recording.events().count()), (&manifest, 1));
    }
    writer.finish(&manifest).unwrap();
    assert_eq!(fs::read_dir(dir).unwrap().count(), Table::ALL.len() + 1, "nothing else is left");
}
