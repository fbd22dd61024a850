//! `stacks`: where threads spend their time, as a flame graph and as folded text.

#[cfg(feature = "live")]
mod live;
mod recorded;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::Path;

use anyhow::Context as _;
use model::{CpuState, StackTime};
use page::flame_graph::{self, FoldedStacks, Header};
use report::quantity::format_count;

use crate::cli::Stacks;
use crate::failure::{self, Usage};
use crate::output::{self, Pace};

/// The kernel keeps so many bytes of a thread's name (`TASK_COMM_LEN` less the NUL).
const NAME_BYTES: usize = 15;

/// Shows where the time goes.
pub(crate) fn run(args: &Stacks) -> anyhow::Result<()> {
    let sinks = Sinks::of(args)?;
    args.presentation.say_unused("stacks", &[("--log-dir", !args.target.log_dirs.is_empty())]);
    let seen = match args.source.recording()? {
        Some(dir) => recorded::read(args, dir)?,
        None => live(args)?,
    };
    sinks.write(args, &seen)?;
    args.source.from.as_deref().map_or(Ok(()), |dir| failure::of_parts(dir, seen.damaged))
}

#[cfg(feature = "live")]
fn live(args: &Stacks) -> anyhow::Result<Seen> {
    live::take(args)
}

#[cfg(not(feature = "live"))]
fn live(_args: &Stacks) -> anyhow::Result<Seen> {
    Err(crate::options::cannot_watch().into())
}

/// What was seen, and what is to be said of it.
struct Seen {
    fold: FoldedStacks,
    about: Header,
    /// Parts of a recording that could not be read.
    damaged: u64,
}

/// Which stacks are meant.
struct Meant<'a> {
    args: &'a Stacks,
    /// Whether the kernel has left out what is not inside the system call.
    in_calls: bool,
}

impl Meant<'_> {
    fn admits(&self, spent: &StackTime) -> bool {
        let state = states(self.args).contains(&spent.state);
        let thread = self.args.thread.as_deref().is_none_or(|wanted| is_named(&spent.thread, wanted));
        let inside = self.in_calls || self.args.inside.as_ref().is_none_or(|it| it.holds_of(&spent.stack));
        state && thread && inside
    }
}

/// Whether a thread's name, of which the kernel knows only the beginning, may begin as is wanted.
fn is_named(name: &str, wanted: &str) -> bool {
    name.starts_with(wanted) || (name.len() >= NAME_BYTES && wanted.starts_with(name))
}

/// What to show.
fn states(args: &Stacks) -> &'static [CpuState] {
    match (args.on_cpu, args.off_cpu) {
        (true, false) => &[CpuState::On],
        (false, true) => &[CpuState::Off],
        _ => &[CpuState::On, CpuState::Off],
    }
}

/// What the notes say of the conditions that hold.
fn conditions(args: &Stacks) -> String {
    let inside = args.inside.as_ref().map(|inside| format!(" inside {inside}"));
    let thread = args.thread.as_ref().map(|thread| format!(" of threads {thread}*"));
    [inside, thread].into_iter().flatten().collect()
}

/// Where it is to be written: looked at before anything is measured.
struct Sinks<'a> {
    svg: Option<&'a Path>,
    folded: Option<&'a Path>,
}

impl<'a> Sinks<'a> {
    fn of(args: &'a Stacks) -> anyhow::Result<Self> {
        let (svg, folded) = (args.output.as_deref(), args.folded.as_deref());
        let dash = Path::new("-");
        match (svg, folded) {
            (None, None) if io::stdout().is_terminal() => {
                Err(Usage("say where to write the flame graph: -o FILE.svg, or --folded -".to_owned()).into())
            }
            (None, None) => Ok(Self { svg: Some(dash), folded }),
            _ if svg == folded => {
                Err(Usage("the flame graph and the folded stacks need a place each".to_owned()).into())
            }
            _ => {
                let files = [svg, folded].into_iter().flatten().filter(|path| *path != dash);
                files.into_iter().try_for_each(failure::check_place)?;
                Ok(Self { svg, folded })
            }
        }
    }

    fn write(&self, args: &Stacks, seen: &Seen) -> anyhow::Result<()> {
        let states = states(args);
        if let Some(path) = self.folded {
            write_to(path, |out| seen.fold.write_folded(out, states))?;
        }
        if let Some(path) = self.svg {
            write_to(path, |out| flame_graph::write_svg(out, &seen.fold, states, &seen.about))?;
        }
        if seen.fold.is_empty() {
            output::warn(&format!("no time was seen{}", conditions(args)));
        }
        let totals = states.iter().map(|&state| {
            let total = seen.fold.total(state);
            let (place, of) = match state {
                CpuState::On => ("on", "samples"),
                CpuState::Off => ("off", "intervals"),
            };
            format!("{} {place} CPU in {} {of}", total.time, format_count(total.count))
        });
        args.presentation.say(&totals.collect::<Vec<_>>().join(", "));
        for note in &seen.about.missing {
            args.presentation.say(note);
        }
        Ok(())
    }
}

fn write_to(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    if path == Path::new("-") {
        let mut out = output::stdout(Pace::AllThere);
        return write(&mut out).and_then(|()| out.flush()).context(output::CANNOT_WRITE);
    }
    let written = File::create(path).map(BufWriter::new).and_then(|mut out| {
        write(&mut out)?;
        out.flush()
    });
    written.with_context(|| format!("{}: cannot write", path.display()))
}

#[cfg(test)]
mod tests {
    use super::is_named;

    #[test]
    fn a_thread_is_named_by_what_the_kernel_kept_of_its_name() {
        assert!(is_named("data-plane-kafk", "data-plane"));
        assert!(is_named("data-plane-kafk", "data-plane-kafka-request-handler"));
        assert!(!is_named("data", "data-plane"), "a short name is whole");
        assert!(!is_named("GC Thread#0", "data"));
        assert!(is_named("", ""));
    }
}
