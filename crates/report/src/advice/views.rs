//! What thread dumps and samples show, as an engineer reads them: who is blocked on which lock, and which functions run, the
//! well-known ones named. Does not judge; the rules do.

use std::io::{self, Write};

use advise::{Function, Profile};
use model::StackTime;
use serde::Serialize;

use crate::blocked::{self, BlockedRow};
use crate::escape::escape;
use crate::paint::{Role, paint};
use crate::quantity::{format_count, format_count_of};
use crate::table::{Column, Table};
use crate::{Style, json};

/// Functions told.
const FUNCTIONS: usize = 15;
/// Locks told.
const LOCKS: usize = 10;

const COLUMNS: [Column; 4] = [
    Column::number("SHARE", 6),
    Column::number("SEEN", 6),
    Column::text("FUNCTION", 40),
    Column::text("WHAT IT IS, OR IS DONE FOR", 0),
];

/// What there is to look at beside advice.
#[derive(Clone, Debug, Default)]
pub struct Views {
    /// Locks that threads were blocked on in thread dumps.
    pub blocked: Vec<BlockedRow>,
    /// How many dumps there were, and what threads did in them; none where there were no dumps.
    pub in_dumps: Option<(u64, Profile)>,
    /// What ran on the processors; none where nobody took samples.
    pub on_cpu: Option<Profile>,
}

/// One function, as JSON.
#[derive(Serialize)]
struct FunctionView<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    /// `cpu`: samples of processors; `dumps`: threads of thread dumps.
    source: &'static str,
    rank: usize,
    function: &'a str,
    work: Option<&'a str>,
    seen: u64,
    share: f64,
}

/// A kind of work, as JSON.
#[derive(Serialize)]
struct WorkView<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    source: &'static str,
    work: &'a str,
    seen: u64,
    share: f64,
}

impl Views {
    /// Profiles with what they are made of: its name, its heading, the profile.
    fn profiles(&self) -> impl Iterator<Item = (&'static str, String, &Profile)> {
        let on_cpu = self.on_cpu.iter().map(|profile| {
            (
                "cpu",
                format!("What ran on the processors ({})", format_count_of(profile.seen(), "sample")),
                profile,
            )
        });
        let in_dumps = self.in_dumps.iter().map(|(dumps, profile)| {
            let threads = format_count_of(profile.seen(), "running thread");
            ("dumps", format!("What ran in {} ({threads})", format_count_of(*dumps, "thread dump")), profile)
        });
        on_cpu.chain(in_dumps).filter(|(_, _, profile)| profile.seen() > 0)
    }
}

/// Writes them for people.
pub(super) fn write_text(out: &mut impl Write, look: &Style, views: &Views) -> io::Result<()> {
    let heading = |text: &str| paint(look.colour, Role::Heading, text);
    let dumps = views.in_dumps.as_ref().map_or(0, |(dumps, _)| *dumps);
    if let Some(locks) = views.blocked.get(..views.blocked.len().min(LOCKS)).filter(|locks| !locks.is_empty())
    {
        writeln!(out, "\n{}", heading(&format!("Blocked on ({})", format_count_of(dumps, "thread dump"))))?;
        blocked::write_table(&mut *out, look, locks)?;
    }
    for (_, title, profile) in views.profiles() {
        writeln!(out, "\n{}", heading(&title))?;
        let mut table = Table::new(&mut *out, COLUMNS.to_vec(), usize::MAX).coloured(look.colour);
        profile.top(FUNCTIONS).iter().try_for_each(|function| table.row(cells(profile, function)))?;
        table.finish()?;
        if let Some(works) = works(profile) {
            writeln!(out, "{}", crate::wrap::bullet(&works, 0))?;
        }
    }
    Ok(())
}

fn cells(profile: &Profile, function: &Function) -> Vec<String> {
    vec![
        percent(profile, function.seen),
        format_count(function.seen),
        escape(&shown(&function.name)).into_owned(),
        function.work.map_or_else(String::new, |work| work.to_string()),
    ]
}

/// `by what they do: memory copying 21 %, file write 12 %`.
fn works(profile: &Profile) -> Option<String> {
    let told = profile
        .by_work()
        .iter()
        .map(|(work, seen)| format!("{work} {}", percent(profile, *seen)))
        .collect::<Vec<_>>();
    (!told.is_empty()).then(|| format!("by what it is, or is done for: {}", told.join(", ")))
}

fn percent(profile: &Profile, seen: u64) -> String {
    format!("{:.1} %", profile.share(seen) * 100.0)
}

/// A function as people read it: the kernel's are marked, compiled ones are not.
fn shown(name: &str) -> String {
    match name.strip_suffix(StackTime::KERNEL) {
        Some(kernel) => format!("{kernel} (kernel)"),
        None => name.strip_suffix(StackTime::COMPILED).unwrap_or(name).to_owned(),
    }
}

/// Writes them as JSON lines.
pub(super) fn write_json(out: &mut impl Write, views: &Views) -> io::Result<()> {
    blocked::write_json(&mut *out, &views.blocked)?;
    for (source, _, profile) in views.profiles() {
        for (at, function) in profile.top(FUNCTIONS).iter().enumerate() {
            let view = FunctionView {
                kind: "function",
                source,
                rank: at + 1,
                function: &function.name,
                work: function.work.map(advise::Work::as_str),
                seen: function.seen,
                share: profile.share(function.seen),
            };
            json::write_line(&mut *out, &view)?;
        }
        for (work, seen) in profile.by_work() {
            let share = profile.share(seen);
            json::write_line(
                &mut *out,
                &WorkView { kind: "work", source, work: work.as_str(), seen, share },
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use advise::Profile;

    use super::{Views, write_json, write_text};
    use crate::Style;

    fn views() -> Views {
        let mut profile = Profile::default();
        for (function, times) in [("java.util.zip.CRC32C.updateBytes_[j]", 178), ("ext4_\u{1b}[2J_[k]", 22)] {
            for _ in 0..times {
                profile.thread("data-plane-kafka-request-handler-1", [function].into_iter());
            }
        }
        Views { on_cpu: Some(profile), ..Views::default() }
    }

    #[test]
    fn functions_are_told_with_what_they_are_and_are_escaped() {
        let mut out = Vec::new();
        write_text(&mut out, &Style::default(), &views()).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("\nWhat ran on the processors (200 samples)\n"), "{out}");
        assert!(out.contains("89.0 %     178  java.util.zip.CRC32C.updateBytes "), "{out}");
        assert!(out.contains("checksum of batches (CRC32C)") && !out.contains('\u{1b}'), "{out}");
        assert!(out.contains("checksum of batches (CRC32C) 89.0 %"), "{out}");
    }

    #[test]
    fn programs_get_each_function_and_each_kind_of_work() {
        let mut out = Vec::new();
        write_json(&mut out, &views()).unwrap();
        let lines = String::from_utf8(out).unwrap();
        let lines: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let kinds: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["function", "function", "work"]);
        assert_eq!(
            (&lines[0]["function"], &lines[0]["seen"]),
            (&"java.util.zip.CRC32C.updateBytes_[j]".into(), &178.into())
        );
        assert!(lines[1]["work"].is_null(), "{}", lines[1]);
    }

    #[test]
    fn where_nothing_was_seen_nothing_is_told() {
        let (mut text, mut json) = (Vec::new(), Vec::new());
        write_text(&mut text, &Style::default(), &Views::default()).unwrap();
        write_json(&mut json, &Views::default()).unwrap();
        assert!(text.is_empty() && json.is_empty());
    }
}
