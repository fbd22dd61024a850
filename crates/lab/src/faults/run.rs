//! One or several faults on one broker, from its start to the score: every window in one recording.
//!
//! Faults share a broker, one after the other in one recording, where time is short: those that start the broker in no
//! special way ([`Declaration::shares`]) and declare the same volume, or none.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use fastrand::Rng;

use super::ground_truth::Observation;
use super::kernel_stats::{DiskStats, HostObservations, KernelStats};
use super::plan::{Declaration, Fault, VolumeKind, Window, inject};
use super::result::{FaultResult, RECORDING};
use super::test_bed::TestBed;
use crate::error::Error;
use crate::observer::Observer;
use crate::session::Session;

/// Faults that share a broker, and the volume beneath it.
pub(super) struct Group {
    volume: Option<VolumeKind>,
    pub(super) faults: Vec<Box<dyn Fault>>,
}

impl Group {
    fn of(fault: Box<dyn Fault>) -> Self {
        Self { volume: fault.declaration().volume, faults: vec![fault] }
    }

    fn takes(&self, declared: &Declaration) -> bool {
        let shares = self.faults.iter().all(|fault| fault.declaration().shares);
        let fits = declared.volume.is_none() || self.volume.is_none() || declared.volume == self.volume;
        shares && declared.shares && fits
    }

    fn add(&mut self, fault: Box<dyn Fault>) {
        self.volume = self.volume.or(fault.declaration().volume);
        self.faults.push(fault);
    }

    /// What its faults are.
    pub(super) fn declarations(&self) -> Vec<&'static Declaration> {
        self.faults.iter().map(|fault| fault.declaration()).collect()
    }
}

/// Each fault by itself.
pub(super) fn apart(faults: Vec<Box<dyn Fault>>) -> Vec<Group> {
    faults.into_iter().map(Group::of).collect()
}

