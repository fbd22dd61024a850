//! The help: key bindings, the meaning of letters and columns, and notes on the input.

use model::Stage;
use ratatui::layout::Rect;
use report::thread_state::ThreadState;
use report::wrap::wrap_to;

use super::{Canvas, text};
use crate::item::{Cell, cell};
use crate::palette::{Tone, stage_style, state_style};
use crate::state::State;
use crate::ui::{Mode, Ui};

const KEYS: [(&str, &str); 17] = [
    ("1 … 5, Tab, ← →", "switch the view"),
    ("↑ ↓ PgUp PgDn Home End", "move to a row; k j g G as well"),
    ("Enter", "open a row: a request's chain, a root's victims, a file's or thread's operations"),
    ("F3 /", "search as you type; F3 again, or n later, finds the next"),
    ("F4 \\", "show only matching rows; a|b matches either; Esc shows all again"),
    ("F5 F6 > <", "sort by another column"),
    ("I", "reverse the sort order"),
    ("t", "group: by cause, by file, by kind, by role"),
    ("Space", "tag a row, to find it again"),
    ("U", "remove all tags"),
    ("p Z", "pause, or resume; a live watch continues in the background"),
    ("+ -", "replay twice, or half, as fast"),
    ("Ctrl-L", "redraw the screen"),
    ("Ctrl-Z", "suspend; fg in the shell resumes"),
    ("F1 h ?", "this help"),
    ("F10 q Ctrl-C", "quit"),
    ("requests/s p50 p99 max", "over the last 10 complete seconds"),
];

pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, state: &State, ui: &mut Ui) {
    let width = usize::from(area.width);
    let mut lines = keys(width);
    lines.extend(letters());
    lines.extend(notes(state, width));
    ui.page = usize::from(area.height);
    if let Mode::Help { top } = &mut ui.mode {
        text::draw(canvas, area, lines, top);
    }
}

fn heading(text: &str) -> Cell {
    cell(text.to_owned(), Tone::Strong)
}

/// Columns before a key's description.
const KEY: usize = 26;

fn keys(width: usize) -> Vec<Cell> {
    let row = |(key, what): (&'static str, &str)| {
        let lines = wrap_to(width, what, KEY, KEY).into_iter().enumerate();
        lines.map(move |(nth, line)| {
            let key = if nth == 0 { key } else { "" };
            vec![(format!("  {key:<width$}", width = KEY - 2), Tone::Name), (line, Tone::Plain)]
        })
    };
    [heading("Keys")].into_iter().chain(KEYS.into_iter().flat_map(row)).collect()
}

fn letters() -> Vec<Cell> {
    let stage = |stage: Stage| {
        let (letter, _, meaning) = stage_style(stage);
        row(letter, Tone::Stage(stage), meaning)
    };
    let of_thread = |state: ThreadState| row(state_style(state).0, Tone::State(state), state.as_str());
    let stages = Stage::ALL.map(stage);
    let of_threads = ThreadState::ALL.map(of_thread);
    let blank = || [Cell::new()].into_iter();
    blank()
        .chain([heading("Stages of a request")])
        .chain(stages)
        .chain(blank())
        .chain([heading("Thread states over the last 10 seconds; blank: not observed")])
        .chain(of_threads)
        .collect()
}

fn row(letter: char, tone: Tone, what: &str) -> Cell {
    vec![("  ".to_owned(), Tone::Plain), (letter.to_string(), tone), (format!("  {what}"), Tone::Plain)]
}

/// Notes, and what could not be observed.
fn notes(state: &State, width: usize) -> Vec<Cell> {
    let unseen = state.about.unobservable.iter().map(|unseen| format!("{}: {}", unseen.what, unseen.why));
    let mut lines = Vec::new();
    for (title, sentences) in [
        ("Notes", state.notes.iter().cloned().collect::<Vec<_>>()),
        ("What could not be observed, and why", unseen.collect()),
    ] {
        if sentences.is_empty() {
            continue;
        }
        lines.extend([Cell::new(), heading(title)]);
        for sentence in sentences {
            let safe = report::escape::escape(&sentence).into_owned();
            let wrapped = wrap_to(width, &safe, 4, 4).into_iter();
            let bulleted = wrapped.enumerate().map(|(nth, line)| {
                cell(format!("{}{line}", if nth == 0 { "  - " } else { "    " }), Tone::Plain)
            });
            lines.extend(bulleted);
        }
    }
    lines
}
