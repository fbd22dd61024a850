//! The footer: key bindings, or the words that are being typed.

use ratatui::layout::Rect;

use super::Canvas;
use crate::clip::clip;
use crate::item::Cell;
use crate::palette::Tone;
use crate::ui::typing::Purpose;
use crate::ui::{Mode, Ui};
use crate::view::View;

pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, ui: &Ui) {
    let line = match (&ui.mode, &ui.message) {
        (Mode::Typing(typed), _) => {
            let room = usize::from(area.width).saturating_sub(45);
            let (name, meanings): (_, &[_]) = match typed.purpose {
                Purpose::Search => ("Search", &[("F3", "Next"), ("↵", "Done"), ("Esc", "Done")]),
                Purpose::Filter => ("Filter", &[("↵", "Done"), ("Esc", "Clear")]),
            };
            let words = format!("{name}: {}▏", clip(&typed.words, room));
            let tone = if typed.is_nowhere { Tone::Bad } else { Tone::Strong };
            let mut line = vec![(format!("{words}  "), tone)];
            line.extend(keys(meanings));
            line
        }
        (Mode::Sort { .. }, _) => keys(&[("↑↓", "Column"), ("↵", "Sort"), ("Esc", "Back")]),
        (Mode::Help { .. } | Mode::Chain { .. }, _) => {
            keys(&[("↑↓", "Scroll"), ("Esc", "Back"), ("F10", "Quit")])
        }
        (Mode::Browse, Some(message)) => vec![(clip(message, usize::from(area.width)), Tone::Strong)],
        (Mode::Browse, None) => browsing(ui),
    };
    canvas.line(area, 0, line);
}

fn browsing(ui: &Ui) -> Cell {
    let enter = match ui.view {
        View::Requests => "Chain",
        View::Causes => "Victims",
        _ => "More",
    };
    let pause = if ui.paused { "Resume" } else { "Pause" };
    keys(&[
        ("F1", "Help"),
        ("F3", "Search"),
        ("F4", "Filter"),
        ("F6", "Sort"),
        ("Tab", "View"),
        ("t", "Group"),
        ("Spc", "Tag"),
        ("p", pause),
        ("↵", enter),
        ("F10", "Quit"),
    ])
}

fn keys(keys: &[(&str, &str)]) -> Cell {
    keys.iter()
        .flat_map(|(key, what)| [((*key).to_owned(), Tone::Plain), (format!("{what} "), Tone::Ground)])
        .collect()
}