/// As few groups as can be, in the order of their first.
pub(super) fn together(faults: Vec<Box<dyn Fault>>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for fault in faults {
        match groups.iter_mut().find(|group| group.takes(fault.declaration())) {
            Some(group) => group.add(fault),
            None => groups.push(Group::of(fault)),
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
pub(super) fn run(
    run: &Run,
    group: Group,
    session: &Session,
    observer: &Observer,
) -> Result<Vec<FaultResult>, Error> {
    let declarations = group.declarations();
    let Group { volume, mut faults } = group;
    make_directories(run, &declarations)?;
    let (injected, seen) = record(run, (volume, &mut faults), session, observer)?;
    drop(faults);
    let results = declarations.iter().enumerate().map(|(at, declared)| {
        let windows = injected.get(at).cloned().unwrap_or_default();
        let others = injected.iter().enumerate().filter(|(other, _)| *other != at);
        let others = others.flat_map(|(_, windows)| windows).map(|window| (window.start_ns, window.end_ns));
        let HostObservations { pauses, waits, slow, busy } = seen.clone();
        let busy = if declared.is_quiet() { busy } else { Vec::new() };
        let result = FaultResult::of(declared.name, run, windows, [pauses, waits, slow, busy].concat());
        let result = FaultResult { others: others.collect(), ..result };
        result.explained_again(&run.directory_of(declared.name), observer)
    });
    results.collect()
}

fn make_directories(run: &Run, declarations: &[&Declaration]) -> Result<(), Error> {
    let first = declarations.first().map_or("", |declared| declared.name);
    for declared in declarations {
        let directory = run.directory_of(declared.name);
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(Error::io("remove", &directory))?;
        }
        fs::create_dir_all(&directory).map_err(Error::io("make", &directory))?;
        if declared.name != first {
            let link = directory.join(RECORDING);
            let there = Path::new("..").join(first).join(RECORDING);
            symlink(there, &link).map_err(Error::io("make", &link))?;
        }
    }
    Ok(())
}

/// Returns the windows of each fault, and what was seen meanwhile. The test bed is taken down after what the faults
/// hold outside it.
fn record(
    run: &Run,
    (volume, faults): (Option<VolumeKind>, &mut Vec<Box<dyn Fault>>),
    session: &Session,
    observer: &Observer,
) -> Result<(Vec<Vec<Window>>, HostObservations), Error> {
    let Some(first) = faults.first_mut() else { return Ok(Default::default()) };
    let name = first.declaration().name;
    let mut rng = Rng::with_seed(run.seed ^ name_hash(name));
    let mut bed = TestBed::set_up(session, first.as_mut(), volume, run.seed, &mut rng)?;
    let recording = run.directory_of(name).join(RECORDING);
    let injected = inject_all(run, (faults, &mut bed), (&recording, observer), &mut rng);
    let others: Result<Vec<Vec<Observation>>, Error> =
        faults.iter_mut().map(|fault| fault.observations()).collect();
    let pauses = bed.pauses();
    faults.clear();
    drop(bed);
    let (windows, seen) = injected?;
    let pauses = [others?.concat(), Observation::by_jvm(&pauses?)].concat();
    Ok((windows, HostObservations { pauses, ..seen }))
}

/// The windows of each fault, and what the kernel's statistics showed meanwhile where they are read.
fn inject_all(
    run: &Run,
    (faults, bed): (&mut [Box<dyn Fault>], &mut TestBed),
    (recording, observer): (&Path, &Observer),
    rng: &mut Rng,
) -> Result<(Vec<Vec<Window>>, HostObservations), Error> {
    for fault in &mut *faults {
        fault.connect(bed)?;
        fault.create_topic(bed)?;
        fault.prepare(bed, rng)?;
        bed.warm_up(&(fault.declaration().load)(rng), rng)?;
    }
    let recorder = observer.record(recording, bed.broker.pid, bed.site.path())?;
    let reads_stats = run.is_noisy || faults.iter().any(|fault| fault.declaration().is_quiet());
    let device = bed.volume().ok().map(|volume| volume.device_number()).transpose()?;
    let stats = reads_stats.then(|| KernelStats::of(bed.broker.pid, device)).transpose()?;
    let disk = if bed.is_on_its_volume() { None } else { DiskStats::under(&bed.broker.log_dir) };
    bed.settle()?;
    let mut injected = Vec::new();
    for fault in faults {
        let own = name_hash(fault.declaration().name).rotate_left(32);
        let seeds = (0..run.seeds).map(|number| run.seed.wrapping_add(u64::from(number)) ^ own);
        let windows: Result<Vec<Window>, Error> =
            seeds.map(|seed| inject(fault.as_mut(), bed, &mut Rng::with_seed(seed))).collect();
        injected.push(windows?);
    }
    bed.settle()?;
    recorder.stop()?;
    let seen = stats.map(KernelStats::stop).transpose()?.unwrap_or_default();
    let slow = disk.map(DiskStats::stop).transpose()?.unwrap_or_default();
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
    use crate::faults::all;

    fn names(groups: &[Group], of: &str) -> Vec<&'static str> {
        let mut names = groups.iter().map(|group| {
            group.declarations().iter().map(|declared| declared.name).collect::<Vec<&'static str>>()
        });
        names.find(|names| names.contains(&of)).unwrap()
    }

    #[test]
    fn those_on_the_same_volume_or_on_any_share_a_broker() {
        let groups = together(all());
        let stall = names(&groups, "journal-stall");
        assert!(stall.contains(&"two-causes") && stall.contains(&"quota") && stall.contains(&"quiet"));
        assert!(!stall.contains(&"slow-device") && !stall.contains(&"gc-pause"));
        assert_eq!(names(&groups, "gc-pause"), ["gc-pause"]);
        assert_eq!(names(&groups, "slow-device"), ["slow-device", "dirty-throttling"]);
        let count: usize = groups.iter().map(|group| group.faults.len()).sum();
        assert_eq!(count, all().len());
    }

    #[test]
    fn apart_nobody_shares() {
        assert!(apart(all()).iter().all(|group| group.faults.len() == 1));
    }
}
