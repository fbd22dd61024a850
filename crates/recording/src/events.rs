//! A recording's events in the order of their times, as far as each table is in that order itself.
//! Streams: of each table a few batches are in memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::vec::IntoIter;

use model::{Event, Nanos};

use crate::Error;
use crate::table_events::TableEvents;

/// Events of several tables, merged by [`Event::time`].
///
/// A damaged part gives one error and ends there; iterating on gives the events of the others. Rows that
/// cannot be events are left out and counted in [`crate::Recording::notes`].
pub struct Events {
    lanes: Vec<Lane>,
    /// The time of each lane's next event, and the lane; but for the one that is being taken from.
    heads: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// Lanes whose next event is not known yet.
    unread: Vec<usize>,
}

/// The events of one table.
struct Lane {
    events: TableEvents,
    /// What was read of them.
    ready: IntoIter<Event>,
}

impl Events {
    /// The events of these tables.
    pub(crate) fn of(tables: impl Iterator<Item = TableEvents>) -> Self {
        let lanes: Vec<_> = tables.map(|events| Lane { events, ready: Vec::new().into_iter() }).collect();
        let unread = (0..lanes.len()).collect();
        Self { lanes, heads: BinaryHeap::new(), unread }
    }
}

impl Lane {
    /// The time of the next event, none at the end.
    fn next_time(&mut self) -> Result<Option<Nanos>, Error> {
        if self.ready.as_slice().is_empty() {
            let Some(read) = self.events.next().transpose()? else { return Ok(None) };
            self.ready = read.into_iter();
        }
        Ok(self.ready.as_slice().first().map(Event::time))
    }
}

impl Iterator for Events {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(&at) = self.unread.last() {
            match self.lanes.get_mut(at)?.next_time() {
                // The one that was taken from last is mostly the next again: then the others need not be looked at.
                Ok(Some(time)) if self.unread.len() == 1 && self.is_first(time, at) => {
                    return self.lanes.get_mut(at)?.ready.next().map(Ok);
                }
                Ok(Some(time)) => self.heads.push(Reverse((time, at))),
                Ok(None) => {}
                // After an error the table has another part to go on with: it stays unread.
                Err(error) => return Some(Err(error)),
            }
            self.unread.pop();
        }
        let Reverse((_, at)) = self.heads.pop()?;
        self.unread.push(at);
        self.lanes.get_mut(at)?.ready.next().map(Ok)
    }
}

impl Events {
    fn is_first(&self, time: Nanos, at: usize) -> bool {
        self.heads.peek().is_none_or(|Reverse(head)| (time, at) <= *head)
    }
}
