//! `explain`: why requests were slow, from a recording or, as far as packets say, from a capture.

use anyhow::Context as _;
use capture::Captures;
use diagnose::{Config, Engine, Watched};
use model::{Event, LossKind};
use recording::{Recording, Table};
use report::explanation::{
    Conclusion, ExplanationCsv, ExplanationJson, ExplanationReport, ExplanationText, Unobservable,
};

use crate::cli::Explain;
use crate::commands::record;
use crate::failure::Usage;
use crate::filter::Wanted;
use crate::flight_recordings::Beside;
use crate::input::Evidence;
use crate::options::Format;
use crate::output::{self, Pace};
use crate::packets;
use crate::request_log::SecondWitness;
use crate::stop::Stop;

/// What a recording without the JVM's own events lacks.
pub(super) const JVM: &str = "what the broker's JVM did (collections, queues, locks)";
pub(super) const NO_JVM_SOURCE: &str = "the recording holds nothing of the JVM; waits for a log's lock are inferred from the order of writes, and time \
     spent elsewhere in the JVM is unobserved";
/// What no recording holds.
pub(super) const QUEUES: &str = "when a request handler took a request out of the queue";
pub(super) const NO_QUEUE_SOURCE: &str = "nothing watches the queue itself; it is told from the work before by what the handler's thread is known to have done last";

/// Explains the slow requests.
pub(crate) fn run(args: &Explain) -> anyhow::Result<()> {
    packets::check_apis(&args.filter)?;
    match Evidence::open(&args.inputs)? {
        Evidence::Recording(recording) => from_recording(args, &recording),
        Evidence::Packets(_) if !args.jfr.is_empty() => {
            Err(Usage("--jfr goes with a recording: packets say nothing of threads".to_owned()).into())
        }
        Evidence::Packets(captures) => from_packets(args, captures),
    }
}

fn from_recording(args: &Explain, recording: &Recording) -> anyhow::Result<()> {
    let partial = record::partial::threshold(&recording.manifest().settings);
    // Of a partial recording, joins of requests that were not slow would find nothing and say nothing.
    let files_seen = partial.is_none() && recording.events_of(&[Table::FileOps]).next().is_some();
    let missing = record::missing(&recording.manifest().plan);
    let watched = Watched::new(missing.iter().map(|missing| (&*missing.what, &*missing.why)));
    let mut judged = Judged::new(args, files_seen, watched)?;
    let mut beside = Beside::read(&args.jfr, args.target.pid)?;
    let jvm_seen =
        !beside.is_empty() || recording.events_of(&[Table::LockWaits, Table::GcPauses]).next().is_some();
    for event in recording.events() {
        match event {
            Ok(event) => {
                while let Some(earlier) = beside.before(&event) {
                    judged.event(earlier)?;
                }
                judged.event(event)?;
            }
            // The part is named again in the notes; the other parts still tell.
            Err(error) => output::warn(&error.to_string()),
        }
    }
    while let Some(last) = beside.next() {
        judged.event(last)?;
    }
    let mut unobservable = missing;
    let (what, why) = if jvm_seen { (QUEUES, NO_QUEUE_SOURCE) } else { (JVM, NO_JVM_SOURCE) };
    unobservable.push(Unobservable { what: what.to_owned(), why: why.to_owned() });
    let mut notes = recording.notes();
    notes.extend_from_slice(beside.notes());
    notes.extend(record::notes(recording.manifest(), &args.presentation));
    if let Some(threshold) = partial.filter(|threshold| args.slower_than < *threshold) {
        notes.push(format!(
            "of requests that took less than {threshold} most of the time is therefore unobserved"
        ));
    }
    judged.finish(unobservable, notes, &[])
}

fn from_packets(args: &Explain, mut captures: Captures) -> anyhow::Result<()> {
    let stop = Stop::after(None)?;
    let mut analyzer = packets::analyzer(&args.filter, &args.target)?;
    let mut judged = Judged::new(args, false, Watched::only_packets())?;
    packets::read_files(&mut captures, &mut analyzer, &stop, &mut |request| {
        judged.event(Event::Request(Box::new(request)))
    })?;
    let counters = analyzer.counters();
    let losses = [
        (LossKind::PacketsDropped, counters.kernel_drops),
        (LossKind::StreamGapBytes, counters.gap_bytes),
        (LossKind::FramesUndecodable, counters.undecodable_frames),
    ];
    let unobservable = vec![Unobservable {
        what: "what the broker, its kernel and its disk did".to_owned(),
        why: "a packet capture holds no kernel events; `brokerscope record -o DIR` on the broker's host, as root, \
              collects them"
            .to_owned(),
    }];
    judged.finish(unobservable, packets::notes(&captures, false), &losses)?;
    packets::check(&captures)
}

/// The engine and the output of its verdicts.
struct Judged<'a> {
    engine: Engine,
    report: Box<dyn ExplanationReport>,
    args: &'a Explain,
    /// What was, where it is asked what could not be decided.
    watched: Option<Watched>,
    left_out: u64,
    witness: Option<SecondWitness>,
}

impl<'a> Judged<'a> {
    fn new(args: &'a Explain, file_ops_observed: bool, watched: Watched) -> anyhow::Result<Self> {
        let config = Config { file_ops_observed, ..Config::replay(args.slower_than) };
        let out = output::stdout(Pace::AllThere);
        let look = args.presentation.look(Pace::AllThere);
        let report: Box<dyn ExplanationReport> = match args.presentation.format {
            Format::Table => Box::new(ExplanationText::new(out, &look)),
            Format::Json => Box::new(ExplanationJson(out)),
            Format::Csv => Box::new(ExplanationCsv::new(out)),
        };
        let witness = SecondWitness::read(&args.request_log)?;
        let watched = args.why_not.then_some(watched);
        Ok(Self { engine: Engine::new(config), report, args, watched, left_out: 0, witness })
    }

    fn event(&mut self, event: Event) -> anyhow::Result<()> {
        self.engine.push(event);
        self.report_decided()
    }

    fn report_decided(&mut self) -> anyhow::Result<()> {
        let wanted = Wanted::new(&self.args.filter, &self.args.selection, self.args.slower_than);
        for mut verdict in self.engine.take_verdicts() {
            if wanted.wants(&verdict.request) {
                if let Some(watched) = &self.watched {
                    verdict.doubts = diagnose::doubts(&verdict, watched);
                }
                if let Some(witness) = &mut self.witness {
                    witness.testify(&mut verdict);
                }
                self.report.verdict(verdict).context(output::CANNOT_WRITE)?;
            } else {
                self.left_out += 1;
            }
        }
        Ok(())
    }

    fn finish(
        mut self,
        unobservable: Vec<Unobservable>,
        mut notes: Vec<String>,
        losses: &[(LossKind, u64)],
    ) -> anyhow::Result<()> {
        let mut summary = self.engine.finish();
        self.report_decided()?;
        summary.losses.extend(losses.iter().filter(|(_, count)| *count > 0));
        if self.left_out > 0 {
            notes.push(format!(
                "{} slow requests that were not asked for are counted in the totals but not told",
                self.left_out
            ));
        }
        let slower_than = self.args.slower_than;
        let agreement = self.witness.map(SecondWitness::conclude).map(|(agreement, more)| {
            notes.extend(more);
            agreement
        });
        let conclusion = Conclusion { summary, slower_than, unobservable, agreement, notes };
        self.report.finish(&conclusion).context(output::CANNOT_WRITE)
    }
}
