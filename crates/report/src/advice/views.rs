//! What thread dumps and CPU samples show: which threads are blocked on which lock, and which functions run, with
//! well-known ones labelled by their work. Does not judge; the rules do.

use std::io::{self, Write};

use advise::{Function, Profile};
use model::StackTime;
use serde_json::json;

use crate::blocked::{BlockedRow, BlockedThreads};
use crate::json;
use crate::quantity::format_count_of;
use crate::rows::{Cell, Column, Format, Report, Writer};
use crate::text_writer::TextWriter;

/// Functions shown.
const MAX_FUNCTIONS: usize = 15;
/// Locks shown.
const MAX_LOCKS: usize = 10;

/// Views shown in addition to the advice.
#[derive(Clone, Debug, Default)]
pub struct Views {
    /// Locks that threads were blocked on in thread dumps.
    pub blocked: Vec<BlockedRow>,
    /// Number of thread dumps and the profile of their threads; `None` without dumps.
    pub in_dumps: Option<(u64, Profile)>,
    /// Profile of CPU samples; `None` without samples.
    pub on_cpu: Option<Profile>,
}

/// Functions that ran, the most frequent first.
struct Functions;

struct FunctionRow<'a> {
    /// `cpu` for CPU samples, `dumps` for threads of thread dumps.
    source: &'static str,
    rank: usize,
    function: &'a Function,
    profile: &'a Profile,
}

impl Report for Functions {
    type Row<'a> = FunctionRow<'a>;
    const TYPE: &'static str = "function";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<Functions>;
        vec![
            Col::data("source", |row| row.source.into()),
            Col::data("rank", |row| row.rank.into()),
            Col::number("SHARE", 6, "", |row| percent(row.profile, row.function.seen).into()),
            Col::number("SAMPLES", 7, "samples", |row| Cell::Count(row.function.seen)),
            Col::text("FUNCTION", 40, "", |row| mark(&row.function.name).into()),
            Col::data("function", |row| (&*row.function.name).into()),
            Col::text("WORK", 0, "", |row| {
                row.function.work.map_or_else(String::new, |work| work.to_string()).into()
            }),
            Col::data("work", |row| row.function.work.map(advise::Work::as_str).into()),
            Col::data("share", |row| row.profile.share(row.function.seen).into()),
        ]
    }
}

impl Views {
    /// Non-empty profiles, each with the name and the heading of its source.
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

/// Writes the views for people.
pub(super) fn write_text<W: Write>(text: &mut TextWriter<W>, views: &Views) -> io::Result<()> {
    let dumps = views.in_dumps.as_ref().map_or(0, |(dumps, _)| *dumps);
    if !views.blocked.is_empty() {
        text.heading(&format!("Blocked on ({})", format_count_of(dumps, "thread dump")))?;
        let format = Format::Table(text.style.clone());
        let locks = views.blocked.iter().take(MAX_LOCKS);
        Writer::new(&mut text.out, &BlockedThreads, &format).write_all(locks)?;
    }
    for (source, title, profile) in views.profiles() {
        let top = profile.top(MAX_FUNCTIONS);
        text.heading(&title)?;
        let style = text.style.aligned();
        Writer::table(&mut text.out, &Functions, &style, 0).write_all(&rows(source, profile, &top))?;
        if let Some(works) = works(profile) {
            text.wrap("- ", (2, 2), &works, None)?;
        }
    }
    Ok(())
}

fn rows<'a>(source: &'static str, profile: &'a Profile, top: &'a [Function]) -> Vec<FunctionRow<'a>> {
    (1..).zip(top).map(|(rank, function)| FunctionRow { source, rank, function, profile }).collect()
}

/// `by work: memory copying 21 %, file write 12 %`.
fn works(profile: &Profile) -> Option<String> {
    let shares = profile
        .by_work()
        .iter()
        .map(|(work, seen)| format!("{work} {}", percent(profile, *seen)))
        .collect::<Vec<_>>();
    (!shares.is_empty()).then(|| format!("by work: {}", shares.join(", ")))
}

fn percent(profile: &Profile, seen: u64) -> String {
    format!("{:.1} %", profile.share(seen) * 100.0)
}

/// Formats a function for people: marks kernel functions, drops the suffix of compiled ones.
fn mark(name: &str) -> String {
    match name.strip_suffix(StackTime::KERNEL) {
        Some(kernel) => format!("{kernel} (kernel)"),
        None => name.strip_suffix(StackTime::COMPILED).unwrap_or(name).to_owned(),
    }
}

/// Writes the views as JSON lines.
pub(super) fn write_json(out: &mut impl Write, views: &Views) -> io::Result<()> {
    Writer::new(&mut *out, &BlockedThreads, &Format::Json).write_all(&views.blocked)?;
    for (source, _, profile) in views.profiles() {
        let top = profile.top(MAX_FUNCTIONS);
        Writer::new(&mut *out, &Functions, &Format::Json).write_all(&rows(source, profile, &top))?;
        for (work, samples) in profile.by_work() {
            let (work, share) = (work.as_str(), profile.share(samples));
            let line =
                json!({"type": "work", "source": source, "work": work, "samples": samples, "share": share});
            json::write_line(&mut *out, &line)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use advise::Profile;

    use super::{Views, write_json, write_text};
    use crate::Style;
    use crate::text_writer::TextWriter;

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
    fn functions_are_listed_with_their_work_and_escaped() {
        let mut out = Vec::new();
        write_text(&mut TextWriter::new(&mut out, &Style::default()), &views()).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("\nWhat ran on the processors (200 samples)\n"), "{out}");
        assert!(out.contains("89.0 %      178  java.util.zip.CRC32C.updateBytes "), "{out}");
        assert!(out.contains("checksum of batches (CRC32C)") && !out.contains('\u{1b}'), "{out}");
        assert!(out.contains("checksum of batches (CRC32C) 89.0 %"), "{out}");
    }

    #[test]
    fn json_has_each_function_and_each_kind_of_work() {
        let mut out = Vec::new();
        write_json(&mut out, &views()).unwrap();
        let lines = String::from_utf8(out).unwrap();
        let lines: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let kinds: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["function", "function", "work"]);
        assert_eq!(
            (&lines[0]["function"], &lines[0]["samples"]),
            (&"java.util.zip.CRC32C.updateBytes_[j]".into(), &178.into())
        );
        assert!(lines[1]["work"].is_null(), "{}", lines[1]);
    }

    #[test]
    fn empty_views_write_nothing() {
        let (mut text, mut json) = (Vec::new(), Vec::new());
        write_text(&mut TextWriter::new(&mut text, &Style::default()), &Views::default()).unwrap();
        write_json(&mut json, &Views::default()).unwrap();
        assert!(text.is_empty() && json.is_empty());
    }
}
