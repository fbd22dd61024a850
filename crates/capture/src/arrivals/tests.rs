//! Arrival times of fetched data, in whole hand-made conversations.

use model::Request;

use crate::analyzer::Analyzer;
use crate::config::{Config, Limits};
use crate::tests::conversation::Conversation;
use crate::tests::kafka;

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

/// Fetch version 7 without a session, of partition 2 of `topic`.
fn fetch(correlation_id: i32, topic: &str, min_bytes: i32, isolation: u8) -> Vec<u8> {
    let mut tail = [-1i32, 500, min_bytes, 1 << 20].map(i32::to_be_bytes).concat();
    tail.push(isolation);
    tail.extend([0i32, -1, 1].map(i32::to_be_bytes).concat());
    tail.extend(string(topic));
    tail.extend([1i32, 2].map(i32::to_be_bytes).concat());
    tail.extend([40i64, 0].map(i64::to_be_bytes).concat());
    tail.extend([1i32 << 20, 0].map(i32::to_be_bytes).concat());
    kafka::request(1, 7, correlation_id, &tail)
}

/// The answer to [`fetch`]: these records of partitions 2 and 5, where not empty.
fn fetched(correlation_id: i32, topic: &str, partitions: [&[u8]; 2]) -> Vec<u8> {
    fetched_below(correlation_id, topic, [(0, 0), (0, 0)], partitions)
}

/// Like [`fetched`], with error codes and high watermarks.
fn fetched_below(
    correlation_id: i32,
    topic: &str,
    watermarks: [(i16, i64); 2],
    partitions: [&[u8]; 2],
) -> Vec<u8> {
    let mut tail = vec![0; 10];
    tail.extend(1i32.to_be_bytes());
    tail.extend(string(topic));
    tail.extend(2i32.to_be_bytes());
    for ((partition, records), (error, watermark)) in [2i32, 5].into_iter().zip(partitions).zip(watermarks) {
        tail.extend(partition.to_be_bytes());
        tail.extend(error.to_be_bytes());
        tail.extend(watermark.to_be_bytes());
        tail.extend([0; 16]);
        tail.extend((-1i32).to_be_bytes());
        tail.extend((records.len() as i32).to_be_bytes());
        tail.extend(records);
    }
    kafka::response(correlation_id, &tail)
}

/// The batch as the log has it: with its offset, which the checksum does not cover.
fn at(offset: i64, batch: &[u8]) -> Vec<u8> {
    [&offset.to_be_bytes()[..], &batch[8..]].concat()
}

/// The batch with another checksum. A broker that sets the append time writes it like this.
fn rewritten(batch: &[u8]) -> Vec<u8> {
    let mut batch = batch.to_vec();
    batch[17..21].copy_from_slice(&0xdead_beefu32.to_be_bytes());
    batch
}

/// One producer and one consumer.
struct Scene {
    producer: Conversation,
    consumer: Conversation,
}

impl Scene {
    fn new() -> Self {
        let (mut producer, mut consumer) = (
            Conversation::new("10.0.0.7:50001", "10.0.0.1:9092"),
            Conversation::new("10.0.0.8:50002", "10.0.0.1:9092"),
        );
        producer.open(0);
        consumer.open(1);
        Self { producer, consumer }
    }

    /// Arrival times of the data of every fetch, in nanoseconds.
    fn data(self) -> Vec<Option<i64>> {
        self.data_within(Limits::default())
    }

    fn data_within(self, limits: Limits) -> Vec<Option<i64>> {
        self.data_of(Config { ports: vec![9092], limits, ..Config::default() })
    }

    fn data_of(self, config: Config) -> Vec<Option<i64>> {
        let mut analyzer = Analyzer::new(config);
        let mut both = self.producer;
        both.packets.extend(self.consumer.packets);
        both.packets.sort_by_key(|(time, _)| *time);
        let mut rows: Vec<Request> = both.analyze(&mut analyzer);
        analyzer.finish(&mut |row| rows.push(*row));
        assert!(rows.iter().all(|row| row.api_key != 0 || row.data.is_none()));
        rows.iter().filter(|row| row.api_key == 1).map(|row| row.data.map(|at| at.0)).collect()
    }
}

