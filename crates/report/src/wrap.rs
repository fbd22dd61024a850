//! Wraps prose into lines that fit a terminal. Does not break words: a path longer than the line sticks out.

/// Width of prose, in columns.
pub const WIDTH: usize = 100;

/// Splits text into lines of at most `width` columns. `first` columns of the first line and `rest` of the others are
/// left to the caller's indentation.
pub fn wrap_to(width: usize, text: &str, first: usize, rest: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = first;
    for (word, next) in with_next(text) {
        let length = word.chars().count();
        // A number and its unit stay together.
        let needed = if is_unit(next) { length + 1 + next.chars().count() } else { length };
        if !line.is_empty() && !is_unit(word) && used + 1 + needed > width {
            lines.push(std::mem::take(&mut line));
            used = rest;
        }
        if !line.is_empty() {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
    }
    lines.push(line);
    lines
}

fn with_next(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(' ').zip(text.split(' ').skip(1).chain([""]))
}

/// Whether a word is a unit of time, as `Nanos` writes it; punctuation may follow.
fn is_unit(word: &str) -> bool {
    matches!(word.trim_end_matches([',', ')', '.', ';']), "ns" | "µs" | "ms" | "s")
}

#[cfg(test)]
mod tests {
    use super::{WIDTH, wrap_to};

    #[test]
    fn wraps_at_the_width_without_breaking_words() {
        let text = "ten chars ".repeat(30);
        let lines = wrap_to(WIDTH, text.trim(), 10, 4);
        assert!(lines.len() > 1);
        assert!(lines[0].len() + 10 <= WIDTH && lines[1..].iter().all(|line| line.len() + 4 <= WIDTH));
        assert_eq!(lines.join(" "), text.trim());
        let path = "x".repeat(300);
        assert_eq!(wrap_to(WIDTH, &format!("a {path} b"), 0, 0), ["a", path.as_str(), "b"]);
        assert_eq!(wrap_to(WIDTH, "", 3, 3), [""]);
    }

    #[test]
    fn number_and_unit_stay_together() {
        for spare in 0..12 {
            let lines = wrap_to(WIDTH, "it took 12.3 ms, it did", WIDTH - spare, 0);
            assert!(lines.iter().any(|line| line.contains("12.3 ms,")), "{lines:?}");
        }
    }
}
