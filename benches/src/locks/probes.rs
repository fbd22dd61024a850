//! What a contended wait costs by the JVM's own probes, traps and BPF programs together: the processor time of threads
//! that do nothing but wait for a monitor, with `-XX:+DTraceMonitorProbes` and without it, which is all that differs. Both
//! are recorded as if they were brokers.
//!
//! Beside them, in the same rounds, what nobody who uses these probes can do without: the flag alone, and the kernel's traps
//! into programs that do nothing (bpftrace's), on all three probes and on one.

mod contender;
mod subject;

use std::fs;
use std::path::Path;

use anyhow::{bail, ensure};

use super::wait::{self, From};
use crate::kernel::stage::claim;
use crate::target::{Bound, Target};
use crate::{stop, table};
use contender::Waited;
use subject::{Subject, Watch};

const ROUNDS: usize = 11;
const ROUND_MS: u64 = 1_500;
const WAIT_NANOS: f64 = 3_000.0;

/// What each was in one round.
struct Round {
    /// With the flag, recorded by brokerscope; and without the flag.
    probed: Waited,
    not_probed: Waited,
    /// With the flag, and without, and nobody watches.
    flagged: Waited,
    bare: Waited,
    /// With the flag and programs that do nothing on the end of a wait, and on all three probes.
    one_empty: Waited,
    three_empty: Waited,
}

impl Round {
    /// Nanoseconds that a wait costs more: all of it, the flag's part, one trap's and three traps'.
    fn more(&self) -> [f64; 4] {
        let pairs = [
            (&self.probed, &self.not_probed),
            (&self.flagged, &self.bare),
            (&self.one_empty, &self.flagged),
            (&self.three_empty, &self.flagged),
        ];
        pairs.map(|(with, without)| with.nanos_each() - without.nanos_each())
    }
}

/// Measures, prints a table, and judges.
pub(super) fn hold(brokerscope: &Path, sites: &Path) -> anyhow::Result<Vec<Target>> {
    let site = claim(sites)?;
    let start =
        |name: &str, flag: bool, watch: Watch<'_>| Subject::start(&site.directory(name)?, flag, watch);
    let mut subjects = [
        start("probed", true, Watch::Brokerscope(brokerscope))?,
        start("not-probed", false, Watch::Brokerscope(brokerscope))?,
        start("flagged", true, Watch::Nobody)?,
        start("bare", false, Watch::Nobody)?,
        start("one-empty", true, Watch::Empty(&["entered"]))?,
        start("three-empty", true, Watch::Empty(&["enter", "entered", "exit"]))?,
    ];
    // Until all is compiled, and mapped.
    round(&mut subjects)?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(round(&mut subjects)?);
    }
    let directories = subjects.into_iter().map(Subject::end).collect::<anyhow::Result<Vec<_>>>()?;
    let [probed, not_probed, ..] = directories.as_slice() else { bail!("nobody was measured") };
    let seen = |of: &Path| {
        Ok::<_, anyhow::Error>(wait::read(brokerscope, From::Recording, &of.join("recording"), "usdt")?.len())
    };
    ensure!(seen(not_probed)? == 0, "seen without the flag");
    let seen = seen(probed)?;
    for directory in &directories {
        fs::remove_dir_all(directory)?;
    }
    print(&rounds);
    let waits: u64 = rounds.iter().map(|round| round.probed.waits).sum();
    println!(
        "{seen} of {waits} waits and those of the first round, recorded: the others were shorter than 100 us"
    );
    ensure!(seen as u64 * 2 > waits, "most waits were not seen");
    let [more, ..] = each(&rounds);
    let what = "the JVM's probes, a contended wait (upper quartile)".to_owned();
    let target = Target::of_runs(what, &more, Bound::AtMost(WAIT_NANOS), "ns");
    Ok(vec![Target { measured: quantile(&more, 0.75), ..target }])
}

/// One after the other, so that none takes another's processor.
fn round(subjects: &mut [Subject; 6]) -> anyhow::Result<Round> {
    stop::check()?;
    let [probed, not_probed, flagged, bare, one_empty, three_empty] = subjects;
    Ok(Round {
        probed: probed.run(ROUND_MS)?,
        not_probed: not_probed.run(ROUND_MS)?,
        flagged: flagged.run(ROUND_MS)?,
        bare: bare.run(ROUND_MS)?,
        one_empty: one_empty.run(ROUND_MS)?,
        three_empty: three_empty.run(ROUND_MS)?,
    })
}

/// Of every round, what [`Round::more`] says.
fn each(rounds: &[Round]) -> [Vec<f64>; 4] {
    let mut all = [const { Vec::new() }; 4];
    for round in rounds {
        all.iter_mut().zip(round.more()).for_each(|(of, more)| of.push(more));
    }
    all
}

fn print(rounds: &[Round]) {
    println!("contended waits for a monitor (a thread's processor time for each, us):");
    let micros = |nanos: f64| format!("{:.2}", nanos / 1e3);
    table::print(
        &["waits/s", "probed", "not probed", "more", "by the flag", "by one empty program", "by three"],
        rounds.iter().map(|round| {
            let [more, flag, one, three] = round.more().map(micros);
            let rate = format!("{:.0}", round.probed.waits as f64 * 1e3 / ROUND_MS as f64);
            let own = [&round.probed, &round.not_probed].map(|waited| micros(waited.nanos_each()));
            [vec![rate], own.to_vec(), vec![more, flag, one, three]].concat()
        }),
    );
    let [more, flag, one, three] = each(rounds).map(|of| quantile(&of, 0.5));
    println!(
        "medians: {} us more, of which the flag alone {} us and the kernel's traps into three empty programs {} us (into \
         one {} us); what our programs do takes the other {} us",
        micros(more),
        micros(flag),
        micros(three),
        micros(one),
        micros(more - flag - three)
    );
}

/// For the bound the upper quartile counts: where the rounds differ by more than it, their median would prove nothing.
fn quantile(runs: &[f64], share: f64) -> f64 {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((sorted.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN)
}