fn batches() -> [Vec<u8>; 2] {
    [kafka::batch(11, 3, &[0; 40]), kafka::batch(22, 3, &[0; 50])]
}

#[test]
fn data_arrives_with_its_produce_request_answered_or_not() {
    let [two, five] = batches();
    for answered in [250, 350] {
        let mut scene = Scene::new();
        scene.consumer.ask(100, &fetch(1, "t", 1, 0));
        scene.producer.ask(200, &kafka::produce(1, -1, "t", [&two, &five]));
        scene.producer.answer(answered, &kafka::produced(1, "t", [(2, 0, 40), (5, 0, 70)]));
        scene.consumer.answer(300, &fetched(1, "t", [&at(40, &two), &[]]));
        // There before it was fetched; and data of another topic or offset, which does not count.
        scene.consumer.ask(400, &fetch(2, "t", 1, 0)).answer(410, &fetched(2, "t", [&[], &at(70, &five)]));
        scene.consumer.ask(500, &fetch(3, "u", 1, 0)).answer(510, &fetched(3, "u", [&at(40, &two), &[]]));
        scene.consumer.ask(600, &fetch(4, "t", 1, 0)).answer(610, &fetched(4, "t", [&at(41, &two), &[]]));
        assert_eq!(scene.data(), [Some(200), Some(200), None, None], "answered at {answered}");
    }
}

#[test]
fn sums_bytes_in_arrival_order_unless_a_batch_is_unknown() {
    let [two, five] = batches();
    let next = kafka::batch(33, 1, &[0; 30]);
    let sum = (two.len() + five.len()) as i32;
    for (min_bytes, expected) in [(1, Some(200)), (sum, Some(200)), (sum + 1, Some(300)), (sum + 1000, None)]
    {
        let mut scene = Scene::new();
        scene.consumer.ask(100, &fetch(1, "t", min_bytes, 0));
        scene.producer.ask(200, &kafka::produce(1, -1, "t", [&two, &five]));
        scene.producer.answer(210, &kafka::produced(1, "t", [(2, 0, 40), (5, 0, 70)]));
        scene.producer.ask(300, &kafka::produce(2, 0, "t", [&next, &[]]));
        let records = [at(40, &two), at(43, &next)].concat();
        scene.consumer.answer(400, &fetched(1, "t", [&records, &at(70, &five)]));
        assert_eq!(scene.data(), [expected], "{min_bytes} bytes");
    }
    let mut scene = Scene::new();
    scene.producer.ask(200, &kafka::produce(1, 0, "t", [&two, &five]));
    let unknown = [at(40, &two), at(43, &next)].concat();
    let cut = &at(40, &two)[..80];
    scene.consumer.ask(300, &fetch(1, "t", 1, 0)).answer(310, &fetched(1, "t", [&unknown, &[]]));
    scene.consumer.ask(400, &fetch(2, "t", 1, 0)).answer(410, &fetched(2, "t", [cut, &at(70, &five)]));
    scene.consumer.ask(500, &fetch(3, "t", 1, 1)).answer(510, &fetched(3, "t", [&at(40, &two), &[]]));
    scene.consumer.ask(600, &fetch(4, "t", 1, 0)).answer(610, &fetched(4, "t", [&[], &[]]));
    scene.consumer.ask(700, &fetch(5, "t", 1, 0)).answer(710, &fetched(5, "t", [&at(40, &two), &[]]));
    assert_eq!(scene.data(), [None, None, None, None, Some(200)], "the third waits for commits");
}

