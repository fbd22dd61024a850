//! Reads a recording's tables or a live broker in the same way. For commands that list or sum up events.

use std::path::{Path, PathBuf};

use analysis::recorder::plan;
use analysis::source::{ReadOptions, open_tables};
use analysis::{EventSource, Step};
use model::{Event, Nanos};
use recording::Table;

use crate::args::{Scope, Source};
use crate::file_access::FileAccess;
use crate::output::Pace;

/// Facts that are known before the first event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Input {
    /// The broker's log dirs.
    pub(crate) log_dirs: Vec<PathBuf>,
    /// The plan: which purposes were watched.
    pub(crate) plan: Vec<(String, String)>,
    /// When rows are written.
    pub(crate) pace: Pace,
    /// Duration of a recording, if it says so.
    pub(crate) span: Option<Nanos>,
    /// Whether a recorder left out events on purpose. It left out those that were not near anything slow.
    pub(crate) partial: bool,
}

impl Input {
    /// Whether a purpose was watched.
    pub(crate) fn sees(&self, purpose: &str) -> bool {
        plan::sees(&self.plan, purpose)
    }
}

/// Consumes events.
pub(crate) trait Reader {
    /// Adds an event, nearly in the order of [`Event::time`]; losses of a recording come first.
    fn event(&mut self, event: Event) -> anyhow::Result<()>;

    /// Ends the output, with notes on the data.
    fn finish(self, notes: &[String]) -> anyhow::Result<()>;
}

/// Reads the named recording, or watches the broker until it is time to stop.
pub(crate) fn read<R: Reader>(
    source: &Source,
    scope: &Scope,
    jfr: &[PathBuf],
    tables: &[Table],
    start: impl FnOnce(&Input) -> R,
) -> anyhow::Result<()> {
    let Some(directory) = source.recording()? else {
        #[cfg(feature = "live")]
        return live::read(source, scope, tables.contains(&Table::LockWaits), start);
        #[cfg(not(feature = "live"))]
        return crate::args::cannot_watch();
    };
    restrict(directory, scope, jfr)?;
    let options = ReadOptions { jfr: jfr.to_vec(), ..scope.read_options() };
    let mut recording = open_tables(directory, tables, &options)?;
    let mut reader = start(&Input {
        log_dirs: scope.target.log_dirs_or(&recording.log_dirs()),
        plan: recording.plan().to_vec(),
        pace: Pace::Buffered,
        span: recording.span(),
        partial: recording.partial_from().is_some(),
    });
    drive(&mut recording, &mut |event| reader.event(event))?;
    reader.finish(&recording.notes())?;
    Ok(recording.check()?)
}

/// Enters the sandbox for reading the recording.
fn restrict(directory: &Path, scope: &Scope, jfr: &[PathBuf]) -> anyhow::Result<()> {
    let log_dirs = &scope.target.log_dirs;
    let named = [directory].into_iter().chain(jfr.iter().chain(log_dirs).map(PathBuf::as_path));
    let access = FileAccess::of(named)?;
    // Message ids are read from the broker's segments, whose directories are only known from the recording.
    let is_unnamed = scope.filter.message_id.is_some() && log_dirs.is_empty();
    access.with(|access| if is_unnamed { access.read_everywhere() } else { access }).enter()
}

fn drive(
    source: &mut dyn EventSource,
    take: &mut dyn FnMut(Event) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    loop {
        match source.next() {
            Step::Event(event) => take(event)?,
            Step::Pause(_) => {}
            Step::End => return Ok(()),
        }
    }
}

#[cfg(feature = "live")]
mod live {
    use std::time::Duration;

    use analysis::Stop;
    use analysis::source::{Live, LiveOptions};
    use model::LossKind;
    use report::quantity::{format_count, format_count_of};
    use watch::{Jfr, WatchSummary};

    use super::{Event, EventSource as _, Input, Pace, Reader, drive};
    use crate::args::{Scope, Source};

    /// Longest wait for an event.
    const WAIT: Duration = Duration::from_millis(100);

    /// Watches the broker; with `locks`, also waits for locks, from the JVM or inferred from requests.
    pub(super) fn read<R: Reader>(
        source: &Source,
        scope: &Scope,
        locks: bool,
        start: impl FnOnce(&Input) -> R,
    ) -> anyhow::Result<()> {
        let options = scope.target.live_options(source.jvm);
        let mut live = Live::start(
            LiveOptions {
                // Only requests show from when their threads could have waited.
                interface: options.interface.filter(|_| locks),
                jvm: options.jvm.map(|when| if locks { when } else { Jfr::Never }),
                min_lock_wait: options.min_lock_wait.filter(|_| locks),
                cpu_samples_hz: 0,
                wait: WAIT,
                ..options
            },
            Some(Stop::after(None)?),
            source.length.duration,
        )?;
        if locks {
            warn_of_inference(&live);
        }
        let mut reader = start(&Input {
            log_dirs: scope.target.log_dirs_or(&live.broker.log_dirs),
            plan: live.plan().to_vec(),
            pace: Pace::Immediate,
            span: None,
            partial: false,
        });
        tracing::info!("watching broker {}{}", live.broker.pid, source.length.until());
        let mut notes = Vec::new();
        drive(&mut live, &mut |event| {
            notes.extend(format_loss(&event));
            reader.event(event)
        })?;
        notes.extend(live.ended.as_ref().map(format_errors).into_iter().flatten());
        reader.finish(&notes)
    }

    /// Warns if neither source in the JVM reports waits.
    fn warn_of_inference(live: &Live) {
        let unseen = live.unseen(&["lock-waits", "monitor-waits"]);
        let no_requests = live.unseen(&["requests"]);
        for line in unseen.iter().chain(&no_requests) {
            tracing::warn!("{line}");
        }
        if !unseen.is_empty() && no_requests.is_empty() {
            tracing::warn!(
                "waits for a partition's log are inferred from the order of its appends; other lock waits are not seen"
            );
        }
    }

    fn format_loss(event: &Event) -> Option<String> {
        // Dropped events are summed up at the end.
        let Event::Loss(loss) = event else { return None };
        (loss.kind != LossKind::EventsDropped)
            .then(|| format!("lost {} {}: {}", format_count(loss.count), loss.kind.as_str(), loss.detail))
    }

    fn format_errors(ended: &WatchSummary) -> Vec<String> {
        let dropped = (ended.dropped > 0).then(|| {
            format!(
                "{} dropped: they came faster than they could be shown",
                format_count_of(ended.dropped, "event")
            )
        });
        let early = ended.kernel.iter().map(|error| format!("the probes ended early: {error}"));
        early.chain(ended.trouble.iter().cloned()).chain(dropped).collect()
    }
}
