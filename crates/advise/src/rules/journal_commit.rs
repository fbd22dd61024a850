//! Appends that wait for ext4's journal to commit. Does not say that they do: verdicts did.

use model::{Cause, Volume};

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult, Scope};

/// Fast commits came with Linux 5.10 (`fs/ext4/fast_commit.c`).
const FAST_COMMITS_SINCE: (u32, u32) = (5, 10);

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "journal-commit",
    layer: Layer::FileSystem,
    condition: "journal-commit is the cause of at least 1 % of the slow requests' time",
    source: "a public case (Allegro, 2024): p99.9 of produce requests from 3 s to 500 ms with fast commits and to 800 ms with \
             data=writeback, 82 % fewer requests over 65 ms on XFS; commit=1 and commit=3 changed nothing. \
             Documentation/filesystems/ext4/journal.rst. The bound of 1 % is brokerscope's own",
    look_at: "journal-commit among the causes, and p99.9 of produce",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::JournalCommit])?;
    let effect = cost.gain("; the public case took p99.9 from 3 s to 500 ms by the first of these");
    Ok(Recommendation {
        evidence,
        changes: changes(inputs),
        cost: Some(cost),
        effect,
        risk: "fast commits are off by default and younger than the rest of ext4; XFS needs the log dirs moved; data=writeback may \
               leave old blocks in a file's newest part after a crash, which Kafka's recovery finds by its batches' CRCs",
    })
}

fn changes(inputs: &Inputs) -> Vec<Change> {
    let too_old = inputs
        .surroundings
        .kernel
        .as_ref()
        .is_ok_and(|kernel| release(kernel).is_some_and(|release| release < FAST_COMMITS_SINCE));
    let volumes: Vec<&Volume> =
        inputs.surroundings.volumes.iter().flatten().filter(|volume| &*volume.fs == "ext4").collect();
    let Some(volume) = volumes.first() else { return without_volumes() };
    let (device, dir) = (&volume.device, &volume.log_dir);
    let ext4 = volume.ext4.as_ref().ok().copied().flatten();
    let mut changes = Vec::new();
    if !too_old && !ext4.is_some_and(|ext4| ext4.fast_commit) {
        let old = if ext4.is_some() { "off" } else { "not known; off by default" };
        changes.push(Change::of(format!("tune2fs -O fast_commit /dev/{device} (unmounted)"), old, "on").on(
            Scope::FileSystem,
            "features",
            "fast_commit",
        ));
    }
    changes.push(Change::of(format!("file system of {dir}"), "ext4", "xfs").on(
        Scope::FileSystem,
        "type",
        "xfs",
    ));
    let old = match &volume.options {
        Ok(options) => {
            options.iter().find(|option| option.starts_with("data=")).map_or("data=ordered", |set| set)
        }
        Err(_) => "not known; data=ordered by default",
    };
    if old != "data=writeback" {
        changes.push(Change::of(format!("mount option of {dir}"), old, "data=writeback").on(
            Scope::FileSystem,
            "mount",
            "data=writeback",
        ));
    }
    changes
}

/// Which of the log dirs it is, is then for the user to see: a journal that commits is ext4's.
fn without_volumes() -> Vec<Change> {
    let of = "the log dirs' ext4";
    vec![
        Change::of(format!("tune2fs -O fast_commit on {of} (unmounted)"), "not known; off by default", "on"),
        Change::of("file system of the log dirs", "ext4", "xfs"),
        Change::of(format!("mount option of {of}"), "not known; data=ordered by default", "data=writeback"),
    ]
}

/// `6.1.0-18-amd64` is (6, 1).
fn release(kernel: &str) -> Option<(u32, u32)> {
    let mut numbers = kernel.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use model::{Cause, Ext4, Nanos};

    use super::{RULE, release};
    use crate::Inputs;
    use crate::testing::{broker, fired, fires_on, rests_without, with_cost};

    fn on_ext4(fast_commit: bool, kernel: &str) -> Inputs {
        let mut inputs = broker();
        with_cost(&mut inputs, Cause::JournalCommit, 20, Nanos::from_millis(200));
        inputs.surroundings.kernel = Ok(kernel.into());
        let volume = &mut inputs.surroundings.volumes.as_mut().unwrap()[0];
        volume.fs = "ext4".into();
        volume.ext4 = Ok(Some(Ext4 { journal: true, fast_commit }));
        inputs
    }

    #[test]
    fn fires_with_what_this_file_system_lacks() {
        fires_on(&RULE, Cause::JournalCommit);
        let settings = |inputs| {
            fired(&RULE, &inputs).changes.into_iter().map(|change| change.setting).collect::<Vec<_>>()
        };
        let all = settings(on_ext4(false, "6.1.0"));
        assert_eq!(all.len(), 3);
        assert!(all[0].starts_with("tune2fs -O fast_commit /dev/nvme0n1"), "{all:?}");
        assert_eq!(settings(on_ext4(true, "6.1.0")).len(), 2, "it has them");
        assert_eq!(settings(on_ext4(false, "5.4.0")).len(), 2, "its kernel has none");
    }

    #[test]
    fn is_silent_where_no_commit_cost_anything() {
        rests_without(&RULE, Cause::JournalCommit);
    }

    #[test]
    fn a_release_is_two_numbers() {
        assert_eq!(
            [release("6.1.0-18-amd64"), release("5.10+"), release("x")],
            [Some((6, 1)), Some((5, 10)), None]
        );
    }
}
