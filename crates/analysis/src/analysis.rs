//! The engine over a source: verdicts with their doubts and the cross-check with Kafka's request log.

use diagnose::{Config, Coverage, Engine, Summary};
use model::{Event, Request, Verdict};
use report::explanation::Conclusion;

use crate::background::{self, Totals};
use crate::source::Pause;
use crate::{CrossCheck, Error, EventSource, Gaps, Step};

/// What an analysis has next.
#[expect(clippy::large_enum_variant, reason = "handed on at once, never kept")]
pub enum Output<'e> {
    /// An event, before the engine gets it.
    Event(&'e Event),
    /// A verdict on a request that was asked for.
    Verdict(Verdict),
    /// A pause of a live watch.
    Pause(Pause),
}

/// Analyses the events of one source.
pub struct Analysis<'a> {
    engine: Engine,
    /// How the engine works.
    pub config: Config,
    /// What was watched, if each verdict is to say what could not be decided.
    pub doubts: Option<Coverage>,
    /// Kafka's request log, if each verdict is to have its times.
    pub cross_check: Option<CrossCheck>,
    /// Which requests are asked for; verdicts on others are counted.
    pub wanted: Box<dyn Fn(&Request) -> bool + 'a>,
    left_out: u64,
    /// The engine's totals, after the end.
    pub summary: Summary,
}

impl Analysis<'_> {
    /// An analysis of all requests that this configuration calls slow.
    pub fn new(config: Config) -> Self {
        Self {
            engine: Engine::new(config.clone()),
            config,
            doubts: None,
            cross_check: None,
            wanted: Box::new(|_| true),
            left_out: 0,
            summary: Summary::default(),
        }
    }

    /// Analyses a source to its end.
    ///
    /// # Errors
    /// The taker's.
    pub fn run<E>(
        &mut self,
        source: &mut dyn EventSource,
        take: &mut dyn FnMut(Output<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while self.step(source, take)? {}
        Ok(())
    }

    /// The same; totals get every request and other event too, on other threads where the source was narrowed to a
    /// selection.
    ///
    /// # Errors
    /// The taker's; or totals cannot be read.
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

    /// Analyses the next step; whether there is more.
    ///
    /// # Errors
    /// The taker's.
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
            if !(self.wanted)(&verdict.request) {
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

    /// The totals, beside what the source could not see.
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
