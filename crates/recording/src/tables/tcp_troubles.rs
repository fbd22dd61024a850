//! `tcp_troubles/`: what went wrong with the broker's connections.

use model::{Event, Nanos, TcpEvent, TcpEventKind};

use crate::address::Address;
use crate::cells::BadRow;
use crate::columns::{I64, Maybe, Name, U64, columns};
use crate::table::{Decode, Encode};
use crate::text::TextPool;

columns! {
    TcpEvents, TcpEventCells {
        at_ns: I64,
        kind: Name<TcpEventKind>,
        local: Maybe<Address>,
        remote: Maybe<Address>,
        count: U64,
    }
}

impl Encode for TcpEvents {
    type Row = TcpEvent;

    fn append(&mut self, trouble: &TcpEvent) {
        self.at_ns.append_value(trouble.at.0);
        self.kind.append_value(trouble.kind.as_str());
        self.local.append_option(trouble.local);
        self.remote.append_option(trouble.remote);
        self.count.append_value(trouble.count);
    }

    fn weight(_: &TcpEvent) -> usize {
        96
    }
}

impl Decode for TcpEventCells {
    fn event(&self, i: usize, _: &mut TextPool) -> Result<Event, BadRow> {
        Ok(Event::TcpEvent(Box::new(TcpEvent {
            at: Nanos(self.at_ns.at(i)?),
            kind: self.kind.at(i)?,
            local: self.local.maybe(i)?,
            remote: self.remote.maybe(i)?,
            count: self.count.at(i)?,
        })))
    }
}