#[test]
fn ignores_a_refused_batch_and_two_ambiguous_batches() {
    let [two, five] = batches();
    for (code, expected) in [(6, Some(300)), (7, None)] {
        let mut scene = Scene::new();
        scene.consumer.ask(100, &fetch(1, "t", 1, 0));
        scene.producer.ask(200, &kafka::produce(1, -1, "t", [&two, &five]));
        scene.producer.answer(210, &kafka::produced(1, "t", [(2, code, -1), (5, code, -1)]));
        scene.producer.ask(300, &kafka::produce(2, -1, "t", [&two, &five]));
        scene.producer.answer(310, &kafka::produced(2, "t", [(2, 0, 40), (5, 0, 70)]));
        scene.consumer.answer(400, &fetched(1, "t", [&at(40, &two), &[]]));
        assert_eq!(scene.data(), [expected], "code {code}");
    }
}

/// Loss makes this less certain, and nothing here can detect it: an uncaptured batch is not known to have been there.
#[test]
fn uses_the_only_captured_batch_with_equal_content() {
    let [two, five] = batches();
    for (both, expected) in [(true, None), (false, Some(200))] {
        let mut scene = Scene::new();
        scene.consumer.ask(100, &fetch(1, "t", 1, 0));
        scene.producer.ask(200, &kafka::produce(1, 0, "t", [&two, &five]));
        if both {
            scene.producer.ask(300, &kafka::produce(2, 0, "t", [&two, &five]));
        }
        scene.consumer.answer(400, &fetched(1, "t", [&at(40, &two), &[]]));
        assert_eq!(scene.data(), [expected], "both: {both}");
    }
}

#[test]
fn finds_a_rewritten_batch_by_offset_and_separates_a_resent_one() {
    let [two, five] = batches();
    let mut scene = Scene::new();
    scene.producer.ask(200, &kafka::produce(1, -1, "t", [&two, &five]));
    scene.producer.answer(210, &kafka::produced(1, "t", [(2, 0, 40), (5, 0, 70)]));
    scene.consumer.ask(220, &fetch(1, "t", 1, 0));
    scene.consumer.answer(230, &fetched(1, "t", [&at(40, &rewritten(&two)), &[]]));
    // The same content again, not yet answered: it has a later offset than any assigned before.
    scene.producer.ask(300, &kafka::produce(2, -1, "t", [&two, &five]));
    scene.consumer.ask(310, &fetch(2, "t", 1, 0)).answer(320, &fetched(2, "t", [&at(37, &two), &[]]));
    scene.consumer.ask(330, &fetch(3, "t", 1, 0)).answer(340, &fetched(3, "t", [&at(43, &two), &[]]));
    assert_eq!(scene.data(), [Some(200), None, Some(300)]);
}

#[test]
fn remembered_batches_are_bounded_and_evicted_ones_unknown() {
    let [two, five] = batches();
    let limits = Limits { produced_partitions: 1, ..Limits::default() };
    let mut scene = Scene::new();
    scene.producer.ask(200, &kafka::produce(1, 0, "t", [&two, &five]));
    scene.consumer.ask(210, &fetch(1, "t", 1, 0)).answer(220, &fetched(1, "t", [&at(40, &two), &[]]));
    scene.consumer.ask(230, &fetch(2, "t", 1, 0)).answer(240, &fetched(2, "t", [&[], &at(70, &five)]));
    assert_eq!(scene.data_within(limits), [None, Some(200)]);
    let mut scene = Scene::new();
    for nth in 0..65 {
        let (two, five) = (kafka::batch(100 + nth, 1, &[]), kafka::batch(900 + nth, 1, &[]));
        scene.producer.ask(200 + i64::from(nth), &kafka::produce(nth as i32, 0, "t", [&two, &five]));
    }
    for nth in 0..2 {
        let (id, time) = (nth as i32 + 1, 300 + i64::from(nth) * 20);
        let records = at(nth.into(), &kafka::batch(100 + nth, 1, &[]));
        scene.consumer.ask(time, &fetch(id, "t", 1, 0)).answer(time + 5, &fetched(id, "t", [&records, &[]]));
    }
    assert_eq!(scene.data(), [None, Some(201)]);
}

