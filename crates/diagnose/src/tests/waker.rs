//! Waits in futexes, followed to the thread that ended them: of threads that a request needed, and only if they did
//! not wait for work.

use model::{Cause, Confidence, Event, OffCpu, Verdict, Waker};

use super::stages::{NETWORK, numbered, read, us, write};
use super::{JOURNAL_STACK, append, commit, ms, off_cpu, op, request, request_event, run};

const FUTEX: &str = "x64_sys_futex;do_futex;futex_wait;futex_wait_queue;schedule";
pub(super) const WAKE: &str = "x64_sys_futex;do_futex;futex_wake;wake_up_q;try_to_wake_up";
const TIMER: &str = "asm_sysvec_apic_timer_interrupt;hrtimer_interrupt;hrtimer_wakeup;try_to_wake_up";

/// A thread that waited in a futex until another thread, or an interrupt, woke it.
pub(super) fn parked(tid: u32, start: i64, end: i64, waker: u32, stack: &str) -> Event {
    let Event::OffCpu(wait) = off_cpu(tid, us(start), us(end), FUTEX) else { unreachable!() };
    let waker = Waker { tid: waker, thread: "data-plane-kafk".into(), stack: stack.into() };
    Event::OffCpu(Box::new(OffCpu { woken: Some(us(end)), waker: Some(waker), ..*wait }))
}

/// A request appended at once, and answered by the network thread 107 ms later.
fn answered_late(more: impl IntoIterator<Item = Event>) -> Verdict {
    let ours = numbered(request(1, 6, 1_000, 1_110, 1));
    let mut events = vec![
        read(&ours, us(1_000_100), us(1_000_200)),
        op(append(7, 6, ms(1_001), ms(1_002), 1)),
        write(&ours, us(1_109_000), us(1_109_100)),
        request_event(ours),
    ];
    events.extend(more);
    run(events).0.into_iter().find(|verdict| verdict.request.correlation_id == 1).unwrap()
}

/// Thread 8 in an append that waited for the journal.
fn stalled(start: i64, end: i64) -> [Event; 3] {
    [
        op(append(8, 2, ms(start), ms(end), 80)),
        off_cpu(8, us(start * 1_000 + 500), us(end * 1_000 - 500), JOURNAL_STACK),
        commit(2285, start, end + 1),
    ]
}

fn named(verdict: &Verdict) -> (Vec<Cause>, Confidence) {
    (verdict.chain.clone(), verdict.confidence)
}

#[test]
fn futex_wait_of_the_network_thread_has_the_cause_of_its_waker() {
    let verdict = answered_late(
        stalled(1_005, 1_107).into_iter().chain([parked(NETWORK, 1_004_000, 1_108_000, 8, WAKE)]),
    );
    assert_eq!(named(&verdict), (vec![Cause::JavaWait, Cause::JournalCommit], Confidence::Strong));
    assert_eq!(&*verdict.root, "journal-commit:loop0:2285");
    assert_eq!(
        verdict.evidence[0].text,
        "data-plane-kafk waited 104 ms in futex_wait_queue (called by futex_wait, do_futex, x64_sys_futex), woken by \
         data-plane-kafk (thread 8)"
    );
    assert_eq!(Some(verdict.stages.total()), verdict.request.latency());
}

#[test]
fn unexplained_waker_is_named_itself() {
    let verdict = answered_late([parked(NETWORK, 1_004_000, 1_108_000, 77, WAKE)]);
    assert_eq!(named(&verdict), (vec![Cause::JavaWait], Confidence::Strong));
    assert_eq!(&*verdict.root, "java-wait:woken-by:77");
    let short = answered_late([parked(NETWORK, 1_004_000, 1_040_000, 77, WAKE)]);
    assert_eq!(short.cause, Cause::Unobserved, "36 ms of 110");
}

