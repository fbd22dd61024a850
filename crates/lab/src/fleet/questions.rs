//! The operator of the case: runs one command after the other to find out what is wrong, and shows their output. The
//! functions below decide whether that names what was injected.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::tier_state::{CleanupResult, FILE, PARTITIONS, TOPIC};
use crate::error::Result;
use crate::session;
use crate::session::{Observer, print};

/// Results from the time when the brokers ran, and where they are.
pub(super) struct FleetData {
    /// The broker that reads its disk and sends nothing of it.
    pub(super) injected: u32,
    pub(super) brokers: u32,
    /// Folders of all brokers' recordings.
    pub(super) before: PathBuf,
    /// The injected broker's recording, and those of the others.
    pub(super) odd: PathBuf,
    pub(super) well: Vec<PathBuf>,
    /// The injected broker's log.
    pub(super) log: PathBuf,
    pub(super) cleaned: CleanupResult,
    /// Its recording after the cleanup.
    pub(super) after: PathBuf,
}

/// Runs commands.
pub(super) struct Operator<'a> {
    pub(super) observer: &'a Observer,
    /// The directory of the commands' output.
    pub(super) directory: &'a Path,
}

impl Operator<'_> {
    /// Runs all commands and shows their output. Reports for each whether it names what was injected. Returns how many
    /// do not.
    pub(super) fn ask_all(&self, data: &FleetData) -> Result<usize> {
        let (odd, from) = (data.odd.as_os_str(), "--from".as_ref());
        let most = PARTITIONS.to_string();
        let fleet = self.ask("fleet", "fleet", &[data.before.as_os_str()], &[])?;
        let by_reads = [from, odd, "--sort".as_ref(), "disk-reads".as_ref()];
        let files = self.ask("files", "files", &by_reads, &["--top".as_ref(), most.as_ref()])?;
        let logs = self.ask("logs", "logs", &[data.log.as_os_str()], &[])?;
        let advise = self.ask("advise", "advise", &[odd], &[])?;
        let by_kind = [from, data.after.as_os_str(), "--by".as_ref(), "kind".as_ref()];
        let after = self.ask("after", "files", &by_kind, &[])?;
        let answers = [
            ("fleet", by_fleet(&fleet, data.injected)),
            ("files", by_files(&files)),
            ("others", self.ask_of_others(data)?),
            ("logs", by_logs(&logs, data.cleaned)),
            ("advise", by_advise(&advise)),
            ("after", by_after(&after)),
        ];
        print(&conclusion(data, &answers))?;
        Ok(answers.iter().filter(|(_, named)| named.is_err()).count())
    }

    /// Runs a command, shows its output, and returns it as JSON; `display_arguments` are only for what is shown.
    fn ask(
        &self,
        name: &str,
        subcommand: &str,
        arguments: &[&OsStr],
        display_arguments: &[&OsStr],
    ) -> Result<String> {
        let mut command = self.observer.command(subcommand);
        command.args(arguments).args(display_arguments);
        let words = command.get_args().map(|word| word.to_string_lossy());
        let typed = words.fold("brokerscope".to_owned(), |line, word| line + " " + &word);
        let text = session::capture_output(command, &self.directory.join(format!("{name}.txt")))?;
        print(&format!("$ {typed}\n{text}\n"))?;
        self.as_json(name, subcommand, arguments)
    }

    fn as_json(&self, name: &str, subcommand: &str, arguments: &[&OsStr]) -> Result<String> {
        let mut command = self.observer.command(subcommand);
        command.args(arguments).args(["--format", "json"]);
        session::capture_output(command, &self.directory.join(format!("{name}.jsonl")))
    }

    /// Checks that nothing is reported of brokers that are well.
    fn ask_of_others(&self, data: &FleetData) -> Result<Answer> {
        for recording in &data.well {
            let output = self.as_json("others", "files", &["--from".as_ref(), recording.as_os_str()])?;
            if let Err(finding) = no_reads_without_egress(&output) {
                return Ok(Err(finding));
            }
        }
        Ok(Ok(format!("nothing is said of the {} brokers that are well", data.well.len())))
    }
}

/// What was injected, and which command named it.
fn conclusion(data: &FleetData, answers: &[(&str, Answer)]) -> String {
    let FleetData { injected, brokers, .. } = data;
    let head = format!(
        "injected: broker {injected} of {brokers} reads {TOPIC}-*/{FILE} from its disk and sends it nowhere\n"
    );
    answers.iter().fold(head, |text, (name, named)| match named {
        Ok(how) => text + &format!("  {name:<7} ok: {how}\n"),
        Err(why) => text + &format!("  {name:<7} MISSED: {why}\n"),
    })
}