/// The batch as the log has it, with a time before the test.
fn old(offset: i64, batch: &[u8]) -> Vec<u8> {
    let mut batch = at(offset, batch);
    batch[35..43].copy_from_slice(&0i64.to_be_bytes());
    batch
}

/// A fetch at 200 whose response at 900 has these records and this watermark. It comes after a response at 110 with the
/// watermark 50.
fn fetched_late(min_bytes: i32, isolation: u8, watermark: (i16, i64), records: &[u8]) -> Option<i64> {
    let mut scene = Scene::new();
    let earlier = fetched_below(1, "t", [(0, 50), (0, 0)], [&[], &[]]);
    scene.producer.ask(90, &fetch(1, "t", 1, 0)).answer(110, &earlier);
    let late = fetched_below(2, "t", [watermark, (0, 0)], [records, &[]]);
    scene.consumer.ask(200, &fetch(2, "t", min_bytes, isolation)).answer(900, &late);
    scene.data().pop().flatten()
}

#[test]
fn records_below_an_earlier_watermark_were_readable() {
    let [two, five] = batches();
    let known = |offset| fetched_late(1, 0, (0, 60), &old(offset, &two));
    assert_eq!(known(10), Some(110));
    assert_eq!(known(47), Some(110));
    assert_eq!(known(48), None, "its last record was not");
    assert_eq!(known(50), None);
    assert_eq!(fetched_late(1, 1, (0, 60), &old(10, &two)), None, "it may have waited for a commit");
    assert_eq!(fetched_late(1, 0, (0, 60), &at(10, &two)), None, "the records are newer than the watermark");
    let cut = [&old(10, &two)[..], &old(13, &five)[..80]].concat();
    assert_eq!(fetched_late(1, 0, (0, 60), &cut), Some(110));
}

#[test]
fn empty_fetch_below_an_earlier_watermark_had_readable_data() {
    // The fetch starts at offset 40.
    let empty = |isolation, watermark| fetched_late(1, isolation, watermark, &[]);
    assert_eq!(empty(0, (0, 60)), Some(110));
    assert_eq!(empty(0, (0, 50)), Some(110));
    assert_eq!(empty(0, (0, 49)), None, "the log was cut");
    assert_eq!(empty(0, (6, 60)), None);
    assert_eq!(empty(1, (0, 60)), None, "it may have waited for a commit");
    for (known, throttle_ms, expected) in [(41, 0, Some(110)), (40, 0, None), (41, 7, None)] {
        let mut scene = Scene::new();
        let earlier = fetched_below(1, "t", [(0, known), (0, 0)], [&[], &[]]);
        scene.producer.ask(90, &fetch(1, "t", 1, 0)).answer(110, &earlier);
        let mut late = fetched_below(2, "t", [(0, 60), (0, 0)], [&[], &[]]);
        late[8..12].copy_from_slice(&i32::to_be_bytes(throttle_ms));
        scene.consumer.ask(200, &fetch(2, "t", 1, 0)).answer(900, &late);
        assert_eq!(scene.data().pop().flatten(), expected, "below {known}, throttled for {throttle_ms} ms");
    }
}

#[test]
fn counts_only_bytes_below_the_watermark() {
    let [two, five] = batches();
    let (one, both) = (two.len() as i32, (two.len() + five.len()) as i32);
    let (below, across) =
        ([old(10, &two), old(13, &five)].concat(), [old(10, &two), old(49, &five)].concat());
    for (min_bytes, records, expected) in [
        (one, &across, Some(110)),
        (one + 1, &across, None),
        (both, &across, None),
        (both, &below, Some(110)),
        (both + 1, &below, None),
    ] {
        assert_eq!(fetched_late(min_bytes, 0, (0, 60), records), expected, "{min_bytes} bytes");
    }
}

