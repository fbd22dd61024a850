//! `losses/`: what was not seen, counted.

use model::{Event, Loss, LossKind, Nanos};

use crate::cells::BadRow;
use crate::columns::{I64, Name, Text, U64, columns};
use crate::table::{Decode, Encode};
use crate::text::TextPool;

columns! {
    Losses, LossCells {
        start_ns: I64,
        end_ns: I64,
        kind: Name<LossKind>,
        count: U64,
        detail: Text,
    }
}

impl Encode for Losses {
    type Row = Loss;

    fn append(&mut self, loss: &Loss) {
        self.start_ns.append_value(loss.start.0);
        self.end_ns.append_value(loss.end.0);
        self.kind.append_value(loss.kind.as_str());
        self.count.append_value(loss.count);
        self.detail.append_value(&loss.detail);
    }

    fn weight(loss: &Loss) -> usize {
        40 + loss.detail.len()
    }
}

impl Decode for LossCells {
    fn event(&self, i: usize, pool: &mut TextPool) -> Result<Event, BadRow> {
        Ok(Event::Loss(Loss {
            start: Nanos(self.start_ns.at(i)?),
            end: Nanos(self.end_ns.at(i)?),
            kind: self.kind.at(i)?,
            count: self.count.at(i)?,
            detail: self.detail.at(i, pool)?,
        }))
    }
}