/// What the command says of it; or what is missing.
type Answer = Result<String, String>;

/// The kind of file, as commands call it.
const KIND: &str = "tierstate";
/// Figures of a fleet that grow with reads.
const READ_FIGURES: [&str; 3] = ["device_reads_per_second", "reads_per_second", "disk_read_bytes_per_second"];
/// Cleanups of the case left less than a hundredth.
const MAX_CHANGE_PERCENT: f64 = -99.0;
/// The rule, its settings, and what its caveat must say.
const RULE: &str = "tier-state";
const SETTINGS: [(&str, &str); 3] = [
    ("confluent.tier.partition.state.cleanup.enable", "true"),
    ("confluent.tier.partition.state.cleanup.delay.ms", "2592000000"),
    ("confluent.tier.partition.state.cleanup.interval.ms", "86400000"),
];
const CAVEAT: &str = "ages count from when the cleanup is first on";

/// `fleet`: the broker comes first, and its state files are why it reads more.
fn by_fleet(output: &str, injected: u32) -> Answer {
    let (rows, injected) = (rows(output)?, injected.to_string());
    let first = rows.first().and_then(|row| text(row, "/broker")).unwrap_or("none");
    if first != injected {
        return Err(format!("the first is broker {first}, not {injected}"));
    }
    let row = rows.iter().find(|row| {
        text(row, "/broker") == Some(&injected)
            && text(row, "/figure").is_some_and(|name| READ_FIGURES.contains(&name))
            && text(row, "/because/0/part") == Some(KIND)
            && text(row, "/because/0/items/0/name").is_some_and(is_state_file)
    });
    let row = row.ok_or_else(|| format!("it does not say that broker {injected} reads {KIND} files"))?;
    let figure = |pointer| number(row, pointer).unwrap_or_default();
    Ok(format!(
        "broker {injected} is the first: {} is {:.0}, the median is {:.0}; {:.0} % of the difference is {KIND} files",
        text(row, "/figure").unwrap_or_default(),
        figure("/value"),
        figure("/median"),
        figure("/because/0/share") * 100.0,
    ))
}

/// `files --sort disk-reads`: the files come first, and are read without egress.
fn by_files(output: &str) -> Answer {
    let rows = rows(output)?;
    let is_meant = |row: &&Value| text(row, "/kind") == Some(KIND) && text(row, "/topic") == Some(TOPIC);
    let first = rows.iter().take(PARTITIONS as usize).filter(is_meant).count();
    if first != PARTITIONS as usize {
        return Err(format!("of the {PARTITIONS} files that are read most, {first} are the state's"));
    }
    let summary = summary(&rows)?;
    let found = |name: &str| text(summary, &format!("/reads_without_egress/{name}"));
    if found("kind") != Some(KIND) || !found("file").is_some_and(is_state_file) {
        return Err(format!("it reports no {KIND} files that are read without egress"));
    }
    Ok(found("text").unwrap_or_default().to_owned())
}

/// `files` of a broker without such reads.
fn no_reads_without_egress(output: &str) -> Result<(), String> {
    let rows = rows(output)?;
    match text(summary(&rows)?, "/reads_without_egress/text") {
        None => Ok(()),
        Some(finding) => Err(format!("it says of a broker that is well: {finding}")),
    }
}

/// `logs`: each partition's reduction and their total, by the sizes of the files themselves; and the migrations.
fn by_logs(output: &str, cleaned: CleanupResult) -> Answer {
    let rows = rows(output)?;
    let count = |kind| rows.iter().filter(|row| text(row, "/type") == Some(kind)).count();
    for (kind, what) in [("tier-cleanup", "cleanups"), ("tier-migration", "migrations")] {
        if count(kind) != PARTITIONS as usize {
            return Err(format!("it reports {} {what}, not {PARTITIONS}", count(kind)));
        }
    }
    let summary = summary(&rows)?;
    let total = |name: &str| summary.pointer(&format!("/tier_cleanup/{name}"));
    let (before, after) = (cleaned.before_bytes, cleaned.after_bytes);
    let truths = [("segments", cleaned.segments()), ("before_bytes", before), ("after_bytes", after)];
    for (name, truth) in truths {
        let value = total(name).and_then(Value::as_u64);
        if value != Some(truth) {
            return Err(format!("its total of {name} is {value:?}; by the files themselves it is {truth}"));
        }
    }
    match total("change_percent").and_then(Value::as_f64) {
        Some(percent) if percent < MAX_CHANGE_PERCENT => Ok(format!(
            "{} segments removed from the state of {PARTITIONS} partitions, {before} to {after} bytes \
             ({percent:.2} %), as the files themselves say",
            cleaned.segments()
        )),
        percent => Err(format!("its reduction is {percent:?} %")),
    }
}

