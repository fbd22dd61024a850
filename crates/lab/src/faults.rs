//! `faults`: causes injected on a real broker, recorded and explained by brokerscope as a user would, and how
//! often the explanation names what was injected: a confusion matrix.
//!
//! Each fault has a broker and its own recording; in it, it is injected once for every seed, with numbers drawn
//! from that seed. It knows nothing of how brokerscope reaches its verdicts: it runs `record` and `explain`.

mod broker;
mod cpu;
mod direct_reclaim;
mod disk;
mod follower_delayed;
mod ground_truth;
mod jvm;
mod kernel_stats;
mod matrix;
mod network;
mod plan;
mod result;
mod run;
mod score;
mod targets;
mod test_bed;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::experiment::print;
use crate::observer::Observer;
use crate::session::{Interrupt, Session, draw_seed};
use crate::site::Site;

pub use matrix::Form;
use matrix::Matrix;
use plan::Fault;
use result::FaultResult;
use run::{Group, Run, apart, together};
use targets::Bounds;

/// Those of the short form: on three brokers, in some two minutes. The others need their own broker each.
const SHORT: [&str; 12] = [
    "journal-stall",
    "slow-device",
    "dirty-throttling",
    "gc-pause",
    "cpu-quota",
    "quota",
    "trickled-request",
    "slow-reader",
    "head-of-line",
    "recompression",
    "two-causes",
    "quiet",
];

/// Every fault, in the order of the matrix.
fn all() -> Vec<Box<dyn Fault>> {
    vec![
        Box::new(disk::JournalStall),
        Box::new(disk::SlowDevice),
        Box::new(disk::DirtyThrottling),
        Box::<direct_reclaim::DirectReclaim>::default(),
        Box::new(disk::RollFsync),
        Box::new(disk::LockContention),
        Box::new(disk::ColdReads),
        Box::<broker::HandlersBusy>::default(),
        Box::new(broker::NetworkThreadsBusy),
        Box::<follower_delayed::FollowerDelay>::default(),
        Box::<jvm::GcPause>::default(),
        Box::<jvm::TimeToSafepoint>::default(),
        Box::<cpu::CpuQuota>::default(),
        Box::<cpu::CpuHog>::default(),
        Box::<broker::Quota>::default(),
        Box::new(network::TrickledRequest),
        Box::new(network::SlowReader),
        Box::<network::LossyLink>::default(),
        Box::new(network::HeadOfLine),
        Box::<broker::Recompression>::default(),
        Box::new(disk::XfsLog),
        Box::new(network::TwoCauses),
        Box::new(disk::Quiet),
    ]
}

/// What a fault prepared.
fn prepared<T>(made: Option<&T>) -> Result<&T, Error> {
    made.ok_or_else(|| Error::Unusable("the fault was not prepared".to_owned()))
}

/// Arguments of `faults`.
#[derive(Clone, Debug, clap::Args)]
pub struct FaultsArguments {
    /// How many times to plant each fault, each with other numbers
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,
    /// The first seed; a new one is drawn and printed if not given
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Plant these only
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Plant a dozen of them once each, several on one broker, and be content with what so few windows can show
    #[arg(long, conflicts_with = "seeds")]
    pub short: bool,
    /// Print the faults and end
    #[arg(long)]
    pub list: bool,
    /// Keep recordings and results in DIR; what is there already of this seed is not done again
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Explain and score the recordings kept in DIR again, and record nothing
    #[arg(long, requires = "keep")]
    pub again: bool,
    /// How the matrix is printed
    #[arg(long, value_enum, default_value_t = Form::Table)]
    pub format: Form,
}

/// Runs the suite; the matrix goes to stdout.
///
/// # Errors
/// Where a fault could not be run to its end; [`Error::Unusable`] where a target is missed.
pub fn run(arguments: &FaultsArguments, brokerscope: Option<&Path>) -> Result<(), Error> {
    let faults = chosen(arguments)?;
    if arguments.list {
        let listed: Vec<String> = faults
            .iter()
            .map(|fault| format!("{:<24} {}", fault.declaration().name, fault.declaration().story))
            .collect();
        return print(&(listed.join("\n") + "\n"));
    }
    let bounds = if arguments.short { Bounds::SHORT } else { Bounds::WANTED };
    let results = if arguments.again {
        score_again(arguments, &faults, brokerscope)?
    } else {
        inject(arguments, faults, brokerscope)?
    };
    let matrix = Matrix::of(&results, bounds);
    print(&matrix.printed(arguments.format))?;
    if let Some(directory) = &arguments.keep {
        matrix.keep(directory)?;
    }
    match targets::missed(&results, bounds) {
        0 => Ok(()),
        count => Err(Error::Unusable(format!("{count} target(s) missed"))),
    }
}

