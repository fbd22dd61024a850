//! What could not be decided about a request, and which source would have shown it: for requests that stay
//! unobserved, and for verdicts that only the time supports. Knows which sources see which stage; does not judge
//! again.

use std::collections::BTreeMap;

use model::api_key::PRODUCE;
use model::{Cause, Confidence, Doubt, EvidenceKind, Request, Stage, TlsTotals, TlsTraffic, Verdict};

use crate::causes;
use crate::stages::response::UnseenFollowers;

/// Stages of less than this share of the latency are skipped: a tenth.
const SHARE_OF_LATENCY: i64 = 10;

/// What was watched, and why the rest was not.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Purposes of the plan (`socket-ops`) that could not be served. Each has the reason and a remedy.
    missing: BTreeMap<String, String>,
    only_packets: bool,
    /// TLS traffic so far.
    tls: TlsTotals,
}

impl Coverage {
    /// From a plan: its missing purposes, and why they are missing.
    pub fn new<'a>(missing: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let missing = missing.into_iter().map(|(what, why)| (what.to_owned(), why.to_owned())).collect();
        Self { missing, ..Self::default() }
    }

    /// A capture, which contains only packets.
    pub fn only_packets() -> Self {
        Self { only_packets: true, ..Self::default() }
    }

    /// Adds TLS traffic.
    pub fn add_tls(&mut self, traffic: &TlsTraffic) {
        self.tls.take(traffic);
    }

    /// The first of these purposes that could not be served, and what to do.
    fn find_missing(&self, purposes: &[&'static str]) -> Option<(&'static str, &str)> {
        purposes.iter().find_map(|purpose| Some((*purpose, self.missing.get(*purpose)?.as_str())))
    }

    /// Describes the first of these purposes that could not be served.
    fn describe_missing(&self, purposes: &[&'static str]) -> Option<String> {
        self.find_missing(purposes).map(|(purpose, why)| format!("{purpose}, which was not watched: {why}"))
    }
}

/// What remains open about a request; empty if its cause is well known.
pub fn doubts(verdict: &Verdict, watched: &Coverage) -> Vec<Doubt> {
    let mut doubts = if is_open(verdict) { open_doubts(verdict, watched) } else { Vec::new() };
    doubts.extend(tls_doubt(verdict, watched));
    doubts
}

/// The doubt whether `who` waited for followers that no source saw.
/// Returned if that may be a tenth of the request's time.
pub(crate) fn of_followers(request: &Request, waited: &UnseenFollowers, who: &str) -> Option<Doubt> {
    let partition = waited.partition.as_ref().map_or("a partition".to_owned(), ToString::to_string);
    let replicas = match waited.replicas {
        Some(replicas) => format!("it has {replicas} replicas"),
        None => "its replication factor is not known".to_owned(),
    };
    let time = waited.span.length();
    (time.0 > request.latency()?.0 / SHARE_OF_LATENCY).then(|| Doubt {
        stage: Stage::Unobserved,
        time,
        what: format!("whether {who} waited for followers of {partition}: no fetch of theirs was seen, and {replicas}"),
        tells: "the listener that brokers use among themselves: --port if it is another one; if it is TLS, a plaintext \
                one, or a recording of each follower"
            .to_owned(),
    })
}

/// What TLS hides: if its requests were visible, joins by order or by time might be different.
fn tls_doubt(verdict: &Verdict, watched: &Coverage) -> Option<Doubt> {
    if watched.tls.is_empty() || verdict.confidence == Confidence::Exact {
        return None;
    }
    let listeners = watched.tls.iter().map(|(listener, _)| listener.to_string()).collect::<Vec<_>>();
    let connections = watched.tls.total().connections;
    let what = format!(
        "what requests on TLS connections did meanwhile: {connections} on {} were not read",
        listeners.join(", ")
    );
    let stage = verdict.stages.longest();
    Some(doubt(
        verdict,
        stage,
        what,
        "the same clients on a plaintext listener: TLS cannot be read from packets",
    ))
}

fn open_doubts(verdict: &Verdict, watched: &Coverage) -> Vec<Doubt> {
    let unknown = verdict.cause == Cause::Unobserved;
    let mut doubts = Vec::new();
    if !unknown {
        let stage = verdict.stages.longest();
        let what = format!("that it was {}: only the time says so", verdict.cause);
        doubts.push(doubt(verdict, stage, what, causes::spec(verdict.cause).proof));
    }
    let open = long_stages(verdict).filter(|_| unknown);
    doubts.extend(open.filter_map(|stage| of_stage(verdict, stage, watched)));
    let lost = verdict.losses.iter().map(|loss| {
        let tells = "larger buffers (record --max-memory), or less to watch";
        doubt(verdict, Stage::Unobserved, format!("what was lost near it: {loss}"), tells)
    });
    doubts.extend(lost);
    doubts
}

/// Purposes of a plan that would have shown more of a request; empty if its cause is well known.
pub fn purposes(verdict: &Verdict) -> impl Iterator<Item = &'static str> + '_ {
    let of = |stage| match stage {
        Stage::Unobserved => UNSEEN,
        _ => MEANS.iter().find(|means| means.stage == stage).map_or(UNSEEN, |means| means.purposes),
    };
    long_stages(verdict).filter(|_| is_open(verdict)).flat_map(of).copied()
}

/// Whether nothing but the time, or nothing at all, shows why it was slow.
fn is_open(verdict: &Verdict) -> bool {
    verdict.cause == Cause::Unobserved || verdict.confidence <= Confidence::Weak
}

fn long_stages(verdict: &Verdict) -> impl Iterator<Item = Stage> + '_ {
    let least = verdict.stages.total().0 / SHARE_OF_LATENCY;
    verdict.stages.iter().filter(move |(_, time)| time.0 > least).map(|(stage, _)| stage)
}

