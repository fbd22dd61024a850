//! Reads the time by stack out of a recording.

use std::path::Path;

use model::{CpuState, Event, Nanos, StackTime};
use page::flame_graph::{FoldedStacks, Header};
use recording::Table;

use super::{Meant, Seen, conditions, states};
use crate::cli::Stacks;
use crate::input;
use crate::output;

/// What a recording holds of time off the CPU.
const ABSENCES: &str =
    "off CPU: what the recording holds, which is absences within operations and long waits after";

pub(super) fn read(args: &Stacks, dir: &Path) -> anyhow::Result<Seen> {
    let recording = input::open_recording(dir)?;
    let meant = Meant { args, in_calls: false };
    let mut read = Read::default();
    let mut damaged = 0;
    for event in recording.events_of(&[Table::CpuSamples, Table::OffCpu]) {
        match event {
            Ok(event) => read.event(&event, &meant),
            // The other parts still tell.
            Err(error) => {
                damaged += 1;
                output::warn(&error.to_string());
            }
        }
    }
    let broker = recording.manifest().broker.as_ref();
    let broker = broker.map_or_else(|| "the broker".to_owned(), |broker| format!("broker {}", broker.pid));
    let mut missing = recording.notes();
    if states(args).contains(&CpuState::On) && read.samples == 0 {
        missing.push("the recording holds no samples of time on the CPU".to_owned());
    }
    let about = Header {
        title: format!("Where {broker} spent its time{}", conditions(args)),
        notes: vec![read.how(args, dir)],
        missing,
    };
    Ok(Seen { fold: read.fold, about, damaged })
}

/// What was found so far.
#[derive(Default)]
struct Read {
    fold: FoldedStacks,
    samples: u64,
    period: Option<Nanos>,
    span: Option<(Nanos, Nanos)>,
}

impl Read {
    fn event(&mut self, event: &Event, meant: &Meant<'_>) {
        let mut spent = match event {
            Event::CpuSample(sample) => {
                self.samples += 1;
                self.period.get_or_insert(sample.period);
                StackTime::from(&**sample)
            }
            Event::OffCpu(interval) if interval.length() >= meant.args.min => StackTime::from(&**interval),
            _ => return,
        };
        let (first, last) = self.span.unwrap_or((event.time(), event.time()));
        self.span = Some((first.min(event.time()), last.max(event.time())));
        spent.tid = spent.tid.filter(|_| meant.args.each_thread);
        if meant.admits(&spent) {
            self.fold.add(&spent);
        }
    }

    fn how(&self, args: &Stacks, dir: &Path) -> String {
        let mut parts = vec![format!("from {}", dir.display())];
        parts.extend(self.span.map(|(first, last)| format!("{} of observation", last - first)));
        if let Some(period) = self.period.filter(|_| states(args).contains(&CpuState::On)) {
            let hz = 1e9 / period.0.max(1) as f64;
            parts.push(format!("on CPU: {hz:.0} samples a second on each CPU"));
        }
        if states(args).contains(&CpuState::Off) {
            parts.push(ABSENCES.to_owned());
        }
        parts.join("; ")
    }
}
