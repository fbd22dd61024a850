//! `faults`: causes injected on a real broker, recorded and explained by brokerscope as a user would, and how
//! often the explanation names what was injected: a confusion matrix.
//!
//! Each fault has a broker and its own recording; in it, it is injected once for every seed, with numbers drawn
//! from that seed. It knows nothing of how brokerscope reaches its verdicts: it runs `record` and `explain`.

mod accuracy;
mod broker;
mod coordinators;
mod disk;
mod ground_truth;
mod host;
mod jvm;
mod matrix;
mod network;
mod plan;
mod replication;
mod result;
mod score;
mod stops;
mod test_bed;
mod tiered;
pub(crate) use matrix::Form;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fastrand::Rng;
use ground_truth::{HostObservations, KernelStats, Observation};
use matrix::Matrix;
use plan::{Fault, Tools, VolumeKind, Window, inject, inject_until_shown};
use result::{Bounds, FaultResult, RECORDING};
use test_bed::{SETTLE, TestBed};

use crate::error::{Error, Result};
use crate::files;
use crate::session;
use crate::session::{Observer, chosen, draw_seed, has_hypervisor, interrupt, print, say, took};
use crate::site::Site;

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
const ALL: [&Fault; 37] = [
    &disk::JOURNAL_STALL,
    &disk::BLOCKED_BY_NEIGHBOUR,
    &disk::SLOW_DEVICE,
    &disk::IO_LIMIT,
    &disk::DIRTY_THROTTLING,
    &host::DIRECT_RECLAIM,
    &disk::ROLL_FSYNC,
    &disk::LOCK_CONTENTION,
    &disk::COLD_READS,
    &tiered::TIERED_READ,
    &coordinators::OFFSETS_STALL,
    &coordinators::REBALANCE,
    &coordinators::CONTROLLER_STALL,
    &coordinators::METADATA_STORM,
    &broker::HANDLERS_BUSY,
    &broker::NETWORK_THREADS_BUSY,
    &network::FOLLOWER_DELAY,
    &replication::TLS_REPLICATION,
    &jvm::GC_PAUSE,
    &jvm::TIME_TO_SAFEPOINT,
    &jvm::JAVA_LOCK,
    &host::CPU_QUOTA,
    &host::CPU_HOG,
    &broker::QUOTA,
    &network::TRICKLED_REQUEST,
    &network::SLOW_READER,
    &network::LOSSY_LINK,
    &network::HEAD_OF_LINE,
    &broker::RECOMPRESSION,
    &disk::XFS_LOG,
    &stops::FS_FROZEN,
    &stops::FS_FROZEN_XFS,
    &stops::STOPPED,
    &stops::FROZEN_CGROUP,
    &stops::STEAL,
    &network::TWO_CAUSES,
    &disk::QUIET,
];

/// How a recorder watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum WatchMode {
    /// All that can be seen
    #[default]
    Full,
    /// What can stay on for months
    AlwaysOn,
}

