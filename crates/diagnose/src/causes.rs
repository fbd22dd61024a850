//! What makes requests slow: the table of causes, and one file per concept with their declarations and finders.
//!
//! A finder reports what its cause explains of an operation, a thread or a stage, with the evidence. It names nothing
//! that the evidence does not prove.

pub(crate) mod blocked;
pub(crate) mod candidate;
pub(crate) mod controller;
pub(crate) mod coordinators;
pub(crate) mod cpu;
pub(crate) mod device;
pub(crate) mod file_system;
pub(crate) mod handlers;
pub(crate) mod host;
pub(crate) mod jvm;
pub(crate) mod lock_chain;
pub(crate) mod memory;
pub(crate) mod network;
pub(crate) mod operation;
pub(crate) mod protocol;
pub(crate) mod remote_tier;
pub mod spec;
pub(crate) mod stops;
pub(crate) mod throttles;
pub(crate) mod waker;

use model::{Cause, EvidenceKind};

use spec::{CauseSpec, Role, causes, change};

// Causes of waits that have no finder: they are named where the wait is attributed.
causes! {
    HeadOfLine: Queue in Connection, changed in Producer {
        event: "request{s} ahead on the connection",
        needs: "earlier requests of the connection, none of them slow itself, were served for most of the wait",
        root_evidence: &[EvidenceKind::Request, EvidenceKind::Host],
        advice: &[
            "the broker serves one request of a connection at a time: look at the request ahead; a lower max.in.flight.requests.per.connection shortens the queue",
        ],
        source: "SocketServer mutes a connection until its request has been answered",
        condition: ", where nothing more is known of the requests ahead",
        look_at: ", the stage head_of_line, and p99.9 of produce",
        changes: &[change(
            "max.in.flight.requests.per.connection (of the client)",
            "not on the wire",
            "1 or 2: a shorter queue",
        )],
        effect: ": requests wait in the client instead, unless the requests ahead get faster",
        risk: "less throughput on connections with long round trips",
    }

    LongPoll: Root in None {
        event: "long poll{s}",
        needs: "a fetch ahead on the connection that waited for data for most of its time",
        root_evidence: &[EvidenceKind::Request, EvidenceKind::Host],
    }

    Unobserved: Root in None {}
}

/// Every list of causes: a new file of causes is added here.
const LISTS: &[&[CauseSpec]] = &[
    file_system::CAUSES,
    memory::CAUSES,
    throttles::CAUSES,
    device::CAUSES,
    remote_tier::CAUSES,
    operation::CAUSES,
    lock_chain::CAUSES,
    handlers::CAUSES,
    coordinators::CAUSES,
    controller::CAUSES,
    network::CAUSES,
    jvm::CAUSES,
    stops::CAUSES,
    host::CAUSES,
    cpu::CAUSES,
    blocked::CAUSES,
    protocol::CAUSES,
    CAUSES,
];

/// Every cause, once.
pub fn all() -> impl Iterator<Item = &'static CauseSpec> {
    LISTS.iter().copied().flatten()
}

/// The declaration of a cause.
///
/// # Panics
///
/// If the cause is not declared, which a test excludes.
#[expect(clippy::expect_used, reason = "a test checks that every cause is declared")]
pub fn spec(cause: Cause) -> &'static CauseSpec {
    all().find(|spec| spec.cause == cause).expect("every cause is declared")
}

/// Advice for a request with this chain: on the root, then on the links, which are choices of the broker. A queue
/// behind which another cause is the root needs no change.
pub(crate) fn advice_on(chain: &[Cause]) -> Vec<&'static str> {
    let root = chain.last().copied().unwrap_or(Cause::Unobserved);
    let links = chain.iter().filter(|cause| **cause != root && spec(**cause).role == Role::Link);
    [root].iter().chain(links).flat_map(|cause| spec(*cause).advice).copied().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use model::Cause;

    use super::{all, spec};

    #[test]
    fn every_cause_is_declared_once() {
        assert_eq!(all().map(|spec| spec.cause).collect::<HashSet<_>>().len(), Cause::ALL.len());
        assert_eq!(all().count(), Cause::ALL.len());
    }

    #[test]
    fn changeable_causes_have_unique_advice_with_a_source() {
        let mut advice = HashSet::new();
        for cause in Cause::ALL {
            let spec = spec(cause);
            let nothing_to_change = matches!(cause, Cause::LongPoll | Cause::Unobserved);
            assert_eq!(spec.advice.is_empty(), nothing_to_change, "{cause}");
            assert_eq!(spec.source.is_empty(), nothing_to_change, "{cause}");
            // A lack of threads is one root, whenever it was.
            let is_one =
                [Cause::HandlersBusy, Cause::CoordinatorBusy, Cause::ControllerBusy].contains(&cause);
            let counted = !is_one && cause != Cause::Unobserved;
            assert_eq!(spec.event.contains("s}"), counted, "{cause}");
            assert!(spec.needs.len() > 20 && !spec.proof.is_empty(), "{cause}");
            assert!(spec.advice.iter().all(|sentence| advice.insert(sentence)), "{cause}");
        }
    }
}