fn doubt(verdict: &Verdict, stage: Stage, what: impl Into<String>, tells: impl Into<String>) -> Doubt {
    Doubt { stage, time: verdict.stages.of(stage), what: what.into(), tells: tells.into() }
}

/// The sources that see a stage, what is open without them, and what shows more.
struct Means {
    stage: Stage,
    what: &'static str,
    purposes: &'static [&'static str],
    more: &'static str,
}

const MEANS: &[Means] = &[
    Means {
        stage: Stage::NetworkIn,
        what: "whether the client sent slowly or the broker's receive buffer was full",
        purposes: &["requests", "socket-ops"],
        more: "a capture on the client's side",
    },
    Means {
        stage: Stage::HeadOfLine,
        what: "why the request ahead of it on its connection took so long",
        purposes: &["requests"],
        more: "explain --request with the correlation id of the request ahead",
    },
    Means {
        stage: Stage::Receive,
        what: "what its network thread did meanwhile",
        purposes: &["socket-ops", "off-cpu"],
        more: STACKS,
    },
    Means {
        stage: Stage::Queue,
        what: "what the request handlers were busy with",
        purposes: &["socket-ops", "lock-waits", "off-cpu"],
        more: STACKS,
    },
    Means {
        stage: Stage::Handler,
        what: "what its handler did: it ran on a CPU, or waited for a Java lock or condition",
        purposes: &["lock-waits", "off-cpu", "futex-waits"],
        more: STACKS,
    },
    Means {
        stage: Stage::Lock,
        what: "what the thread that held the lock did with it",
        purposes: &["lock-waits", "off-cpu", "futex-waits"],
        more: STACKS,
    },
    Means {
        stage: Stage::Append,
        what: "what the write waited for: it ran on a CPU, or the wait stands for no known cause",
        purposes: &["off-cpu", "kernel-stacks", "wakeups"],
        more: "io --slower-than 1ms --wide, which names the kernel function",
    },
    Means {
        stage: Stage::Remote,
        what: "which follower was late, and why",
        purposes: &["requests"],
        more: "record on the followers at the same time; --port if brokers use a separate listener",
    },
    Means {
        stage: Stage::Respond,
        what: "what its network thread did before it answered",
        purposes: &["socket-ops", "off-cpu", "disk-reads", "futex-waits"],
        more: STACKS,
    },
    Means {
        stage: Stage::NetworkOut,
        what: "whether the client read the response slowly or the broker wrote it slowly",
        purposes: &["socket-ops", "tcp-retransmits"],
        more: "a capture on the client's side",
    },
];

/// Purposes that show when a request was read, written and answered.
const UNSEEN: &[&str] = &["file-writes", "socket-ops", "lock-waits", "off-cpu"];

const STACKS: &str =
    "stacks --for 10s while requests are slow: where the broker's threads are, on and off the CPU";

fn of_stage(verdict: &Verdict, stage: Stage, watched: &Coverage) -> Option<Doubt> {
    if stage == Stage::Unobserved {
        let (what, tells) = describe_unobserved(verdict, watched);
        return Some(doubt(verdict, stage, what, tells));
    }
    let means = MEANS.iter().find(|means| means.stage == stage)?;
    let packets_do = means.purposes == ["requests"];
    let more = if watched.only_packets && !packets_do { RECORD } else { means.more };
    let tells = watched.describe_missing(means.purposes).unwrap_or_else(|| more.to_owned());
    Some(doubt(verdict, stage, means.what, tells))
}

const RECORD: &str = "brokerscope record -o DIR on the broker's host, as root: packets alone do not show it";

