//! Processor time that goes into entering monitors: threads spin for locks that others have.

use crate::profile::Machine;
use crate::rule::need;
use crate::words::{counted, percent};
use crate::{Change, Inputs, Layer, NoAdvice, Profile, Recommendation, Rule, RuleResult, Work};

/// What part of all samples it takes.
const LEAST_SHARE: f64 = 0.05;
/// Of fewer samples a share of one in twenty says little.
const LEAST_SAMPLES: u64 = 200;
/// OpenJ9's documentation, `-Xthr`.
const SLEEP_SOONER: &str = "-Xthr:minimizeUserCPU";
/// Options that only OpenJ9 has; Kafka's scripts give HotSpot's to any JVM.
const OPENJ9_ONLY: [&str; 5] = ["-Xthr:", "-Xgcpolicy:", "-Xshareclasses", "-Xtune:", "-Xquickstart"];

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "monitor-spin",
    layer: Layer::Jvm,
    condition: "at least 5 % of 200 samples or more of what runs on the processors are in the JVM's monitor enter (brokerscope's own \
                bound; the public case had 9.5 %)",
    source: "a public case (IBM zSystems, 2022): objectMonitorEnterNonBlocking took 9.5 % in perf top, -Xthr:minimizeUserCPU gave \
             it back; OpenJ9's documentation, -Xthr. HotSpot adapts how long it spins by itself and has no option for it \
             (runtime/objectMonitor.cpp): there only less contention helps",
    look_at: "requests a second, processor time, and the share of monitor enter in `advise` or `stacks`",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let profile = need(Inputs::PROFILE, &inputs.profile)?;
    if profile.seen() < LEAST_SAMPLES {
        let why = format!("only {} came: too few for a share", counted(profile.seen(), "sample"));
        return Err(NoAdvice::NotKnown { input: Inputs::PROFILE, why: why.into() });
    }
    let entering = profile.of(Work::MonitorEnter);
    let share = profile.share(entering);
    if share < LEAST_SHARE {
        return Err(less(profile, share));
    }
    let told = format!(
        "monitor enter takes {} of the processor time ({entering} of {}){}",
        percent(share),
        counted(profile.seen(), "sample"),
        wanted(inputs),
    );
    Ok(Recommendation {
        evidence: told,
        changes: changes(inputs, profile),
        cost: None,
        effect:
            "at most that processor time; a small gain in the public case, where others had been made before"
                .to_owned(),
        risk: "a waiter that sleeps sooner is later when the lock is let go soon; with more partitions, keys go to others than before",
    })
}

/// Too little of it is seen: because there is little, or because the JVM's functions have no names.
fn less(profile: &Profile, share: f64) -> NoAdvice {
    let unnamed = profile.share(profile.unnamed());
    if share + unnamed < LEAST_SHARE {
        return NoAdvice::Silent(format!("monitor enter takes {} of the processor time", percent(share)));
    }
    let why = format!(
        "{} of the samples are in the JVM's library, which has no symbol table: a JVM that is not stripped tells what they are",
        percent(unnamed)
    );
    NoAdvice::NotKnown { input: "the JVM's functions", why: why.into() }
}

/// Which lock thread dumps show to be wanted, where there are any.
fn wanted(inputs: &Inputs) -> String {
    let most =
        inputs.dumps.as_ref().ok().and_then(|dumps| dumps.blocked.iter().max_by_key(|lock| lock.waits));
    most.filter(|lock| !lock.method.is_empty()).map_or_else(String::new, |lock| {
        format!("; in thread dumps most wait for {} in {}", lock.class, lock.method)
    })
}

