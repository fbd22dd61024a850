//! Waits for locks: the lock, its holders, and the append that waited. Waits are those that the JVM reports
//! ([`model::LockWait`]), and inferred ones for a partition's log.
//!
//! A wait that was seen belongs to the next append of its thread: by thread id, and by a Java stack within an append.
//! Without a stack the append must follow at once.

pub(crate) mod holders;
pub(crate) mod names;

use std::sync::Arc;

use model::{Confidence, FileOp, LockSource, LockWait, Nanos, Tid, TopicPartition};

use crate::locks::holders::{Holder, is_append};
use crate::locks::names::LockName;
use crate::time::{Span, TimeBudget, TimeSpan};
use crate::window::{CLOCK_SLACK, Window};

/// A wait for a lock, reported or inferred.
#[derive(Clone, Debug)]
pub(crate) struct LockContention<'w> {
    /// The wait, from the earliest moment at which the thread can have begun to wait.
    pub(crate) span: TimeSpan,
    pub(crate) tid: Tid,
    /// The waiter's name in its source.
    pub(crate) thread: Arc<str>,
    pub(crate) name: LockName,
    /// The JVM's report of it; `None` if it was inferred.
    pub(crate) jvm_wait: Option<&'w LockWait>,
    /// The partition that the thread wanted to append to.
    pub(crate) partition: Option<TopicPartition>,
    /// The holders, the largest share first.
    pub(crate) holders: Vec<Holder>,
}

impl<'w> LockContention<'w> {
    pub(crate) fn length(&self) -> Nanos {
        self.span.length()
    }

    /// Whether the holders of most of the wait are known.
    pub(crate) fn is_mostly_held(&self) -> bool {
        self.span.is_most(self.held())
    }

    /// Appends that were served during the wait.
    pub(crate) fn ahead(&self) -> usize {
        self.holders.iter().filter(|holder| holder.append.is_some()).count()
    }

    /// How much of the wait has a known holder.
    pub(crate) fn held(&self) -> Nanos {
        self.holders.iter().map(|holder| holder.share).sum()
    }

    /// What identifies the lock: its partition, or the method that takes it.
    pub(crate) fn place(&self) -> String {
        let partition = || self.partition.as_ref().map(ToString::to_string);
        let taken = || self.jvm_wait.and_then(|wait| names::taken_in(&wait.stack));
        let known = if self.name == LockName::Other {
            taken().or_else(partition)
        } else {
            partition().or_else(taken)
        };
        known.unwrap_or_default()
    }

    /// Describes the lock: `topicF-6's log lock`, `the lock that x.Y.z takes`.
    pub(crate) fn describe(&self) -> String {
        match (self.place(), self.name) {
            (place, LockName::Other) if place.is_empty() => "a lock".to_owned(),
            (place, LockName::Other) => format!("the lock that {place} takes"),
            (place, name) if place.is_empty() => format!("the {}", name.as_str()),
            (place, name) => match &self.partition {
                Some(partition) => format!("{partition}'s {}", name.as_str()),
                None => format!("the {} that {place} takes", name.as_str()),
            },
        }
    }

    /// A wait that the JVM reports, still without holders.
    pub(crate) fn of_jvm_wait(wait: &'w LockWait, name: LockName) -> Self {
        Self {
            span: wait.span(),
            tid: wait.tid,
            thread: Arc::clone(&wait.thread),
            name,
            jvm_wait: Some(wait),
            partition: None,
            holders: Vec::new(),
        }
    }

    /// A wait that the JVM reports, as far as it lies after `from`.
    pub(crate) fn of(window: &Window, wait: &'w LockWait, from: Nanos) -> Option<Self> {
        let name = LockName::of(wait)?;
        let append = append_after(window, wait, name);
        let partition = append.and_then(|append| append.topic_partition.clone());
        // Without a stack it is for the log if an append followed and another thread appended meanwhile.
        let guess = wait.stack.is_empty() && partition.is_some();
        let mut blocked =
            Self { partition, ..Self::of_jvm_wait(wait, if guess { LockName::Log } else { name }) };
        blocked.span.start = wait.start.max(from);
        (!blocked.span.is_empty()).then(|| {
            blocked.find_holders(window);
            if guess && blocked.ahead() == 0 {
                (blocked.name, blocked.partition) = (LockName::Other, None);
            }
            blocked
        })
    }

    fn find_holders(&mut self, window: &Window) {
        let mut free = TimeBudget::new(self.span);
        if let (LockName::Log, Some(partition)) = (self.name, &self.partition) {
            self.holders = holders::by_appends(window, partition, self.tid, self.span, &mut free);
        }
        self.add_previous_owner(window, &mut free);
        self.holders.sort_by_key(|holder| std::cmp::Reverse(holder.share));
    }

    /// Adds the previous owner for the last part of the wait. The owner counts whether or not an append shows it.
    fn add_previous_owner(&mut self, window: &Window, free: &mut TimeBudget) {
        let Some(owner) = self.jvm_wait.and_then(|wait| wait.holder.as_ref()) else { return };
        let Some(span) = free.last() else { return };
        // Appends come latest first.
        match self.holders.iter_mut().position(|holder| holder.tid.is_some() && holder.tid == owner.tid) {
            Some(0) => {
                if let Some(last) = self.holders.first_mut().filter(|last| last.span.end <= span.start) {
                    last.share += free.take(span);
                    last.span.end = span.end;
                }
            }
            Some(_) => {}
            None => {
                let share = free.take(span);
                let named = owner.tid.map(|tid| window.name(tid, &owner.thread));
                let thread = named.unwrap_or_else(|| Arc::clone(&owner.thread));
                self.holders.push(Holder { tid: owner.tid, thread, span, share, append: None });
            }
        }
    }
}

