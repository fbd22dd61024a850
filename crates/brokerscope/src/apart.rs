//! Reads a recording in two ways at once: what verdicts depend on, and, on threads of their own, what sums of everything are made
//! of, of which many columns and whole tables are passed over. Makes neither.

use anyhow::Context as _;
use model::{Event, Request};
use recording::Table;

use crate::grounds::{Grounds, Sink};
use crate::near_slow::NearSlow;

/// What happened to connections: a row or two for each request, and no figure is made of them. Requests are read by themselves.
const OF_NETWORK: [Table; 3] = [Table::Requests, Table::SocketOps, Table::TcpEvents];

/// Takes requests, without what figures of many are not made of.
pub(crate) type Requests<'t> = &'t mut (dyn FnMut(&[Request]) + Send);
/// Takes all events that are not of the network.
pub(crate) type Others<'t> = &'t mut (dyn FnMut(&Event) + Send);

/// Hands on what verdicts depend on, as [`Grounds::read_near`]; all requests and, where somebody takes them, all other events
/// meanwhile.
///
/// # Errors
/// The sink's, and where there can be no threads.
pub(crate) fn read(
    grounds: &mut Grounds,
    near_slow: NearSlow,
    requests: Requests<'_>,
    others: Option<Others<'_>>,
    sink: &mut Sink<'_>,
) -> anyhow::Result<()> {
    let recording = grounds.recording().context("only a recording is read in parts")?;
    let summaries = recording.request_summaries()?;
    let tables = Table::ALL.into_iter().filter(|table| !OF_NETWORK.contains(table)).collect::<Vec<_>>();
    let others = others.map(|take| (take, recording.events_ahead(&tables)));
    let (read, errors) = std::thread::scope(|threads| {
        let of_requests = threads
            .spawn(move || summaries.filter_map(|batch| batch.map(|batch| requests(&batch)).err()).collect());
        let of_others = others.map(|(take, events)| {
            threads.spawn(move || events.filter_map(|event| event.map(|event| take(&event)).err()).collect())
        });
        let read = grounds.read_near(near_slow, sink);
        let mut errors: Vec<recording::Error> = joined(of_requests);
        errors.extend(of_others.into_iter().flat_map(|thread| joined::<Vec<_>>(thread)));
        (read, errors)
    });
    for error in &errors {
        grounds.damaged(error);
    }
    read
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
