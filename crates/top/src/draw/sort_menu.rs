//! The columns to sort by, beside the rows.

use ratatui::layout::Rect;
use ratatui::widgets::{Block, Clear, Widget as _};

use super::Canvas;
use crate::palette::Tone;
use crate::ui::{Mode, Ui};

const WIDTH: u16 = 20;

pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, ui: &Ui) {
    let Mode::Sort { choice } = ui.mode else { return };
    let columns = ui.listing().table().columns;
    let height = (columns.len() as u16 + 2).min(area.height.saturating_sub(1));
    let menu = Rect { y: area.y + 1, width: WIDTH.min(area.width), height, ..area };
    Clear.render(menu, canvas.buffer);
    let block = Block::bordered().title("Sort by");
    let inner = block.inner(menu);
    block.render(menu, canvas.buffer);
    let first = (choice + 1).saturating_sub(usize::from(inner.height));
    for (down, (at, column)) in (0..).zip(columns.iter().enumerate().skip(first)) {
        canvas.line(inner, down, vec![(format!(" {}", column.name), Tone::Plain)]);
        if at == choice {
            canvas.ground(inner, down.min(inner.height), Tone::Selected);
        }
    }
}
