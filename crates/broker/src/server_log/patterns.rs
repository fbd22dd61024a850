//! What the user looks for besides: patterns from a small file, one a line. Does not read the file.
//!
//! ```text
//! # NAME     UNIT   REGULAR EXPRESSION
//! slow-disk  ms     disk write of (?<topic>[a-z]+)-(?<partition>\d+) stalled for (?<value>\d+)
//! retry      -      retrying after error
//! ```
//! Expressions are those of the crate `regex`, which take time in proportion to the line, on bytes: `\d` and `\w` are
//! ASCII. `value` is measured in UNIT: a unit of time, `bytes`, or `count`.

use std::sync::Arc;

use model::{LogEntry, LogKind, TopicPartition};
use regex::bytes::{Captures, Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::time::{in_unit, unit_ns};
use crate::path::partition;

/// Patterns at most: each line is looked at with all of them.
const MAX_PATTERNS: usize = 64;
/// What one expression may take when compiled, and what it may take while it runs.
const EXPRESSION_BYTES: usize = 1 << 20;
/// What all together may take, which only makes looking faster.
const TOGETHER_BYTES: usize = 8 << 20;
const GROUPS: [&str; 7] = ["value", "topic", "partition", "offset", "count", "before", "after"];

/// Why a file of patterns cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// A line that is no pattern.
    #[error("line {line}: write NAME UNIT EXPRESSION, as in: slow-disk ms stalled for (?<value>\\d+)")]
    Form {
        /// Its line, from 1.
        line: usize,
    },
    /// A unit that is not known.
    #[error("line {line}: {unit:?} is not a unit: write ns, us, ms, s, min, bytes, count, or - for none")]
    Unit {
        /// Its line, from 1.
        line: usize,
        /// What stands there.
        unit: String,
    },
    /// A named group that means nothing, or one that is missing.
    #[error("line {line}: {what}; groups are {}", GROUPS.join(", "))]
    Group {
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// No regular expression, or one that takes too much memory.
    #[error("line {line}: {}", last_line(source))]
    Expression {
        /// Its line, from 1.
        line: usize,
        /// What the engine says.
        source: regex::Error,
    },
    /// Too many.
    #[error("line {line}: more than {MAX_PATTERNS} patterns: join some of them with |")]
    TooMany {
        /// The first one too many, from 1.
        line: usize,
    },
}

/// The engine draws the expression first, in several lines.
fn last_line(error: &regex::Error) -> String {
    error.to_string().lines().last().unwrap_or_default().to_owned()
}

/// What a pattern's value is.
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

/// Patterns, of which the first that fits a line counts.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    patterns: Vec<Pattern>,
    /// All of them at once, for lines that none fits.
    any: Option<RegexSet>,
}

impl Patterns {
    /// Those of a file with this text.
    ///
    /// # Errors
    /// The first line that is no pattern.
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

    /// What the first pattern that fits says of a line.
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
            topic_partition: whose(group("topic"), group("partition")),
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

/// A topic and a number, or both in one, as `t-0`.
fn whose(topic: Option<&str>, number: Option<&str>) -> Option<TopicPartition> {
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
    fn a_pattern_s_groups_fill_what_a_line_tells() {
        let file = r"
            # NAME UNIT EXPRESSION
            slow-disk  s      write of (?<topic>[\w.]+)-(?<partition>\d+) stalled for (?<value>[\d.]+)
            shrunk     bytes  (?<partition>\S+-\d+) is now (?<value>\d+), was (?<before>\d+)
            retries    count  retried (?<value>\d+) times
            gone       -      is gone|no longer there
        ";
        let patterns = Patterns::parse(file).unwrap();
        let told = patterns.find("[x] WARN write of a.b-7 stalled for 1.5 s").unwrap();
        let named = |told: &LogEntry| told.topic_partition.as_ref().unwrap().to_string();
        assert_eq!((told.pattern.as_deref(), named(&told).as_str()), (Some("slow-disk"), "a.b-7"));
        assert_eq!(told.length, Some(Nanos(1_500_000_000)));
        let told = patterns.find("t-x-3 is now 5, was 90").unwrap();
        assert_eq!(
            (named(&told).as_str(), told.before_bytes, told.after_bytes),
            ("t-x-3", Some(90), Some(5))
        );
        assert_eq!(patterns.find("retried 3 times").unwrap().count, Some(3));
        assert_eq!(patterns.find("no longer there").unwrap().pattern.as_deref(), Some("gone"));
        assert!(patterns.find("nothing of that").is_none());
        assert!(Patterns::parse("# nothing\n\n").unwrap().is_empty());
    }

    #[test]
    fn what_is_no_pattern_is_said_with_its_line() {
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
            let said = Patterns::parse(file).unwrap_err().to_string();
            assert!(said.starts_with(expected), "{file}: {said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}
