//! What a fault is: how it is planted, when, and the truth about the requests that it slowed.
//!
//! The truth is laid down before anything is recorded, in the fault's own file, with why. Names that are accepted
//! beside the first are those of the same event told from another place, never of another event.

use serde::{Deserialize, Serialize};

use super::scene::Scene;
use super::told::Told;
use crate::broker::BrokerOptions;
use crate::error::Error;
use crate::kafka;
use crate::random::Random;
use crate::volume::FileSystem;

/// A cause that is planted on a real broker, one window after the other.
pub(crate) trait Fault {
    /// Its name: the row of the confusion matrix, and its directory.
    fn name(&self) -> &'static str;

    /// One line: what is done to the broker.
    fn story(&self) -> &'static str;

    /// What the broker's partitions lie on; `None` is a plain directory of this machine.
    fn ground(&self) -> Option<Ground> {
        None
    }

    /// Whether it can be planted on a broker on which others are planted too, before and after: it starts the broker in
    /// no way of its own, and leaves nothing behind that slows it.
    fn shares(&self) -> bool {
        false
    }

    /// Which Kafka.
    fn kafka_version(&self) -> &'static str {
        kafka::DEFAULT_VERSION
    }

    /// Changes how the broker is started. Numbers drawn here hold for all windows.
    fn configure(&mut self, _options: &mut BrokerOptions, _random: &mut Random) -> Result<(), Error> {
        Ok(())
    }

    /// Further arguments of `brokerscope record`, such as `--flight-recorder always`.
    fn record_arguments(&self) -> &'static [&'static str] {
        &[]
    }

    /// Makes topics, fills them, starts whatever else is needed, and warms the broker up: nothing of it is
    /// recorded. What it makes must end with the scene's site or in [`Fault::restore`].
    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error>;

    /// Plants it once, with the load that it needs, and takes it back: returns when the broker is well again,
    /// after a short stretch of load with nothing planted.
    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error>;

    /// Whether nothing is planted: the kernel's figures are its witnesses then, of the device too.
    fn is_quiet(&self) -> bool {
        false
    }

    /// What others than brokerscope tell of what went on since [`Fault::prepare`] and was not planted. What the broker's
    /// own JVM logged is known of every fault.
    fn told(&mut self) -> Result<Vec<Told>, Error> {
        Ok(Vec::new())
    }

    /// Takes back what lies outside the scene (cgroups, limits of devices); also after a failure.
    fn restore(&mut self, _scene: &mut Scene) {}
}

/// A file system to plant things in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ground {
    /// Which.
    pub(crate) file_system: FileSystem,
    /// Its mount options.
    pub(crate) mount_options: &'static str,
}

/// One planting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Window {
    /// From when it can have slowed a request, UTC nanoseconds.
    pub(crate) start_ns: i64,
    /// Until when, the last held-up operation included.
    pub(crate) end_ns: i64,
    /// Requests that took at least this long are judged.
    pub(crate) threshold_ms: u64,
    /// What was drawn, for people: `journal writes +213 ms for 2.4 s; 9 producers`.
    pub(crate) parameters: String,
    /// What shows that it was planted (`31 writes held back`).
    pub(crate) proof: Option<String>,
    /// Why it was not, where nothing shows that it was.
    pub(crate) failure: Option<String>,
    /// Which requests must be blamed on what; the first that fits a request counts.
    pub(crate) truths: Vec<Truth>,
}

impl Window {
    /// Says that it was planted where something was counted, and that it was not where nothing was.
    pub(crate) fn shown_by(self, count: usize, what: &str) -> Self {
        match count {
            0 => Self { failure: Some(format!("no {what}")), ..self },
            _ => Self { proof: Some(format!("{count} {what}")), ..self },
        }
    }
}

/// What requests of some clients must be blamed on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Truth {
    /// How their client ids begin; empty is everybody.
    pub(crate) client: String,
    /// Of which API, as Kafka spells it (`PRODUCE`); empty is any.
    pub(crate) api: String,
    /// Names of the root cause that are right; the first is the planted one.
    pub(crate) causes: Vec<String>,
    /// Names that are right wherever they are in the chain, where what was planted is not the root itself.
    pub(crate) through: Vec<String>,
    /// Whether it also lengthens what the JVM stops for, so that it stays a true cause of a request that lay in a stop.
    #[serde(default)]
    pub(crate) slows_stops: bool,
}

impl Truth {
    /// Everybody's root must be one of `causes`, of which the first is the planted one.
    pub(crate) fn of(causes: &[&str]) -> Self {
        let causes = causes.iter().map(|&cause| cause.to_owned()).collect();
        Self { causes, ..Self::default() }
    }

    /// The same of those whose client ids begin with this.
    pub(crate) fn client(self, client: &str) -> Self {
        Self { client: client.to_owned(), ..self }
    }

    /// The same of one API.
    pub(crate) fn api(self, api: &str) -> Self {
        Self { api: api.to_owned(), ..self }
    }

    /// Names that are right wherever they are in the chain.
    pub(crate) fn through(self, names: &[&str]) -> Self {
        Self { through: names.iter().map(|&name| name.to_owned()).collect(), ..self }
    }

    /// The same of what also lengthens the JVM's stops, or is one.
    pub(crate) fn slows_stops(self) -> Self {
        Self { slows_stops: true, ..self }
    }

    /// Whether it speaks of a request.
    pub(crate) fn is_about(&self, client: &str, api: &str) -> bool {
        client.starts_with(&self.client) && (self.api.is_empty() || self.api == api)
    }

    /// Whether a verdict is right.
    pub(crate) fn allows(&self, cause: &str, chain: &[String]) -> bool {
        self.causes.iter().any(|right| right == cause)
            || self.through.iter().any(|right| chain.contains(right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_must_be_named_and_what_leads_through_may_be() {
        let truth = Truth::of(&["slow-device"]).through(&["handlers-busy"]).client("p-").api("PRODUCE");
        assert!(truth.is_about("p-1", "PRODUCE"));
        assert!(!truth.is_about("q-1", "PRODUCE") && !truth.is_about("p-1", "FETCH"));
        let chain = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert!(truth.allows("slow-device", &chain(&["log-lock", "slow-device"])));
        assert!(truth.allows("gc-pause", &chain(&["handlers-busy", "gc-pause"])));
        assert!(!truth.allows("log-lock", &chain(&["slow-device", "log-lock"])));
        assert!(Truth::of(&["x"]).is_about("", "FETCH"));
    }
}
