//! Which columns there is room for, and how wide each is. Draws nothing.

use crate::item::Column;

/// Between two columns.
pub(super) const GAP: usize = 1;

/// A column that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Which one.
    pub(super) column: usize,
    pub(super) width: usize,
}

/// Those that fit into so much room, in their order.
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

/// Shares out what is left.
fn grow(columns: &[Column], places: &mut [Place], mut left: usize) {
    let wants = |place: &Place| {
        let column = columns.get(place.column);
        column
            .filter(|column| column.grow > 0 && place.width < column.most)
            .map(|column| (column.grow, column.most))
    };
    while left > 0 {
        let weights = places.iter().filter_map(wants).map(|(grow, _)| grow).sum::<usize>();
        if weights == 0 {
            return;
        }
        let share = left;
        for place in places.iter_mut() {
            let Some((grow, most)) = wants(place) else { continue };
            let more = (share * grow / weights).max(1).min(most - place.width).min(left);
            place.width += more;
            left -= more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{GAP, Place, fit};
    use crate::item::Column;
    use crate::view::View;

    #[test]
    fn columns_grow_to_what_is_worth_having_and_spare_ones_go_first() {
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
    fn every_view_shows_what_it_must_in_80_columns_and_no_width_is_passed() {
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
