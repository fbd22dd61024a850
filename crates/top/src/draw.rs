//! Draws the state on a screen of any size. Changes only how far a list or text is scrolled.

mod footer;
mod header;
mod help;
mod list;
mod text;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::clip::width;
use crate::item::Cell;
use crate::palette::{Palette, Tone};
use crate::state::State;
use crate::ui::{Mode, Ui};

/// Minimum size: smaller terminals show nothing worth reading.
const MIN: (u16, u16) = (40, 12);

/// Draws the screen.
pub fn draw(frame: &mut Frame<'_>, state: &State, ui: &mut Ui, palette: Palette) {
    let area = frame.area();
    let canvas = &mut Canvas { buffer: frame.buffer_mut(), palette };
    if area.width < MIN.0 || area.height < MIN.1 {
        let needed = format!("needs {} × {}", MIN.0, MIN.1);
        canvas.line(area, 0, vec![(needed, Tone::Bad)]);
        return;
    }
    let header = Rect { height: header::LINES, ..area };
    let footer = Rect { y: area.bottom() - 1, height: 1, ..area };
    let body = Rect { y: header.bottom(), height: footer.y - header.bottom(), ..area };
    header::draw(canvas, header, state, ui);
    match &ui.mode {
        Mode::Help { .. } => help::draw(canvas, body, state, ui),
        Mode::Chain { .. } => text::draw_chain(canvas, body, state, ui),
        Mode::Browse | Mode::Typing(_) | Mode::Sort { .. } => {
            list::draw(canvas, body, state, ui);
            list::draw_sort_menu(canvas, body, ui);
        }
    }
    footer::draw(canvas, footer, ui);
}

/// The area to draw on.
struct Canvas<'b> {
    buffer: &'b mut Buffer,
    palette: Palette,
}

impl Canvas<'_> {
    /// Draws text at the left of a line of an area; cuts it if it is too long.
    fn line(&mut self, area: Rect, down: u16, pieces: Cell) {
        let palette = self.palette;
        let spans = pieces.into_iter().map(|(text, tone)| Span::styled(text, palette.style(tone)));
        self.spans(area, down, spans.collect());
    }

    fn spans(&mut self, area: Rect, down: u16, spans: Vec<Span<'static>>) {
        if down < area.height {
            self.buffer.set_line(area.x, area.y + down, &Line::from(spans), area.width);
        }
    }

    /// Like `line`, with text at the right if there is room for both.
    fn line_with_right(&mut self, area: Rect, down: u16, left: Cell, right: Cell) {
        let (left_width, right_width) = (width_of(&left), width_of(&right));
        self.line(area, down, left);
        let room = usize::from(area.width);
        if left_width + right_width < room {
            let x = area.x + (room - right_width) as u16;
            self.line(Rect { x, width: right_width as u16, ..area }, down, right);
        }
    }

    /// Sets the background of a whole line.
    fn ground(&mut self, area: Rect, down: u16, tone: Tone) {
        if down < area.height {
            let style = self.palette.style(tone);
            self.buffer.set_style(Rect { y: area.y + down, height: 1, ..area }, style);
        }
    }
}

fn width_of(pieces: &Cell) -> usize {
    pieces.iter().map(|(text, _)| width(text)).sum()
}

#[cfg(test)]
mod tests;
