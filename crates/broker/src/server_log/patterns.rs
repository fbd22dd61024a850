//! The user's own patterns, from a small file with one pattern per line. Does not read the file.
//!
//! ```text
//! # NAME     UNIT   REGULAR EXPRESSION
//! slow-disk  ms     disk write of (?<topic>[a-z]+)-(?<partition>\d+) stalled for (?<value>\d+)
//! retry      -      retrying after error
//! ```
//! Expressions have the syntax of the crate `regex`, take time linear in the line, and match bytes: `\d` and `\w` are
//! ASCII. `value` is measured in UNIT: a unit of time, `bytes`, or `count`.

use std::sync::Arc;

use model::{LogEntry, LogKind, TopicPartition};
use regex::bytes::{Captures, Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::time::{in_unit, unit_ns};
use crate::path::partition;

/// Maximum number of patterns: each line is matched against all of them.
const MAX_PATTERNS: usize = 64;
/// Memory limit of one expression: of its compiled form, and of its automaton while it runs.
const EXPRESSION_BYTES: usize = 1 << 20;
/// Memory limit of the combined set, which only speeds up the search.
const TOGETHER_BYTES: usize = 8 << 20;
const GROUPS: [&str; 7] = ["value", "topic", "partition", "offset", "count", "before", "after"];

/// Why a pattern file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// A line that is not a pattern.
    #[error("line {line}: write NAME UNIT EXPRESSION, as in: slow-disk ms stalled for (?<value>\\d+)")]
    Form {
        /// Its line, from 1.
        line: usize,
    },
    /// An unknown unit.
    #[error("line {line}: {unit:?} is not a unit: write ns, us, ms, s, min, bytes, count, or - for none")]
    Unit {
        /// Its line, from 1.
        line: usize,
        /// The unit in the file.
        unit: String,
    },
    /// An unknown named group, or a missing one.
    #[error("line {line}: {what}; groups are {}", GROUPS.join(", "))]
    Group {
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// An invalid regular expression, or one that takes too much memory.
    #[error("line {line}: {}", last_line(source))]
    Expression {
        /// Its line, from 1.
        line: usize,
        /// The regex engine's error.
        source: regex::Error,
    },
    /// Too many patterns.
    #[error("line {line}: more than {MAX_PATTERNS} patterns: join some of them with |")]
    TooMany {
        /// The first line beyond the limit, from 1.
        line: usize,
    },
}

/// The engine prints the expression first, over several lines.
fn last_line(error: &regex::Error) -> String {
    error.to_string().lines().last().unwrap_or_default().to_owned()
}

/// The unit of a pattern's value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Time { unit_ns: f64 },
    Bytes,
    Count,
    None,
}

#[derive(Clone, Debug)]
struct Pattern {
    name: Arc<str>,
    unit: Unit,
    expression: Regex,
}

/// Patterns, of which the first that matches a line counts.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    patterns: Vec<Pattern>,
    /// All patterns combined, to reject lines that match none.
    any: Option<RegexSet>,
}

impl Patterns {
    /// Parses the text of a pattern file.
    ///
    /// # Errors
    /// The first line that is not a pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let mut patterns = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            if patterns.len() == MAX_PATTERNS {
                return Err(PatternError::TooMany { line });
            }
            patterns.push(Pattern::parse(line, text)?);
        }
        let expressions = patterns.iter().map(|pattern| pattern.expression.as_str());
        let any = RegexSetBuilder::new(expressions).unicode(false).size_limit(TOGETHER_BYTES).build();
        Ok(Self { any: any.ok().filter(|_| !patterns.is_empty()), patterns })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The entry from the first pattern that matches a line.
    pub(super) fn find(&self, line: &str) -> Option<LogEntry> {
        if self.any.as_ref().is_some_and(|any| !any.is_match(line.as_bytes())) {
            return None;
        }
        self.patterns.iter().find_map(|pattern| pattern.find(line))
    }
}

