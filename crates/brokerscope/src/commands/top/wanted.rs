//! What of everything that is seen the user wants to see. Verdicts rest on all of it nevertheless.

use model::{Event, Nanos, Request};

use crate::cli::Top;
use crate::filter::Wanted;

/// What is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedOnScreen<'a> {
    args: &'a Top,
}

impl<'a> WantedOnScreen<'a> {
    pub(super) fn new(args: &'a Top) -> Self {
        Self { args }
    }

    /// Whether an event is counted and listed.
    pub(super) fn event(self, event: &Event) -> bool {
        match event {
            Event::Request(request) => self.request(request),
            Event::FileOp(op) => self.args.filter.admits(op, Nanos::MIN),
            _ => true,
        }
    }

    /// Whether a request is.
    pub(super) fn request(self, request: &Request) -> bool {
        let (filter, selection) = (&self.args.filter, &self.args.selection);
        let asked = !filter.topics.is_empty()
            || !filter.apis.is_empty()
            || !filter.ports.is_empty()
            || !selection.clients.is_empty()
            || selection.errors
            || selection.no_waits;
        // Told apart request by request only where anything was asked for.
        !asked || Wanted::new(filter, selection, Nanos::ZERO).wants(request)
    }
}