/// `advise`: the settings, with their caveat.
fn by_advise(output: &str) -> Answer {
    let rows = rows(output)?;
    let is_rule = |row: &&Value| text(row, "/type") == Some("advice") && text(row, "/rule") == Some(RULE);
    let advice = rows.iter().find(is_rule);
    let advice = advice.ok_or_else(|| format!("it does not advise {RULE}"))?;
    let changes = advice.pointer("/changes").and_then(Value::as_array).into_iter().flatten();
    for (setting, new) in SETTINGS {
        let is_meant =
            |change: &Value| text(change, "/setting") == Some(setting) && text(change, "/new") == Some(new);
        if !changes.clone().any(is_meant) {
            return Err(format!("it does not say {setting}={new}"));
        }
    }
    match text(advice, "/risk") {
        Some(risk) if risk.contains(CAVEAT) => Ok(format!("{RULE}, with its caveat: {CAVEAT}")),
        _ => Err(format!("it does not say that {CAVEAT}")),
    }
}

/// `files --by kind` after the cleanup: the state is looked up as before, and no longer read from the disk.
fn by_after(output: &str) -> Answer {
    let rows = rows(output)?;
    no_reads_without_egress(output)?;
    let state = rows.iter().find(|row| text(row, "/kind") == Some(KIND));
    let count = |name| state.and_then(|row| number(row, name)).unwrap_or_default();
    let (reads, disk_reads) = (count("/reads"), count("/disk_reads"));
    if reads < 1.0 {
        return Err("nobody reads the state any more, so nothing is shown".to_owned());
    }
    if disk_reads * 100.0 > reads {
        return Err(format!("{disk_reads:.0} of {reads:.0} reads of {KIND} files are still from the disk"));
    }
    Ok(format!("{reads:.0} reads of {KIND} files, {disk_reads:.0} of them from the disk"))
}

fn is_state_file(name: &str) -> bool {
    name.starts_with(TOPIC) && name.ends_with(FILE)
}

fn rows(output: &str) -> Result<Vec<Value>, String> {
    let row = |line| serde_json::from_str(line).map_err(|error| format!("its output is not JSON: {error}"));
    output.lines().map(row).collect()
}

fn summary(rows: &[Value]) -> Result<&Value, String> {
    let last = rows.last().filter(|row| text(row, "/type") == Some("summary"));
    last.ok_or_else(|| "it does not end with a summary".to_owned())
}

fn text<'v>(row: &'v Value, pointer: &str) -> Option<&'v str> {
    row.pointer(pointer)?.as_str()
}

fn number(row: &Value, pointer: &str) -> Option<f64> {
    row.pointer(pointer)?.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conclusion_lists_commands_that_missed_the_fault() {
        let data = FleetData {
            injected: 4,
            brokers: 9,
            before: PathBuf::new(),
            odd: PathBuf::new(),
            well: Vec::new(),
            log: PathBuf::new(),
            cleaned: CleanupResult { before_bytes: 2, after_bytes: 1 },
            after: PathBuf::new(),
        };
        let answers = [("fleet", Ok("broker 4".to_owned())), ("files", Err("nothing".to_owned()))];
        let text = conclusion(&data, &answers);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("injected: broker 4 of 9 reads retriever-mutation-*"), "{text}");
        assert_eq!(lines[1..], ["  fleet   ok: broker 4", "  files   MISSED: nothing"]);
    }
}

#[cfg(test)]
mod named_tests {
    use serde_json::json;

    use super::*;

    fn lines(rows: &[Value]) -> String {
        rows.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
    }

    fn state_file(number: usize) -> String {
        format!("{TOPIC}-{number}/{FILE}")
    }

    fn difference(broker: &str, figure: &str, part: &str) -> Value {
        json!({"type": "difference", "broker": broker, "figure": figure, "value": 1600.0, "median": 1.0,
            "because": [{"part": part, "share": 1.0, "items": [{"name": state_file(5)}]}]})
    }

