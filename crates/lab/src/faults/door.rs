//! The way to a scene's broker, for clients on threads of their own.

use std::net::SocketAddr;
use std::time::Duration;

use crate::client::Connection;
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::net::Place;

/// Where the broker listens, and from where one gets there.
#[derive(Clone, Debug)]
pub(super) struct Door {
    pub(super) address: SocketAddr,
    pub(super) place: Place,
    pub(super) interrupt: Interrupt,
}

impl Door {
    /// A connection, unless interrupted.
    pub(super) fn connect(&self, client_id: &str) -> Result<Connection, Error> {
        self.interrupt.check()?;
        self.place.within(|| Connection::open(self.address, client_id))?
    }

    /// Sleeps, unless interrupted.
    pub(super) fn sleep(&self, time: Duration) -> Result<(), Error> {
        self.interrupt.sleep(time)
    }
}

/// Does the same on as many threads as there are elements, and waits for all; the first failure counts.
pub(super) fn side_by_side<I: Send, T: Send>(
    elements: Vec<I>,
    act: impl Fn(I) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    std::thread::scope(|scope| {
        let act = &act;
        let started: Vec<_> = elements.into_iter().map(|element| scope.spawn(move || act(element))).collect();
        let died = || Err(Error::Unusable("a client died".to_owned()));
        started.into_iter().map(|client| client.join().unwrap_or_else(|_| died())).collect()
    })
}
