//! One or several faults on one broker, from its start to the score: every window in one recording.
//!
//! Faults share a broker, one after the other in one recording, where time is short: those that start the broker in no
//! special way ([`Fault::shares`]) and declare the same volume, or none.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use fastrand::Rng;

use super::ground_truth::Observation;
use super::kernel_stats::{HostObservations, KernelStats};
use super::plan::{Fault, Tools, VolumeKind, Window, inject};
use super::result::{FaultResult, RECORDING};
use super::test_bed::TestBed;
use crate::error::Error;
use crate::files;
use crate::observer::Observer;
use crate::session::Session;

/// Faults that share a broker, and the volume beneath it.
pub(super) struct Group {
    volume: Option<VolumeKind>,
    pub(super) faults: Vec<&'static Fault>,
}

impl Group {
    fn takes(&self, fault: &Fault) -> bool {
        let shares = self.faults.iter().all(|fault| fault.shares) && fault.shares;
        shares && (fault.volume.is_none() || self.volume.is_none() || fault.volume == self.volume)
    }
}

/// Each fault by itself; or as few groups as can be, in the order of their first.
pub(super) fn groups(faults: Vec<&'static Fault>, together: bool) -> Vec<Group> {
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
pub(super) struct Run {
    /// The first seed.
    pub(super) seed: u64,
    /// How many windows of each fault; each has its own seed.
    pub(super) seeds: u32,
    /// Whether the machine may do other things too: the kernel's statistics show real waits for a processor then.
    pub(super) is_noisy: bool,
    /// Where its faults' directories lie.
    pub(super) directory: PathBuf,
}

impl Run {
    /// Where a fault's recording and results go.
    pub(super) fn directory_of(&self, fault: &str) -> PathBuf {
        self.directory.join(fault)
    }
}

/// Runs faults on one broker: what is in their directories is replaced. The recording is in the first one's.
///
/// # Errors
/// Where the test bed cannot be set up, a fault not be injected, or brokerscope fails; nothing stays injected.
pub(super) fn run(run: &Run, group: &Group, session: &Session) -> Result<Vec<FaultResult>, Error> {
    make_directories(run, &group.faults)?;
    let (injected, seen) = record(run, group, session)?;
    let results = group.faults.iter().enumerate().map(|(at, fault)| {
        let windows = injected.get(at).cloned().unwrap_or_default();
        let others = injected.iter().enumerate().filter(|(other, _)| *other != at);
        let others = others.flat_map(|(_, windows)| windows).map(|window| (window.start_ns, window.end_ns));
        let HostObservations { pauses, waits, slow, busy } = seen.clone();
        let busy = if fault.is_quiet() { busy } else { Vec::new() };
        let result = FaultResult::of(fault.name, run, windows, [pauses, waits, slow, busy].concat());
        let result = FaultResult { others: others.collect(), ..result };
        result.explained_again(&run.directory_of(fault.name), &session.observer)
    });
    results.collect()
}

fn make_directories(run: &Run, faults: &[&Fault]) -> Result<(), Error> {
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
fn record(
    run: &Run,
    group: &Group,
    session: &Session,
) -> Result<(Vec<Vec<Window>>, HostObservations), Error> {
    let mut faults: Vec<PreparedFault> =
        group.faults.iter().map(|&fault| (fault, Tools::default())).collect();
    let Some((first, tools)) = faults.first_mut() else { return Ok(Default::default()) };
    let name = first.name;
    let mut rng = Rng::with_seed(run.seed ^ name_hash(name));
    let mut bed = TestBed::set_up(session, (first, tools), group.volume, run.seed, &mut rng)?;
    let recording = run.directory_of(name).join(RECORDING);
    let injected = inject_all(run, (&mut faults, &mut bed), (&recording, &session.observer), &mut rng);
    let others: Result<Vec<Vec<Observation>>, Error> =
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
) -> Result<(Vec<Vec<Window>>, HostObservations), Error> {
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
    bed.settle()?;
    let mut injected = Vec::new();
    for (fault, tools) in faults {
        let own = name_hash(fault.name).rotate_left(32);
        let seeds = (0..run.seeds).map(|number| run.seed.wrapping_add(u64::from(number)) ^ own);
        let windows: Result<Vec<Window>, Error> =
            seeds.map(|seed| inject(fault, tools, bed, &mut Rng::with_seed(seed))).collect();
        injected.push(windows?);
    }
    bed.settle()?;
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
mod tests {
    use super::*;
    use crate::faults::ALL;

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
    fn apart_nobody_shares() {
        assert!(groups(ALL.to_vec(), false).iter().all(|group| group.faults.len() == 1));
    }
}
