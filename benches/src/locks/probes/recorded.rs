//! What a contended wait costs more from one end to the other: the JVM with the flag for its probes and the one without it,
//! both recorded by `brokerscope record` as if they were brokers. Whatever hearing of waits does to them is in it, and how
//! two JVMs differ by chance too.

use std::path::Path;

use super::contender::{Contender, Load};
use super::rounds::Places;
use crate::kernel::watcher::Watcher;
use crate::stop;

const ROUNDS: usize = 11;
/// Waits are longer than the shortest that is recorded.
const LOAD: Load = Load { millis: 500, kib: 1_024 };
const MORE: [&str; 3] = ["--no-attach", "--lock-waits", "1us"];

/// Nanoseconds that a wait took with the flag and without, in each round; ends whoever it started.
pub(super) fn hold(brokerscope: &Path, with: &Path, without: &Path) -> anyhow::Result<Vec<(f64, f64)>> {
    let places = Places::take()?;
    let start = |directory: &Path, argument: &str| {
        let contender = Contender::start(directory, argument)?;
        let recording = directory.join("recording");
        let watcher = Watcher::brokerscope(brokerscope, &recording, contender.pid(), &MORE)?;
        Ok::<_, anyhow::Error>((contender, watcher))
    };
    let mut with = start(with, "-XX:+DTraceMonitorProbes")?;
    let mut without = start(without, "-XX:-DTraceMonitorProbes")?;
    let mut rounds = Vec::new();
    // Until all is compiled, and mapped, the first does not count.
    for round in 0..=ROUNDS {
        stop::check()?;
        let run = |(contender, _): &mut (Contender, Watcher)| {
            places.give(contender)?;
            contender.run(LOAD).map(|waited| waited.nanos_each())
        };
        let pair = (run(&mut with)?, run(&mut without)?);
        if round > 0 {
            rounds.push(pair);
        }
    }
    for (contender, watcher) in [with, without] {
        watcher.stop()?;
        drop(contender);
    }
    Ok(rounds)
}