    #[test]
    fn broker_is_named_if_it_is_first_and_for_its_state_files() {
        let summary = json!({"type": "summary", "brokers": 9});
        let output = |rows: &[Value]| lines(&[rows, std::slice::from_ref(&summary)].concat());
        let slow = difference("4", "longest_write_ms", "log");
        let reads = difference("4", "device_reads_per_second", KIND);
        let answer = by_fleet(&output(&[slow.clone(), reads.clone()]), 4).unwrap();
        assert!(answer.starts_with("broker 4 is the first: device_reads_per_second is 1600"), "{answer}");
        let other = difference("2", "longest_write_ms", "log");
        assert!(by_fleet(&output(&[other, reads]), 4).unwrap_err().contains("broker 2, not 4"));
        assert!(by_fleet(&output(&[slow]), 4).is_err());
        assert!(by_fleet(&output(&[difference("4", "reads_per_second", "log")]), 4).is_err());
        assert!(by_fleet(&output(&[]), 4).unwrap_err().contains("broker none"));
        assert!(by_fleet("no JSON", 4).is_err());
    }

    fn files(kinds: &[&str], finding: &Value) -> String {
        let row = |(at, kind): (usize, &&str)| json!({"type": "files", "file": state_file(at), "kind": kind, "topic": TOPIC});
        let mut rows: Vec<Value> = kinds.iter().enumerate().map(row).collect();
        rows.push(json!({"type": "summary", "reads_without_egress": finding}));
        lines(&rows)
    }

    #[test]
    fn files_are_named_if_all_come_first_with_a_finding() {
        let finding = json!({"text": "reads without egress: …", "kind": KIND, "file": state_file(5)});
        let all = [KIND; PARTITIONS as usize];
        assert_eq!(by_files(&files(&all, &finding)).unwrap(), "reads without egress: …");
        let mut others = all;
        others[2] = "log";
        assert!(by_files(&files(&others, &finding)).is_err());
        assert!(by_files(&files(&all, &Value::Null)).is_err());
        let of_logs = json!({"text": "…", "kind": "log", "file": "a-0/0.log"});
        assert!(by_files(&files(&all, &of_logs)).is_err());
        assert_eq!(no_reads_without_egress(&files(&all, &Value::Null)), Ok(()));
        assert!(no_reads_without_egress(&files(&[], &of_logs)).is_err());
    }

    fn logged(cleanups: u32, segments: u64) -> String {
        let row = |kind| json!({"type": kind});
        let mut rows: Vec<Value> = (0..cleanups).map(|_| row("tier-cleanup")).collect();
        rows.extend((0..PARTITIONS).map(|_| row("tier-migration")));
        rows.push(json!({"type": "summary", "tier_cleanup": {"segments": segments,
            "before_bytes": 114_210, "after_bytes": 210, "change_percent": -99.8}}));
        lines(&rows)
    }

    #[test]
    fn reduction_is_named_if_it_matches_the_files() {
        let cleaned = CleanupResult { before_bytes: 114_210, after_bytes: 210 };
        let answer = by_logs(&logged(PARTITIONS, 1_000), cleaned).unwrap();
        assert!(answer.starts_with("1000 segments") && answer.contains("-99.80 %"), "{answer}");
        assert!(by_logs(&logged(PARTITIONS - 1, 1_000), cleaned).is_err());
        assert!(by_logs(&logged(PARTITIONS, 999), cleaned).is_err());
        let little = CleanupResult { after_bytes: 114_096, ..cleaned };
        assert!(by_logs(&logged(PARTITIONS, 1), little).is_err());
    }

    #[test]
    fn advice_needs_all_settings_and_the_caveat() {
        let output = |settings: &[(&str, &str)], risk: &str| {
            let changes: Vec<Value> =
                settings.iter().map(|(name, new)| json!({"setting": name, "new": new})).collect();
            lines(&[
                json!({"type": "advice", "rule": RULE, "changes": changes, "risk": risk}),
                json!({"type": "summary"}),
            ])
        };
        assert!(by_advise(&output(&SETTINGS, CAVEAT)).is_ok());
        assert!(by_advise(&output(&SETTINGS[1..], CAVEAT)).is_err());
        assert!(by_advise(&output(&SETTINGS, "none")).is_err());
        assert!(by_advise(&lines(&[json!({"type": "summary"})])).is_err());
    }

    #[test]
    fn cleanup_works_if_reads_remain_but_not_from_disk() {
        let output = |reads: u64, disk_reads: u64| {
            lines(&[
                json!({"type": "files", "kind": KIND, "reads": reads, "disk_reads": disk_reads}),
                json!({"type": "summary", "reads_without_egress": null}),
            ])
        };
        assert!(by_after(&output(5_000, 3)).is_ok());
        assert!(by_after(&output(5_000, 3_000)).is_err());
        assert!(by_after(&output(0, 0)).is_err());
    }
}
