//! `broker_changes/`: the coming and going of the broker's process.

use model::{BrokerChange, BrokerState, Event, Nanos};

use crate::cells::BadRow;
use crate::columns::{I64, Name, U32, columns};
use crate::table::{Decode, Encode};
use crate::text::TextPool;

columns! {
    BrokerChanges, BrokerChangeCells {
        at_ns: I64,
        pid: U32,
        state: Name<BrokerState>,
    }
}

impl Encode for BrokerChanges {
    type Row = BrokerChange;

    fn append(&mut self, change: &BrokerChange) {
        self.at_ns.append_value(change.at.0);
        self.pid.append_value(change.pid);
        self.state.append_value(change.state.as_str());
    }

    fn weight(_: &BrokerChange) -> usize {
        24
    }
}

impl Decode for BrokerChangeCells {
    fn event(&self, i: usize, _: &mut TextPool) -> Result<Event, BadRow> {
        Ok(Event::BrokerChange(BrokerChange {
            at: Nanos(self.at_ns.at(i)?),
            pid: self.pid.at(i)?,
            state: self.state.at(i)?,
        }))
    }
}