impl Pattern {
    fn parse(line: usize, text: &str) -> Result<Self, PatternError> {
        let word = |text: &'_ str| {
            let (word, rest) = text.split_once(char::is_whitespace)?;
            Some((word.to_owned(), rest.trim_start().to_owned()))
        };
        let (name, rest) = word(text).ok_or(PatternError::Form { line })?;
        let (unit, expression) = word(&rest).ok_or(PatternError::Form { line })?;
        let unit = Unit::parse(&unit).ok_or(PatternError::Unit { line, unit })?;
        let expression = RegexBuilder::new(&expression)
            .unicode(false)
            .size_limit(EXPRESSION_BYTES)
            .dfa_size_limit(EXPRESSION_BYTES)
            .build()
            .map_err(|source| PatternError::Expression { line, source })?;
        check_groups(line, unit, &expression)?;
        Ok(Self { name: name.into(), unit, expression })
    }

    fn find(&self, line: &str) -> Option<LogEntry> {
        let captures = self.expression.captures(line.as_bytes())?;
        let group = |name: &str| group(&captures, line, name);
        let number = |name: &str| group(name)?.parse::<u64>().ok();
        let mut entry = LogEntry {
            pattern: Some(Arc::clone(&self.name)),
            topic_partition: parse_partition(group("topic"), group("partition")),
            offset: number("offset").and_then(|offset| offset.try_into().ok()),
            count: number("count"),
            before_bytes: number("before"),
            after_bytes: number("after"),
            ..LogEntry::new(LogKind::Pattern)
        };
        let value = group("value");
        match self.unit {
            Unit::Time { unit_ns } => entry.length = value.and_then(|value| in_unit(value, unit_ns)),
            Unit::Bytes => entry.after_bytes = value.and_then(|value| value.parse().ok()),
            Unit::Count => entry.count = value.and_then(|value| value.parse().ok()),
            Unit::None => {}
        }
        Some(entry)
    }
}

impl Unit {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "bytes" => Some(Self::Bytes),
            "count" => Some(Self::Count),
            "-" => Some(Self::None),
            _ => unit_ns(text).map(|unit_ns| Self::Time { unit_ns }),
        }
    }
}

fn check_groups(line: usize, unit: Unit, expression: &Regex) -> Result<(), PatternError> {
    let names: Vec<&str> = expression.capture_names().flatten().collect();
    if let Some(unknown) = names.iter().find(|name| !GROUPS.contains(name)) {
        return Err(PatternError::Group { line, what: format!("unknown group {unknown:?}") });
    }
    if unit != Unit::None && !names.contains(&"value") {
        return Err(PatternError::Group { line, what: "the group value is missing".to_owned() });
    }
    Ok(())
}

fn group<'a>(captures: &Captures<'_>, line: &'a str, name: &str) -> Option<&'a str> {
    line.get(captures.name(name)?.range())
}

/// A partition from a topic and a number, or from both in one, such as `t-0`.
fn parse_partition(topic: Option<&str>, number: Option<&str>) -> Option<TopicPartition> {
    match (topic, number) {
        (Some(topic), Some(number)) => {
            let partition = number.parse::<u64>().ok()?.try_into().ok()?;
            Some(TopicPartition { topic: topic.into(), partition })
        }
        (None, Some(name)) | (Some(name), None) => partition(name),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use model::{LogEntry, Nanos};

    use super::Patterns;

    #[test]
    fn pattern_groups_fill_the_entrys_fields() {
        let file = r"
            # NAME UNIT EXPRESSION
            slow-disk  s      write of (?<topic>[\w.]+)-(?<partition>\d+) stalled for (?<value>[\d.]+)
            shrunk     bytes  (?<partition>\S+-\d+) is now (?<value>\d+), was (?<before>\d+)
            retries    count  retried (?<value>\d+) times
            gone       -      is gone|no longer there
        ";
        let patterns = Patterns::parse(file).unwrap();
        let entry = patterns.find("[x] WARN write of a.b-7 stalled for 1.5 s").unwrap();
        let partition_name = |entry: &LogEntry| entry.topic_partition.as_ref().unwrap().to_string();
        assert_eq!((entry.pattern.as_deref(), partition_name(&entry).as_str()), (Some("slow-disk"), "a.b-7"));
        assert_eq!(entry.length, Some(Nanos(1_500_000_000)));
        let entry = patterns.find("t-x-3 is now 5, was 90").unwrap();
        assert_eq!(
            (partition_name(&entry).as_str(), entry.before_bytes, entry.after_bytes),
            ("t-x-3", Some(90), Some(5))
        );
        assert_eq!(patterns.find("retried 3 times").unwrap().count, Some(3));
        assert_eq!(patterns.find("no longer there").unwrap().pattern.as_deref(), Some("gone"));
        assert!(patterns.find("nothing of that").is_none());
        assert!(Patterns::parse("# nothing\n\n").unwrap().is_empty());
    }

    #[test]
    fn invalid_pattern_error_names_its_line() {
        let many = "a - b\n".repeat(65);
        for (file, expected) in [
            ("one", "line 1: write NAME UNIT EXPRESSION"),
            ("\nname ms", "line 2: write NAME UNIT EXPRESSION"),
            ("a fortnights (?<value>x)", "line 1: \"fortnights\" is not a unit"),
            ("a ms no value", "line 1: the group value is missing"),
            ("a - (?<where>x)", "line 1: unknown group \"where\""),
            ("a - (", "line 1: error: unclosed group"),
            ("a - (a{1000}){1000}", "line 1: Compiled regex exceeds size limit"),
            (&many, "line 65: more than 64 patterns"),
        ] {
            let message = Patterns::parse(file).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{file}: {message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }
}
