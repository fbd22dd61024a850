//! Checks the commands that pages and help texts quote. Those that need no broker and no bucket are run, in a directory
//! with the names that pages use; of the others, the flags must exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use super::reference::hold_part;
use super::{pages, project};

const SAMPLE: &str = "samples/journal-stall";
/// Names of recordings in pages and help texts.
const RECORDINGS: [&str; 20] = [
    "DIR",
    "AFTER",
    "BEFORE",
    "before",
    "after",
    "first",
    "second",
    "step-0",
    "step-1",
    "a1",
    "a2",
    "a3",
    "b1",
    "b2",
    "b3",
    "var/tmp/broker-1",
    "recordings/cluster=prod/broker=7/date=2026-11-22/14h",
    "recordings/cluster=prod/broker=4/date=2026-11-22/14h",
    "experiment/ext4",
    "experiment/xfs",
];
/// Names of files, and the file that each is a copy of.
const FILES: [(&str, &str); 15] = [
    ("FILE.pcap", "tests/data/sample.pcap"),
    ("trace.pcap", "tests/data/sample.pcap"),
    ("ring.pcap0", "tests/data/sample.pcap"),
    ("kafka-request.log", "tests/data/sample-request.log"),
    ("server.log", "tests/data/sample-request.log"),
    ("server.log.2024-05-19-15.gz", "tests/data/sample-request.log"),
    ("var/log/kafka/server.log", "tests/data/sample-request.log"),
    ("ours.txt", "tests/data/sample-request.log"),
    ("server.properties", "LICENSE"),
    ("jstack-1.txt", "crates/jvm/tests/dumps/hotspot-17-sigquit.txt"),
    ("jstack-2.txt", "crates/jvm/tests/dumps/hotspot-25-jcmd-jstack.txt"),
    ("threads-1.txt", "crates/jvm/tests/dumps/hotspot-17-sigquit.txt"),
    ("javacore.1.txt", "crates/jvm/tests/dumps/openj9-log-append.txt"),
    ("broker.jfr.gz", "crates/jvm/tests/jfr/jdk25.jfr.gz"),
    ("tests/data/sample.pcap", "tests/data/sample.pcap"),
];
/// Commands with these are not run: each needs a broker, a bucket, or more time than a test has.
const NOT_RUN: [&str; 6] = ["live", "s3://", "--follow", "--otlp", "--gc-log", "--patterns"];

/// Finds the `brokerscope …` commands in a text.
fn shown_in(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let block = joined.lines().filter_map(|line| line.strip_prefix("    ").map(str::to_owned));
    let help = joined
        .lines()
        .filter_map(|line| line.strip_prefix("  brokerscope ").map(|rest| format!("brokerscope {rest}")));
    let inline = joined.split('`').skip(1).step_by(2).map(str::to_owned);
    let lines = block.chain(help).chain(inline);
    let parts = lines.flat_map(|line| {
        line.split([';', '|', '>'])
            .flat_map(|part| part.split("&&").map(str::to_owned).collect::<Vec<_>>())
            .collect::<Vec<_>>()
    });
    let parts = parts.map(|part| {
        part.split(" #").next().unwrap_or_default().split(" 2>").next().unwrap_or_default().trim().to_owned()
    });
    parts.filter(|part| part.starts_with("brokerscope ") && !part.contains(['…', '\n', '['])).collect()
}

fn quoted_commands() -> BTreeSet<String> {
    // In the page of rules, commands are parts of sentences.
    let pages = pages().into_iter().filter(|(path, _)| !path.ends_with("reference/rules.md"));
    let mut texts: Vec<_> = pages.map(|(_, text)| text).collect();
    let root = brokerscope::command();
    texts.extend(root.get_subcommands().filter_map(|command| Some(command.get_after_help()?.to_string())));
    texts
        .iter()
        .flat_map(|text| shown_in(text))
        .filter(|line| !line.starts_with("brokerscope COMMAND"))
        .collect()
}

