//! The axis of time of one part of what is collected. Parts that began at the same moment share one in the end.

use model::{Event, Nanos};

use super::grid::Grid;
use super::recent;

/// An axis that begins at a known moment, or with the first event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    origin: Option<Nanos>,
    grid: Option<Grid>,
}

impl Axis {
    pub(super) fn new(origin: Option<Nanos>) -> Self {
        Self { origin, grid: None }
    }

    /// Begins where the event does, unless it has begun or is to begin elsewhere.
    pub(super) fn begin(&mut self, event: &Event) {
        self.origin.get_or_insert_with(|| match event {
            Event::Request(request) => request.arrival,
            _ => recent::span(event).map_or(event.time(), |(start, _)| start),
        });
    }

    /// The axis, as far as it reaches.
    pub(super) fn grid(&mut self, at: Nanos) -> &mut Grid {
        let origin = *self.origin.get_or_insert(at);
        self.grid.get_or_insert_with(|| Grid::new(origin))
    }

    /// The axis, with room for a moment.
    pub(super) fn reach(&mut self, at: Nanos) -> &Grid {
        let grid = self.grid(at);
        grid.reach(at);
        grid
    }

    /// The one that has room for all that these have.
    pub(super) fn shared(parts: [&Self; 3]) -> Grid {
        let mut grid = Grid::new(parts.iter().find_map(|part| part.origin).unwrap_or_default());
        for part in parts.iter().filter_map(|part| part.grid.as_ref()) {
            grid.reach(part.end());
        }
        grid
    }
}
