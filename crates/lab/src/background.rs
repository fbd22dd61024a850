//! Work on other threads: until nobody wants it any more, or one thread for each of several elements.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::thread::JoinHandle;

use crate::error::Error;

/// Work that goes on. Dropped, it is asked to end and not waited for.
#[derive(Debug)]
pub(crate) struct Background<T> {
    name: &'static str,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Background<T> {
    /// Begins it; `work` returns soon after what it is given is true. `name` is who works, in an error.
    pub(crate) fn start(name: &'static str, work: impl FnOnce(&AtomicBool) -> T + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        Self { name, over, thread: Some(thread::spawn(move || work(&told))) }
    }

    /// Ends it; what came of it.
    ///
    /// # Errors
    /// Where it died.
    pub(crate) fn stop(mut self) -> Result<T, Error> {
        self.over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().and_then(|thread| thread.join().ok());
        ended.ok_or_else(|| Error::Unusable(format!("{} died", self.name)))
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Does something on a thread that may change itself, and waits for it; `name` is who works, in an error.
pub(crate) fn on_own_thread<T: Send>(
    name: &str,
    act: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let joined = thread::scope(|scope| scope.spawn(act).join());
    joined.unwrap_or_else(|_| Err(Error::Unusable(format!("{name} died"))))
}

/// Does the same on as many threads as there are elements, and waits for all.
pub(crate) fn in_parallel<I: Send, T: Send>(
    elements: Vec<I>,
    act: impl Fn(I) -> Result<T, Error> + Sync,
) -> Vec<Result<T, Error>> {
    thread::scope(|scope| {
        let act = &act;
        let started: Vec<_> = elements.into_iter().map(|element| scope.spawn(move || act(element))).collect();
        let died = |_| Err(Error::Unusable("a thread died".to_owned()));
        started.into_iter().map(|thread| thread.join().unwrap_or_else(died)).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::Background;

    fn count(over: &AtomicBool) -> u64 {
        let mut rounds = 0;
        while !over.load(Ordering::Relaxed) {
            rounds += 1;
        }
        rounds + 1
    }

    #[test]
    fn it_goes_on_until_it_is_stopped_and_says_what_came_of_it() {
        assert!(Background::start("the counter", count).stop().unwrap() > 0);
    }

    #[test]
    fn dropped_it_ends_as_well() {
        let (tell, told) = mpsc::channel();
        drop(Background::start("the counter", move |over| tell.send(count(over))));
        assert!(told.recv().unwrap() > 0);
    }

    #[test]
    fn who_died_is_told() {
        let died = Background::start("the counter", |_| -> u64 { panic!("on purpose") }).stop().unwrap_err();
        assert_eq!(died.to_string(), "the counter died");
    }
}
