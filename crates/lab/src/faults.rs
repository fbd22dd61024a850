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
use std::time::Instant;

use crate::error::Error;
use crate::observer::Observer;
use crate::session::{Interrupt, Session, chosen, draw_seed, print};
use crate::site::Site;

pub(crate) use matrix::Form;
use matrix::Matrix;
use plan::Fault;
use result::FaultResult;
use run::{Group, Run, groups};
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
const ALL: [&Fault; 23] = [
    &disk::JOURNAL_STALL,
    &disk::SLOW_DEVICE,
    &disk::DIRTY_THROTTLING,
    &direct_reclaim::DIRECT_RECLAIM,
    &disk::ROLL_FSYNC,
    &disk::LOCK_CONTENTION,
    &disk::COLD_READS,
    &broker::HANDLERS_BUSY,
    &broker::NETWORK_THREADS_BUSY,
    &follower_delayed::FOLLOWER_DELAY,
    &jvm::GC_PAUSE,
    &jvm::TIME_TO_SAFEPOINT,
    &cpu::CPU_QUOTA,
    &cpu::CPU_HOG,
    &broker::QUOTA,
    &network::TRICKLED_REQUEST,
    &network::SLOW_READER,
    &network::LOSSY_LINK,
    &network::HEAD_OF_LINE,
    &broker::RECOMPRESSION,
    &disk::XFS_LOG,
    &network::TWO_CAUSES,
    &disk::QUIET,
];

/// Arguments of `faults`.
#[derive(Clone, Debug, clap::Args)]
pub struct FaultsArguments {
    /// How many times to inject each fault, each with other numbers
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,
    /// The first seed; a new one is drawn and printed if not given
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Inject these only
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Inject a dozen of them once each, several on one broker, and be content with what so few windows can show
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
pub(crate) fn run(arguments: &FaultsArguments, brokerscope: Option<&Path>) -> Result<(), Error> {
    let mut faults = chosen(ALL.to_vec(), &arguments.only, "fault", |fault| fault.name)?;
    faults.retain(|fault| !arguments.short || SHORT.contains(&fault.name));
    if arguments.list {
        let listed = faults.iter().map(|fault| format!("{:<24} {}\n", fault.name, fault.story));
        return print(&listed.collect::<String>());
    }
    let bounds = if arguments.short { Bounds::SHORT } else { Bounds::WANTED };
    let results = match &arguments.keep {
        Some(directory) if arguments.again => score_again(directory, &faults, brokerscope)?,
        _ => inject(arguments, faults, brokerscope)?,
    };
    let matrix = Matrix::of(&results, bounds);
    print(&matrix.printed(arguments.format))?;
    if let Some(directory) = &arguments.keep {
        matrix.keep(directory)?;
    }
    match matrix.missed() {
        0 => Ok(()),
        count => Err(Error::Unusable(format!("{count} target(s) missed"))),
    }
}

/// Runs each fault; one that cannot be run to its end does not keep the others from being run.
fn inject(
    arguments: &FaultsArguments,
    faults: Vec<&'static Fault>,
    brokerscope: Option<&Path>,
) -> Result<Vec<FaultResult>, Error> {
    let session = Session::start(brokerscope)?;
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
    for group in groups(faults, arguments.short) {
        let left = time_left(started, results.len(), count);
        for (number, fault) in (results.len() + 1..).zip(&group.faults) {
            steps.say(&format!("fault {number} of {count}, {}: {}{left}", fault.name, fault.story));
        }
        let group_started = Instant::now();
        let of_group = kept_or_run(&run, &group, &session)?;
        for result in &of_group {
            steps.say(&format!("  {}: {}", result.fault, result.in_short()));
        }
        steps.took(group_started, "  done");
        results.extend(of_group);
    }
    Ok(results)
}

fn kept_or_run(run: &Run, group: &Group, session: &Session) -> Result<Vec<FaultResult>, Error> {
    let kept = |fault: &&Fault| {
        FaultResult::read(&run.directory_of(fault.name)).filter(|kept| kept.is_of(run.seed, run.seeds))
    };
    if let Some(kept) = group.faults.iter().map(kept).collect() {
        return Ok(kept);
    }
    run::run(run, group, session).or_else(|error| {
        session.interrupt.check()?;
        let failed = |fault: &&Fault| FaultResult::failed(fault.name, run, error.to_string());
        Ok(group.faults.iter().map(failed).collect())
    })
}

fn score_again(
    directory: &Path,
    faults: &[&Fault],
    brokerscope: Option<&Path>,
) -> Result<Vec<FaultResult>, Error> {
    let observer = Observer::new(brokerscope, &Interrupt::catch()?)?;
    let kept = faults.iter().filter_map(|fault| {
        let directory = directory.join(fault.name);
        FaultResult::read(&directory).map(|kept| kept.explained_again(&directory, &observer))
    });
    kept.collect()
}

/// By how long those that are done took.
fn time_left(started: Instant, done: usize, count: usize) -> String {
    let Some(each) = u32::try_from(done).ok().and_then(|done| started.elapsed().checked_div(done)) else {
        return String::new();
    };
    let left = each * u32::try_from(count - done).unwrap_or(u32::MAX);
    format!(" (about {} min left)", left.as_secs().div_ceil(60))
}
