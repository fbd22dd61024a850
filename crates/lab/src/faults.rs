//! `faults`: injects causes on a real broker, lets brokerscope record and explain it as a user would, and counts how
//! often the explanation names what was injected: a confusion matrix.
//!
//! Each fault has a broker and its own recording, in which it is injected once per seed, with numbers drawn from that
//! seed. Does not know how brokerscope reaches its verdicts: it runs `record` and `explain`.

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
use plan::{Fault, Tools, VolumeKind, Window, inject, inject_until_proven};
use result::{Bounds, FaultResult, RECORDING};
use serde::{Deserialize, Serialize};
use test_bed::{SETTLE, TestBed};

use crate::broker::Broker;
use crate::error::{Error, Result};
use crate::files;
use crate::session;
use crate::session::{
    Observer, draw_seed, has_hypervisor, interrupt, print, print_elapsed, print_status, select,
};
use crate::site::Site;

/// Faults of the short form: on three brokers, in about two minutes. Each of the others needs its own broker.
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

/// Where requests are known from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RequestSource {
    /// Packets: clients use plaintext.
    #[default]
    Packets,
    /// The agent in the broker's JVM: clients use TLS.
    TlsAgent,
    /// Kafka's request log: clients use TLS.
    RequestLog,
}

impl RequestSource {
    fn of(arguments: &FaultsArguments) -> Self {
        match (arguments.tls, arguments.request_log) {
            (_, true) => Self::RequestLog,
            (true, false) => Self::TlsAgent,
            (false, false) => Self::Packets,
        }
    }

    fn is_encrypted(self) -> bool {
        self != Self::Packets
    }

    /// Flags of a recorder on this broker.
    fn record_flags(self, broker: &Broker) -> Vec<String> {
        let log = broker.request_log.as_ref().filter(|_| self == Self::RequestLog);
        let log = log.into_iter().flat_map(|log| ["--request-log".to_owned(), log.display().to_string()]);
        log.chain((self == Self::TlsAgent).then(|| "--see-tls".to_owned())).collect()
    }
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
    /// Inject only these
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Inject a dozen of them once each, several on one broker, with targets that so few windows can reach
    #[arg(long, conflicts_with = "seeds")]
    pub short: bool,
    /// Print the faults and exit
    #[arg(long)]
    pub list: bool,
    /// How brokers are watched; what an always-on watch cannot see may stay unobserved
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    pub watch: WatchMode,
    /// Make clients use TLS, and watch with --see-tls; brokers and controllers use plaintext among themselves
    #[arg(long, conflicts_with = "watch")]
    pub tls: bool,
    /// With --tls, watch Kafka's request log instead of loading the agent; what it cannot show may stay unobserved
    #[arg(long, requires = "tls")]
    pub request_log: bool,
    /// Keep recordings and results in DIR; results of this seed that are there already are not repeated
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Explain and score the recordings in DIR again, and record nothing
    #[arg(long, requires = "keep")]
    pub again: bool,
    /// Output format of the matrix
    #[arg(long, value_enum, default_value_t = Form::Table)]
    pub format: Form,
}

/// Runs the suite; the matrix goes to stdout.
///
/// # Errors
/// A fault did not run to its end; [`Error::Unusable`] if a target is missed.
pub(crate) fn run(arguments: &FaultsArguments, brokerscope: Option<&Path>) -> Result<()> {
    let mut faults = select(ALL.to_vec(), &arguments.only, "fault", |fault| fault.name)?;
    faults.retain(|fault| !arguments.short || SHORT.contains(&fault.name));
    if arguments.list {
        let listed = faults.iter().map(|fault| format!("{:<24} {}\n", fault.name, fault.story));
        return print(&listed.collect::<String>());
    }
    if !has_hypervisor() {
        let is_meant = |fault: &&Fault| fault.guest_only && !arguments.again;
        if let Some(fault) = faults.iter().copied().find(is_meant) {
            print_status(&format!("LEFT OUT: {}, which `make faults-guest` injects in a guest", fault.name));
        }
        faults.retain(|fault| !is_meant(fault));
    }
    if arguments.tls && arguments.only.is_empty() {
        leave_out_of_tls(&mut faults);
    }
    let bounds = Bounds::of(arguments.short, RequestSource::of(arguments));
    let results = match &arguments.keep {
        Some(directory) if arguments.again => score_again(directory, &faults, brokerscope)?,
        _ => run_all(arguments, faults, brokerscope)?,
    };
    let matrix = Matrix::of(&results, bounds);
    print(&matrix.render(arguments.format))?;
    if let Some(directory) = &arguments.keep {
        matrix.write(directory)?;
    }
    match matrix.missed() {
        0 => Ok(()),
        count => Err(Error::Unusable(format!("{count} target(s) missed"))),
    }
}

