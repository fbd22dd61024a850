//! The engine, fed by whoever has events, and the output of its verdicts. Does not know where events come from.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use diagnose::{Config, Coverage, Engine};
use model::{Event, Nanos};
use recording::VerdictWriter;
use report::explanation::{
    ExplanationCsv, ExplanationJson, ExplanationReport, ExplanationText, RequestText, TopVerdicts,
};
use report::quantity::format_count_of;

use super::keep;
use crate::cli::Explain;
use crate::filter::Wanted;
use crate::grounds::Known;
use crate::options::Format;
use crate::output::{self, Pace};
use crate::request_log::SecondWitness;

/// How long verdicts may wait to be written with others.
const WRITTEN_AFTER: Duration = Duration::from_millis(100);

/// The engine and the output of its verdicts.
pub(super) struct Judged<'a> {
    engine: Engine,
    report: Box<dyn ExplanationReport>,
    args: &'a Explain,
    /// What a request must have taken to be told.
    slower_than: Nanos,
    /// What was, where it is asked what could not be decided.
    watched: Option<Coverage>,
    witness: Option<SecondWitness>,
    left_out: u64,
    /// Where verdicts are kept, where that was asked for.
    kept: Option<VerdictWriter>,
    pace: Pace,
    /// When verdicts were written out last.
    written: Option<Instant>,
    /// The ends of requests whose verdicts wait to be handed on.
    told: Vec<Nanos>,
}

impl<'a> Judged<'a> {
    /// Judges as configured; with [`Pace::AsTheyCome`] verdicts are shown when they are reached, with [`Pace::HandedOn`] by
    /// [`Self::hand_on`].
    pub(super) fn new(
        args: &'a Explain,
        config: Config,
        watched: Coverage,
        pace: Pace,
    ) -> anyhow::Result<Self> {
        // The one that was asked for may be quick.
        let slower_than = if args.request.is_some() { Nanos::ZERO } else { args.slower_than };
        Ok(Self {
            engine: Engine::new(config),
            report: report(args, pace),
            args,
            slower_than,
            watched: args.why_not.then_some(watched),
            witness: SecondWitness::read(&args.request_log)?,
            left_out: 0,
            kept: None,
            pace,
            written: None,
            told: Vec::new(),
        })
    }

    /// Keeps its verdicts too.
    pub(super) fn keeping(self, kept: Option<VerdictWriter>) -> Self {
        Self { kept, ..self }
    }

    pub(super) fn event(&mut self, event: Event) -> anyhow::Result<()> {
        self.engine.push(event);
        self.report_decided()
    }

    /// Says how late it is, where no event may say so for a while.
    #[cfg(feature = "live")]
    pub(super) fn tick(&mut self, now: Nanos) -> anyhow::Result<()> {
        self.engine.tick(now);
        self.report_decided()
    }

    /// Lets the verdicts that were reached since the last time be read; `told` learns when each one's request ended.
    #[cfg(feature = "live")]
    pub(super) fn hand_on(&mut self, told: impl FnMut(Nanos)) -> anyhow::Result<()> {
        if self.told.is_empty() {
            return Ok(());
        }
        self.report.flush().context(output::CANNOT_WRITE)?;
        self.told.drain(..).for_each(told);
        Ok(())
    }

    pub(super) fn finish(mut self, mut known: Known) -> anyhow::Result<()> {
        let summary = self.engine.finish();
        self.report_decided()?;
        if self.left_out > 0 {
            known.notes.push(format!(
                "{} slow requests that were not asked for are counted in the totals but not told",
                self.left_out
            ));
        }
        let agreement = self.witness.map(SecondWitness::conclude).map(|(agreement, more)| {
            known.notes.extend(more);
            agreement
        });
        let conclusion = known.conclude(summary, self.args.slower_than, agreement);
        self.report.finish(&conclusion).context(output::CANNOT_WRITE)?;
        let Some(kept) = self.kept else { return Ok(()) };
        let count = kept.finish().context(keep::CANNOT)?;
        self.args
            .presentation
            .say(&format!("{} kept in the recording's verdicts/", format_count_of(count, "verdict")));
        Ok(())
    }

    fn report_decided(&mut self) -> anyhow::Result<()> {
        let verdicts = self.engine.take_verdicts();
        if verdicts.is_empty() {
            return Ok(());
        }
        let wanted = Wanted::new(&self.args.filter, &self.args.selection, self.slower_than);
        for mut verdict in verdicts {
            if wanted.wants(&verdict.request) {
                if let Some(watched) = &self.watched {
                    verdict.doubts = diagnose::doubts(&verdict, watched);
                }
                if let Some(witness) = &mut self.witness {
                    witness.testify(&mut verdict);
                }
                if let Some(kept) = &mut self.kept {
                    kept.write(&verdict).context(keep::CANNOT)?;
                }
                if self.pace == Pace::HandedOn {
                    self.told.push(verdict.request.last_seen());
                }
                self.report.verdict(verdict).context(output::CANNOT_WRITE)?;
            } else {
                self.left_out += 1;
            }
        }
        if self.pace != Pace::HandedOn && self.written.is_none_or(|at| at.elapsed() >= WRITTEN_AFTER) {
            self.report.flush().context(output::CANNOT_WRITE)?;
            self.written = Some(Instant::now());
        }
        Ok(())
    }
}

fn report(args: &Explain, pace: Pace) -> Box<dyn ExplanationReport> {
    let out = output::stdout(pace);
    let look = args.presentation.look(pace);
    let all: Box<dyn ExplanationReport> = match (args.presentation.format, args.request) {
        (Format::Table, Some(number)) => Box::new(RequestText::new(out, &look, number)),
        (Format::Table, None) if pace != Pace::AllThere && args.top.is_none() => {
            Box::new(ExplanationText::as_they_come(out, &look))
        }
        (Format::Table, None) => Box::new(ExplanationText::new(out, &look)),
        (Format::Json, _) => Box::new(ExplanationJson(out)),
        (Format::Csv, _) => Box::new(ExplanationCsv::new(out)),
    };
    match args.top {
        Some(most) => Box::new(TopVerdicts::new(most as usize, all)),
        None => all,
    }
}