/// Arguments of `faults`.
#[derive(Clone, Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
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
    /// How brokers are watched; what an always-on watch cannot see may stay unobserved
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    pub watch: WatchMode,
    /// Have clients speak TLS, and watch with --see-tls; brokers and controllers speak plaintext among themselves
    #[arg(long, conflicts_with = "watch")]
    pub tls: bool,
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
pub(crate) fn run(arguments: &FaultsArguments, brokerscope: Option<&Path>) -> Result<()> {
    let mut faults = chosen(ALL.to_vec(), &arguments.only, "fault", |fault| fault.name)?;
    faults.retain(|fault| !arguments.short || SHORT.contains(&fault.name));
    if arguments.list {
        let listed = faults.iter().map(|fault| format!("{:<24} {}\n", fault.name, fault.story));
        return print(&listed.collect::<String>());
    }
    if !has_hypervisor() {
        let is_meant = |fault: &&Fault| fault.guest_only && !arguments.again;
        if let Some(fault) = faults.iter().copied().find(is_meant) {
            say(&format!("LEFT OUT: {}, which `make faults-guest` injects in a guest", fault.name));
        }
        faults.retain(|fault| !is_meant(fault));
    }
    if arguments.tls && arguments.only.is_empty() {
        leave_out_of_tls(&mut faults);
    }
    let bounds = if arguments.short { Bounds::SHORT } else { Bounds::WANTED };
    let results = match &arguments.keep {
        Some(directory) if arguments.again => score_again(directory, &faults, brokerscope)?,
        _ => run_all(arguments, faults, brokerscope)?,
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

/// Leaves out those that have no truth where clients speak TLS, and says so.
fn leave_out_of_tls(faults: &mut Vec<&'static Fault>) {
    faults.retain(|fault| {
        fault
            .no_truth_over_tls
            .inspect(|why| say(&format!("LEFT OUT: {}, because {why}", fault.name)))
            .is_none()
    });
}

/// Runs each fault; one that cannot be run to its end does not keep the others from being run.
fn run_all(
    arguments: &FaultsArguments,
    faults: Vec<&'static Fault>,
    brokerscope: Option<&Path>,
) -> Result<Vec<FaultResult>> {
    let mut observer = session::start(brokerscope)?;
    if arguments.watch == WatchMode::AlwaysOn {
        observer.record_flags = always_on_flags();
    }
    if arguments.tls {
        observer.record_flags.push("--see-tls".to_owned());
    }
    let seed = arguments.seed.unwrap_or_else(draw_seed);
    // Recordings that nobody wants to keep go away with this.
    let site = Site::claim()?;
    let directory = arguments.keep.clone().unwrap_or_else(|| site.path().to_owned());
    let count = faults.len();
    let seeds = if arguments.short { 1 } else { arguments.seeds };
    let run = Run { seed, seeds, directory, is_noisy: arguments.short, has_tls: arguments.tls };
    say(&format!("{count} fault(s), {seeds} time(s) each, --seed {seed}"));
    let mut results = Vec::new();
    let started = Instant::now();
    for group in groups(faults, arguments.short) {
        let left = time_left(started, results.len(), count);
        for (number, fault) in (results.len() + 1..).zip(&group.faults) {
            say(&format!("fault {number} of {count}, {}: {}{left}", fault.name, fault.story));
        }
        let group_started = Instant::now();
        let of_group = kept_or_run(&run, &group, &observer)?;
        for result in &of_group {
            say(&format!("  {}: {}", result.fault, result.in_short()));
        }
        took(group_started, "  done");
        results.extend(of_group);
    }
    Ok(results)
}

/// What is slow in any window is slow to the recorder.
fn always_on_flags() -> Vec<String> {
    let lowest_ms = ALL.iter().map(|fault| fault.threshold_ms.0).min().unwrap_or_default();
    ["--watch", "always-on", "--slower-than", &format!("{lowest_ms}ms")].map(str::to_owned).to_vec()
}

fn kept_or_run(run: &Run, group: &Group, observer: &Observer) -> Result<Vec<FaultResult>> {
    let kept =
        |fault: &&Fault| FaultResult::read(&run.directory_of(fault.name)).filter(|kept| kept.is_of(run));
    if let Some(kept) = group.faults.iter().map(kept).collect() {
        return Ok(kept);
    }
    run_group(run, group, observer).or_else(|error| {
        interrupt().check()?;
        let failed = |fault: &&Fault| FaultResult::failed(fault.name, run, error.to_string());
        Ok(group.faults.iter().map(failed).collect())
    })
}

fn score_again(directory: &Path, faults: &[&Fault], brokerscope: Option<&Path>) -> Result<Vec<FaultResult>> {
    interrupt().catch_signals()?;
    let observer = Observer::new(brokerscope)?;
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

/// Faults that share a broker, and the volume beneath it.
struct Group {
    volume: Option<VolumeKind>,
    faults: Vec<&'static Fault>,
}

impl Group {
    fn takes(&self, fault: &Fault) -> bool {
        let shares = self.faults.iter().all(|fault| fault.shares) && fault.shares;
        shares && (fault.volume.is_none() || self.volume.is_none() || fault.volume == self.volume)
    }
}

/// Each fault by itself; or as few groups as can be, in the order of their first.
fn groups(faults: Vec<&'static Fault>, together: bool) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for fault in faults {
        match groups.iter_mut().find(|group| together && group.takes(fault)) {
            Some(group) => {
                group.volume = group.volume.or(fault.volume);
                group.faults.push(fault);
            }
            None => groups.push(Group { volume: fault.volume, faults: vec![fault] }),
        }
    }
    groups
}

/// What is asked of a run.
struct Run {
    /// The first seed.
    seed: u64,
    /// How many windows of each fault; each has its own seed.
    seeds: u32,
    /// Whether the machine may do other things too: the kernel's statistics show real waits for a processor then.
    is_noisy: bool,
    /// Whether clients speak TLS.
    has_tls: bool,
    /// Where its faults' directories lie.
    directory: PathBuf,
}

impl Run {
    /// Where a fault's recording and results go.
    fn directory_of(&self, fault: &str) -> PathBuf {
        self.directory.join(fault)
    }
}

/// Runs faults on one broker: what is in their directories is replaced. The recording is in the first one's.
///
/// # Errors
/// Where the test bed cannot be set up, a fault not be injected, or brokerscope fails; nothing stays injected.
fn run_group(run: &Run, group: &Group, observer: &Observer) -> Result<Vec<FaultResult>> {
    make_directories(run, &group.faults)?;
    let (injected, seen) = record(run, group, observer)?;
    let results = group.faults.iter().zip(&injected).enumerate().map(|(at, (fault, windows))| {
        let others = injected.iter().enumerate().filter(|(other, _)| *other != at);
        let others = others.flat_map(|(_, windows)| windows).map(|window| (window.start_ns, window.end_ns));
        let HostObservations { pauses, waits, slow, busy } = seen.clone();
        let busy = if fault.is_quiet() { busy } else { Vec::new() };
        let result = FaultResult::of(fault.name, run, windows.clone(), [pauses, waits, slow, busy].concat());
        let result = FaultResult { others: others.collect(), ..result };
        result.explained_again(&run.directory_of(fault.name), observer)
    });
    results.collect()
}

fn make_directories(run: &Run, faults: &[&Fault]) -> Result<()> {
    let first = faults.first().map_or("", |fault| fault.name);
    for fault in faults {
        let directory = run.directory_of(fault.name);
        files::make_empty(&directory)?;
        if fault.name != first {
            let link = directory.join(RECORDING);
            let there = Path::new("..").join(first).join(RECORDING);
            symlink(there, &link).map_err(Error::io("make", &link))?;
        }
    }
    Ok(())
}

/// A fault and what it has made.
type PreparedFault = (&'static Fault, Tools);

/// Returns the windows of each fault, and what was seen meanwhile. The test bed is taken down after what the faults
/// have made outside it.
fn record(run: &Run, group: &Group, observer: &Observer) -> Result<(Vec<Vec<Window>>, HostObservations)> {
    let mut faults: Vec<PreparedFault> =
        group.faults.iter().map(|&fault| (fault, Tools::default())).collect();
    let Some((first, tools)) = faults.first_mut() else { return Ok(Default::default()) };
    let name = first.name;
    let mut rng = Rng::with_seed(run.seed ^ name_hash(name));
    let mut bed = TestBed::set_up((first, tools), (group.volume, run.has_tls), run.seed, &mut rng)?;
    let recording = run.directory_of(name).join(RECORDING);
    let injected = inject_all(run, (&mut faults, &mut bed), (&recording, observer), &mut rng);
    let others: Result<Vec<Vec<Observation>>> =
        faults.iter().map(|(fault, tools)| (fault.observations)(tools)).collect();
    let pauses = bed.pauses();
    drop(faults);
    drop(bed);
    let (windows, seen) = injected?;
    let pauses = [others?.concat(), Observation::by_jvm(&pauses?)].concat();
    Ok((windows, HostObservations { pauses, ..seen }))
}

/// The windows of each fault, and what the kernel's statistics showed meanwhile where they are read.
fn inject_all(
    run: &Run,
    (faults, bed): (&mut [PreparedFault], &mut TestBed),
    (recording, observer): (&Path, &Observer),
    rng: &mut Rng,
) -> Result<(Vec<Vec<Window>>, HostObservations)> {
    if run.has_tls {
        bed.load_agent(observer)?;
    }
    for (fault, tools) in &mut *faults {
        (fault.connect)(bed, tools)?;
        fault.create_topic(bed)?;
        (fault.prepare)(bed, tools, rng)?;
        bed.warm_up(&(fault.load)(rng), rng)?;
    }
    let recorder = observer.record(recording, bed.broker.pid, bed.site.path())?;
    let reads_stats = run.is_noisy || faults.iter().any(|(fault, _)| fault.is_quiet());
    let device = bed.volume().ok().map(|volume| volume.device_number()).transpose()?;
    let stats = reads_stats.then(|| KernelStats::of_broker(bed.broker.pid, device)).transpose()?;
    let disk = if bed.is_on_its_volume() { None } else { KernelStats::of_disk(&bed.broker.log_dir) };
    interrupt().sleep(SETTLE)?;
    let mut injected = Vec::new();
    for (fault, tools) in faults {
        let own = name_hash(fault.name).rotate_left(32);
        let seeds = (0..run.seeds).map(|number| run.seed.wrapping_add(u64::from(number)) ^ own);
        let windows = seeds.map(|seed| {
            let mut rng = Rng::with_seed(seed);
            inject_until_shown(|| inject(fault, tools, bed, &mut rng))
        });
        injected.push(windows.collect::<Result<_>>()?);
    }
    interrupt().sleep(SETTLE)?;
    recorder.stop()?;
    let seen = stats.map(KernelStats::stop).transpose()?.unwrap_or_default();
    let HostObservations { slow, .. } = disk.map(KernelStats::stop).transpose()?.unwrap_or_default();
    Ok((injected, HostObservations { slow, ..seen }))
}

/// Hashes a name, so that two faults of one seed draw different numbers (FNV-1a).
fn name_hash(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod group_tests {
    use super::*;

    fn names(groups: &[Group], of: &str) -> Vec<&'static str> {
        let mut names = groups.iter().map(|group| group.faults.iter().map(|fault| fault.name).collect());
        names.find(|names: &Vec<&str>| names.contains(&of)).unwrap()
    }

    #[test]
    fn those_on_the_same_volume_or_on_any_share_a_broker() {
        let groups = groups(ALL.to_vec(), true);
        let stall = names(&groups, "journal-stall");
        assert!(stall.contains(&"two-causes") && stall.contains(&"quota") && stall.contains(&"quiet"));
        assert!(!stall.contains(&"slow-device") && !stall.contains(&"gc-pause"));
        assert_eq!(names(&groups, "gc-pause"), ["gc-pause"]);
        assert_eq!(names(&groups, "slow-device"), ["slow-device", "dirty-throttling"]);
        let count: usize = groups.iter().map(|group| group.faults.len()).sum();
        assert_eq!(count, ALL.len());
    }

    #[test]
    fn what_waits_in_the_socket_is_left_out_of_tls() {
        let mut faults = ALL.to_vec();
        leave_out_of_tls(&mut faults);
        let has = |name| faults.iter().any(|fault| fault.name == name);
        assert!(has("journal-stall") && has("slow-reader") && !has("head-of-line") && !has("quota"));
        assert_eq!(faults.len(), ALL.len() - 4);
    }

    #[test]
    fn apart_nobody_shares() {
        assert!(groups(ALL.to_vec(), false).iter().all(|group| group.faults.len() == 1));
    }
}
