//! Requests behind others of their connection: each has the cause of what was served while it waited, and of nothing
//! else.

use model::{Cause, Event, Nanos, Request, Stage, Verdict};

use super::{JOURNAL_STACK, append, commit, ms, off_cpu, op, request, request_event, run};

const DIRTY_STACK: &str = "generic_perform_write;balance_dirty_pages;io_schedule_timeout;schedule";

/// One request of a connection that all of them share; times in milliseconds.
/// It arrived at once, and was served when the previous one had been answered.
fn shared(number: i32, arrival: i64, answered: i64, end: i64) -> Request {
    let mut shared = request(number, number, arrival, end, number as u32);
    shared.client = request(0, 0, 0, 0, 0).client;
    shared.head_of_line = Some((ms(answered) - ms(arrival)).at_least_zero());
    shared
}

/// Its delayed append.
fn held_up(number: i32, start: i64, end: i64, stack: &str) -> [Event; 2] {
    let tid = 10 + number as u32;
    [
        off_cpu(tid, ms(start) + Nanos(10_000), ms(end), stack),
        op(append(tid, number, ms(start), ms(end), number as u32)),
    ]
}

fn of(events: impl IntoIterator<Item = Event>, number: i32) -> Verdict {
    let (verdicts, _) = run(events);
    verdicts.into_iter().find(|verdict| verdict.request.correlation_id == number).unwrap()
}

#[test]
fn each_request_ahead_explains_only_its_own_service_time() {
    // The second waited longer for the first, and for its commit, than for its own append; the third arrived late in
    // that.
    let mut events = vec![commit(2285, 990, 1_100)];
    events.extend(held_up(1, 1_000, 1_100, JOURNAL_STACK));
    events.extend(held_up(2, 1_102, 1_172, DIRTY_STACK));
    events.extend(held_up(3, 1_176, 1_198, DIRTY_STACK));
    events.push(request_event(shared(1, 1_000, 1_000, 1_100)));
    events.push(request_event(shared(2, 1_001, 1_100, 1_174)));
    events.push(request_event(shared(3, 1_095, 1_174, 1_199)));
    let second = of(events.clone(), 2);
    assert_eq!(second.chain, [Cause::HeadOfLine, Cause::JournalCommit]);
    let third = of(events, 3);
    assert_eq!(third.stages.longest(), Stage::HeadOfLine);
    assert_eq!(third.chain, [Cause::HeadOfLine, Cause::DirtyThrottling]);
    assert!(third.evidence[0].text.starts_with("waited 74 ms behind request 2 (PRODUCE)"), "{third:?}");
}

#[test]
fn event_that_ended_before_the_arrival_is_no_cause() {
    let verdicts = |arrival| {
        let mut events = vec![commit(2285, 990, 1_111)];
        events.extend(held_up(1, 1_000, 1_110, JOURNAL_STACK));
        // What the first did afterwards is unknown.
        events.push(request_event(shared(1, 1_000, 1_000, 1_200)));
        events.push(request_event(shared(2, arrival, 1_200, 1_216)));
        (of(events.clone(), 1).cause, of(events, 2).cause)
    };
    assert_eq!(verdicts(1_115), (Cause::JournalCommit, Cause::Unobserved));
    assert_eq!(verdicts(1_002), (Cause::JournalCommit, Cause::JournalCommit), "108 of 214 ms");
    assert_eq!(verdicts(1_020), (Cause::JournalCommit, Cause::Unobserved), "90 of 196 ms");
}

#[test]
fn first_request_of_a_long_queue_explains_the_last() {
    let mut events = vec![commit(2285, 990, 1_200)];
    events.extend(held_up(1, 1_000, 1_199, JOURNAL_STACK));
    events.push(request_event(shared(1, 1_000, 1_000, 1_200)));
    events.extend((2..=40).map(|number| {
        let begun = 1_198 + i64::from(number);
        request_event(shared(number, 1_000, begun, begun + 1))
    }));
    let last = of(events, 40);
    assert_eq!((last.cause, &*last.root), (Cause::JournalCommit, "journal-commit:loop0:2285"));
    assert!(last.evidence[0].text.ends_with("(and 38 more after it)"), "{:?}", last.evidence);
    let ahead = last.chain.iter().filter(|&&cause| cause == Cause::HeadOfLine).count();
    assert_eq!(ahead, 16, "more are not told one by one");
}

#[test]
fn slow_arrival_does_not_delay_later_requests() {
    let mut slow = shared(1, 1_000, 1_150, 1_270);
    (slow.arrival_end, slow.head_of_line) = (ms(1_150), Some(Nanos::ZERO));
    let events = [request_event(slow), request_event(shared(2, 1_151, 1_270, 1_272))];
    assert_eq!(of(events.clone(), 1).cause, Cause::SlowClient);
    assert_eq!(
        of(events, 2).cause,
        Cause::Unobserved,
        "nothing is known of the time for which it was served"
    );
}