#[test]
fn interrupt_or_unknown_waker_gives_no_cause() {
    let by = |tid, stack| answered_late([parked(NETWORK, 1_004_000, 1_108_000, tid, stack)]).cause;
    assert_eq!(by(8, TIMER), Cause::Unobserved);
    assert_eq!(by(0, WAKE), Cause::Unobserved);
    assert_eq!(by(8, ""), Cause::Unobserved);
    let unseen = off_cpu(NETWORK, ms(1_004), ms(1_108), FUTEX);
    assert_eq!(answered_late([unseen]).cause, Cause::Unobserved);
}

#[test]
fn threads_that_woke_each_other_are_followed_once() {
    let verdict = answered_late([
        parked(NETWORK, 1_004_000, 1_108_000, 8, WAKE),
        parked(8, 1_005_000, 1_107_000, 9, WAKE),
        parked(9, 1_006_000, 1_106_000, 8, WAKE),
    ]);
    assert_eq!(named(&verdict), (vec![Cause::JavaWait; 3], Confidence::Strong));
    assert_eq!(Some(verdict.stages.total()), verdict.request.latency());
}

#[test]
fn chain_of_wakers_ends_at_the_cause_of_the_last() {
    let verdict =
        answered_late(stalled(1_007, 1_105).into_iter().chain([
            parked(NETWORK, 1_004_000, 1_108_000, 9, WAKE),
            parked(9, 1_005_000, 1_107_000, 8, WAKE),
        ]));
    assert_eq!(
        named(&verdict),
        (vec![Cause::JavaWait, Cause::JavaWait, Cause::JournalCommit], Confidence::Strong)
    );
}

#[test]
fn lock_passed_between_handlers_names_the_first_waker() {
    let handlers = (0..9_u32).map(|i| {
        let at = 1_105_000 + i64::from(i) * 200;
        parked(20 + i, 1_001_000, at, if i == 0 { 77 } else { 19 + i }, WAKE)
    });
    let verdict = appended_late(handlers.chain([parked(7, 1_001_000, 1_106_800, 28, WAKE)]));
    assert_eq!(verdict.cause, Cause::JavaWait);
    assert_eq!(&*verdict.root, "java-wait:woken-by:77");
}

/// A request whose handler, thread 7, appended 100 ms after it was read.
fn appended_late(more: impl IntoIterator<Item = Event>) -> Verdict {
    let ours = numbered(request(1, 6, 1_000, 1_110, 1));
    let mut events = vec![
        read(&ours, us(1_000_100), us(1_000_200)),
        op(append(7, 6, ms(1_107), ms(1_108), 1)),
        write(&ours, us(1_109_000), us(1_109_100)),
        request_event(ours),
    ];
    events.extend(more);
    run(events).0.into_iter().find(|verdict| verdict.request.correlation_id == 1).unwrap()
}

#[test]
fn futex_wait_of_the_handler_after_the_read_is_followed() {
    let followed = stalled(1_003, 1_105).into_iter().chain([parked(7, 1_001_000, 1_106_000, 8, WAKE)]);
    assert_eq!(
        named(&appended_late(followed)),
        (vec![Cause::JavaWait, Cause::JournalCommit], Confidence::Strong)
    );
}

#[test]
fn handler_that_waits_for_work_is_not_followed() {
    let unobserved = |events: Vec<Event>| assert_eq!(appended_late(events).cause, Cause::Unobserved);
    // Since before the request was read.
    unobserved(vec![parked(7, 900_000, 1_106_000, 8, WAKE)]);
    // A network thread handed over a request.
    unobserved(vec![parked(7, 1_001_000, 1_106_000, NETWORK, WAKE)]);
    // A handler that had just been woken for a request released the queue's lock.
    unobserved(vec![
        parked(8, 1_000_000, 1_105_500, NETWORK, WAKE),
        parked(7, 1_001_000, 1_106_000, 8, WAKE),
    ]);
    // Its poll for a request timed out.
    unobserved(vec![parked(7, 1_001_000, 1_106_000, 8, TIMER)]);
}

