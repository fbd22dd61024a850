//! File systems that note when a file was read. Nothing of Kafka's asks for that.

use crate::rule::need;
use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "noatime",
    layer: Layer::FileSystem,
    condition: "a log dir's file system is mounted without noatime",
    source: "Kafka's documentation, operations: general file system notes. mount(8): with relatime, the default, a file's time is \
             written at most once a day",
    look_at: "journal_commits/ and writes_per_second of the device: a small difference at most",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let mut without = Vec::new();
    for volume in inputs.volumes()? {
        let options = need("the log dirs' mount options", &volume.options)?;
        if !options.iter().any(|option| &**option == "noatime") {
            let atime = options.iter().find(|option| option.ends_with("atime"));
            without.push((volume, atime.map_or("strictatime", |option| option)));
        }
    }
    if without.is_empty() {
        return Err(NoAdvice::silent("every log dir is mounted with noatime"));
    }
    let dirs: Vec<&str> = without.iter().map(|(volume, _)| &*volume.log_dir).collect();
    Ok(Recommendation {
        evidence: format!("mounted without noatime: {}", dirs.join(", ")),
        changes: without
            .iter()
            .map(|(volume, atime)| {
                Change::of(format!("mount option of {}", volume.log_dir), atime, "noatime").on(
                    Scope::FileSystem,
                    "mount",
                    "noatime",
                )
            })
            .collect(),
        cost: None,
        effect: "fewer writes of inodes; no slow request was seen to wait for one".to_owned(),
        risk: "whatever else on that file system asks when a file was read is told nothing",
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, lacks, silent};

    #[test]
    fn fires_where_times_of_reading_are_kept() {
        let mut inputs = broker();
        inputs.surroundings.volumes.as_mut().unwrap()[0].options =
            Ok(["rw", "relatime"].map(Into::into).to_vec());
        let finding = fired(&RULE, &inputs);
        assert_eq!(
            (&*finding.changes[0].setting, &*finding.changes[0].old),
            ("mount option of /data", "relatime")
        );
    }

    #[test]
    fn is_silent_where_they_are_not_or_nobody_can_say() {
        let mut inputs = broker();
        assert!(silent(&RULE, &inputs).contains("noatime"));
        inputs.surroundings.volumes.as_mut().unwrap()[0].options = Err("a recording holds none".into());
        assert_eq!(lacks(&RULE, &inputs), "the log dirs' mount options");
    }
}
