//! The list: the names of the views, the headings of the current one, and its rows.

use ratatui::layout::Rect;
use ratatui::widgets::{Block, Clear, Widget as _};
use report::quantity::format_count;

use super::{Canvas, width_of};
use crate::clip::{clip, width};
use crate::item::{Cell, Column};
use crate::listing::Rows;
use crate::palette::Tone;
use crate::state::State;
use crate::ui::{Mode, Ui};
use crate::view::View;

/// Lines above the rows.
const ABOVE: u16 = 2;
/// Columns before a row, for its tag.
const MARK: usize = 1;
const TAG: &str = "*";

pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, state: &State, ui: &mut Ui) {
    let height = usize::from(area.height.saturating_sub(ABOVE));
    ui.page = height;
    let rows = ui.listing().rows(state);
    let top = ui.listing_mut().scroll(&rows, height);
    names(canvas, area, ui, &rows);
    let listing = ui.listing();
    let columns = listing.table().columns;
    let places = fit(columns, usize::from(area.width).saturating_sub(MARK));
    headings(canvas, area, ui, columns, &places);
    let selected = listing.place(&rows);
    for (down, (at, item)) in (ABOVE..).zip(rows.items.iter().enumerate().skip(top).take(height)) {
        let tagged = listing.tagged.contains(&item.key());
        let mut line = vec![((if tagged { TAG } else { " " }).to_owned(), Tone::Tagged)];
        for place in &places {
            let is_number = columns.get(place.column).is_some_and(|column| column.is_number);
            let cell = item.cell(place.column, place.width, &state.about);
            line.extend(padded(cell, place.width, is_number));
            line.push((" ".repeat(GAP), Tone::Plain));
        }
        if tagged {
            line.iter_mut()
                .filter(|(_, tone)| *tone == Tone::Plain)
                .for_each(|(_, tone)| *tone = Tone::Tagged);
        }
        canvas.line(area, down, line);
        if at == selected {
            canvas.ground(area, down, Tone::Selected);
        }
    }
    if rows.items.is_empty() {
        let why = if rows.all > 0 { "no row matches; Esc shows all" } else { ui.view.declaration().2 };
        canvas.line(area, ABOVE + 1, vec![(format!("  {why}"), Tone::Faint)]);
    }
}

/// Pads a cell to the width of its column.
/// Cuts a cell that is too wide, which only a number can be.
fn padded(mut cell: Cell, width: usize, is_number: bool) -> Cell {
    let used = width_of(&cell);
    if used > width {
        let text = cell.iter().map(|(text, _)| text.as_str()).collect::<String>();
        let tone = cell.first().map_or(Tone::Plain, |(_, tone)| *tone);
        return vec![(clip(&text, width), tone)];
    }
    let blanks = (" ".repeat(width - used), Tone::Plain);
    let place = if is_number { 0 } else { cell.len() };
    cell.insert(place, blanks);
    cell
}

fn names(canvas: &mut Canvas<'_>, area: Rect, ui: &Ui, rows: &Rows<'_>) {
    let mut line = Vec::new();
    for (number, view) in (1..).zip(View::ALL) {
        let tone = if view == ui.view { Tone::Chosen } else { Tone::Plain };
        line.push((format!(" {number} {} ", view.declaration().0), tone));
    }
    canvas.line_with_right(area, 0, line, counts(ui, rows));
}

/// Describes the number of rows, the filter and the grouping.
fn counts(ui: &Ui, rows: &Rows<'_>) -> Cell {
    let listing = ui.listing();
    let shown = rows.items.len();
    let count = if shown == rows.all {
        format_count(shown as u64)
    } else {
        format!("{} of {}", format_count(shown as u64), format_count(rows.all as u64))
    };
    let mut parts = Vec::new();
    if !listing.filter.is_empty() {
        parts.push((format!("\"{}\" ", clip(&listing.filter, 16)), Tone::Bad));
    }
    if !listing.tagged.is_empty() {
        parts.push((format!("{} tagged ", listing.tagged.len()), Tone::Tagged));
    }
    parts.push((format!("{count} "), Tone::Strong));
    if let Some(grouping) = listing.table().grouping {
        parts.push((grouping.to_owned(), Tone::Plain));
    }
    parts
}

