//! A recording or a capture on its way to a page: events to the engine, and to what collects them. Where verdicts depend on little of
//! a recording, the engine is told no more than that, and sums are made on other threads meanwhile. What rules advise goes with it.

use std::path::Path;

use advise::{Advice, Inputs};
use diagnose::{Coverage, Engine, Summary};
use model::{Event, Nanos, Request};
use page::{Collector, RecordingData, RecordingInfo};
use report::advice::{AdviceReport, Views};
use report::explanation::Conclusion;

use crate::advising::{self, Advising};
use crate::apart;
use crate::comparing::Counted;
use crate::grounds::{Grounds, Known};
use crate::near_slow::NearSlow;

/// Why nothing is known of thread dumps.
const NO_DUMPS: &str = "a page is made without them: see advise --dump";

/// Why nothing is known of what is read and not sent.
const NO_SOCKETS: &str = "a page is made without what happened to sockets: see advise";

/// What was collected of one input, all of which was read.
pub(crate) struct Judged {
    sums: Sums,
    summary: Summary,
    slower_than: Nanos,
}

/// What is made of everything.
struct Sums {
    collector: Collector,
    advising: Advising,
}

/// The engine, with what its verdicts need to be told.
struct Judging<'c> {
    engine: Engine,
    watched: Coverage,
    counted: Option<&'c Counted<'c>>,
}

impl Judged {
    /// Reads all of it. What is compared is counted too.
    pub(super) fn read(
        grounds: &mut Grounds,
        slower_than: Nanos,
        counted: Option<&Counted<'_>>,
    ) -> anyhow::Result<Self> {
        let near_slow = began(grounds).and_then(|_| grounds.near_slow(&grounds.config(slower_than)));
        Self::of(grounds, near_slow, slower_than, counted)
    }

    /// The same, in parts where what is near slow requests is given.
    pub(crate) fn of(
        grounds: &mut Grounds,
        near_slow: Option<NearSlow>,
        slower_than: Nanos,
        counted: Option<&Counted<'_>>,
    ) -> anyhow::Result<Self> {
        let engine = Engine::new(grounds.config(slower_than));
        let judging = Judging { engine, watched: grounds.watched(), counted };
        let collector = Collector::new(began(grounds), slower_than);
        let sums = Sums { collector, advising: Advising::without_files() };
        let (sums, summary) = match near_slow {
            Some(near_slow) => in_parts(grounds, near_slow, sums, judging)?,
            None => at_once(grounds, sums, judging)?,
        };
        Ok(Self { sums, summary, slower_than })
    }

    /// Puts it together, with what is known beside it. `input` is what the user named.
    pub(crate) fn finish(
        self,
        about: RecordingInfo,
        known: Known,
        input: &Path,
        grounds: &Grounds,
    ) -> (RecordingData, Conclusion) {
        let Sums { collector, advising } = self.sums;
        let requests = self.summary.requests > 0;
        let conclusion = known.conclude(self.summary, self.slower_than, None);
        let inputs = advising::inputs(advising, requests, input, grounds.recording(), self.slower_than);
        let inputs = Inputs { dumps: Err(NO_DUMPS.into()), unsent: Err(NO_SOCKETS.into()), ..inputs };
        let advised = advised(&inputs, &about.name);
        (collector.finish(about, &conclusion).advised(&advised), conclusion)
    }
}

/// What rules say of it. Notes stand elsewhere on the page.
fn advised(inputs: &Inputs, subject: &str) -> AdviceReport {
    AdviceReport {
        subject: subject.to_owned(),
        watched: inputs.costs.as_ref().ok().map(|costs| (costs.window, costs.slow())),
        slower_than: inputs.slower_than,
        advice: Advice::of(inputs),
        views: Views::default(),
        comparison: inputs.comparison(),
        all: true,
        notes: Vec::new(),
    }
}

/// When a recording began, where it says so.
fn began(grounds: &Grounds) -> Option<Nanos> {
    let started = Nanos(grounds.recording()?.manifest().started_ns);
    (started > Nanos::ZERO).then_some(started)
}

fn at_once(
    grounds: &mut Grounds,
    mut sums: Sums,
    mut judging: Judging<'_>,
) -> anyhow::Result<(Sums, Summary)> {
    grounds.read(&mut |event| {
        if let (Some(counted), Event::Request(request)) = (judging.counted, &event) {
            counted.requests(std::slice::from_ref(request));
        }
        sums.collector.event(&event);
        sums.advising.event(&event);
        judging.engine.push(event);
        judging.decided(|verdict| sums.verdict(verdict));
        Ok(())
    })?;
    let summary = judging.engine.finish();
    judging.decided(|verdict| sums.verdict(verdict));
    Ok((sums, summary))
}

impl Sums {
    fn verdict(&mut self, verdict: &model::Verdict) {
        self.collector.verdict(verdict);
        self.advising.verdict(verdict);
    }
}

fn in_parts(
    grounds: &mut Grounds,
    near_slow: NearSlow,
    sums: Sums,
    mut judging: Judging<'_>,
) -> anyhow::Result<(Sums, Summary)> {
    let Sums { collector, advising } = sums;
    let (mut traffic, mut work, mut cases) = collector.part();
    let Advising { traffic: mut of_traffic, work: mut of_work, mut costs } = advising;
    let counted = judging.counted;
    let requests = &mut |requests: &[Request]| {
        if let Some(counted) = counted {
            counted.requests(requests);
        }
        for request in requests {
            traffic.request(request);
            of_traffic.request(request);
        }
    };
    let others = &mut |event: &Event| {
        work.event(event);
        of_work.event(event);
    };
    apart::read(grounds, near_slow, requests, Some(others), &mut |event| {
        cases.event(&event);
        judging.engine.push(event);
        judging.decided(|verdict| {
            cases.verdict(verdict);
            costs.add(verdict);
        });
        Ok(())
    })?;
    let summary = judging.engine.finish();
    judging.decided(|verdict| {
        cases.verdict(verdict);
        costs.add(verdict);
    });
    let advising = Advising { traffic: of_traffic, work: of_work, costs };
    Ok((Sums { collector: Collector::of(traffic, work, cases), advising }, summary))
}

impl Judging<'_> {
    fn decided(&mut self, mut take: impl FnMut(&model::Verdict)) {
        let verdicts = self.engine.take_verdicts();
        if let Some(counted) = self.counted {
            counted.verdicts(&verdicts);
        }
        for mut verdict in verdicts {
            verdict.doubts = diagnose::doubts(&verdict, &self.watched);
            take(&verdict);
        }
    }
}
