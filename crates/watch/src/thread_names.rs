//! The full names of the broker's threads, for every source that saw a thread: one thread publishes them, and
//! readers look them up without waiting for each other. Asks nobody for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use model::Tid;

/// Full names by thread, each with the name that the kernel had for the thread when its full one was found out: an id is
/// given to another thread one day, and threads are renamed.
pub(crate) type Table = HashMap<Tid, ThreadName>;

/// A thread's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadName {
    /// The kernel's, at most 15 characters.
    pub(crate) comm: Box<str>,
    /// The JVM's.
    pub(crate) full: Arc<str>,
}

/// The table of the moment.
#[derive(Clone, Default)]
pub(crate) struct ThreadNames(Arc<NameStore>);

#[derive(Default)]
struct NameStore {
    edition: AtomicU64,
    table: Mutex<Arc<Table>>,
}

/// One reader's copy, renewed when there is a new one.
pub(crate) struct NameReader {
    names: ThreadNames,
    edition: u64,
    table: Arc<Table>,
    /// Threads that were asked for, by the last digits of their ids: what is read twice in a row is read often.
    recent: Vec<Option<Recent>>,
}

/// What a thread's full name was, as long as the kernel's was that one.
struct Recent {
    tid: Tid,
    comm: Arc<str>,
    full: Arc<str>,
}

/// A power of two, more than the threads that are busy at a time.
const SLOTS: usize = 64;

impl ThreadNames {
    pub(crate) fn publish(&self, table: Table) {
        *self.0.table.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        self.0.edition.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn reader(&self) -> NameReader {
        let recent = (0..SLOTS).map(|_| None).collect();
        NameReader { names: self.clone(), edition: 0, table: Arc::default(), recent }
    }
}

impl NameReader {
    /// The thread's full name where it is known, else what the kernel calls it.
    pub(crate) fn full(&mut self, tid: Tid, mut comm: Arc<str>) -> Arc<str> {
        self.complete(tid, &mut comm);
        comm
    }

    /// Puts the thread's full name in place of what the kernel calls it, where it is known.
    pub(crate) fn complete(&mut self, tid: Tid, name: &mut Arc<str>) {
        self.renew();
        let Some(slot) = self.recent.get_mut(tid as usize % SLOTS) else { return };
        if let Some(recent) = slot.as_ref().filter(|it| it.tid == tid && Arc::ptr_eq(&it.comm, name)) {
            *name = Arc::clone(&recent.full);
            return;
        }
        let known = self.table.get(&tid).filter(|named| *named.comm == **name);
        let full = Arc::clone(known.map_or(&*name, |named| &named.full));
        let comm = std::mem::replace(name, Arc::clone(&full));
        *slot = Some(Recent { tid, comm, full });
    }

    /// The thread's full name where it is known, of whichever thread has that id.
    pub(crate) fn of(&mut self, tid: Tid) -> Option<&str> {
        self.renew();
        self.table.get(&tid).map(|named| &*named.full)
    }

    fn renew(&mut self) {
        let edition = self.names.0.edition.load(Ordering::Acquire);
        if edition != self.edition {
            self.edition = edition;
            self.recent.fill_with(|| None);
            self.table = Arc::clone(&self.names.0.table.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Table, ThreadName, ThreadNames};

    #[test]
    fn a_full_name_is_of_the_thread_that_still_has_the_kernels() {
        let names = ThreadNames::default();
        let mut reader = names.reader();
        assert_eq!(&*reader.full(7, "data-plane-kafk".into()), "data-plane-kafk");
        let handler = "data-plane-kafka-request-handler-7";
        let entry = ThreadName { comm: "data-plane-kafk".into(), full: handler.into() };
        names.publish(Table::from([(7, entry)]));
        assert_eq!(&*reader.full(7, "data-plane-kafk".into()), handler);
        assert_eq!(&*reader.full(7, "kafka-scheduler".into()), "kafka-scheduler", "another has its id now");
        assert_eq!(&*reader.full(8, "data-plane-kafk".into()), "data-plane-kafk");
        names.publish(Table::new());
        assert_eq!(&*reader.full(7, "data-plane-kafk".into()), "data-plane-kafk");
    }
}