/// Splits a command into words like a shell.
fn words(line: &str) -> Vec<String> {
    let script = format!("set -f; for word in {line}; do printf '%s\\n' \"$word\"; done");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{line}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Whether a command reads only files.
fn can_run(line: &str) -> bool {
    let words = words(line);
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let reads = match words[1].as_str() {
        "io" | "files" | "kernel" | "stacks" => has("--from"),
        "locks" => ["--from", "--dump"].into_iter().any(has),
        "advise" => words.get(2).is_some_and(|word| !word.starts_with("--")),
        "requests" | "explain" | "logs" => words.get(2).is_some_and(|word| word != "-"),
        "report" | "compare" | "fleet" => true,
        _ => false,
    };
    reads && !NOT_RUN.iter().any(|no| words.iter().any(|word| word.starts_with(no)))
}

#[test]
fn flags_of_every_quoted_command_exist() {
    let quoted = quoted_commands();
    assert!(quoted.len() > 100, "{quoted:?}");
    let mut faults = Vec::new();
    for line in &quoted {
        // A name without arguments is only a mention.
        if line.split(' ').count() > 2 {
            let parsed = brokerscope::command().try_get_matches_from(words(line));
            faults.extend(
                parsed
                    .err()
                    .map(|error| format!("{line}\n    {}", error.render().to_string().replace('\n', " "))),
            );
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The page quotes the whole file, which contains one command.
#[test]
fn cron_file_is_quoted_and_its_flags_exist() {
    const FILE: &str = "deploy/cron/brokerscope";
    let file = fs::read_to_string(project(FILE)).unwrap();
    let quoted =
        file.lines().map(|line| format!("    {line}").trim_end().to_owned() + "\n").collect::<String>();
    hold_part("docs/how-to/record-for-days.md", FILE, &quoted);
    let (variable, folders) = file.lines().find_map(|line| line.split_once("RECORDINGS=")).unwrap();
    assert_eq!(variable, "");
    let recorder = file.lines().find_map(|line| line.split_once("* * * * root brokerscope ")).unwrap().1;
    let script = format!("RECORDINGS={folders}; printf '%s\\n' brokerscope {}", recorder.replace("\\%", "%"));
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let words = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
    let parsed = brokerscope::command().try_get_matches_from(&words).unwrap();
    let (command, flags) = parsed.subcommand().unwrap();
    assert_eq!(command, "record");
    let directory = flags.get_one::<std::path::PathBuf>("output").unwrap().to_str().unwrap();
    let day = directory.strip_prefix(folders).unwrap().split('/').nth(1).unwrap();
    assert!(day.starts_with("date=20") && directory.ends_with('h'), "{directory}");
}

/// Links between README and the book also work in the package: each part is in the same place there.
#[test]
fn the_package_includes_the_book() {
    let manifest = fs::read_to_string(project("crates/brokerscope/Cargo.toml")).unwrap();
    for entry in fs::read_dir(project("docs")).unwrap() {
        let path = entry.unwrap().path();
        let part = path.file_name().unwrap().to_str().unwrap();
        // Only those with the sources need this part.
        if path.is_dir() && part != "contributing" {
            let pages = if part == "pictures" { "*.png" } else { "*.md" };
            let asset = format!(
                "[\"../../docs/{part}/{pages}\", \"usr/share/doc/brokerscope/docs/{part}/\", \"644\"]"
            );
            assert!(manifest.contains(&asset), "{asset}");
        }
    }
}

#[test]
fn quoted_commands_run_if_they_need_no_broker() {
    let directory = tempfile::tempdir().unwrap();
    prepare(directory.path());
    let lines: Vec<_> =
        quoted_commands().into_iter().filter(|line| line.split(' ').count() > 2 && can_run(line)).collect();
    assert!(lines.len() > 50, "{lines:?}");
    let (next, faults) = (Mutex::new(lines.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(line) = { next.lock().unwrap().next() } {
                    let fault = run(&line, directory.path());
                    faults.lock().unwrap().extend(fault);
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Runs a command in the directory, with absolute paths moved below it; returns an error message, if any.
fn run(line: &str, directory: &Path) -> Option<String> {
    let root = directory.to_str().unwrap();
    let line = line.replace(" /", &format!(" {root}/"));
    let binary = Path::new(env!("CARGO_BIN_EXE_brokerscope")).parent().unwrap().to_str().unwrap();
    let path = format!("{binary}:{}", std::env::var("PATH").unwrap());
    let output =
        Command::new("sh").args(["-c", &line]).env("PATH", path).current_dir(directory).output().unwrap();
    (!output.status.success())
        .then(|| format!("{line}\n    {}", String::from_utf8_lossy(&output.stderr).trim()))
}

fn prepare(directory: &Path) {
    let into = |name: &str| {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    for name in RECORDINGS {
        copy(&project(SAMPLE), &into(name));
    }
    copy(&project(SAMPLE), &into(SAMPLE));
    for (name, of) in FILES {
        fs::copy(project(of), into(name)).unwrap();
    }
    fs::copy(project("tests/data/sample-request.log"), into("tests/data/sample-request.log")).unwrap();
    fs::write(directory.join("server.properties"), "num.io.threads=8\n").unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}
