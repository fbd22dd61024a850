//! Totals of everything, read on other threads while verdicts are reached from a selection of a recording. Many
//! columns and whole tables are passed over. Makes no totals.

use std::thread::ScopedJoinHandle;

use model::Event;
use model::row_summary::RequestColumns;
use recording::Table;

use crate::{Error, EventSource};

/// Tables of the network: a row or two for each request, of which no figure is made. Requests are read by themselves.
const OF_NETWORK: [Table; 3] = [Table::Requests, Table::SocketOps, Table::TcpEvents];

/// What gets everything.
pub struct Totals<'t> {
    /// Requests, with the columns that figures of many are made of.
    pub requests: &'t mut (dyn FnMut(&[RequestColumns]) + Send),
    /// All events that are not of the network, if anyone takes them.
    pub others: Option<&'t mut (dyn FnMut(&Event) + Send)>,
}

/// Reads everything for the totals while `select` reads the source's selection.
pub(crate) fn read<E: From<Error>>(
    source: &mut dyn EventSource,
    totals: Totals<'_>,
    select: impl FnOnce(&mut dyn EventSource) -> Result<(), E>,
) -> Result<(), E> {
    let recording = source.recording().ok_or_else(|| Error::input("only a recording is read in parts"))?;
    let summaries = recording.request_columns().map_err(Error::from)?;
    let tables = Table::ALL.into_iter().filter(|table| !OF_NETWORK.contains(table)).collect::<Vec<_>>();
    let Totals { requests, others } = totals;
    let others = others.map(|take| (take, recording.events_ahead(&tables)));
    let (read, errors) = std::thread::scope(|threads| {
        let of_requests = threads
            .spawn(move || summaries.filter_map(|batch| batch.map(|batch| requests(&batch)).err()).collect());
        let of_others = others.map(|(take, events)| {
            threads.spawn(move || events.filter_map(|event| event.map(|event| take(&event)).err()).collect())
        });
        let read = select(source);
        let mut errors: Vec<recording::Error> = joined(of_requests);
        errors.extend(of_others.into_iter().flat_map(|thread| joined::<Vec<_>>(thread)));
        (read, errors)
    });
    for error in &errors {
        source.note_damage(error);
    }
    read
}

/// What a thread made; its panic goes on here.
pub fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
