//! Text that may be longer than the screen: the details of a request, and the help.

use ratatui::layout::Rect;
use report::Style;
use report::explanation::write_request;
use report::paint::Role;

use super::Canvas;
use crate::item::Cell;
use crate::palette::Tone;
use crate::state::State;
use crate::ui::{Mode, Ui};

/// Maximum width of a line; wider ones are hard to read.
const WIDEST: usize = 160;

/// Draws the details of the selected request, as `explain --request` prints them.
pub(super) fn draw_chain(canvas: &mut Canvas<'_>, area: Rect, state: &State, ui: &mut Ui) {
    let Mode::Chain { verdict, top } = &mut ui.mode else { return };
    let style = Style { zone: state.about.zone.clone(), colour: canvas.palette.colour, ..Style::default() };
    let mut written = Vec::new();
    let width = usize::from(area.width).min(WIDEST);
    // Writing to memory cannot fail.
    let _ = write_request(&mut written, &style, width, verdict);
    let text = String::from_utf8_lossy(&written);
    let lines = text.lines().map(pieces).collect::<Vec<_>>();
    draw(canvas, area, lines, top);
    ui.page = usize::from(area.height);
}

/// Draws lines from `top` on, or the last ones.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, lines: Vec<Cell>, top: &mut usize) {
    *top = (*top).min(lines.len().saturating_sub(usize::from(area.height)));
    for (down, line) in (0..area.height).zip(lines.into_iter().skip(*top)) {
        canvas.line(area, down, line);
    }
}

const ESCAPE: &str = "\x1b[";

/// Splits a line into pieces.
pub(super) fn pieces(line: &str) -> Cell {
    let mut parts = line.split(ESCAPE);
    let mut pieces = vec![(parts.next().unwrap_or_default().to_owned(), Tone::Plain)];
    for part in parts {
        let (code, text) = part.split_once('m').unwrap_or(("", part));
        pieces.push((text.to_owned(), tone(code)));
    }
    pieces.retain(|(text, _)| !text.is_empty());
    pieces
}

fn tone(code: &str) -> Tone {
    let of = |role: Role| code == role.code();
    match () {
        () if of(Role::Heading) => Tone::Strong,
        () if of(Role::Bad) => Tone::Bad,
        () if of(Role::Good) => Tone::Good,
        () if of(Role::Faint) => Tone::Faint,
        () => Tone::Plain,
    }
}

#[cfg(test)]
mod tests {
    use report::paint::{Role, paint};

    use super::pieces;
    use crate::palette::Tone;

    #[test]
    fn painted_text_has_tones_instead_of_escape_codes() {
        let line = format!("a {}b{}", paint(true, Role::Bad, "bad"), paint(true, Role::Faint, " faint"));
        let expected = [("a ", Tone::Plain), ("bad", Tone::Bad), ("b", Tone::Plain), (" faint", Tone::Faint)];
        let expected = expected.map(|(text, tone)| (text.to_owned(), tone));
        assert_eq!(pieces(&line), expected);
        assert_eq!(pieces(""), []);
    }
}
