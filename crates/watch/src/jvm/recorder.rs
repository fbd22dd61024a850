//! Flight Recorder in the broker's JVM, while it is watched: what it tells goes into the queue. Does not know its format.

use std::collections::HashMap;
use std::time::Instant;

use jvm::attach::Client;
use jvm::flight::{self, Flight};
use jvm::jfr::{JfrEvent, Tail};
use jvm::{Machine, threads};
use model::{ClockOffset, Event, Loss, LossKind, Nanos, Tid};

use super::Jfr;
use crate::queue::Sender;
use crate::stops::Stops;

/// A recording that runs, and the reading of it.
pub(super) struct Recorder {
    flight: Flight,
    tail: Tail,
    offset: ClockOffset,
    renewed: Instant,
    damaged: u64,
    looked: Nanos,
    ids: Ids,
    stops: Stops,
}

/// Thread ids as this process sees them, where the JVM has a pid namespace of its own.
struct Ids {
    machine: Machine,
    seen: Option<HashMap<Tid, Tid>>,
}

impl Recorder {
    /// Has the JVM record, or says why not.
    pub(super) fn start(
        jfr: Jfr,
        client: &Client,
        version: &str,
        offset: ClockOffset,
        stops: Stops,
    ) -> Result<Self, String> {
        if jfr == Jfr::Never {
            return Err("Flight Recorder was not wanted".to_owned());
        }
        let machine = client.machine();
        if let Some(why) = flight::start_cost(machine, version).filter(|_| jfr == Jfr::Auto) {
            return Err(why);
        }
        let flight = Flight::start(client, std::process::id()).map_err(|error| error.to_string())?;
        let now = offset.from_monotonic(crate::now().monotonic_ns);
        stops.recorder_tells(true);
        Ok(Self {
            tail: Tail::of(flight.folder(), machine.pid, offset, now),
            flight,
            offset,
            renewed: Instant::now(),
            damaged: 0,
            looked: now,
            ids: Ids { machine: machine.clone(), seen: None },
            stops,
        })
    }

    /// Hands over what the JVM has written since the last time, and has it go on.
    pub(super) fn tell(&mut self, client: &Client, sender: &Sender) -> Result<(), jvm::Error> {
        self.read(sender);
        if self.renewed.elapsed() >= Flight::RENEW_AFTER {
            self.flight.renew(client)?;
            self.renewed = Instant::now();
        }
        Ok(())
    }

    /// Ends it, and hands over the rest: the chunk that is open stays readable when its file is gone.
    pub(super) fn stop(mut self, client: &Client, sender: &Sender) -> Result<(), jvm::Error> {
        self.read(sender);
        let stopped = self.flight.stop(client);
        self.read(sender);
        let (mut events, ids, stops) = (Vec::new(), &mut self.ids, &self.stops);
        self.tail.finish(&mut |observed| events.push(ids.event(once(observed, stops))));
        sender.send_all(events);
        stopped
    }

    fn read(&mut self, sender: &Sender) {
        let (mut events, ids, stops) = (Vec::new(), &mut self.ids, &self.stops);
        let pair = crate::now();
        let polled = self.tail.poll(pair, &mut |observed| events.push(ids.event(once(observed, stops))));
        let summary = self.tail.summary();
        let damaged = summary.damaged + summary.lost + u64::from(polled.is_err());
        let (start, end) = (self.looked, self.offset.from_monotonic(pair.monotonic_ns));
        self.looked = end;
        if damaged > self.damaged {
            let (kind, count) = (LossKind::EventsDropped, damaged - self.damaged);
            let detail = "what the JVM recorded could not all be read".into();
            events.push(Event::Loss(Loss { start, end, kind, count, detail }));
            self.damaged = damaged;
        }
        sender.send_all(events);
    }
}

/// A stop that the JVM's probes saw too is told here.
fn once(observed: JfrEvent, stops: &Stops) -> JfrEvent {
    match observed {
        JfrEvent::Pause(pause) => JfrEvent::Pause(stops.recorded(pause)),
        wait @ JfrEvent::LockWait(_) => wait,
    }
}

impl Ids {
    fn event(&mut self, observed: JfrEvent) -> Event {
        match observed {
            JfrEvent::LockWait(mut wait) if self.machine.own_pid != self.machine.pid => {
                wait.tid = self.seen(wait.tid).unwrap_or_default();
                if let Some(holder) = &mut wait.holder {
                    holder.tid = holder.tid.and_then(|tid| self.seen(tid));
                }
                Event::LockWait(Box::new(wait))
            }
            observed => observed.into(),
        }
    }

    fn seen(&mut self, own: Tid) -> Option<Tid> {
        let known = self.seen.as_ref().and_then(|seen| seen.get(&own)).copied();
        known.or_else(|| {
            self.seen = Some(threads::tids_by_own_tid(&self.machine));
            self.seen.as_ref()?.get(&own).copied()
        })
    }
}