/// Describes the time that belongs to no stage: from the broker's read to its answer, as far as neither was seen.
fn describe_unobserved(verdict: &Verdict, watched: &Coverage) -> (&'static str, String) {
    let write_seen = verdict.evidence.iter().any(|seen| seen.kind == EvidenceKind::FileOp);
    let unwritten = verdict.request.api_key == PRODUCE && !write_seen;
    let [writes, sockets] = [&["file-writes"], &["socket-ops"]].map(|purpose| watched.find_missing(purpose));
    if watched.only_packets {
        ("what the broker did with it", RECORD.to_owned())
    } else if let Some((purpose, why)) = writes.filter(|_| unwritten) {
        ("when and where its records were written", format!("{purpose}: {why}"))
    } else if let Some((purpose, why)) = sockets {
        ("when the broker read it and when it answered", format!("{purpose}, which were not watched: {why}"))
    } else if unwritten {
        (
            "which write was of its records: no write has their CRC or the response's base offset",
            "a recording without losses that begins before the request; for a batch that the broker rewrites, also acks=1 \
             or all, because only then the response has a base offset"
                .to_owned(),
        )
    } else {
        (
            "to which stage that time belongs: no call that was seen read the request or wrote its response",
            watched
                .describe_missing(&["lock-waits", "off-cpu", "cpu-gaps"])
                .unwrap_or_else(|| STACKS.to_owned()),
        )
    }
}

#[cfg(test)]
mod tests {
    use model::{Cause, Confidence, Nanos, Stage, TlsTraffic, Verdict};

    use super::{Coverage, doubts};
    use crate::tests::unexplained;

    fn describe(verdict: &Verdict, watched: &Coverage) -> Vec<(Stage, String, String)> {
        doubts(verdict, watched).into_iter().map(|doubt| (doubt.stage, doubt.what, doubt.tells)).collect()
    }

    #[test]
    fn unexplained_verdict_names_the_missing_source() {
        let verdict = unexplained();
        assert_eq!(verdict.cause, Cause::Unobserved);
        let tells = |watched: &Coverage| describe(&verdict, watched).remove(0).2;
        assert!(tells(&Coverage::only_packets()).contains("brokerscope record"));
        let sockets = Coverage::new([("socket-ops", "no BTF; a kernel with CONFIG_DEBUG_INFO_BTF=y")]);
        assert!(tells(&sockets).starts_with("socket-ops, which were not watched: no BTF"));
        let locks = Coverage::new([("lock-waits", "run with --flight-recorder always")]);
        assert!(tells(&locks).ends_with("run with --flight-recorder always"));
        assert!(tells(&Coverage::default()).starts_with("stacks"));
        assert_eq!(doubts(&verdict, &locks)[0].time, verdict.stages.of(Stage::Unobserved));
    }

    #[test]
    fn each_stage_over_a_tenth_has_one_doubt() {
        let mut verdict = unexplained();
        verdict.stages.add(Stage::Queue, verdict.stages.total());
        verdict.stages.add(Stage::Respond, Nanos(1));
        let open: Vec<Stage> =
            doubts(&verdict, &Coverage::default()).iter().map(|doubt| doubt.stage).collect();
        assert_eq!(open, [Stage::Queue, Stage::Unobserved]);
    }

    #[test]
    fn strong_cause_has_no_doubt_and_weak_cause_names_its_proof() {
        let mut verdict = unexplained();
        verdict.cause = Cause::JournalCommit;
        verdict.confidence = Confidence::Strong;
        assert_eq!(describe(&verdict, &Coverage::default()), []);
        verdict.confidence = Confidence::Weak;
        let weak = describe(&verdict, &Coverage::default());
        assert_eq!(weak.len(), 1);
        assert!(weak[0].1.contains("journal-commit") && weak[0].2.contains("journal-handles"), "{weak:?}");
        verdict.losses = vec!["3 probe-events-dropped (ring full)".into()];
        assert_eq!(describe(&verdict, &Coverage::default()).len(), 2);
    }

    #[test]
    fn tls_leaves_a_doubt_unless_the_cause_is_exact() {
        let mut watched = Coverage::default();
        let listener = "10.0.0.1:9093".parse().unwrap();
        let (start, end) = (Nanos::ZERO, Nanos(1));
        watched.add_tls(&TlsTraffic { start, end, listener, connections: 3, bytes: 4_096 });
        let mut verdict = unexplained();
        let is_about_tls = |(_, what, _): &(Stage, String, String)| what.contains("3 on 10.0.0.1:9093");
        assert!(describe(&verdict, &watched).iter().any(is_about_tls));
        assert!(!describe(&verdict, &Coverage::default()).iter().any(is_about_tls));
        verdict.cause = Cause::JournalCommit;
        verdict.confidence = Confidence::Strong;
        assert_eq!(describe(&verdict, &watched).iter().filter(|doubt| is_about_tls(doubt)).count(), 1);
        verdict.confidence = Confidence::Exact;
        assert_eq!(describe(&verdict, &watched), []);
    }

    #[test]
    fn every_stage_has_a_doubt_if_it_is_long() {
        for stage in Stage::ALL {
            let mut verdict = unexplained();
            verdict.stages.add(stage, verdict.stages.total());
            let open = doubts(&verdict, &Coverage::only_packets());
            assert!(open.iter().any(|doubt| doubt.stage == stage), "{stage:?}");
        }
    }
}