fn changes(inputs: &Inputs, profile: &Profile) -> Vec<Change> {
    let mut changes = Vec::new();
    let words = inputs.surroundings.jvm_arguments.as_deref().unwrap_or_default();
    let is_openj9 = words.iter().any(|word| OPENJ9_ONLY.iter().any(|option| word.starts_with(option)));
    let machine = profile.machine().or(is_openj9.then_some(Machine::OpenJ9));
    let sleeps_sooner = words.iter().any(|word| word.eq_ignore_ascii_case(SLEEP_SOONER));
    if machine != Some(Machine::HotSpot) && !sleeps_sooner {
        let old = words.iter().rev().find(|word| word.starts_with("-Xthr:"));
        let old = old.map_or("(none: OpenJ9 spins first)", |old| old);
        let setting = if machine.is_none() { "KAFKA_OPTS (if it is an OpenJ9)" } else { "KAFKA_OPTS" };
        changes.push(Change::of(setting, old, SLEEP_SOONER));
    }
    let handlers = inputs.settings().and_then(|settings| settings.number("num.io.threads", 8));
    if let (Ok(handlers), Ok(cpus)) = (handlers, inputs.cpus()) {
        let most = i64::from(cpus) + 2;
        if handlers.value > most {
            let setting = "num.io.threads (kafka-configs, while the broker runs)";
            changes.push(Change::of(setting, handlers.shown, most));
        }
    }
    let partitions = inputs.partitions().map_or_else(|_| "not known".to_owned(), |count| count.to_string());
    changes.push(Change::of(
        "partitions of the topics that are written to most",
        partitions,
        "twice as many",
    ));
    changes
}

#[cfg(test)]
mod tests {
    use super::{RULE, SLEEP_SOONER};
    use crate::testing::{broker, fired, lacks, profile, silent, with_jvm, with_setting};
    use crate::{ContendedLock, Dumps, Inputs};

    fn running(functions: &[(&str, u64)]) -> Inputs {
        Inputs { profile: Ok(profile(functions)), ..broker() }
    }

    #[test]
    fn fires_on_openj9_with_the_option_of_the_case() {
        let mut inputs =
            running(&[("objectMonitorEnterNonBlocking", 95), ("java.util.zip.CRC32C.updateBytes", 905)]);
        let finding = fired(&RULE, &inputs);
        assert_eq!(finding.changes[0].new, SLEEP_SOONER);
        assert!(
            finding.evidence.contains("10 % of the processor time (95 of 1000 samples)"),
            "{}",
            finding.evidence
        );
        with_jvm(&mut inputs, &["java", "-Xthr:noAdaptSpin", "-Xthr:minimizeUserCPU"]);
        assert!(fired(&RULE, &inputs).changes.iter().all(|change| change.new != SLEEP_SOONER), "it is set");
    }

    #[test]
    fn fires_on_hotspot_with_what_lessens_contention_and_names_the_lock() {
        let mut inputs = running(&[("ObjectMonitor::TrySpin", 60), ("kafka.log.UnifiedLog.append", 940)]);
        with_setting(&mut inputs, "num.io.threads", "32");
        let lock = ContendedLock {
            class: "java.lang.Object".into(),
            method: "kafka.log.UnifiedLog.append".into(),
            dumps: 1,
            waits: 3,
            owners: Vec::new(),
        };
        inputs.dumps = Ok(Dumps { dumps: 1, blocked: vec![lock], ..Dumps::default() });
        let finding = fired(&RULE, &inputs);
        assert_eq!((&*finding.changes[0].new, &*finding.changes[1].new), ("10", "twice as many"));
        assert!(
            finding.evidence.ends_with("java.lang.Object in kafka.log.UnifiedLog.append"),
            "{}",
            finding.evidence
        );
    }

    #[test]
    fn of_an_unknown_jvm_both_ways_are_told() {
        let finding = fired(&RULE, &running(&[("monitorenter", 60), ("a.B.c", 940)]));
        assert!(finding.changes[0].setting.contains("if it is an OpenJ9"), "{finding:?}");
        assert_eq!(finding.changes.len(), 2);
    }

    #[test]
    fn is_silent_where_little_of_it_is_seen_and_lacks_names_where_there_are_none() {
        assert!(silent(&RULE, &broker()).contains("1 %"));
        let unnamed = running(&[("[libjvm.so]", 100), ("a.B.c", 900)]);
        assert_eq!(lacks(&RULE, &unnamed), "the JVM's functions");
        assert_eq!(lacks(&RULE, &running(&[("ObjectMonitor::enter", 100)])), Inputs::PROFILE, "too few");
        assert_eq!(
            lacks(&RULE, &Inputs { profile: Err("nobody watched".into()), ..broker() }),
            Inputs::PROFILE
        );
    }
}