#[test]
fn wait_after_the_append_counts_if_the_response_follows_at_once() {
    let with = |end: i64| answered_late([parked(7, 1_002_100, end, 8, WAKE)]);
    assert_eq!(named(&with(1_108_000)), (vec![Cause::JavaWait], Confidence::Strong));
    assert_eq!(with(1_080_000).cause, Cause::Unobserved, "it may have answered before");
    assert_eq!(with(1_109_500).cause, Cause::Unobserved, "it had answered");
}

#[test]
fn jvm_report_of_a_wait_takes_precedence_over_its_waker() {
    let ours = numbered(request(1, 6, 1_000, 1_110, 1));
    let (verdicts, _) = run([
        read(&ours, us(1_000_100), us(1_000_200)),
        op(append(9, 6, us(1_000_500), us(1_106_000), 90)),
        off_cpu(9, us(1_000_600), us(1_105_900), JOURNAL_STACK),
        commit(2285, 1_000, 1_107),
        super::jvm::locked(super::jvm::monitor(7, us(1_001_000), us(1_106_100), Some(9))),
        parked(7, 1_001_000, 1_106_100, 77, WAKE),
        op(append(7, 6, us(1_106_200), us(1_107_000), 1)),
        write(&ours, us(1_109_000), us(1_109_100)),
        request_event(ours),
    ]);
    let verdict = verdicts.iter().find(|verdict| verdict.request.correlation_id == 1).unwrap();
    assert_eq!(named(verdict), (vec![Cause::LogLock, Cause::JournalCommit], Confidence::Exact));
}

#[test]
fn log_holder_that_waits_for_another_thread_is_followed() {
    let ours = numbered(request(1, 6, 1_000, 1_110, 1));
    let (verdicts, _) = run(stalled(1_002, 1_104).into_iter().chain([
        read(&ours, us(1_000_100), us(1_000_200)),
        super::jvm::locked(super::jvm::monitor(7, us(1_001_000), us(1_106_100), Some(9))),
        parked(9, 1_001_200, 1_105_000, 8, WAKE),
        op(append(7, 6, us(1_106_200), us(1_107_000), 1)),
        write(&ours, us(1_109_000), us(1_109_100)),
        request_event(ours),
    ]));
    let verdict = verdicts.iter().find(|verdict| verdict.request.correlation_id == 1).unwrap();
    assert_eq!(verdict.chain, [Cause::LogLock, Cause::JavaWait, Cause::JournalCommit]);
}

/// A request that was read at 1,000 ms and waited for its handler.
/// The handler took it after an append at 1,104 ms, and had waited in a futex until then.
fn queued_behind(parked: Event) -> Verdict {
    let ours = numbered(request(1, 6, 1_000, 1_110, 1));
    let (verdicts, _) = run([
        read(&ours, us(1_000_100), us(1_000_200)),
        op(append(9, 1, ms(900), ms(901), 90)),
        parked,
        op(append(7, 5, us(1_104_000), us(1_104_100), 50)),
        op(append(7, 6, ms(1_107), ms(1_108), 1)),
        write(&ours, us(1_109_000), us(1_109_100)),
        request_event(ours),
    ]);
    verdicts.into_iter().find(|verdict| verdict.request.correlation_id == 1).unwrap()
}

#[test]
fn queued_request_has_the_futex_wait_of_its_handler() {
    let verdict = queued_behind(parked(7, 990_000, 1_103_000, 77, WAKE));
    assert_eq!(named(&verdict), (vec![Cause::HandlersBusy, Cause::JavaWait], Confidence::Strong));
    assert_eq!(queued_behind(parked(7, 990_000, 1_103_000, NETWORK, WAKE)).cause, Cause::Unobserved, "idle");
    assert_eq!(queued_behind(parked(8, 990_000, 1_103_000, 77, WAKE)).cause, Cause::Unobserved, "another");
}
