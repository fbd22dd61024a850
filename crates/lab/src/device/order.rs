//! The lines by which a device's server is steered and answers, both ways.
//!
//! ```text
//! delay write OFFSET LENGTH LEAST_MS MOST_MS [AFTER_MS FOR_MS]   (window counted from now)
//! pace WRITE_US BYTES_PER_SECOND                                 (one write after the other)
//! clear
//! trace                                  → op write OFFSET LENGTH HELD_MS … (oldest first), then ok
//! ```

use super::delay::{Delay, Direction};
use super::pace::Pace;

/// What the server is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Add a rule; its window counts from the moment the order is read.
    Delay(Delay),
    /// Do one write after the other, at this pace, beside what the rules say.
    Pace(Pace),
    /// Drop all rules and the pace.
    Clear,
    /// Tell what was served lately, and forget it.
    Trace,
}

/// One operation the server has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Read or write.
    pub direction: Direction,
    /// Offset on the device.
    pub offset: u64,
    /// Size in bytes.
    pub length: u64,
    /// How long it was held back.
    pub held_ms: u64,
}

impl Order {
    /// Reads one line.
    ///
    /// # Errors
    /// What is wrong with it, for the one who wrote it.
    pub fn parse(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words.as_slice() {
            ["clear"] => Ok(Self::Clear),
            ["trace"] => Ok(Self::Trace),
            ["pace", write_us, bytes_per_second] => Ok(Self::Pace(Pace {
                write_us: parse_number(write_us)?,
                bytes_per_second: parse_number(bytes_per_second)?,
            })),
            ["delay", direction, numbers @ ..] => parse_delay(direction, numbers).map(Self::Delay),
            _ => Err(format!("not an order: {line:?}")),
        }
    }

    /// The line that [`Order::parse`] reads.
    #[must_use]
    pub fn line(&self) -> String {
        match self {
            Self::Clear => "clear".to_owned(),
            Self::Trace => "trace".to_owned(),
            Self::Pace(Pace { write_us, bytes_per_second }) => format!("pace {write_us} {bytes_per_second}"),
            Self::Delay(rule) => {
                let window = rule
                    .window_ms
                    .map_or(String::new(), |(from, until)| format!(" {from} {}", until.saturating_sub(from)));
                format!(
                    "delay {} {} {} {} {}{window}",
                    name(rule.direction),
                    rule.offset,
                    rule.length,
                    rule.least_ms,
                    rule.most_ms
                )
            }
        }
    }
}

impl Served {
    /// The line of a `trace` answer.
    #[must_use]
    pub fn line(&self) -> String {
        format!("op {} {} {} {}", name(self.direction), self.offset, self.length, self.held_ms)
    }

    /// Reads a line of a `trace` answer.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let ["op", direction, offset, length, held] = words.as_slice() else { return None };
        Some(Self {
            direction: parse_direction(direction).ok()?,
            offset: offset.parse().ok()?,
            length: length.parse().ok()?,
            held_ms: held.parse().ok()?,
        })
    }
}

fn parse_delay(direction: &str, words: &[&str]) -> Result<Delay, String> {
    let direction = parse_direction(direction)?;
    let parsed: Result<Vec<u64>, String> = words.iter().map(|word| parse_number(word)).collect();
    let (head, window_ms) = match parsed?.as_slice() {
        [head @ .., after, lasts] if head.len() == 4 => {
            (head.to_vec(), Some((*after, after.saturating_add(*lasts))))
        }
        head => (head.to_vec(), None),
    };
    let [offset, length, least_ms, most_ms] = head.as_slice() else {
        return Err("delay needs OFFSET LENGTH LEAST_MS MOST_MS [AFTER_MS FOR_MS]".to_owned());
    };
    if least_ms > most_ms {
        return Err(format!("the shortest delay, {least_ms} ms, is over the longest, {most_ms} ms"));
    }
    let (offset, length, least_ms, most_ms) = (*offset, *length, *least_ms, *most_ms);
    Ok(Delay { direction, offset, length, least_ms, most_ms, window_ms })
}

fn parse_number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("not a number: {word}"))
}

fn parse_direction(word: &str) -> Result<Direction, String> {
    match word {
        "read" => Ok(Direction::Read),
        "write" => Ok(Direction::Write),
        other => Err(format!("neither read nor write: {other}")),
    }
}

fn name(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "read",
        Direction::Write => "write",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_come_back_as_they_were_written() {
        for line in [
            "clear",
            "trace",
            "pace 8000 20000000",
            "delay write 4096 8192 120 400",
            "delay read 0 1 5 5 1000 2500",
        ] {
            assert_eq!(Order::parse(line).unwrap().line(), line);
        }
        let served = Served { direction: Direction::Write, offset: 1, length: 2, held_ms: 3 };
        assert_eq!(Served::parse(&served.line()), Some(served));
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for (line, reason) in [
            ("", "not an order"),
            ("delay write 1 2 3", "needs OFFSET"),
            ("delay write 1 2 3 4 5", "needs OFFSET"),
            ("delay sideways 1 2 3 4", "neither read nor write"),
            ("delay write 1 2 9 4", "over the longest"),
            ("delay write 1 2 -3 4", "not a number"),
            ("pace 1", "not an order"),
            ("pace 1 fast", "not a number"),
        ] {
            let refusal = Order::parse(line).unwrap_err();
            assert!(refusal.contains(reason), "{line:?}: {refusal}");
        }
    }
}
