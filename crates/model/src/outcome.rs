//! How a request ended: answered, failed, or held because it had asked to be. Does not say why it was slow.

use crate::api_key::{FETCH, JOIN_GROUP, SHARE_FETCH, SYNC_GROUP};
use crate::{Nanos, Request};

/// Kafka's error code for "no error".
const NONE: i16 = 0;

/// How much later than allowed a broker's timer may answer a long poll, and the network bring it.
const OVERRUN: Nanos = Nanos::from_millis(50);

named! {
    /// Why a broker keeps a request on purpose. The time is what the client asked for, not slowness.
    pub enum IntendedWait {
        /// A fetch that waited for data, and none came, or less than it wanted.
        LongPoll = "long-poll",
        /// A member of a consumer group that waited for the others (KIP-62).
        Rebalance = "rebalance",
    }
}

impl Request {
    /// Whether an answer was due and none was seen. With acks=0 none is due.
    pub fn is_unanswered(&self) -> bool {
        self.end.is_none() && self.acks != Some(0)
    }

    /// Whether the broker reported an error for it or one of its partitions, part of it could not be read, or
    /// it was not answered.
    pub fn failed(&self) -> bool {
        let codes = self.partitions.iter().map(|partition| partition.error_code).chain([self.error_code]);
        let refused = codes.flatten().any(is_error);
        refused || self.error.is_some() || self.is_unanswered()
    }

    /// The latency without the part in which an earlier request of the connection was still unanswered.
    pub fn latency_less_head_of_line(&self) -> Option<Nanos> {
        let ahead = self.head_of_line.unwrap_or(Nanos::ZERO);
        self.latency().map(|latency| (latency - ahead).at_least_zero())
    }

    /// The part of the latency in which a fetch that brought data waited for it, no longer than it had asked
    /// to. Nothing where it is not known when the data came.
    pub fn waited_for_data(&self) -> Nanos {
        let (Some(data), Some(max_wait_ms)) = (self.data, self.max_wait_ms) else { return Nanos::ZERO };
        if self.min_bytes.is_none_or(|bytes| bytes <= 0) || self.end.is_none() || self.failed() {
            return Nanos::ZERO;
        }
        let begun = self.arrival_end + self.head_of_line.unwrap_or(Nanos::ZERO);
        (data - begun).min(Nanos::from_millis(max_wait_ms.into())).at_least_zero()
    }

    /// The latency without the wait for data: what there is to answer for.
    pub fn latency_less_wait(&self) -> Option<Nanos> {
        self.latency().map(|latency| latency - self.waited_for_data())
    }

    /// The longest that a fetch can have waited for data, as far as it had asked for that: also where it is not known
    /// when they came.
    pub fn may_have_waited(&self) -> Nanos {
        let known =
            self.data.is_some() || self.api_key != FETCH || self.min_bytes.is_some_and(|bytes| bytes <= 0);
        let (Some(max_wait_ms), Some(response), false) = (self.max_wait_ms, self.response, known) else {
            return self.waited_for_data();
        };
        let begun = self.arrival_end + self.head_of_line.unwrap_or(Nanos::ZERO);
        (response - begun).min(Nanos::from_millis(max_wait_ms.into())).at_least_zero()
    }

    /// Why the broker kept it on purpose, if it did. Not what failed, nor a fetch that brought what it wanted
    /// (see [`Self::waited_for_data`]) or was kept longer than it allowed.
    pub fn intended_wait(&self) -> Option<IntendedWait> {
        match self.api_key {
            _ if self.failed() => None,
            JOIN_GROUP | SYNC_GROUP => Some(IntendedWait::Rebalance),
            FETCH if self.ran_out_of_time() && self.was_patient() => Some(IntendedWait::LongPoll),
            FETCH | SHARE_FETCH if self.came_back_empty() && self.was_patient() => {
                Some(IntendedWait::LongPoll)
            }
            _ => None,
        }
    }

    fn came_back_empty(&self) -> bool {
        self.partitions.iter().all(|partition| partition.bytes == 0)
    }

    /// Whether it brought less than it wanted, because the time was over that it gave the broker.
    fn ran_out_of_time(&self) -> bool {
        let (Some(min_bytes), Some(max_wait_ms)) = (self.min_bytes, self.max_wait_ms) else { return false };
        let brought: i64 = self.partitions.iter().map(|partition| i64::from(partition.bytes)).sum();
        let kept = self.latency_less_head_of_line();
        brought < min_bytes.into() && kept.is_some_and(|kept| kept >= Nanos::from_millis(max_wait_ms.into()))
    }

    /// Whether it allowed the broker to wait for as long as it took. Where its terms could not be read, it did.
    fn was_patient(&self) -> bool {
        let Some(max_wait_ms) = self.max_wait_ms else { return true };
        let allowed = Nanos::from_millis(max_wait_ms.into()) + OVERRUN;
        let in_time = self.latency_less_head_of_line().is_some_and(|latency| latency <= allowed);
        max_wait_ms > 0 && self.min_bytes != Some(0) && in_time
    }
}

fn is_error(code: i16) -> bool {
    code != NONE
}

#[cfg(test)]
mod tests {
    use super::IntendedWait;
    use crate::{Nanos, Partition, Request};

