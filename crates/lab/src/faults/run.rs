//! One or several faults from the broker's start to the score: every window in one recording.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::figures::{Figures, Heard};
use super::group::Group;
use super::kept::{Kept, RECORDING};
use super::plan::{Fault, Window};
use super::scene::{Props, Scene};
use super::told::Told;
use crate::error::Error;
use crate::observer::Observer;
use crate::random::Random;

/// What is asked of a run.
pub(super) struct Run {
    /// The first seed.
    pub(super) seed: u64,
    /// How many windows of each fault; each has a seed of its own.
    pub(super) seeds: u32,
    /// Whether the machine may do other things too: real waits for a processor are told by the kernel's figures then.
    pub(super) is_noisy: bool,
    /// Where its faults' directories lie.
    pub(super) directory: PathBuf,
}

impl Run {
    /// Where a fault's recording and results go.
    pub(super) fn directory_of(&self, fault: &dyn Fault) -> PathBuf {
        self.directory.join(fault.name())
    }
}

/// Runs faults on one broker: what is in their directories is replaced. The recording is in the first one's.
///
/// # Errors
/// Where the scene cannot be set, a window not be planted, or brokerscope fails; nothing stays planted.
pub(super) fn run(
    run: &Run,
    group: &mut Group,
    props: &Props,
    observer: &Observer,
) -> Result<Vec<Kept>, Error> {
    let Group { ground, faults, .. } = group;
    let Some(first) = faults.first_mut() else { return Ok(Vec::new()) };
    let mut random = Random::new(run.seed ^ name_hash(first.name()));
    let mut scene = Scene::set(props, first.as_mut(), *ground, run.seed, &mut random)?;
    make_directories(run, faults)?;
    let planted = plant_all(run, faults, &mut scene, observer, &mut random);
    let told: Result<Vec<Vec<Told>>, Error> = faults.iter_mut().map(|fault| fault.told()).collect();
    let told = told.and_then(|told| Ok([told.concat(), Told::by_jvm(&scene.stops()?)].concat()));
    for fault in faults.iter_mut() {
        fault.restore(&mut scene);
    }
    drop(scene);
    let ((planted, heard), told) = (planted?, told?);
    let kept = faults.iter().enumerate().map(|(at, fault)| {
        let windows = planted.get(at).cloned().unwrap_or_default();
        let others = planted.iter().enumerate().filter(|(other, _)| *other != at);
        let others = others.flat_map(|(_, windows)| windows).map(|window| (window.start_ns, window.end_ns));
        let busy = if fault.is_quiet() { heard.busy.clone() } else { Vec::new() };
        let told = [told.clone(), heard.waits.clone(), heard.slow.clone(), busy].concat();
        let kept = Kept { others: others.collect(), ..Kept::of(fault.name(), run, windows, told) };
        kept.explained_again(&run.directory_of(fault.as_ref()), observer)
    });
    kept.collect()
}

fn make_directories(run: &Run, faults: &[Box<dyn Fault>]) -> Result<(), Error> {
    let first = faults.first().map_or("", |fault| fault.name());
    for fault in faults {
        let directory = run.directory_of(fault.as_ref());
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(Error::io("remove", &directory))?;
        }
        fs::create_dir_all(&directory).map_err(Error::io("make", &directory))?;
        if fault.name() != first {
            let link = directory.join(RECORDING);
            let there = Path::new("..").join(first).join(RECORDING);
            symlink(there, &link).map_err(Error::io("make", &link))?;
        }
    }
    Ok(())
}

/// The windows of each fault, and what the kernel's figures said meanwhile where they are heard.
fn plant_all(
    run: &Run,
    faults: &mut [Box<dyn Fault>],
    scene: &mut Scene,
    observer: &Observer,
    random: &mut Random,
) -> Result<(Vec<Vec<Window>>, Heard), Error> {
    faults.iter_mut().try_for_each(|fault| fault.prepare(scene, random))?;
    let Some(first) = faults.first() else { return Ok((Vec::new(), Heard::default())) };
    let recording = run.directory_of(first.as_ref()).join(RECORDING);
    let arguments: Vec<&str> = faults.iter().flat_map(|fault| fault.record_arguments()).copied().collect();
    let recorder = observer.record(&recording, scene.broker.pid, scene.site.path(), &arguments)?;
    let hears = run.is_noisy || faults.iter().any(|fault| fault.is_quiet());
    let device = scene.volume().ok().map(|volume| volume.device_number()).transpose()?;
    let figures = hears.then(|| Figures::of(scene.broker.pid, device)).transpose()?;
    let disk = if scene.is_on_its_volume() { None } else { Disk::under(&scene.broker.log_dir) };
    scene.quiet()?;
    let planted: Result<Vec<Vec<Window>>, Error> =
        faults.iter_mut().map(|fault| windows(run, fault.as_mut(), scene)).collect();
    let planted = planted?;
    scene.quiet()?;
    recorder.stop()?;
    let told = figures.map(Figures::stop).transpose()?.unwrap_or_default();
    Ok((planted, Heard { slow: disk.map(Disk::stop).transpose()?.unwrap_or_default(), ..told }))
}

fn windows(run: &Run, fault: &mut dyn Fault, scene: &mut Scene) -> Result<Vec<Window>, Error> {
    let own = name_hash(fault.name()).rotate_left(32);
    (0..run.seeds)
        .map(|number| fault.plant(scene, &mut Random::new(run.seed.wrapping_add(u64::from(number)) ^ own)))
        .collect()
}

/// So that two faults of one seed draw different numbers (FNV-1a).
fn name_hash(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