fn headings(canvas: &mut Canvas<'_>, area: Rect, ui: &Ui, columns: &[Column], places: &[Place]) {
    canvas.ground(area, 1, Tone::Ground);
    let listing = ui.listing();
    let mut line = vec![(" ".repeat(MARK), Tone::Ground)];
    for place in places {
        let Some(column) = columns.get(place.column) else { continue };
        let is_sorted = place.column == listing.sorted_by;
        let arrow = if listing.descending { "▼" } else { "▲" };
        let has_room = is_sorted && width(column.name) < place.width;
        let name = if has_room { format!("{}{arrow}", column.name) } else { column.name.to_owned() };
        let tone = if is_sorted { Tone::Chosen } else { Tone::Ground };
        let blanks = (" ".repeat(place.width.saturating_sub(width(&name))), Tone::Ground);
        let name = (name, tone);
        line.extend(if column.is_number { [blanks, name] } else { [name, blanks] });
        line.push((" ".repeat(GAP), Tone::Ground));
    }
    canvas.line(area, 1, line);
}

/// Columns between two columns of the list.
pub(super) const GAP: usize = 1;

/// A visible column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Its index.
    pub(super) column: usize,
    pub(super) width: usize,
}

/// The columns that fit into this width, in their order.
pub(super) fn fit(columns: &[Column], room: usize) -> Vec<Place> {
    let mut shown = (0..columns.len()).collect::<Vec<_>>();
    shown.sort_by_key(|&at| columns.get(at).map(|column| column.spare));
    let mut places: Vec<Place> = Vec::new();
    let mut used = 0;
    for at in shown {
        let Some(column) = columns.get(at) else { continue };
        let needed = column.width + if places.is_empty() { 0 } else { GAP };
        if used + needed > room {
            break;
        }
        used += needed;
        places.push(Place { column: at, width: column.width });
    }
    places.sort_by_key(|place| place.column);
    grow(columns, &mut places, room - used);
    places
}

/// Distributes the remaining width.
fn grow(columns: &[Column], places: &mut [Place], mut left: usize) {
    let growth = |place: &Place| {
        let column = columns.get(place.column);
        column
            .filter(|column| column.grow > 0 && place.width < column.most)
            .map(|column| (column.grow, column.most))
    };
    while left > 0 {
        let weights = places.iter().filter_map(growth).map(|(grow, _)| grow).sum::<usize>();
        if weights == 0 {
            return;
        }
        let share = left;
        for place in places.iter_mut() {
            let Some((grow, most)) = growth(place) else { continue };
            let more = (share * grow / weights).max(1).min(most - place.width).min(left);
            place.width += more;
            left -= more;
        }
    }
}

const WIDTH: u16 = 20;

pub(super) fn draw_sort_menu(canvas: &mut Canvas<'_>, area: Rect, ui: &Ui) {
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

#[cfg(test)]
mod tests {
    use super::{GAP, Place, fit};
    use crate::item::Column;
    use crate::view::View;

    #[test]
    fn columns_grow_to_a_maximum_and_spare_ones_are_dropped_first() {
        let columns =
            [Column::text("A", 10).growing(1, 20), Column::number("B", 5), Column::text("C", 8).spare(1)];
        let widths = |room| fit(&columns, room).iter().map(|place| place.width).collect::<Vec<_>>();
        assert_eq!(widths(16), [10, 5]);
        assert_eq!(widths(24), [18, 5]);
        assert_eq!(widths(25), [10, 5, 8]);
        assert_eq!(widths(100), [20, 5, 8]);
        assert_eq!(fit(&columns, 10), [Place { column: 0, width: 10 }]);
        assert_eq!(fit(&columns, 3), []);
    }

    #[test]
    fn every_view_fits_its_needed_columns_into_80_characters() {
        for (view, grouped) in View::ALL.into_iter().flat_map(|view| [(view, false), (view, true)]) {
            let columns = view.table(grouped).columns;
            let needed = columns.iter().filter(|column| column.spare == 0).count();
            assert!(fit(columns, 79).len() >= needed, "{view:?} {grouped}");
            for room in 20..250 {
                let places = fit(columns, room);
                let used = places.iter().map(|place| place.width + GAP).sum::<usize>();
                assert!(used <= room + GAP, "{view:?} {room}");
            }
            assert_eq!(fit(columns, 320).len(), columns.len(), "{view:?}");
        }
    }
}