/// Leaves out faults that have no truth if clients speak TLS, and says so.
fn leave_out_of_tls(faults: &mut Vec<&'static Fault>) {
    faults.retain(|fault| {
        fault
            .no_truth_over_tls
            .inspect(|why| print_status(&format!("LEFT OUT: {}, because {why}", fault.name)))
            .is_none()
    });
}

/// Runs each fault; one that fails does not keep the others from running.
fn run_all(
    arguments: &FaultsArguments,
    faults: Vec<&'static Fault>,
    brokerscope: Option<&Path>,
) -> Result<Vec<FaultResult>> {
    let mut observer = session::start(brokerscope)?;
    if arguments.watch == WatchMode::AlwaysOn {
        observer.record_flags = always_on_flags();
    }
    let seed = arguments.seed.unwrap_or_else(draw_seed);
    // Recordings that are not kept go away with this.
    let site = Site::claim()?;
    let directory = arguments.keep.clone().unwrap_or_else(|| site.path().to_owned());
    let count = faults.len();
    let seeds = if arguments.short { 1 } else { arguments.seeds };
    let source = RequestSource::of(arguments);
    let run = Run { seed, seeds, directory, is_noisy: arguments.short, source };
    print_status(&format!("{count} fault(s), {seeds} time(s) each, --seed {seed}"));
    let mut results = Vec::new();
    let started = Instant::now();
    for group in groups(faults, arguments.short) {
        let left = time_left(started, results.len(), count);
        for (number, fault) in (results.len() + 1..).zip(&group.faults) {
            print_status(&format!("fault {number} of {count}, {}: {}{left}", fault.name, fault.story));
        }
        let group_started = Instant::now();
        let of_group = read_or_run(&run, &group, &observer)?;
        for result in &of_group {
            print_status(&format!("  {}: {}", result.fault, result.in_short()));
        }
        print_elapsed(group_started, "  done");
        results.extend(of_group);
    }
    Ok(results)
}

/// Flags by which requests that are slow in any window are slow for the recorder.
fn always_on_flags() -> Vec<String> {
    let lowest_ms = ALL.iter().map(|fault| fault.threshold_ms.0).min().unwrap_or_default();
    ["--watch", "always-on", "--slower-than", &format!("{lowest_ms}ms")].map(str::to_owned).to_vec()
}

