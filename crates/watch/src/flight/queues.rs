//! Requests behind requests: a broker serves one request of a connection at a time, so what made one slow may be
//! what the one before it waited for. Says how far back that goes, not what it was.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use model::{Nanos, Request};

/// As far as verdicts follow a queue (`diagnose`), and one more.
const MAX_QUEUE: usize = 17;
/// Clients come and go: past this many connections, all are forgotten and learnt again.
const MAX_CONNECTIONS: usize = 65_536;

/// The last requests of each connection.
#[derive(Debug, Default)]
pub(super) struct Queues(HashMap<(SocketAddr, SocketAddr), VecDeque<Stay>>);

/// A request's time at the broker.
#[derive(Clone, Copy, Debug)]
struct Stay {
    arrival: Nanos,
    complete: Nanos,
    end: Nanos,
}

impl Queues {
    /// Notes a request, in the order in which their connection answered them. When the first of those arrived
    /// that it stood behind: its own arrival where it stood behind none.
    pub(super) fn joined(&mut self, request: &Request) -> Nanos {
        let connection = (request.client, request.broker);
        if self.0.len() >= MAX_CONNECTIONS && !self.0.contains_key(&connection) {
            self.0.clear();
        }
        let queue = self.0.entry(connection).or_default();
        let stay = Stay { arrival: request.arrival, complete: request.arrival_end, end: request.last_seen() };
        let mut behind = stay;
        for ahead in queue.iter().rev() {
            if ahead.end <= behind.complete || ahead.arrival > behind.arrival {
                break;
            }
            behind = *ahead;
        }
        queue.push_back(stay);
        if queue.len() > MAX_QUEUE {
            queue.pop_front();
        }
        behind.arrival
    }
}
