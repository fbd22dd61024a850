//! Runs the engine over a source: verdicts with their doubts and the cross-check with Kafka's request log.

use diagnose::{Config, Coverage, Engine, Summary};
use model::{Event, Request, Verdict};
use report::explanation::Conclusion;

use crate::background::{self, Totals};
use crate::source::Pause;
use crate::{CrossCheck, Error, EventSource, Gaps, Step};

/// The next output of an analysis.
#[expect(clippy::large_enum_variant, reason = "passed on at once, never stored")]
pub enum Output<'e> {
    /// An event that the engine has not processed yet.
    Event(&'e Event),
    /// A verdict on a requested request.
    Verdict(Verdict),
    /// A pause of a live watch.
    Pause(Pause),
}

/// An analysis of the events of one source.
pub struct Analysis<'a> {
    engine: Engine,
    /// The engine's configuration.
    pub config: Config,
    /// Coverage of the source, if doubts are to be added to each verdict.
    pub doubts: Option<Coverage>,
    /// Kafka's request log, if its times are to be added to each verdict.
    pub cross_check: Option<CrossCheck>,
    /// Selects requests; verdicts on all others are only counted.
    pub filter: Box<dyn Fn(&Request) -> bool + 'a>,
    left_out: u64,
    /// The engine's totals, after the end.
    pub summary: Summary,
}

impl Analysis<'_> {
    /// Creates an analysis of all requests that are slow by this configuration.
    pub fn new(config: Config) -> Self {
        Self {
            engine: Engine::new(config.clone()),
            config,
            doubts: None,
            cross_check: None,
            filter: Box::new(|_| true),
            left_out: 0,
            summary: Summary::default(),
        }
    }

    /// Analyses a source to its end.
    ///
    /// # Errors
    /// Errors of `take`.
    pub fn run<E>(
        &mut self,
        source: &mut dyn EventSource,
        take: &mut dyn FnMut(Output<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while self.step(source, take)? {}
        Ok(())
    }

    /// Like [`Self::run`], and passes every request and every other event to `totals`: on other threads if the source was
    /// narrowed to a selection.
    ///
    /// # Errors
    /// An error of `take`, or the events for the totals cannot be read.
    pub fn run_with<E: From<Error>>(
        &mut self,
        source: &mut dyn EventSource,
        selected: bool,
        totals: Totals<'_>,
        take: &mut dyn FnMut(Output<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if selected {
            return background::read(source, totals, |source| self.run(source, take));
        }
        let Totals { requests, others } = totals;
        let mut others = others;
        self.run(source, &mut |output| {
            if let Output::Event(event) = &output {
                match (event, &mut others) {
                    (Event::Request(request), _) => requests(&[(&**request).into()]),
                    (Event::SocketOp(_) | Event::TcpEvent(_), _) | (_, None) => {}
                    (_, Some(others)) => others(event),
                }
            }
            take(output)
        })
    }

    /// Analyses the next step and returns whether there are more.
    ///
    /// # Errors
    /// Errors of `take`.
    pub fn step<E>(
        &mut self,
        source: &mut dyn EventSource,
        take: &mut dyn FnMut(Output<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        match source.next() {
            Step::Event(event) => {
                if let (Event::TlsTraffic(traffic), Some(watched)) = (&event, &mut self.doubts) {
                    watched.add_tls(traffic);
                }
                take(Output::Event(&event))?;
                self.engine.push(event);
                self.hand_out(take)?;
            }
            Step::Pause(pause) => {
                if pause.drained {
                    self.engine.tick(pause.now);
                    self.hand_out(take)?;
                }
                take(Output::Pause(pause))?;
            }
            Step::End => {
                self.summary = self.engine.finish();
                self.hand_out(take)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn hand_out<E>(&mut self, take: &mut dyn FnMut(Output<'_>) -> Result<(), E>) -> Result<(), E> {
        for mut verdict in self.engine.take_verdicts() {
            if !(self.filter)(&verdict.request) {
                self.left_out += 1;
                continue;
            }
            if let Some(watched) = &self.doubts {
                let doubts = diagnose::doubts(&verdict, watched);
                verdict.doubts.extend(doubts);
            }
            if let Some(cross_check) = &mut self.cross_check {
                cross_check.apply(&mut verdict);
            }
            take(Output::Verdict(verdict))?;
        }
        Ok(())
    }

    /// Combines the totals with the gaps of the source.
    pub fn finish(self, mut gaps: Gaps) -> Conclusion {
        if self.left_out > 0 {
            gaps.notes.push(format!(
                "{} other slow requests are counted in the totals but not shown",
                self.left_out
            ));
        }
        let agreement = self.cross_check.map(CrossCheck::finish).map(|(agreement, notes)| {
            gaps.notes.extend(notes);
            agreement
        });
        let conclusion = gaps.conclude(self.summary, &self.config, agreement);
        Conclusion { asks_why_not: self.doubts.is_some(), ..conclusion }
    }
}
