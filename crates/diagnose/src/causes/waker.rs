//! `java-wait` by the waker: a thread that waited in a futex while a request needed it, where no source of the JVM
//! reports for what. The scheduler knows which thread woke it, and the waker's work until then is what it waited for.
//!
//! Network threads wait for work in epoll, so a futex is a lock or a full queue for them. Request handlers wait for
//! work in a futex too: only a wait that begins after the request was read or taken, and whose waker does not hand over
//! requests, is for the request. After its append a handler may be done with the request: a wait then must end right
//! before the response.

use model::{Cause, Confidence, EvidenceKind, Nanos, OffCpu, Tid, Waker};

use crate::causes::blocked::{behind_each, circumstances};
use crate::causes::candidate::{CauseCandidate, evidence};
use crate::causes::lock_chain::{self, MAX_CHAIN};
use crate::kernel_stack;
use crate::locks::holders::is_handed_over;
use crate::stages::Breakdown;
use crate::time::{Span, TimeBudget, TimeSpan};
use crate::waits::{asleep, waking_thread};
use crate::window::Window;

/// Maximum time after which a thread woken for work wakes the next one. It does so on its way to the work.
const ON_ITS_WAY: Nanos = Nanos::from_millis(1);
/// Length of a chain of wakers that is searched for one that hands over requests: readers of one lock wake each other
/// in turn.
const MAX_HAND_OVERS: usize = 64;

/// Why threads that a request needed waited in a futex. Counts only time that nothing else explains.
pub(crate) fn of_request(breakdown: &Breakdown<'_>, free: &mut TimeBudget) -> Vec<CauseCandidate> {
    let window = breakdown.window;
    let mut found = Vec::new();
    for (tid, span) in network_threads(breakdown) {
        let waits = window.futex_waits.of(&tid).overlapping(span);
        found.extend(waits.flat_map(|wait| of_wait(window, wait, span, &mut vec![tid], free)));
    }
    // The threads of coordinators wait for work in a futex like handlers, and handlers wake them.
    let of_handler = breakdown.appends.first().filter(|_| breakdown.coordinators_append().is_none());
    // Kafka's log does not show when it was read, but when its handler took it.
    let taken = breakdown.log_times.map(|times| times.taken);
    let since = breakdown.read.map(|read| read.end).or(taken);
    let (Some(since), Some(first)) = (since, of_handler) else { return found };
    let span = TimeSpan::new(since, breakdown.answered);
    let waits = window.futex_waits.of(&first.op.tid).overlapping(span);
    let own = waits.filter(|wait| is_for_request(breakdown, wait, since));
    found.extend(own.flat_map(|wait| of_wait(window, wait, span, &mut vec![wait.tid], free)));
    found
}

/// What a thread waited for in the remaining time of a stretch, by its waker.
pub(crate) fn of_thread(
    window: &Window,
    tid: Tid,
    way: &mut Vec<Tid>,
    free: &mut TimeBudget,
) -> Vec<CauseCandidate> {
    let Some(span) = free.whole() else { return Vec::new() };
    let waits = window.futex_waits.of(&tid).overlapping(span).filter(|wait| !is_for_work(window, wait));
    waits.flat_map(|wait| of_wait(window, wait, span, way, free)).collect()
}

/// The network threads that read a request and wrote its response. Each comes with the time in which it was needed.
fn network_threads(breakdown: &Breakdown<'_>) -> impl Iterator<Item = (Tid, TimeSpan)> {
    let until = breakdown.dequeued_at.or(breakdown.enqueued_at);
    let reader = breakdown.read.map(|read| {
        (read.tid, TimeSpan::new(breakdown.served_from, until.unwrap_or(read.end).max(read.end)))
    });
    // It may have waited in between for followers that are not seen.
    let local_end =
        if breakdown.unseen_followers.is_some() { Some(breakdown.answered) } else { breakdown.local_end };
    let ready = breakdown.log_times.map(|times| times.ready);
    let from = ready.or(local_end).unwrap_or(breakdown.due_span().start);
    let writer = breakdown.answer.map(|write| (write.tid, TimeSpan::new(from, breakdown.end)));
    reader.into_iter().chain(writer)
}

/// Whether a handler's wait was for the request that it appended.
fn is_for_request(breakdown: &Breakdown<'_>, wait: &OffCpu, since: Nanos) -> bool {
    let Some(last) = breakdown.appends.last() else { return false };
    let is_past = wait.start >= last.op.end;
    let until_response = || is_handed_over(breakdown.answered - wait.end, wait.length());
    wait.start >= since
        && wait.end <= breakdown.answered
        && !is_for_work(breakdown.window, wait)
        && (!is_past || (breakdown.is_answered_by_its_handler(&last.op) && until_response()))
}

/// Whether a woken thread had waited for work: its waker hands over requests, or had itself just been woken for work.
/// The queue's own lock passes from handler to handler.
fn is_for_work(window: &Window, wait: &OffCpu) -> bool {
    let mut wait = wait;
    for _ in 0..MAX_HAND_OVERS {
        let Some(waker) = waking_thread(wait) else { return true };
        if window.sockets.thread(waker.tid).is_some() {
            return true;
        }
        let woken = asleep(wait).end;
        let before = window.futex_waits.of(&waker.tid).ended_by(woken).next();
        match before.filter(|before| woken - before.end <= ON_ITS_WAY) {
            Some(before) => wait = before,
            None => return false,
        }
    }
    true
}

/// A wait within a stretch, with what is known of its waker. Counts only time that nothing else explains.
fn of_wait(
    window: &Window,
    wait: &OffCpu,
    span: TimeSpan,
    way: &mut Vec<Tid>,
    free: &mut TimeBudget,
) -> Vec<CauseCandidate> {
    let waited = asleep(wait).within(span);
    let Some(waker) = waking_thread(wait).filter(|_| !is_known_to_jvm(window, wait)) else {
        return Vec::new();
    };
    let Some(time) = free.take_any(waited) else { return Vec::new() };
    let own = of_waker(window, wait, waker, time);
    if way.contains(&waker.tid) || way.len() >= MAX_CHAIN {
        return vec![own];
    }
    way.push(waker.tid);
    let deeper = lock_chain::of_holder(window, waker.tid, waited, way);
    way.pop();
    behind_each(&own, deeper)
}

fn of_waker(window: &Window, wait: &OffCpu, waker: &Waker, time: Nanos) -> CauseCandidate {
    let function = kernel_stack::naming_frame(&wait.stack);
    let thread = window.name(wait.tid, &wait.thread);
    let around = circumstances(window, wait, function);
    let text = format!("{thread} waited {} in {function}{around}", asleep(wait).length());
    let seen = evidence(EvidenceKind::OffCpu, &asleep(wait), text).of_thread(wait.tid, &thread);
    let key = format!("woken-by:{}", waker.tid);
    CauseCandidate::new(Cause::JavaWait, key, Confidence::Strong, time).with([seen])
}

/// Whether the JVM itself reports what the thread waited for.
fn is_known_to_jvm(window: &Window, wait: &OffCpu) -> bool {
    let mut waits = window.lock_waits.of(&wait.tid).overlapping(wait.span());
    waits.any(|known| wait.span().is_most(known.overlap(wait.span())))
}
