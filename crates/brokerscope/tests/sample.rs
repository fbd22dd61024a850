//! Explains `samples/journal-stall` and checks the documents that quote it. It is a recording of a real broker. Needs
//! no privilege.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "documents/pages.rs"]
mod pages;
#[path = "../../page/tests/goldens/trace.rs"]
mod trace;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use pages::{documents, project};
use serde_json::Value;

/// Markers around a command's quoted output: with its arguments and the number of its first lines.
const BEGIN: &str = "<!-- begin: ";
const HEAD: &str = " | head -";
const BEGUN: &str = " -->\n";
const END: &str = "<!-- end -->";

fn explain(more: &[&str]) -> String {
    brokerscope(&[&["explain", "samples/journal-stall"], more].concat())
}

/// The output of a command in the project's directory.
fn brokerscope(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_brokerscope"))
        .args(arguments)
        .current_dir(project(""))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn sample_has_slow_writes_and_waits_for_the_log_lock() {
    let lines: Vec<Value> =
        explain(&["--format", "json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (summary, verdicts) = lines.split_last().unwrap();
    let of = |chain: &[&str]| {
        verdicts.iter().filter(|verdict| verdict["chain"] == serde_json::json!(chain)).count()
    };
    assert!(of(&["journal-commit"]) >= 3, "{summary}");
    assert!(of(&["log-lock", "journal-commit"]) >= 3, "{summary}");
    let joins = &summary["joins"];
    let (by_crc, unjoined) = (joins["by_crc"].as_u64().unwrap(), joins["unjoined"].as_u64().unwrap());
    assert!(by_crc > 1_000 && unjoined * 1_000 <= by_crc, "{joins}");
}

#[test]
fn nothing_undecided_is_printed_only_with_why_not() {
    const NOTHING: &str = "Nothing was left undecided";
    assert!(!explain(&[]).contains(NOTHING));
    assert!(explain(&["--why-not"]).contains("\nNothing was left undecided.\n"));
    assert!(explain(&["--why-not", "--top", "3"]).contains("undecided about the requests shown.\n"));
    let told = explain(&["--format", "json"]);
    let verdict: Value = serde_json::from_str(told.lines().next().unwrap()).unwrap();
    let request = &verdict["request"];
    let (id, client) = (request["correlation_id"].to_string(), request["client"].as_str().unwrap());
    let one = ["--request", &id, "--client", client];
    assert!(!explain(&one).contains(NOTHING));
    assert!(explain(&[&one[..], &["--why-not"]].concat()).contains(NOTHING));
    let open = explain(&["--why-not", "--slower-than", "1ms"]);
    assert!(open.contains("What could not be decided") && !open.contains(NOTHING), "{open}");
    let json = explain(&["--why-not", "--format", "json"]);
    assert!(!json.contains("undecided"));
}

#[test]
fn sample_writes_wait_mostly_for_the_journal() {
    let output = Command::new(env!("CARGO_BIN_EXE_brokerscope"))
        .args(["stacks", "--from", project("samples/journal-stall").to_str().unwrap()])
        .args(["--off-cpu", "--inside", "write", "--folded", "-"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let folded = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let time = |function: &str| -> u64 {
        let lines = folded.lines().filter(|line| line.contains(function));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    };
    assert!(time("") > 0 && time("ext4_dirty_inode_[k];") * 2 > time(""), "{folded}");
    assert_eq!(time("vfs_write_[k];"), time(""), "{folded}");
}

#[test]
fn sample_trace_follows_the_trace_event_format() {
    let trace = brokerscope(&["report", "samples/journal-stall", "--format", "perfetto", "-o", "-"]);
    let (slices, arrows) = trace::check(&serde_json::from_str(&trace).unwrap());
    assert!(slices > 300 && arrows > 100, "{slices} slices, {arrows} arrows");
}

/// Blessed by `BLESS=1 cargo test -p brokerscope --test sample`, like every golden.
#[test]
fn documents_quote_actual_command_output() {
    let mut quoted = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        let (blessed, commands) = requoted(&text);
        quoted.extend(commands);
        if std::env::var_os("BLESS").is_some() {
            fs::write(&path, blessed).unwrap();
            continue;
        }
        let path = path.display();
        assert!(text == blessed, "{path} quotes other output; BLESS=1 would write:\n{blessed}");
    }
    quoted.sort_unstable();
    let expected =
        ["advise", "compare", "explain", "explain", "files", "io", "io", "kernel", "locks", "locks", "logs"];
    assert_eq!(quoted, expected, "documents quote the sample");
}

/// A document with the current output of its commands, and those commands.
fn requoted(text: &str) -> (String, Vec<String>) {
    let (mut blessed, mut commands) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (command, after) = after.split_once(BEGUN).unwrap();
        // Other tests handle the other blocks.
        let Some((arguments, lines)) = command.split_once(HEAD) else {
            blessed.extend([before, BEGIN, command, BEGUN]);
            rest = &rest[before.len() + BEGIN.len() + command.len() + BEGUN.len()..];
            continue;
        };
        let (_, after) = after.split_once(END).unwrap();
        let printed = brokerscope(&arguments.split(' ').collect::<Vec<_>>());
        let output = printed.lines().take(lines.parse().unwrap()).map(quoted_line).collect::<String>();
        blessed.extend([before, BEGIN, command, BEGUN, "\n", &output, "\n", END]);
        commands.extend(arguments.split(' ').next().map(str::to_owned));
        rest = after;
    }
    blessed.push_str(rest);
    (blessed, commands)
}

/// A line of a Markdown code block.
fn quoted_line(line: &str) -> String {
    if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") }
}

#[test]
fn the_sample_is_small_enough_to_ship() {
    fn bytes(dir: &Path) -> u64 {
        fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| if path.is_dir() { bytes(&path) } else { fs::metadata(&path).unwrap().len() })
            .sum()
    }
    let size = bytes(&project("samples/journal-stall"));
    assert!((100_000..5 << 20).contains(&size), "{size} bytes");
}

#[test]
fn readme_names_every_cause() {
    let readme = fs::read_to_string(project("README.md")).unwrap();
    for cause in model::Cause::ALL {
        assert!(readme.contains(&format!("`{}`", cause.as_str())), "{} is not in README.md", cause.as_str());
    }
}

#[test]
fn causes_of_the_sample_halves_add_up_to_the_explained_requests() {
    let halves = ["compare", "first=samples/journal-stall@-10s", "second=samples/journal-stall@10s-"];
    let printed = brokerscope(&[&halves[..], &["--slo", "65ms", "--format", "json"]].concat());
    let lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| lines.iter().filter(|line| line["type"] == kind).collect::<Vec<_>>();
    let sum = |field: &str| of("configuration").iter().map(|one| one[field].as_u64().unwrap()).sum::<u64>();
    let told = explain(&["--slower-than", "65ms", "--format", "json"]);
    let slow = told.lines().filter(|line| line.contains("\"api\":\"PRODUCE\"")).count() as u64;
    assert_eq!(sum("slo_misses"), slow);
    let causes = of("configuration").into_iter().flat_map(|one| one["causes"].as_array().unwrap());
    assert_eq!(causes.map(|cause| cause["requests"].as_u64().unwrap()).sum::<u64>(), slow);
    // Eight figures each; too few stalls to tell for p99.9 which half was better.
    assert_eq!((of("difference").len(), of("over-time").len(), of("summary").len()), (8, 2, 1));
    let p999 = of("difference").into_iter().find(|one| one["figure"] == "latency_p999_ns").unwrap();
    assert_eq!(p999["outcome"], "too-short");
    assert!(p999["why"].as_str().unwrap().contains("needed"), "{p999}");
}