#[test]
fn ignores_a_watermark_reported_during_the_fetch() {
    let [two, _] = batches();
    let mut scene = Scene::new();
    scene.consumer.ask(200, &fetch(1, "t", 1, 0));
    let meanwhile = fetched_below(1, "t", [(0, 50), (0, 0)], [&[], &[]]);
    scene.producer.ask(210, &fetch(1, "t", 1, 0)).answer(300, &meanwhile);
    scene.consumer.answer(900, &fetched_below(1, "t", [(0, 60), (0, 0)], [&old(10, &two), &[]]));
    assert_eq!(scene.data(), [None, None]);
}

#[test]
fn log_truncation_or_error_clears_the_watermarks() {
    let [two, _] = batches();
    assert_eq!(fetched_late(1, 0, (0, 49), &old(10, &two)), None);
    for (error, watermark) in [(0, 30), (6, -1)] {
        let mut scene = Scene::new();
        let mut answer_fetch = |id: i32, partition: (i16, i64), records: &[u8]| {
            let time = 100 * i64::from(id);
            let answer = fetched_below(id, "t", [partition, (0, 0)], [records, &[]]);
            scene.consumer.ask(time, &fetch(id, "t", 1, 0)).answer(time + 10, &answer);
        };
        answer_fetch(1, (0, 50), &[]);
        answer_fetch(2, (error, watermark), &[]);
        answer_fetch(3, (0, 60), &old(40, &two));
        answer_fetch(4, (0, 60), &old(40, &two));
        assert_eq!(scene.data(), [None, None, None, Some(310)], "error {error}");
    }
}

#[test]
fn acks_all_response_raises_the_watermark() {
    let [two, five] = batches();
    for (acks, error, expected) in [(-1, 0, Some(210)), (1, 0, None), (-1, 7, None)] {
        let mut scene = Scene::new();
        scene.producer.ask(200, &kafka::produce(1, acks, "t", [&two, &five]));
        scene.producer.answer(210, &kafka::produced(1, "t", [(2, error, 40), (5, 0, 70)]));
        let answer = fetched_below(1, "t", [(0, 60), (0, 0)], [&old(30, &five), &[]]);
        scene.consumer.ask(300, &fetch(1, "t", 1, 0)).answer(900, &answer);
        assert_eq!(scene.data(), [expected], "acks {acks}, error {error}");
    }
}

#[test]
fn watermarks_are_bounded_and_separate_per_listener() {
    let [two, _] = batches();
    let late = |id| fetched_below(id, "t", [(0, 60), (0, 0)], [&old(10, &two), &[]]);
    let earlier = |id, topic| fetched_below(id, topic, [(0, 50), (0, 0)], [&[], &[]]);
    let mut scene = Scene::new();
    scene.producer = Conversation::new("10.0.0.7:50001", "10.0.0.1:9093");
    scene.producer.open(0).ask(90, &fetch(1, "t", 1, 0)).answer(110, &earlier(1, "t"));
    scene.consumer.ask(200, &fetch(1, "t", 1, 0)).answer(900, &late(1));
    let config = Config { ports: vec![9092, 9093], ..Config::default() };
    assert_eq!(scene.data_of(config), [None, None]);
    for (produced_partitions, expected) in [(8, Some(110)), (2, None)] {
        let mut scene = Scene::new();
        scene.consumer.ask(100, &fetch(1, "t", 1, 0)).answer(110, &earlier(1, "t"));
        scene.consumer.ask(120, &fetch(2, "u", 1, 0)).answer(130, &earlier(2, "u"));
        scene.consumer.ask(200, &fetch(3, "t", 1, 0)).answer(900, &late(3));
        let limits = Limits { produced_partitions, ..Limits::default() };
        assert_eq!(scene.data_within(limits), [None, None, expected]);
    }
}