/// Runs each fault; one that cannot be run to its end does not keep the others from being run.
fn inject(
    arguments: &FaultsArguments,
    faults: Vec<Box<dyn Fault>>,
    brokerscope: Option<&Path>,
) -> Result<Vec<FaultResult>, Error> {
    let (session, observer) = Session::start(brokerscope)?;
    let steps = session.steps;
    let seed = arguments.seed.unwrap_or_else(draw_seed);
    // Recordings that nobody wants to keep go away with this.
    let site = Site::claim()?;
    let directory = arguments.keep.clone().unwrap_or_else(|| site.path().to_owned());
    let count = faults.len();
    let seeds = if arguments.short { 1 } else { arguments.seeds };
    let run = Run { seed, seeds, directory, is_noisy: arguments.short };
    steps.say(&format!("{count} fault(s), {seeds} time(s) each, --seed {seed}"));
    let mut results = Vec::new();
    let started = Instant::now();
    for group in if arguments.short { together(faults) } else { apart(faults) } {
        for (number, declared) in group.declarations().into_iter().enumerate() {
            let done = results.len();
            let left = time_left(started, done, count);
            let number = done + number + 1;
            steps.say(&format!("fault {number} of {count}, {}: {}{left}", declared.name, declared.story));
        }
        let group_started = Instant::now();
        let of_group = kept_or_run(&run, group, &session, &observer)?;
        for result in &of_group {
            steps.say(&format!("  {}: {}", result.fault, result.in_short()));
        }
        steps.took(group_started, "  done");
        results.extend(of_group);
    }
    Ok(results)
}

fn kept_or_run(
    run: &Run,
    group: Group,
    session: &Session,
    observer: &Observer,
) -> Result<Vec<FaultResult>, Error> {
    let names: Vec<&str> = group.declarations().iter().map(|declared| declared.name).collect();
    let kept = |name: &&str| {
        FaultResult::read(&run.directory_of(name)).filter(|kept| kept.is_of(run.seed, run.seeds))
    };
    if let Some(kept) = names.iter().map(kept).collect() {
        return Ok(kept);
    }
    run::run(run, group, session, observer).or_else(|error| {
        session.interrupt.check()?;
        Ok(names.iter().map(|name| FaultResult::failed(name, run, error.to_string())).collect())
    })
}

fn score_again(
    arguments: &FaultsArguments,
    faults: &[Box<dyn Fault>],
    brokerscope: Option<&Path>,
) -> Result<Vec<FaultResult>, Error> {
    let observer = Observer::new(brokerscope, &Interrupt::catch()?)?;
    let directory = arguments.keep.clone().unwrap_or_default();
    let kept = faults.iter().filter_map(|fault| {
        let directory = directory.join(fault.declaration().name);
        FaultResult::read(&directory).map(|kept| kept.explained_again(&directory, &observer))
    });
    kept.collect()
}

/// All, or those of these names; of the short form's, where that is asked for.
fn chosen(
    FaultsArguments { only: names, short, .. }: &FaultsArguments,
) -> Result<Vec<Box<dyn Fault>>, Error> {
    let faults = all();
    if let Some(name) =
        names.iter().find(|name| !faults.iter().any(|fault| fault.declaration().name == **name))
    {
        let known: Vec<&str> = faults.iter().map(|fault| fault.declaration().name).collect();
        return Err(Error::Unusable(format!("no fault is called {name}; there are {}", known.join(", "))));
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
    let is_meant = |name: &str| wanted(name) && (!short || SHORT.contains(&name));
    Ok(faults.into_iter().filter(|fault| is_meant(fault.declaration().name)).collect())
}

/// By how long those that are done took.
fn time_left(started: Instant, done: usize, count: usize) -> String {
    let Some(each) = u32::try_from(done).ok().filter(|done| *done > 0).map(|done| started.elapsed() / done)
    else {
        return String::new();
    };
    let left: Duration = each * u32::try_from(count - done).unwrap_or(u32::MAX);
    format!(" (about {} min left)", left.as_secs().div_ceil(60))
}
