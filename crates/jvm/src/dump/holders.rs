//! Finds the owner of each lock that a thread of the same dump waits for. Does not read text.

use std::collections::HashMap;

use model::Lock;

use super::thread::{Thread, ThreadState, WaitKind};

/// Settles, once all threads are there, what each has and who has what it waits for.
///
/// A thread in `Object.wait()` is shown as if it had the monitor that it left, in the frame that entered it.
pub(super) fn settle(threads: &mut [Thread]) {
    threads.iter_mut().for_each(settle_one);
    let owners = owners(threads);
    let found: Vec<_> = threads.iter().map(|thread| owner_of(thread, &owners)).collect();
    let named: Vec<_> = found.iter().map(|&at| threads.get(at?).map(Thread::as_holder)).collect();
    for (thread, owner) in threads.iter_mut().zip(named) {
        if let Some(wait) = thread.wait.as_mut().filter(|wait| wait.owner.is_none()) {
            wait.owner = owner;
        }
    }
}

fn settle_one(thread: &mut Thread) {
    let Some(wait) = &mut thread.wait else { return };
    // JDK 8 and OpenJ9 do not say of a notified thread that it now waits to enter again.
    if wait.how == WaitKind::Notify && thread.state == ThreadState::Blocked {
        wait.how = WaitKind::Reenter;
    }
    if wait.how != WaitKind::Park {
        let address = wait.lock.address;
        thread.holds.retain(|held| held.address != address);
    }
}

/// Which thread has the lock at an address; `None` where two seem to: then the dump is not to be trusted.
fn owners(threads: &[Thread]) -> HashMap<u64, Option<usize>> {
    let mut owners = HashMap::new();
    for (at, thread) in threads.iter().enumerate() {
        for Lock { address, .. } in thread.holds.iter().filter(|held| held.address != 0) {
            let owner = owners.entry(*address).or_insert(Some(at));
            if *owner != Some(at) {
                *owner = None;
            }
        }
    }
    owners
}

fn owner_of(thread: &Thread, owners: &HashMap<u64, Option<usize>>) -> Option<usize> {
    let wait = thread.wait.as_ref().filter(|wait| wait.how != WaitKind::Notify)?;
    owners.get(&wait.lock.address).copied().flatten()
}