fn read_or_run(run: &Run, group: &Group, observer: &Observer) -> Result<Vec<FaultResult>> {
    let saved =
        |fault: &&Fault| FaultResult::read(&run.directory_of(fault.name)).filter(|saved| saved.is_of(run));
    if let Some(saved) = group.faults.iter().map(saved).collect() {
        return Ok(saved);
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
    let results = faults.iter().filter_map(|fault| {
        let directory = directory.join(fault.name);
        FaultResult::read(&directory).map(|saved| saved.explain_again(&directory, &observer))
    });
    results.collect()
}

/// Estimates the remaining time from what finished faults took.
fn time_left(started: Instant, done: usize, count: usize) -> String {
    let Some(each) = u32::try_from(done).ok().and_then(|done| started.elapsed().checked_div(done)) else {
        return String::new();
    };
    let left = each * u32::try_from(count - done).unwrap_or(u32::MAX);
    format!(" (about {} min left)", left.as_secs().div_ceil(60))
}

/// Faults that share a broker, and the volume below it.
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

/// Each fault by itself; or as few groups as possible, in the order of their first faults.
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

/// Parameters of a run.
struct Run {
    /// The first seed.
    seed: u64,
    /// Number of windows of each fault; each has its own seed.
    seeds: u32,
    /// Whether the machine may do other things too: the kernel's statistics then show real waits for a processor.
    is_noisy: bool,
    source: RequestSource,
    /// The parent directory of its faults' directories.
    directory: PathBuf,
}

impl Run {
    /// The directory of a fault's recording and results.
    fn directory_of(&self, fault: &str) -> PathBuf {
        self.directory.join(fault)
    }
}

/// Runs faults on one broker, and replaces what is in their directories. The recording is in the first one's.
///
/// # Errors
/// The test bed cannot be set up, a fault cannot be injected, or brokerscope fails; nothing stays injected.
fn run_group(run: &Run, group: &Group, observer: &Observer) -> Result<Vec<FaultResult>> {
    make_directories(run, &group.faults)?;
    let (injected, observations) = record(run, group, observer)?;
    let results = group.faults.iter().zip(&injected).enumerate().map(|(at, (fault, windows))| {
        let others = injected.iter().enumerate().filter(|(other, _)| *other != at);
        let others = others.flat_map(|(_, windows)| windows).map(|window| (window.start_ns, window.end_ns));
        let HostObservations { pauses, waits, slow, busy } = observations.clone();
        let busy = if fault.is_quiet() { busy } else { Vec::new() };
        let result = FaultResult::of(fault.name, run, windows.clone(), [pauses, waits, slow, busy].concat());
        let result = FaultResult { others: others.collect(), ..result };
        result.explain_again(&run.directory_of(fault.name), observer)
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

/// A fault and what it has prepared.
type PreparedFault = (&'static Fault, Tools);

/// Returns the windows of each fault, and the observations meanwhile. Takes the test bed down after what the faults
/// have created outside it.
fn record(run: &Run, group: &Group, observer: &Observer) -> Result<(Vec<Vec<Window>>, HostObservations)> {
    let mut faults: Vec<PreparedFault> =
        group.faults.iter().map(|&fault| (fault, Tools::default())).collect();
    let Some((first, tools)) = faults.first_mut() else { return Ok(Default::default()) };
    let name = first.name;
    let mut rng = Rng::with_seed(run.seed ^ name_hash(name));
    let mut bed = TestBed::set_up((first, tools), (group.volume, run.source), run.seed, &mut rng)?;
    let recording = run.directory_of(name).join(RECORDING);
    let injected = inject_all(run, (&mut faults, &mut bed), (&recording, observer), &mut rng);
    let others: Result<Vec<Vec<Observation>>> =
        faults.iter().map(|(fault, tools)| (fault.observations)(tools)).collect();
    let pauses = bed.pauses();
    drop(faults);
    drop(bed);
    let (windows, observations) = injected?;
    let pauses = [others?.concat(), Observation::by_jvm(&pauses?)].concat();
    Ok((windows, HostObservations { pauses, ..observations }))
}

/// The windows of each fault, and the host's observations. The observations are from the kernel's statistics, if these
/// are read.
fn inject_all(
    run: &Run,
    (faults, bed): (&mut [PreparedFault], &mut TestBed),
    (recording, observer): (&Path, &Observer),
    rng: &mut Rng,
) -> Result<(Vec<Vec<Window>>, HostObservations)> {
    let observer = &observer.with_record_flags(run.source.record_flags(&bed.broker));
    if run.source == RequestSource::TlsAgent {
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
            inject_until_proven(|| inject(fault, tools, bed, &mut rng))
        });
        injected.push(windows.collect::<Result<_>>()?);
    }
    interrupt().sleep(SETTLE)?;
    recorder.stop()?;
    let observations = stats.map(KernelStats::stop).transpose()?.unwrap_or_default();
    let HostObservations { slow, .. } = disk.map(KernelStats::stop).transpose()?.unwrap_or_default();
    Ok((injected, HostObservations { slow, ..observations }))
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
    fn faults_on_compatible_volumes_share_a_broker() {
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
    fn tls_runs_leave_out_only_what_needs_unseen_fetches() {
        let mut faults = ALL.to_vec();
        leave_out_of_tls(&mut faults);
        let has = |name| faults.iter().any(|fault| fault.name == name);
        assert!(has("head-of-line") && has("quota") && !has("tls-replication"));
        assert_eq!(faults.len(), ALL.len() - 1);
    }

    #[test]
    fn separate_runs_have_one_fault_per_broker() {
        assert!(groups(ALL.to_vec(), false).iter().all(|group| group.faults.len() == 1));
    }
}
