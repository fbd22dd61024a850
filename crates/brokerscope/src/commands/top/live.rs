//! Shows the broker that runs here.

use std::time::{Duration, Instant};

use analysis::recorder::plan;
use analysis::source::{Live as Source, LiveOptions};
use analysis::{Analysis, EventSource as _, Output, Step};
use model::Nanos;
use top::{BrokerInfo, Progress, State};

use super::{Feed, ScreenFilter, Top, show, stop};
use crate::output;

/// Longest wait for an event, and so for the handling of keys.
const WAIT: Duration = Duration::from_millis(40);

/// Shows it until the user quits.
pub(super) fn run(args: &Top) -> anyhow::Result<()> {
    let stop = stop()?;
    let options = LiveOptions {
        interface: Some(args.interface.name().to_owned()),
        request_log: args.log.request_log.clone(),
        wait: WAIT,
        ..args.scope.live_options(args.source.jvm)
    };
    let source = Source::start(options, None, None)?;
    let stop = stop.within(args.source.length.duration);
    let mut state = State::new(info(args, &source));
    let analysis = Analysis::new(source.config(args.scope.slow.slower_than));
    let mut live = Live { start: Instant::now(), source, analysis, filter: ScreenFilter::new(args) };
    let result = show(args, &mut live, &mut state, &stop);
    // From here on a second signal ends the process at once.
    stop.should_stop();
    live.source.end();
    while !matches!(live.source.next(), Step::End) {}
    output::log_notes(&live.source.gaps(args.scope.slow.slower_than).notes);
    result
}

fn info(args: &Top, source: &Source) -> BrokerInfo {
    let (pid, id) = (source.broker.pid, source.broker.node_id);
    BrokerInfo {
        broker: id
            .map_or_else(|| format!("broker, process {pid}"), |id| format!("broker {id}, process {pid}")),
        slower_than: args.scope.slow.slower_than,
        zone: args.scope.presentation.times.zone(),
        off_cpu: plan::sees(source.plan(), plan::OFF_CPU),
        unobservable: plan::missing(source.plan()),
    }
}

struct Live<'a> {
    source: Source,
    analysis: Analysis<'a>,
    filter: ScreenFilter<'a>,
    start: Instant,
}

impl Feed for Live<'_> {
    fn update(&mut self, state: &mut State) -> anyhow::Result<()> {
        let Self { source, analysis, filter, start } = self;
        let mut verdicts = Vec::new();
        let mut reached: Option<Nanos> = None;
        while reached.is_none() {
            let more = analysis.step(source, &mut |output| {
                match output {
                    Output::Event(event) if filter.event(event) => state.event(event),
                    Output::Verdict(verdict) if filter.request(&verdict.request) => verdicts.push(verdict),
                    Output::Pause(pause) => reached = Some(pause.now),
                    Output::Event(_) | Output::Verdict(_) => {}
                }
                Ok::<_, anyhow::Error>(())
            })?;
            if !more {
                break;
            }
        }
        let Some(now) = reached else { return Ok(()) };
        for verdict in verdicts {
            let lag = now - verdict.request.last_seen();
            state.verdict(verdict, Some(lag));
        }
        state.reach(now, Progress::Live { since: start.elapsed().into() });
        Ok(())
    }

    /// Zero, because `update` itself waits for events.
    fn key_timeout(&self) -> Duration {
        Duration::ZERO
    }

    fn pause(&mut self, _paused: bool) -> bool {
        true
    }

    fn multiply_speed(&mut self, _times: f64) {}
}
