//! `faults`: causes planted on a real broker, recorded and explained by brokerscope as a user would, and how
//! often the explanation names what was planted: a confusion matrix.
//!
//! Each fault has a broker and a recording of its own; in it, it is planted once for every seed, with numbers drawn
//! from that seed. It knows nothing of how brokerscope reaches its verdicts: it runs `record` and `explain`.

mod cold_reads;
mod cpu_hog;
mod cpu_quota;
mod direct_reclaim;
mod dirty_throttling;
mod disk;
mod door;
mod figures;
mod follower_delayed;
mod gc_pause;
mod group;
mod handlers_busy;
mod head_of_line;
mod journal_stall;
mod judged;
mod kept;
mod lock_contention;
mod lossy_link;
mod matrix;
mod mix;
mod network_threads_busy;
mod packed;
mod page_cache;
mod plan;
mod quiet;
mod quota;
mod recompression;
mod roll_fsync;
mod run;
mod scene;
mod score;
mod slow_device;
mod slow_reader;
mod targets;
mod time_to_safepoint;
mod told;
mod trickled_request;
mod two_causes;
mod xfs_log;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::clean;
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::observer::Observer;
use crate::random::draw_seed;
use crate::site::Site;
use crate::steps::Steps;

use group::Group;
use kept::Kept;
pub use matrix::Form;
use matrix::Matrix;
use plan::Fault;
use run::Run;
use scene::Props;
use targets::Bounds;

/// Those of the short form: on three brokers, in some two minutes. The others need a broker of their own each.
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
        Box::new(journal_stall::JournalStall),
        Box::new(slow_device::SlowDevice),
        Box::new(dirty_throttling::DirtyThrottling),
        Box::new(direct_reclaim::DirectReclaim::default()),
        Box::new(roll_fsync::RollFsync),
        Box::new(lock_contention::LockContention),
        Box::new(cold_reads::ColdReads),
        Box::<handlers_busy::HandlersBusy>::default(),
        Box::new(network_threads_busy::NetworkThreadsBusy),
        Box::<follower_delayed::FollowerDelayed>::default(),
        Box::<gc_pause::GcPause>::default(),
        Box::<time_to_safepoint::TimeToSafepoint>::default(),
        Box::<cpu_quota::CpuQuota>::default(),
        Box::new(cpu_hog::CpuHog),
        Box::<quota::Quota>::default(),
        Box::new(trickled_request::TrickledRequest),
        Box::new(slow_reader::SlowReader),
        Box::<lossy_link::LossyLink>::default(),
        Box::new(head_of_line::HeadOfLine),
        Box::<recompression::Recompression>::default(),
        Box::new(xfs_log::XfsLog),
        Box::new(two_causes::TwoCauses),
        Box::new(quiet::Quiet),
    ]
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
    /// Explain and score the recordings kept in DIR anew, and record nothing
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
        let listed: Vec<String> =
            faults.iter().map(|fault| format!("{:<24} {}", fault.name(), fault.story())).collect();
        return print(&(listed.join("\n") + "\n"));
    }
    let bounds = if arguments.short { Bounds::SHORT } else { Bounds::WANTED };
    let results = if arguments.again {
        score_again(arguments, &faults, brokerscope)?
    } else {
        plant(arguments, faults, brokerscope)?
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
fn plant(
    arguments: &FaultsArguments,
    faults: Vec<Box<dyn Fault>>,
    brokerscope: Option<&Path>,
) -> Result<Vec<Kept>, Error> {
    let steps = Steps::aloud();
    let interrupt = Interrupt::catch()?;
    clean::sweep(steps)?;
    let observer = Observer::new(brokerscope, &interrupt)?;
    let props = Props { interrupt, steps };
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
    let groups = if arguments.short { group::together(faults) } else { group::apart(faults) };
    for mut group in groups {
        for (number, fault) in group.faults.iter().enumerate() {
            let done = results.len();
            let (name, story) = (fault.name(), fault.story());
            let left = time_left(started, done, count);
            steps.say(&format!("fault {} of {count}, {name}: {story}{left}", done + number + 1));
        }
        let group_started = Instant::now();
        let of_group = kept_or_run(&run, &mut group, &props, &observer)?;
        for result in &of_group {
            steps.say(&format!("  {}: {}", result.fault, result.in_short()));
        }
        steps.took(group_started, "  done");
        results.extend(of_group);
    }
    Ok(results)
}

fn kept_or_run(run: &Run, group: &mut Group, props: &Props, observer: &Observer) -> Result<Vec<Kept>, Error> {
    let kept = |fault: &dyn Fault| {
        Kept::read(&run.directory_of(fault)).filter(|kept| kept.is_of(run.seed, run.seeds))
    };
    let all: Option<Vec<Kept>> = group.faults.iter().map(|fault| kept(fault.as_ref())).collect();
    if let Some(all) = all {
        return Ok(all);
    }
    match run::run(run, group, props, observer) {
        Err(error) => {
            props.interrupt.check()?;
            let failed = |name| Kept::failed(name, run, error.to_string());
            Ok(group.faults.iter().map(|fault| failed(fault.name())).collect())
        }
        result => result,
    }
}

fn score_again(
    arguments: &FaultsArguments,
    faults: &[Box<dyn Fault>],
    brokerscope: Option<&Path>,
) -> Result<Vec<Kept>, Error> {
    let observer = Observer::new(brokerscope, &Interrupt::catch()?)?;
    let directory = arguments.keep.clone().unwrap_or_default();
    let kept = faults.iter().filter_map(|fault| {
        let directory = directory.join(fault.name());
        Kept::read(&directory).map(|kept| kept.explained_again(&directory, &observer))
    });
    kept.collect()
}

/// All, or those of these names; of the short form's, where that is asked for.
fn chosen(
    FaultsArguments { only: names, short, .. }: &FaultsArguments,
) -> Result<Vec<Box<dyn Fault>>, Error> {
    let faults = all();
    if let Some(name) = names.iter().find(|name| !faults.iter().any(|fault| fault.name() == **name)) {
        let known: Vec<&str> = faults.iter().map(|fault| fault.name()).collect();
        return Err(Error::Unusable(format!("no fault is called {name}; there are {}", known.join(", "))));
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
    let is_meant = |name: &str| wanted(name) && (!short || SHORT.contains(&name));
    Ok(faults.into_iter().filter(|fault| is_meant(fault.name())).collect())
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

fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::system("write to stdout"))
}
