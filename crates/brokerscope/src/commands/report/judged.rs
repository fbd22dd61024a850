//! A recording or a capture on its way to a page: events to the engine, and to what collects them. Where verdicts depend on little of
//! a recording, the engine is told no more than that, and sums are made on other threads meanwhile.

use diagnose::{Engine, Summary, Watched};
use model::{Event, Nanos, Request};
use report::explanation::Conclusion;
use report::page::{About, Collector, RecordingData};

use crate::apart;
use crate::comparing::Counted;
use crate::grounds::{Grounds, Known};
use crate::near_slow::NearSlow;

/// What was collected of one input, all of which was read.
pub(crate) struct Judged {
    collector: Collector,
    summary: Summary,
    slower_than: Nanos,
}

/// The engine, with what its verdicts need to be told.
struct Judging<'c> {
    engine: Engine,
    watched: Watched,
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
        let (collector, summary) = match near_slow {
            Some(near_slow) => in_parts(grounds, near_slow, collector, judging)?,
            None => at_once(grounds, collector, judging)?,
        };
        Ok(Self { collector, summary, slower_than })
    }

    /// Puts it together, with what is known beside it.
    pub(crate) fn finish(self, about: About, known: Known) -> (RecordingData, Conclusion) {
        let conclusion = known.conclude(self.summary, self.slower_than, None);
        (self.collector.finish(about, &conclusion), conclusion)
    }
}

/// When a recording began, where it says so.
fn began(grounds: &Grounds) -> Option<Nanos> {
    let started = Nanos(grounds.recording()?.manifest().started_ns);
    (started > Nanos::ZERO).then_some(started)
}

fn at_once(
    grounds: &mut Grounds,
    mut collector: Collector,
    mut judging: Judging<'_>,
) -> anyhow::Result<(Collector, Summary)> {
    grounds.read(&mut |event| {
        if let (Some(counted), Event::Request(request)) = (judging.counted, &event) {
            counted.requests(std::slice::from_ref(request));
        }
        collector.event(&event);
        judging.engine.push(event);
        judging.decided(|verdict| collector.verdict(verdict));
        Ok(())
    })?;
    let summary = judging.engine.finish();
    judging.decided(|verdict| collector.verdict(verdict));
    Ok((collector, summary))
}

fn in_parts(
    grounds: &mut Grounds,
    near_slow: NearSlow,
    collector: Collector,
    mut judging: Judging<'_>,
) -> anyhow::Result<(Collector, Summary)> {
    let (mut traffic, mut work, mut cases) = collector.part();
    let counted = judging.counted;
    let requests = &mut |requests: &[Request]| {
        if let Some(counted) = counted {
            counted.requests(requests);
        }
        for request in requests {
            traffic.request(request);
        }
    };
    apart::read(grounds, near_slow, requests, Some(&mut |event| work.event(event)), &mut |event| {
        cases.event(&event);
        judging.engine.push(event);
        judging.decided(|verdict| cases.verdict(verdict));
        Ok(())
    })?;
    let summary = judging.engine.finish();
    judging.decided(|verdict| cases.verdict(verdict));
    Ok((Collector::of(traffic, work, cases), summary))
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
