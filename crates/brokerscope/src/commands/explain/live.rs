//! Explains a broker's slow requests while it serves them, until it is time to stop. What is held is bounded; what could
//! not be read in time is dropped and said, at once and at the end.

use std::time::Duration;

use model::{Event, Nanos, Pid};
use watch::Memory;

use super::config;
use super::judged::Judged;
use super::timeliness::Timeliness;
use crate::cli::Explain;
use crate::grounds::Known;
use crate::grounds::live::{Asked, LiveGrounds, Taker};
use crate::output::{self, Pace};
use crate::stop::Stop;

/// The longest that is waited for an event.
const WAIT: Duration = Duration::from_millis(50);

/// Explains until it is time to stop.
pub(super) fn run(args: &Explain, interface: &str) -> anyhow::Result<()> {
    let stop = Stop::after(None)?;
    let asked = Asked {
        target: &args.target,
        filter: &args.filter,
        interface,
        jvm: args.jvm,
        memory: Memory::default(),
    };
    let grounds = LiveGrounds::start(asked)?;
    let stop = stop.within(args.duration);
    let until = if args.duration.is_some() { "" } else { "; Ctrl-C ends it" };
    let slow =
        format!("explaining what takes broker {} {} or longer{until}", grounds.pid(), args.slower_than);
    args.presentation.say(&slow);
    let config = config(args, grounds.config(args.slower_than));
    let timeliness = Timeliness::new(&config);
    let judged = Judged::new(args, config, grounds.watched(), Pace::HandedOn)?;
    let mut explained = Explained { judged, timeliness, args, pid: grounds.pid() };
    while !stop.asked() {
        grounds.take(WAIT, &mut explained)?;
        explained.hand_on(&grounds)?;
    }
    explained.finish(grounds)
}

struct Explained<'a> {
    judged: Judged<'a>,
    timeliness: Timeliness,
    args: &'a Explain,
    pid: Pid,
}

impl Explained<'_> {
    /// Hands on what was decided, and says where it is late.
    fn hand_on(&mut self, grounds: &LiveGrounds) -> anyhow::Result<()> {
        self.judged.hand_on(|ended| self.timeliness.told(grounds.now() - ended))?;
        if let Some(warning) = self.timeliness.warning(grounds.now()) {
            output::warn(&warning);
        }
        Ok(())
    }

    fn finish(mut self, grounds: LiveGrounds) -> anyhow::Result<()> {
        let rest = grounds.end(&mut self)?;
        let (unobservable, notes, losses) = (rest.unobservable, rest.notes, rest.losses);
        let lag = self.timeliness.conclude();
        self.judged.finish(Known { unobservable, notes, losses, lag, tallied: None })
    }
}

impl Taker for Explained<'_> {
    fn event(&mut self, event: Event) -> anyhow::Result<()> {
        if let Event::BrokerChange(change) = &event {
            self.args.presentation.say_change(change, self.pid);
        }
        if let Event::Loss(loss) = &event {
            self.timeliness.lost(loss);
        }
        self.judged.event(event)
    }

    fn tick(&mut self, now: Nanos) -> anyhow::Result<()> {
        self.judged.tick(now)
    }
}
