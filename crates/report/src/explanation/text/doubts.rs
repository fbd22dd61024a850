//! What could not be decided and what would have told, the most time first.

use std::io::{self, Write};

use crate::Style;
use crate::escape::escape;
use crate::explanation::why_not::Question;
use crate::quantity::format_count_of;
use crate::wrap::bullet;

/// Questions told without `--wide`.
const TOLD: usize = 10;

/// The questions that are open; nothing where none is.
pub(super) fn tell<W: Write>(out: &mut W, style: &Style, questions: &[Question]) -> io::Result<()> {
    if questions.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", style.heading("What could not be decided, and what would have told"))?;
    let told = if style.wide { questions.len() } else { TOLD };
    for Question { doubt, requests, time } in questions.iter().take(told) {
        let stage = doubt.stage.as_str().replace('_', " ");
        let text = format!(
            "{stage}, {time} of {}: {}. It would have told: {}",
            format_count_of(*requests, "request"),
            doubt.what,
            doubt.tells
        );
        writeln!(out, "{}", bullet(&escape(&text), 2))?;
    }
    let untold = questions.len().saturating_sub(told) as u64;
    if untold > 0 {
        writeln!(out, "  … and {} more{}", untold, style.how_to_see_all())?;
    }
    Ok(())
}
