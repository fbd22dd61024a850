//! Waits for monitors, from brokerscope or from an async-profiler file. The JDK's own `jfr` reads that file. Also
//! matches two reports of the same wait.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;

/// Maximum difference of the start: each source converts its own clock to the wall clock.
const CLOCK_NS: i64 = 5_000_000;
/// Maximum difference of the length.
const LENGTH_NS: i64 = 1_000_000;

/// One wait.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wait {
    pub(super) tid: u64,
    /// UTC nanoseconds.
    pub(super) start_ns: i64,
    pub(super) length_ns: i64,
    /// The thread that had the lock before.
    pub(super) owner: Option<u64>,
}

/// The input from which brokerscope reads waits.
#[derive(Clone, Copy)]
pub(super) enum From {
    /// A recording of brokerscope.
    Recording,
    /// A flight recording.
    FlightRecording,
}

/// The waits for monitors that brokerscope reports from one source.
pub(super) fn read(brokerscope: &Path, from: From, path: &Path, source: &str) -> anyhow::Result<Vec<Wait>> {
    let mut command = Command::new(brokerscope);
    let flag = match from {
        From::Recording => "--from",
        From::FlightRecording => "--jfr",
    };
    command.args(["locks", flag]).arg(path).args(["--slower-than", "0ms", "--format", "json"]);
    let rows = output(command)?;
    let mut waits = Vec::new();
    for line in rows.lines() {
        let row: Value = serde_json::from_str(line)?;
        let is_monitor = row.pointer("/lock/kind").and_then(Value::as_str) == Some("monitor");
        if is_monitor && row.get("seen_by").and_then(Value::as_str) == Some(source) {
            waits.push(ours(&row).with_context(|| format!("not a wait: {line}"))?);
        }
    }
    Ok(waits)
}

fn ours(row: &Value) -> Option<Wait> {
    Some(Wait {
        tid: row.get("tid")?.as_u64()?,
        start_ns: row.get("start_ns")?.as_i64()?,
        length_ns: row.get("latency_ns")?.as_i64()?,
        owner: row.get("previous_owner_tid").and_then(Value::as_u64),
    })
}

/// The waits for monitors in a flight recording, by the JDK's own reader.
pub(super) fn read_jfr(file: &Path) -> anyhow::Result<Vec<Wait>> {
    let mut command = Command::new("jfr");
    command.env_remove("JAVA_TOOL_OPTIONS").env_remove("JDK_JAVA_OPTIONS");
    command.args(["print", "--json", "--stack-depth", "1", "--events", "jdk.JavaMonitorEnter"]).arg(file);
    let json: Value = serde_json::from_str(&output(command)?)?;
    let events = json.pointer("/recording/events").and_then(Value::as_array);
    let events = events.context("jfr print has no events")?;
    let read = |event: &Value| theirs(event).with_context(|| format!("not a wait: {event}"));
    events.iter().map(read).collect()
}

fn theirs(event: &Value) -> Option<Wait> {
    let values = event.get("values")?;
    let text = |name: &str| values.get(name).and_then(Value::as_str);
    let start: jiff::Timestamp = text("startTime")?.parse().ok()?;
    let length: jiff::SignedDuration = text("duration")?.parse().ok()?;
    Some(Wait {
        tid: values.pointer("/eventThread/osThreadId")?.as_u64()?,
        start_ns: i64::try_from(start.as_nanosecond()).ok()?,
        length_ns: i64::try_from(length.as_nanos()).ok()?,
        owner: None,
    })
}

fn output(mut command: Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {name}"))?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Waits of one source, each with the same wait of another source, if it has it.
pub(super) fn paired<'w>(waits: &'w [Wait], others: &'w [Wait]) -> Vec<(&'w Wait, Option<&'w Wait>)> {
    let mut by_thread: HashMap<u64, Vec<&Wait>> = HashMap::new();
    for other in others {
        by_thread.entry(other.tid).or_default().push(other);
    }
    let mut pair = |wait: &'w Wait| {
        let of_thread = by_thread.get_mut(&wait.tid)?;
        let apart = |other: &Wait| (other.start_ns - wait.start_ns).abs();
        let near = |other: &Wait| (other.length_ns - wait.length_ns).abs() <= LENGTH_NS;
        let candidates = of_thread.iter().enumerate().filter(|(_, it)| apart(it) <= CLOCK_NS && near(it));
        let (index, _) = candidates.min_by_key(|(_, it)| apart(it))?;
        // Each matches at most one other.
        Some(of_thread.swap_remove(index))
    };
    waits.iter().map(|wait| (wait, pair(wait))).collect()
}

#[cfg(test)]
mod tests {
    use super::{Wait, ours, paired, theirs};
    use serde_json::json;

    fn wait(tid: u64, start_ns: i64, length_ns: i64) -> Wait {
        Wait { tid, start_ns, length_ns, owner: None }
    }

    #[test]
    fn pairs_waits_by_thread_start_and_length_at_most_once() {
        let waits = [wait(1, 0, 10_000_000), wait(1, 1_000_000, 10_000_000), wait(2, 0, 10_000_000)];
        let others = [wait(1, 1_500_000, 10_500_000), wait(2, 6_000_000, 10_000_000), wait(2, 0, 12_000_000)];
        let found: Vec<bool> = paired(&waits, &others).iter().map(|(_, other)| other.is_some()).collect();
        assert_eq!(found, [true, false, false]);
    }

    #[test]
    fn parses_brokerscope_rows_and_jfr_events() {
        let row = json!({"tid": 7, "start_ns": 5, "latency_ns": 3, "previous_owner_tid": 8});
        assert_eq!(ours(&row), Some(Wait { owner: Some(8), ..wait(7, 5, 3) }));
        let event = json!({"values": {
            "startTime": "1970-01-01T00:00:01.000000005Z", "duration": "PT0.0015S", "eventThread": {"osThreadId": 7}
        }});
        assert_eq!(theirs(&event), Some(wait(7, 1_000_000_005, 1_500_000)));
    }
}
