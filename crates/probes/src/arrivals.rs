//! Tells for each read of a broker's connections when the bytes that it took had been in the receive buffer. For requests
//! that are known only by the broker's own calls, such as encrypted ones. A separate BPF object.
//!
//! [`Plan::choose`] decides purely from [`crate::Facts`], [`Session::attach`] attaches, [`Session::read`] delivers. It
//! follows ports, not a process: other processes do not have the listeners' ports.

use std::mem::{offset_of, size_of};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use libbpf_rs::{Link, Object};

use crate::bpf::arrivals::{OBJECT, types};
use crate::bpf::{self, Loader, map_name, record};
use crate::decode::address;
use crate::error::Error;
use crate::facts::Facts;
use crate::overhead;
use crate::plan::State;
use crate::registry::Need;
use crate::{always_on, plan};

/// `MAX_PORTS` and `MAX_ARRIVALS` of `bpf/arrivals.h`.
const MAX_PORTS: usize = 16;
const MAX_ARRIVALS: usize = 8;

/// Programs with their tracepoints. Arrivals come before reads, so that a read's arrivals are known.
const TRACEPOINTS: [(&str, &str); 2] =
    [("arrivals_data_ready", "sock/sk_data_ready"), ("arrivals_receive", "sock/sock_recv_length")];
/// The same for functions.
const FUNCTIONS: [(&str, &str); 2] =
    [("arrivals_sock_readable", "sock_def_readable"), ("arrivals_tcp_receive", "tcp_recvmsg")];

/// How to attach: a pure function of the host's facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How the programs attach.
    pub mechanism: always_on::Mechanism,
    /// Whether they can.
    pub state: State,
}

impl Plan {
    /// Chooses tracepoints, else functions.
    pub fn choose(facts: &Facts) -> Self {
        let by_tracepoints = permits(facts).and_then(|()| {
            TRACEPOINTS.iter().try_for_each(|(_, name)| plan::meets(Need::Typed(name), facts))
        });
        let Err(why) = by_tracepoints else {
            return Self { mechanism: always_on::Mechanism::Tracepoints, state: State::Use };
        };
        let by_functions = permits(facts)
            .and_then(|()| FUNCTIONS.iter().try_for_each(|(_, name)| plan::permits_function(name, facts)));
        let state = by_functions.map_or_else(|why_not| always_on::neither(&why, &why_not), |()| State::Use);
        Self { mechanism: always_on::Mechanism::Functions, state }
    }

    /// Programs with what they attach to.
    fn attachments(&self) -> [(&'static str, &'static str); 2] {
        match self.mechanism {
            always_on::Mechanism::Tracepoints => TRACEPOINTS,
            always_on::Mechanism::Functions => FUNCTIONS,
        }
    }

    /// Describes what it attaches to, for people.
    pub fn describe(&self) -> String {
        let names = self.attachments().map(|(_, name)| name).join(" ");
        match self.mechanism {
            always_on::Mechanism::Tracepoints => format!("BTF tracepoints {names}"),
            always_on::Mechanism::Functions => format!("functions {names}"),
        }
    }
}

/// Checks what all programs need: BPF, and BTF of the kernel's structures.
fn permits(facts: &Facts) -> Result<(), State> {
    plan::permits_bpf(facts)?;
    plan::meets(Need::Btf, facts)
}

/// A read of a connection.
#[derive(Clone, Debug)]
pub struct Read {
    /// The listener's end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// When the bytes had been read: `CLOCK_MONOTONIC`, nanoseconds.
    pub end_ns: u64,
    /// The TCP sequence number of the first byte.
    pub sequence: u32,
    /// Bytes that were read.
    pub bytes: u32,
    arrivals: [types::arrival; MAX_ARRIVALS],
    count: usize,
}

impl Read {
    /// Decodes an event of the programs; `None` if it is none.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let event: types::read_event = record(bytes, offset_of!(types::read_event, arrivals))?;
        let ends = event.ends;
        let (local, remote) = (address(ends.local, ends.local_port), address(ends.remote, ends.remote_port));
        let (end_ns, sequence, bytes) = (event.end_ns, event.sequence, event.bytes);
        // Later ones are of bytes that were not read.
        let arrivals = event.arrivals.iter().take(event.count as usize);
        let covering = arrivals.clone().position(|it| it.end.wrapping_sub(sequence) >= bytes);
        let count = covering.map_or(arrivals.len(), |last| last + 1);
        Some(Self { local, remote, end_ns, sequence, bytes, arrivals: event.arrivals, count })
    }

    /// When its bytes had arrived, in their order: times, and how many of its bytes were there by then. No time means
    /// that no arrival was seen: the data is older than the programs.
    pub fn arrivals(&self) -> impl Iterator<Item = (u64, u32)> {
        let arrived = |it: &types::arrival| (it.ns, it.end.wrapping_sub(self.sequence).min(self.bytes));
        self.arrivals.iter().take(self.count).map(arrived)
    }
}

