//! One fault from the broker's start to the score: every window in one recording.

use std::fs;
use std::path::PathBuf;

use super::kept::Kept;
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
    /// How many windows; each has a seed of its own.
    pub(super) seeds: u32,
    /// Where its recording and results go.
    pub(super) directory: PathBuf,
}

/// Runs a fault: what is in the run's directory is replaced.
///
/// # Errors
/// Where the scene cannot be set, a window not be planted, or brokerscope fails; nothing stays planted.
pub(super) fn run(
    run: &Run,
    fault: &mut dyn Fault,
    props: &Props,
    observer: &Observer,
) -> Result<Kept, Error> {
    if run.directory.exists() {
        fs::remove_dir_all(&run.directory).map_err(Error::io("remove", &run.directory))?;
    }
    fs::create_dir_all(&run.directory).map_err(Error::io("make", &run.directory))?;
    let mut random = Random::new(run.seed ^ name_hash(fault.name()));
    let mut scene = Scene::set(props, fault, run.seed, &mut random)?;
    let planted = plant_all(run, fault, &mut scene, observer, &mut random);
    let told = fault.told().and_then(|told| Ok([Told::by_jvm(&scene.stops()?), told].concat()));
    fault.restore(&mut scene);
    let kept = Kept::of(fault.name(), run, planted?, told?);
    kept.write(&run.directory)?;
    drop(scene);
    kept.explained_again(&run.directory, observer)
}

fn plant_all(
    run: &Run,
    fault: &mut dyn Fault,
    scene: &mut Scene,
    observer: &Observer,
    random: &mut Random,
) -> Result<Vec<Window>, Error> {
    fault.prepare(scene, random)?;
    let recording = run.directory.join(super::kept::RECORDING);
    let recorder =
        observer.record(&recording, scene.broker.pid, scene.site.path(), fault.record_arguments())?;
    scene.quiet()?;
    let mut windows = Vec::new();
    for number in 0..run.seeds {
        let mut of_window =
            Random::new(run.seed.wrapping_add(u64::from(number)) ^ name_hash(fault.name()).rotate_left(32));
        windows.push(fault.plant(scene, &mut of_window)?);
    }
    scene.quiet()?;
    recorder.stop()?;
    Ok(windows)
}

/// So that two faults of one seed draw different numbers (FNV-1a).
fn name_hash(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