/// The waits of an append's thread before the append, in order; its request can have reached a lock from `from` on.
pub(crate) fn waits_before<'w>(window: &'w Window, append: &FileOp, from: Nanos) -> Vec<LockContention<'w>> {
    let ended = window.lock_waits.of(&append.tid).ended_by(append.start + CLOCK_SLACK);
    let ours = ended.take_while(|wait| wait.end > from).filter(|wait| {
        let next = next_append(window, wait);
        next.is_some_and(|next| next.start == append.start) && belongs_to(wait, append)
    });
    let mut waits: Vec<LockContention<'w>> =
        ours.filter_map(|wait| LockContention::of(window, wait, from)).collect();
    waits.reverse();
    let from = waits.last().map_or(from, |last| last.span.end.max(from));
    waits.extend(infer_wait(window, append, holders::wait_before(window, append, from)));
    waits
}

/// A wait of a request's handler in Java for something other than the log's lock.
#[derive(Clone, Debug)]
pub(crate) struct JavaWait<'w> {
    pub(crate) wait: &'w LockWait,
    /// The part of it in which the request can have waited.
    pub(crate) span: TimeSpan,
    pub(crate) confidence: Confidence,
}

/// Java waits of an append's thread on the way to the append; it can have begun with the request at `from`. By the
/// wait's stack, and because the append is the thread's next.
pub(crate) fn java_waits_before<'w>(
    window: &'w Window,
    append: &FileOp,
    from: Nanos,
) -> impl Iterator<Item = JavaWait<'w>> {
    let ended = window.lock_waits.of(&append.tid).ended_by(append.start + CLOCK_SLACK);
    let on_the_way = ended.take_while(move |wait| wait.end > from).filter(|wait| {
        let is_lock = LockName::of(wait).is_some() && belongs_to(wait, append);
        let next = next_append(window, wait);
        !is_lock
            && names::is_before_append(&wait.stack)
            && next.is_some_and(|next| next.start == append.start)
    });
    on_the_way.filter(|wait| wait.source != LockSource::ThreadDump).map(move |wait| JavaWait {
        wait,
        span: TimeSpan::new(wait.start.max(from), wait.end.min(append.start)),
        confidence: Confidence::Exact,
    })
}

/// Java waits of an append's thread after it, before the response at `until`.
/// By the wait's stack, and because no other append of the thread lies between.
pub(crate) fn java_waits_after<'w>(
    window: &'w Window,
    append: &FileOp,
    until: Nanos,
) -> impl Iterator<Item = JavaWait<'w>> {
    let (end, tid) = (append.end, append.tid);
    let mut appends = window.file_ops.of(&tid).ended_after(end).filter(|op| op.start >= end && is_append(op));
    let next = appends.next().map_or(Nanos::MAX, |next| next.start);
    let waits =
        window.lock_waits.of(&tid).ended_after(end).take_while(move |wait| wait.end <= until.min(next));
    let of_it =
        waits.filter(move |wait| wait.start >= end - CLOCK_SLACK && names::is_after_append(&wait.stack));
    of_it.filter(|wait| wait.source != LockSource::ThreadDump).map(move |wait| JavaWait {
        wait,
        span: TimeSpan::new(wait.start.max(end), wait.end),
        confidence: Confidence::Strong,
    })
}

/// The inferred wait of an append's thread for the same log after it: the thread finished the append at the span's
/// start, and the response began to leave at its end.
pub(crate) fn wait_after_append<'w>(
    window: &'w Window,
    append: &FileOp,
    span: TimeSpan,
) -> Option<LockContention<'w>> {
    infer_wait(window, append, holders::wait_after(window, append, span))
}

fn infer_wait<'w>(window: &'w Window, append: &FileOp, span: Option<TimeSpan>) -> Option<LockContention<'w>> {
    let mut blocked = LockContention {
        span: span?,
        tid: append.tid,
        thread: window.name(append.tid, &append.thread),
        name: LockName::Log,
        jvm_wait: None,
        partition: append.topic_partition.clone(),
        holders: Vec::new(),
    };
    blocked.find_holders(window);
    // Consecutive appends are a queue if the earlier ones held the log for most of the time, else a coincidence.
    blocked.is_mostly_held().then_some(blocked)
}

/// The append that a wait was on the way to.
fn append_after<'w>(window: &'w Window, wait: &LockWait, name: LockName) -> Option<&'w Arc<FileOp>> {
    let on_the_way = !matches!(name, LockName::Purgatory | LockName::Group);
    next_append(window, wait).filter(|append| on_the_way && belongs_to(wait, append))
}

/// The next append of the waiting thread.
fn next_append<'w>(window: &'w Window, wait: &LockWait) -> Option<&'w Arc<FileOp>> {
    let from = wait.end - CLOCK_SLACK;
    window.file_ops.of(&wait.tid).ended_after(from).filter(|op| op.start >= from).find(|op| is_append(op))
}

/// Whether a wait was on the way to its thread's next append.
fn belongs_to(wait: &LockWait, append: &FileOp) -> bool {
    match wait.source {
        // A moment, not a wait.
        LockSource::ThreadDump => false,
        _ if wait.stack.is_empty() => holders::is_handed_over(append.start - wait.end, wait.length()),
        _ => names::is_appending(&wait.stack),
    }
}
