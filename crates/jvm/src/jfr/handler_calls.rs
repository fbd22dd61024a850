//! Calls in which a request handler worked on one request. From `jdk.MethodTrace` (JEP 520, JDK 25 and later). Does not
//! find these events in the file.

use model::{HandlerCall, Pid};

use super::bytes::Bytes;
use super::constants::Constants;
use super::error::Error;
use super::header::Clock;
use super::metadata::{Selection, Types};

/// The methods that a request handler calls for each request. `KafkaRequestHandler.run` calls them, in brokers and in
/// controllers. A recording may trace other methods too, for another user.
pub(crate) const METHODS: [(&str, &str); 2] =
    [("kafka.server.KafkaApis", "handle"), ("kafka.server.ControllerApis", "handle")];

/// The positions of the fields of `jdk.MethodTrace`.
pub(super) struct Calls(Selection<4>);

impl Calls {
    /// `None` if a chunk does not describe it.
    pub(super) fn of(types: &Types) -> Option<(u64, Self)> {
        let event = types.named("jdk.MethodTrace")?;
        Some((event.id, Self(Selection::of(event, ["startTime", "duration", "eventThread", "method"]))))
    }

    /// The call of an event; `None` if it is of another method or of an unknown thread.
    pub(super) fn read(
        &self,
        mut event: Bytes<'_>,
        constants: &mut Constants,
        clock: &Clock,
        pid: Pid,
    ) -> Result<Option<HandlerCall>, Error> {
        let [start, duration, thread, method] = self.0.read(&constants.types, &mut event)?;
        let method = constants.method_of(method);
        let is_handlers = METHODS.iter().any(|(class, name)| {
            method.strip_prefix(class).and_then(|rest| rest.strip_prefix('.')) == Some(*name)
        });
        let Some(thread) = constants.thread(thread).filter(|thread| is_handlers && thread.tid != 0) else {
            return Ok(None);
        };
        let start = clock.at(start.integer() as u64);
        let end = start + clock.length(duration.integer()).at_least_zero();
        Ok(Some(HandlerCall { start, end, pid, tid: thread.tid, thread: thread.name, method }))
    }
}
