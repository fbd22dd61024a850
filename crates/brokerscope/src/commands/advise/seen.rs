//! Events on their way to what rules look at: verdicts by the engine, and sums. Does not know where events come from.

use diagnose::{Config, Engine};
use model::Event;

use crate::advising::Advising;

/// What was seen, so far.
pub(super) struct Seen {
    engine: Engine,
    advising: Advising,
}

impl Seen {
    pub(super) fn new(config: Config) -> Self {
        Self { engine: Engine::new(config), advising: Advising::default() }
    }

    pub(super) fn event(&mut self, event: Event) {
        self.advising.event(&event);
        self.engine.push(event);
        self.decided();
    }

    fn decided(&mut self) {
        for verdict in self.engine.take_verdicts() {
            self.advising.verdict(&verdict);
        }
    }

    /// The sums, and whether there was any request.
    pub(super) fn finish(mut self) -> (Advising, bool) {
        let summary = self.engine.finish();
        self.decided();
        (self.advising, summary.requests > 0)
    }
}
