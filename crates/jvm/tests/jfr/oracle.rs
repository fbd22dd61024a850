//! The output of the JDK's own reader (`jfr print --json`) for the recordings. It has the form of the lines that this
//! crate's reader yields. Joins and selects events independently, from the JSON.
//!
//! The lines are committed: `BLESS=1` rewrites them, with the `jfr` of the JDK in `JAVA_HOME` or on the `PATH`, which
//! must be as new as the recordings.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

use crate::samples::{self, NAMES, or_none};

#[test]
fn reads_the_same_events_as_the_jdk() {
    for name in NAMES {
        if env::var_os("BLESS").is_some() {
            let output = ask(&jfr().expect("no jfr in JAVA_HOME or on the PATH"), name);
            fs::write(samples::path(&format!("{name}.expected")), output).unwrap();
        }
        let expected = fs::read_to_string(samples::path(&format!("{name}.expected")))
            .expect("no expected lines: BLESS=1 with a JDK");
        let (all, summary, read) = samples::read(&samples::recording(name)[..]);
        read.unwrap();
        assert_eq!(samples::lines(&all), expected, "{name}");
        assert_eq!((summary.chunks, summary.damaged, summary.lost), (1, 0, 0), "{summary:?}");
    }
}

#[test]
fn installed_jfr_tool_matches_the_committed_lines() {
    let Some(jfr) = jfr() else {
        println!("DID NOT RUN: no jfr in JAVA_HOME or on the PATH");
        return;
    };
    for name in NAMES {
        let expected = fs::read_to_string(samples::path(&format!("{name}.expected"))).unwrap();
        assert_eq!(ask(&jfr, name), expected, "{name}");
    }
}

/// The JDK's own reader.
fn jfr() -> Option<PathBuf> {
    let home = env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    home.into_iter().chain(env::split_paths(&path)).map(|folder| folder.join("jfr")).find(|jfr| jfr.is_file())
}

fn ask(jfr: &Path, name: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording.jfr");
    fs::write(&file, samples::recording(name)).unwrap();
    let arguments = ["print", "--json", "--stack-depth", "999"].map(OsStr::new);
    let output = Command::new(jfr).args(arguments).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut lines = lines(output["recording"]["events"].as_array().unwrap());
    lines.sort();
    lines.join("\n") + "\n"
}

fn lines(events: &[Value]) -> Vec<String> {
    let of = |name: &'static str| {
        let named = events.iter().filter(move |event| event["type"] == name);
        named.map(|event| &event["values"])
    };
    let mut lines = Vec::new();
    lines.extend(of("jdk.JavaMonitorEnter").map(|wait| wait_line(wait, "monitor", &wait["monitorClass"])));
    let locks = of("jdk.ThreadPark").filter(|park| {
        let class = park["parkedClass"]["name"].as_str().unwrap_or_default();
        class.starts_with("java/util/concurrent/locks/") && !class.ends_with("ConditionObject")
    });
    lines.extend(locks.map(|park| wait_line(park, "park", &park["parkedClass"])));
    let collections: BTreeMap<_, _> =
        of("jdk.GarbageCollection").map(|gc| (gc["gcId"].as_u64().unwrap(), gc)).collect();
    lines.extend(of("jdk.GCPhasePause").map(|pause| {
        let id = pause["gcId"].as_u64().unwrap();
        let (name, cause) = (&collections[&id]["name"], &collections[&id]["cause"]);
        let (start, length) = span(pause);
        format!("{start} {length} gc {} for {} gc Some({id}) reached in None", text(name), text(cause))
    }));
    lines.extend(safepoints(&of));
    lines
}

fn safepoints<'a, I: Iterator<Item = &'a Value>>(of: &impl Fn(&'static str) -> I) -> Vec<String> {
    let mut stops: BTreeMap<u64, [Option<&Value>; 3]> = BTreeMap::new();
    for (i, name) in ["jdk.SafepointBegin", "jdk.ExecuteVMOperation", "jdk.SafepointEnd"].iter().enumerate() {
        for event in of(name).filter(|event| event["safepoint"] != false) {
            stops.entry(event["safepointId"].as_u64().unwrap()).or_default()[i] = Some(event);
        }
    }
    let line = |parts: &[Option<&Value>; 3]| {
        let mut spans: Vec<_> = parts[..2].iter().flatten().map(|part| span(part)).collect();
        // Threads continue when it begins.
        spans.extend(parts[2].map(|end| (span(end).0, 0)));
        let start = spans.iter().map(|(start, _)| *start).min().unwrap();
        let end = spans.iter().map(|(start, length)| start + length).max().unwrap();
        let operation = parts[1].map_or("?", |part| text(&part["operation"]));
        let reach = parts[0].map(|part| span(part).1);
        format!("{start} {} safepoint {operation} for ? gc None reached in {reach:?}", end - start)
    };
    stops.values().map(line).collect()
}

fn wait_line(wait: &Value, kind: &str, class: &Value) -> String {
    let (start, length) = span(wait);
    let class = text(&class["name"]).replace('/', ".");
    let address = wait["address"].as_i64().unwrap();
    let holder = &wait["previousOwner"];
    let holder = if holder.is_object() { thread(holder) } else { "?".to_owned() };
    let frames = wait["stackTrace"]["frames"].as_array().unwrap();
    let frames: Vec<_> = frames.iter().rev().map(|frame| method(&frame["method"])).collect();
    let (thread, stack) = (thread(&wait["eventThread"]), frames.join(";"));
    format!("{start} {length} {kind} {class} {address:x} by {thread} held by {holder} at {stack}")
}

fn thread(thread: &Value) -> String {
    format!("{} {}", thread["osThreadId"], text(&thread["javaName"]))
}

fn method(method: &Value) -> String {
    format!("{}.{}", text(&method["type"]["name"]).replace('/', "."), text(&method["name"]))
}

fn text(value: &Value) -> &str {
    or_none(value.as_str().unwrap_or_default())
}

/// Start and length in nanoseconds.
fn span(event: &Value) -> (i64, i64) {
    let start: jiff::Timestamp = event["startTime"].as_str().unwrap().parse().unwrap();
    let length: jiff::SignedDuration = event["duration"].as_str().unwrap().parse().unwrap();
    (i64::try_from(start.as_nanosecond()).unwrap(), i64::try_from(length.as_nanos()).unwrap())
}
