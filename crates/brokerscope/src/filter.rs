//! Which requests and file operations the user wants to see. Does not change what is counted.

use model::{FileOp, Nanos, Request};

use crate::options::{Filter, Selection};

/// Which requests are wanted: all conditions at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    filter: &'a Filter,
    selection: &'a Selection,
    slower_than: Nanos,
}

impl<'a> Wanted<'a> {
    /// What the flags of a command say.
    pub(crate) fn new(filter: &'a Filter, selection: &'a Selection, slower_than: Nanos) -> Self {
        Self { filter, selection, slower_than }
    }

    /// Whether a request is wanted and slow enough, its partitions of other topics left out. Without a
    /// threshold a request without a latency (acks=0, no response) is wanted too.
    pub(crate) fn admit(&self, request: &mut Request) -> bool {
        // Told from the whole request: a fetch that brought data of another topic did not wait in vain.
        let kept = self.selection.no_waits && request.intended_wait().is_some();
        let latency = if self.selection.no_waits { request.latency_less_wait() } else { request.latency() };
        if kept || !slow(latency, self.slower_than) || !self.filter.wants(request) {
            return false;
        }
        // Told from what is left: an error of a topic that nobody asked for is none.
        self.filter.narrow(request);
        self.selection.names(request) && (!self.selection.errors || request.failed())
    }

    /// Whether it is wanted.
    pub(crate) fn wants(&self, request: &Request) -> bool {
        self.admit(&mut request.clone())
    }
}

impl Selection {
    fn names(&self, request: &Request) -> bool {
        self.clients.is_empty() || self.clients.iter().any(|client| client.sent(request))
    }
}

impl Filter {
    /// Whether a request is of a wanted API, topic and port.
    fn wants(&self, request: &Request) -> bool {
        let api = self.apis.is_empty() || self.apis.iter().any(|wanted| same_api(wanted, request.api));
        let port = self.ports.is_empty() || self.ports.contains(&request.broker.port());
        let mut partitions = request.partitions.iter();
        let topic =
            self.topics.is_empty() || partitions.any(|partition| self.names(partition.topic.as_deref()));
        api && port && topic
    }

    /// The bytes of records in the wanted partitions of a request; none of one that is not wanted.
    pub(crate) fn record_bytes(&self, request: &Request) -> Option<u64> {
        let wanted = |topic: Option<&str>| self.topics.is_empty() || self.names(topic);
        let partitions = request.partitions.iter().filter(|partition| wanted(partition.topic.as_deref()));
        self.wants(request).then(|| partitions.map(|partition| u64::from(partition.bytes)).sum())
    }

    /// Leaves out the partitions of other topics.
    fn narrow(&self, request: &mut Request) {
        if !self.topics.is_empty() {
            request.partitions.retain(|partition| self.names(partition.topic.as_deref()));
        }
    }

    /// Whether a file operation is of a wanted topic and slow enough.
    pub(crate) fn admits(&self, op: &FileOp, slower_than: Nanos) -> bool {
        let topic = op.topic_partition.as_ref().map(|of| of.topic.as_ref());
        op.latency() >= slower_than && (self.topics.is_empty() || self.names(topic))
    }

    fn names(&self, topic: Option<&str>) -> bool {
        self.topics.iter().any(|wanted| Some(wanted.as_str()) == topic)
    }
}

fn slow(latency: Option<Nanos>, slower_than: Nanos) -> bool {
    slower_than <= Nanos::ZERO || latency.is_some_and(|latency| latency >= slower_than)
}

/// Kafka writes an API as `INIT_PRODUCER_ID` in one place and `InitProducerId` in another; people write
/// `init-producer-id`.
pub(crate) fn same_api(wanted: &str, api: &str) -> bool {
    fn letters(name: &str) -> impl Iterator<Item = char> + '_ {
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase())
    }
    letters(wanted).eq(letters(api))
}

#[cfg(test)]
mod tests {
    use model::{Nanos, Partition, Request};

    use super::{Wanted, same_api};
    use crate::options::{Filter, Selection};

    /// A fetch that brought data of topic A only; topic B answered with this code.
    fn fetch(code_of_b: i16) -> Request {
        let of = |topic: &str, bytes, code| Partition {
            topic: Some(topic.into()),
            bytes,
            error_code: Some(code),
            ..Partition::default()
        };
        Request {
            arrival: Nanos(1_000),
            arrival_end: Nanos(1_000),
            response: Some(Nanos(9_000)),
            end: Some(Nanos(9_000)),
            head_of_line: None,
            data: None,
            api_key: 1,
            api: "FETCH",
            api_version: 12,
            correlation_id: 1,
            client_id: None,
            client: ([10, 0, 0, 7], 41_234).into(),
            broker: ([10, 0, 0, 1], 9_092).into(),
            request_bytes: 100,
            response_bytes: Some(20),
            sequence: None,
            response_sequence: None,
            acks: None,
            transactional_id: None,
            group_id: None,
            min_bytes: Some(1),
            max_wait_ms: Some(500),
            throttle_ms: None,
            error_code: Some(0),
            error: None,
            partitions: vec![of("A", 100, 0), of("B", 0, code_of_b)],
        }
    }

    fn admitted(mut request: Request, topic: &str, errors: bool, no_waits: bool) -> Option<usize> {
        let filter = Filter { topics: vec![topic.to_owned()], ..Filter::default() };
        let selection = Selection { errors, no_waits, ..Selection::default() };
        let admitted = Wanted::new(&filter, &selection, Nanos::ZERO).admit(&mut request);
        admitted.then_some(request.partitions.len())
    }

    #[test]
    fn an_error_of_another_topic_is_none_and_data_of_another_topic_is_no_wait() {
        assert_eq!(admitted(fetch(6), "B", true, false), Some(1));
        assert_eq!(admitted(fetch(6), "A", true, false), None);
        assert_eq!(admitted(fetch(0), "B", false, true), Some(1));
        let empty = Request { partitions: fetch(0).partitions.split_off(1), ..fetch(0) };
        assert_eq!(admitted(empty.clone(), "B", false, true), None);
        assert_eq!(admitted(empty, "B", false, false), Some(1));
    }

    #[test]
    fn the_wait_for_data_is_no_slowness_where_waits_are_left_out() {
        let at = |ms| Nanos(1_000) + Nanos::from_millis(ms);
        let late = Request { response: Some(at(300)), end: Some(at(300)), data: Some(at(297)), ..fetch(0) };
        let admits = |no_waits, slower_than| {
            let selection = Selection { no_waits, ..Selection::default() };
            let slower_than = Nanos::from_millis(slower_than);
            Wanted::new(&Filter::default(), &selection, slower_than).admit(&mut late.clone())
        };
        assert!(admits(false, 100));
        assert!(!admits(true, 100));
        assert!(admits(true, 3));
    }

    #[test]
    fn an_api_is_known_by_any_of_its_spellings() {
        for wanted in ["init-producer-id", "InitProducerId", "INIT_PRODUCER_ID"] {
            assert!(same_api(wanted, "INIT_PRODUCER_ID"));
        }
        assert!(!same_api("produce", "INIT_PRODUCER_ID"));
    }
}