/// Attached programs; detached on drop.
pub struct Session {
    // Dropped in this order: events stop, then the buffer goes, then the maps.
    _links: Vec<Link>,
    ring: bpf::Ring,
    object: Object,
}

impl Session {
    /// Loads and attaches the plan's programs.
    ///
    /// # Errors
    /// The plan has none, or the kernel refuses them.
    pub fn attach(plan: &Plan, ports: &[u16]) -> Result<Self, Error> {
        if plan.state != State::Use {
            return Err(Error::NothingToAttach);
        }
        let attachments = plan.attachments();
        let mut loader = Loader::open("brokerscope_ar", OBJECT)?;
        loader.choose_programs(|program| attachments.iter().any(|(name, _)| *name == program));
        let object = loader.load()?;
        set_ports(&object, ports);
        let ring = bpf::Ring::new(&object, map_name!(arrivals.ring))?;
        let mut links = Vec::new();
        for (name, _) in attachments {
            let link = bpf::program(&object, name)?.attach_trace();
            let refused =
                |error: libbpf_rs::Error| Error::Refused { program: name.to_owned(), why: error.to_string() };
            links.push(link.map_err(refused)?);
        }
        Ok(Self { _links: links, ring, object })
    }

    /// Follows other listeners.
    pub fn set_ports(&self, ports: &[u16]) {
        set_ports(&self.object, ports);
    }

    /// Delivers the reads since the last call. A read is delivered once it has returned to the broker.
    ///
    /// # Errors
    /// The ring buffer cannot be read.
    pub fn read(&mut self, mut out: impl FnMut(&Read)) -> Result<(), Error> {
        self.ring.read_all(|bytes| Read::decode(bytes).iter().for_each(&mut out))
    }

    /// Reads that were not delivered so far, because there was no memory or because the kernel skipped a program.
    pub fn lost(&self) -> u64 {
        let lost = bpf::shared_word(&self.object, offset_of!(types::bss, lost_reads));
        lost.map_or(0, |word| word.load(Ordering::Relaxed)) + overhead::skipped(&self.object)
    }
}

fn set_ports(object: &Object, ports: &[u16]) {
    let at = offset_of!(types::bss, control) + offset_of!(types::arrivals_control, ports);
    for slot in 0..MAX_PORTS {
        let port = ports.get(slot).copied().unwrap_or(0);
        if let Some(word) = bpf::shared_word(object, at + slot * size_of::<u64>()) {
            word.store(port.into(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FUNCTIONS, Plan, Read, TRACEPOINTS, types};
    use crate::always_on::Mechanism;
    use crate::facts::{Facts, Format, Functions};
    use crate::plan::State;

    fn able() -> Facts {
        let mut facts = Facts::survey();
        (facts.bpf_refused, facts.ring_buffer, facts.btf) = (None, true, true);
        facts.untyped_modules.clear();
        facts.tracepoints = TRACEPOINTS.map(|(_, name)| (name.to_owned(), Format::default())).into();
        let known = FUNCTIONS.map(|(_, name)| name.to_owned()).into();
        facts.functions = Functions { refused: Some("EPERM".to_owned()), known };
        facts
    }

    #[test]
    fn plan_takes_functions_only_without_tracepoints() {
        let mut facts = able();
        let plan = Plan::choose(&facts);
        assert_eq!((plan.mechanism, &plan.state), (Mechanism::Tracepoints, &State::Use));
        assert!(plan.describe().contains("sk_data_ready"));
        facts.tracepoints.remove("sock/sk_data_ready");
        let State::Missing { why, .. } = Plan::choose(&facts).state else { panic!("it is used") };
        assert!(why.contains("sk_data_ready") && why.contains("EPERM"), "{why}");
        facts.functions.refused = None;
        assert_eq!(Plan::choose(&facts), Plan { mechanism: Mechanism::Functions, state: State::Use });
        facts.btf = false;
        assert_ne!(Plan::choose(&facts).state, State::Use);
    }

    #[test]
    fn decodes_every_length_of_a_read() {
        let mut event = types::read_event {
            end_ns: 9,
            sequence: u32::MAX - 1,
            bytes: 10,
            count: 2,
            ..Default::default()
        };
        (event.arrivals[0].ns, event.arrivals[0].end) = (5, 2);
        (event.arrivals[1].ns, event.arrivals[1].end) = (7, 90);
        (event.arrivals[2].ns, event.arrivals[2].end) = (8, 95);
        let bytes = crate::bpf::as_bytes(&event);
        let head = size_of_val(&event) - size_of_val(&event.arrivals);
        assert!((0..head).all(|length| Read::decode(&bytes[..length]).is_none()));
        let read = Read::decode(&bytes[..head + 48]).unwrap();
        assert_eq!(read.arrivals().collect::<Vec<_>>(), [(5, 4), (7, 10)]);
        (event.bytes, event.count) = (1_000, u32::MAX);
        let read = Read::decode(crate::bpf::as_bytes(&event)).unwrap();
        assert_eq!(read.arrivals().count(), 8, "no more than there is memory for");
    }
}