    fn request(api_key: i16, partitions: Vec<Partition>) -> Request {
        Request {
            arrival: Nanos(1_000),
            arrival_end: Nanos(1_000),
            response: Some(Nanos(9_000)),
            end: Some(Nanos(9_000)),
            head_of_line: Some(Nanos(3_000)),
            data: None,
            api_key,
            api: "ANY",
            api_version: 4,
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
            min_bytes: None,
            max_wait_ms: None,
            throttle_ms: None,
            error_code: None,
            error: None,
            partitions,
        }
    }

    fn brought(bytes: u32, error_code: i16) -> Partition {
        Partition { bytes, error_code: Some(error_code), ..Partition::default() }
    }

    #[test]
    fn a_fetch_that_brought_nothing_was_held_and_one_that_brought_anything_was_not() {
        assert_eq!(
            request(1, vec![brought(0, 0), brought(0, 0)]).intended_wait(),
            Some(IntendedWait::LongPoll)
        );
        assert_eq!(request(1, Vec::new()).intended_wait(), Some(IntendedWait::LongPoll));
        assert_eq!(request(1, vec![brought(0, 0), brought(1, 0)]).intended_wait(), None);
        assert_eq!(request(1, vec![brought(0, 6)]).intended_wait(), None);
        assert_eq!(Request { end: None, ..request(1, Vec::new()) }.intended_wait(), None);
        let until =
            |ms| Request { end: Some(Nanos(1_000) + Nanos::from_millis(ms)), ..request(1, Vec::new()) };
        let waited = |ms| Request { max_wait_ms: Some(500), min_bytes: Some(1), ..until(ms) };
        assert_eq!(waited(503).intended_wait(), Some(IntendedWait::LongPoll));
        assert_eq!(waited(900).intended_wait(), None, "nobody asked for that");
        assert_eq!(Request { max_wait_ms: Some(0), ..waited(5) }.intended_wait(), None);
        assert_eq!(Request { min_bytes: Some(0), ..waited(5) }.intended_wait(), None);
        let little = |ms, min_bytes| Request {
            min_bytes: Some(min_bytes),
            partitions: vec![brought(9, 0)],
            ..waited(ms)
        };
        assert_eq!(little(504, 10).intended_wait(), Some(IntendedWait::LongPoll));
        assert_eq!(little(504, 9).intended_wait(), None, "it brought what it wanted");
        assert_eq!(
            little(400, 10).intended_wait(),
            None,
            "there was time left, so it was answered for another reason"
        );
        assert_eq!(little(900, 10).intended_wait(), None);
        assert_eq!(request(0, Vec::new()).intended_wait(), None);
        assert_eq!(request(11, Vec::new()).intended_wait(), Some(IntendedWait::Rebalance));
    }

    #[test]
    fn a_request_fails_by_its_code_by_what_cannot_be_read_or_by_silence() {
        let well = request(0, vec![brought(5, 0)]);
        assert!(!well.failed());
        assert!(request(0, vec![brought(5, 0), brought(5, 7)]).failed());
        assert!(Request { error_code: Some(15), ..well.clone() }.failed());
        assert!(!Request { error_code: Some(0), ..well.clone() }.failed());
        assert!(Request { error: Some("cut".into()), ..well.clone() }.failed());
        let silent = Request { end: None, acks: Some(-1), ..well.clone() };
        assert!(silent.failed() && silent.is_unanswered());
        assert!(!Request { acks: Some(0), ..silent }.failed());
    }

    #[test]
    fn a_fetch_waits_for_data_from_when_its_turn_came_until_they_came() {
        let at = |ms| Nanos(1_000) + Nanos::from_millis(ms);
        let fetch = |data| Request {
            response: Some(at(310)),
            end: Some(at(310)),
            head_of_line: Some(Nanos::from_millis(20)),
            min_bytes: Some(1),
            max_wait_ms: Some(500),
            data,
            ..request(1, vec![brought(5, 0)])
        };
        let waited = |request: &Request| request.waited_for_data();
        assert_eq!(waited(&fetch(Some(at(300)))), Nanos::from_millis(280));
        assert_eq!(fetch(Some(at(300))).latency_less_wait(), Some(Nanos::from_millis(30)));
        assert_eq!(fetch(Some(at(300))).intended_wait(), None);
        assert_eq!(waited(&fetch(Some(at(10)))), Nanos::ZERO, "it was another request that it waited for");
        assert_eq!(waited(&fetch(Some(at(-5_000)))), Nanos::ZERO);
        assert_eq!(waited(&fetch(None)), Nanos::ZERO);
        let short = Request { max_wait_ms: Some(100), ..fetch(Some(at(300))) };
        assert_eq!(waited(&short), Nanos::from_millis(100), "nobody asked for more");
        assert_eq!(waited(&Request { min_bytes: Some(0), ..fetch(Some(at(300))) }), Nanos::ZERO);
        assert_eq!(waited(&Request { end: None, ..fetch(Some(at(300))) }), Nanos::ZERO);
    }

    #[test]
    fn time_behind_another_request_is_taken_off_once() {
        let request = request(0, Vec::new());
        assert_eq!(request.latency_less_head_of_line(), Some(Nanos(5_000)));
        let alone = Request { head_of_line: None, ..request };
        assert_eq!(alone.latency_less_head_of_line(), alone.latency());
    }
}
