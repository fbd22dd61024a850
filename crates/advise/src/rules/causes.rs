//! A rule for each cause with advice: it fires if the cause cost slow requests enough.
//!
//! Texts and settings come from the cause's declaration. This module has what depends on the broker's own settings.

use diagnose::causes::spec::{Current, SettingChange};
use model::{Cause, FileKind, HostScope, Volume};

use super::{disk, locks};
use crate::costs::{costly, costly_as_link};
use crate::rule::{CauseSpec, Judge, advise, silent};
use crate::unsent::evidence_of_unsent_reads;
use crate::words::{or_not_known, size};
use crate::{Change, Inputs, NoAdvice, Rule, RuleResult, Scope};

/// Periods of 100 ms per second that ran out of CPU quota: fewer are noise.
const MIN_THROTTLED_PER_SECOND: f64 = 0.1;
/// Linux 5.10 introduced fast commits (`fs/ext4/fast_commit.c`).
const FAST_COMMITS_SINCE: (u32, u32) = (5, 10);

/// Creates the rules. Called once: their texts live as long as the program.
pub(super) fn rules() -> impl Iterator<Item = Rule> {
    diagnose::causes::all().filter_map(|spec| {
        let cause = spec.cause;
        Some(Rule {
            name: spec.rule_name()?,
            layer: spec.layer?,
            condition: condition(spec).leak(),
            source: spec.source,
            look_at: if spec.counts_as_link {
                format!("{cause} in the chains of causes{}", spec.look_at).leak()
            } else {
                format!("{cause} among the causes{}", spec.look_at).leak()
            },
            effect: "",
            risk: spec.risk,
            judge: Judge::Cause(spec),
        })
    })
}

fn condition(spec: &CauseSpec) -> String {
    let (cause, more) = (spec.cause, spec.condition);
    let bound = "at least 1 % of the slow requests' time (brokerscope's own bound)";
    if spec.counts_as_link {
        format!("requests that waited in {cause}, for any reason, took {bound}{more}")
    } else {
        format!("{cause} is the cause of {bound}{more}")
    }
}

pub(crate) fn judge(spec: &CauseSpec, inputs: &Inputs) -> RuleResult {
    let causes: &[Cause] = match spec.cause {
        Cause::DiskReadInNetworkThread => &[Cause::DiskReadInNetworkThread, Cause::CacheEviction],
        _ => &[spec.cause],
    };
    let cost = if spec.counts_as_link { costly_as_link(inputs, spec.cause) } else { costly(inputs, causes) };
    match (cost, without_cost(spec.cause, inputs)) {
        (Ok((cost, evidence)), unmeasured) => {
            let changes = changes(spec, inputs)?;
            let more = match (spec.cause, unmeasured) {
                (Cause::TierStateIo, Some(Ok((more, _)))) => format!("; {more}"),
                (Cause::HandlersBusy, _) => {
                    let handlers = inputs.settings()?.number("num.io.threads", 8)?;
                    format!("; {} handlers on {} CPUs", handlers.value, inputs.cpus()?)
                }
                _ => String::new(),
            };
            Ok(advise(format!("{evidence}{more}"), changes).at(cost, spec.effect))
        }
        (Err(_), Some(Ok((evidence, effect)))) => {
            Ok(advise(evidence, changes(spec, inputs)?).with_effect(effect))
        }
        // For these causes, the inputs alone decide if there are no verdicts.
        (Err(_), Some(Err(why))) if spec.cause != Cause::TierStateIo => Err(why),
        (Err(NoAdvice::Silent(cost)), Some(Err(NoAdvice::Silent(why)))) => silent(format!("{cost}; {why}")),
        (Err(NoAdvice::Silent(_)), Some(Err(unknown))) => Err(unknown),
        (Err(unfired), _) => Err(unfired),
    }
}

/// Evidence and expected effect from the inputs, without verdicts. `None` for most causes.
fn without_cost(cause: Cause, inputs: &Inputs) -> Option<Result<(String, &'static str), NoAdvice>> {
    match cause {
        Cause::CpuThrottled => {
            let series = inputs.samples().ok()?.one(HostScope::Cgroup, "cpu_throttled_per_second");
            let often = series.map_or(0.0, |series| series.mean());
            if often < MIN_THROTTLED_PER_SECOND {
                return Some(silent("the cgroup's quota did not run out, or it has none"));
            }
            let evidence = format!("the cgroup's quota ran out in {often:.1} periods a second");
            let effect =
                "no thread is throttled while CPUs are idle; what throttling costs requests was not measured";
            Some(Ok((evidence, effect)))
        }
        // Reads of tier state load a device before any request is slow.
        Cause::TierStateIo => Some(evidence_of_unsent_reads(inputs, FileKind::TierState).map(|read| {
            (
                read,
                "these reads stop, but not at once (see the risk); what they cost requests was not measured",
            )
        })),
        Cause::Recompression if inputs.costs.is_err() => Some(compression(inputs)),
        _ => None,
    }
}

/// Evidence from the broker's codec setting, if no requests were watched.
fn compression(inputs: &Inputs) -> Result<(String, &'static str), NoAdvice> {
    let codec = inputs.settings()?.text("compression.type").filter(|codec| *codec != "producer");
    let Some(codec) = codec else {
        return silent("compression.type is producer, and no requests were watched");
    };
    let evidence =
        format!("compression.type={codec}: batches of any other codec are decompressed and recompressed");
    Ok((evidence, "less CPU time of the request handlers; how much was not measured"))
}

/// The changes for a cause: those that depend on the inputs, else those of its declaration.
fn changes(spec: &CauseSpec, inputs: &Inputs) -> Result<Vec<Change>, NoAdvice> {
    Ok(match spec.cause {
        Cause::JournalCommit => journal(spec, inputs),
        Cause::SlowDevice => {
            disk::silent_if_saturated(inputs)?;
            disk::more_devices(inputs)
        }
        Cause::DirtyThrottling => {
            // Writers that outpace the device reach any limit on dirty pages.
            disk::silent_if_saturated(inputs)?;
            // More dirty pages for bursts; or devices that write them back sooner (mm/page-writeback.c).
            let room = |name, ratio: u32| {
                Change::of(name, inputs.describe_sysctl(name), ratio).by_name(Scope::Kernel)
            };
            let mut changes =
                vec![room("vm.dirty_background_ratio", 5), room("vm.dirty_ratio", 60).with_the_last()];
            changes.extend(disk::more_devices(inputs));
            changes
        }
        Cause::LogLock => vec![locks::more_partitions(inputs)],
        Cause::HandlersBusy => vec![more_handlers(inputs)?],
        Cause::NetworkThreadsBusy => vec![network_threads(inputs)],
        Cause::RunQueue => run_queue(inputs),
        Cause::CpuThrottled => {
            let none = || "none: look at the groups above".to_owned();
            let quota = inputs.host_facts.cpu_quota.as_ref();
            let quota = quota.map(|quota| quota.map_or_else(none, |cpus| format!("{cpus:.1} CPUs")));
            let setting = "cpu.max of the broker's cgroup (Kubernetes: limits.cpu)";
            vec![Change::of(setting, or_not_known(quota), "max: no quota")]
        }
        Cause::PageLock => {
            let mut changes = declared_changes(spec, inputs);
            let name = "vm.dirty_background_ratio";
            if let (Some(first), Ok(ratio @ 2..)) = (changes.first_mut(), inputs.sysctl(name)) {
                *first = first.clone().on(Scope::Kernel, name, ratio / 2);
            }
            changes
        }
        _ => declared_changes(spec, inputs),
    })
}

/// Changes as declared, with the current values of their settings.
fn declared_changes(spec: &CauseSpec, inputs: &Inputs) -> Vec<Change> {
    let change = |declared: &SettingChange| {
        let change = Change::of(declared.setting, current_value(declared.current, inputs), declared.new);
        let change = Change { combination: declared.combination, ..change };
        match declared.target {
            Some((scope, name, value)) => change.on(scope, name, value),
            None => change,
        }
    };
    spec.changes.iter().map(change).collect()
}

fn current_value(of: Current, inputs: &Inputs) -> String {
    match of {
        Current::Text(text) => text.to_owned(),
        Current::Broker(name, default) => inputs.describe_setting(name, default),
        Current::Kernel(name) => inputs.describe_sysctl(name),
        Current::Jvm(prefix) => or_not_known(inputs.jvm().map(|words| {
            let value = words.iter().filter_map(|word| word.strip_prefix(prefix)).next_back();
            value.unwrap_or("not set")
        })),
        Current::JvmFlag(flag) => or_not_known(
            inputs.jvm().map(
                |words| {
                    if words.iter().any(|word| &**word == flag) { "set" } else { "not set" }
                },
            ),
        ),
        Current::MemoryLimit => {
            let limit = inputs.host_facts.memory_limit_bytes.as_ref();
            or_not_known(limit.map(|limit| limit.map_or_else(|| "none".to_owned(), size)))
        }
        Current::Memory => or_not_known(inputs.memory().map(|bytes| format!("of {} in all", size(bytes)))),
    }
}

/// Twice as many, but no more than CPUs, if both are known.
fn network_threads(inputs: &Inputs) -> Change {
    let name = "num.network.threads";
    let old = inputs.describe_setting(name, "3");
    let threads = inputs.settings().and_then(|settings| settings.number(name, 3));
    let Ok(threads) = threads else { return Change::of(name, old, "twice as many") };
    let twice = threads.value.saturating_mul(2);
    let most = inputs.cpus().map_or(twice, |cpus| i64::from(cpus).max(threads.value.saturating_add(1)));
    Change::of(name, old, twice.min(most)).by_name(Scope::Broker)
}

fn more_handlers(inputs: &Inputs) -> Result<Change, NoAdvice> {
    let handlers = inputs.settings()?.number("num.io.threads", 8)?;
    let cpus = i64::from(inputs.cpus()?);
    let partitions = inputs.partitions().ok().and_then(|count| i64::try_from(count).ok());
    // Some handlers are always in a write.
    let new = (cpus + 2).min(partitions.unwrap_or(i64::MAX));
    if handlers.value >= cpus || new <= handlers.value {
        return silent(format!(
            "{} handlers are enough for {cpus} CPUs and the present partitions: remove what kept them busy, do not add more",
            handlers.value
        ));
    }
    Ok(Change::of(locks::HANDLERS, handlers.text, new).on(Scope::Broker, "num.io.threads", new))
}

fn run_queue(inputs: &Inputs) -> Vec<Change> {
    let fewer = locks::fewer_handlers(inputs);
    let fewer = fewer.map(|(change, most)| change.on(Scope::Broker, "num.io.threads", most));
    let mut changes = Vec::from_iter(fewer);
    let cpus = or_not_known(inputs.cpus());
    changes.push(Change::of("CPUs, or what else runs on this host", cpus, "more, or less of it"));
    let name = "kernel.sched_migration_cost_ns";
    let migration = Change::of(name, inputs.describe_sysctl(name), 50_000);
    changes.push(if inputs.sysctl(name).is_ok() { migration.by_name(Scope::Kernel) } else { migration });
    changes
}

/// The declared changes, for an ext4 log dir and its device if one is known.
/// Omits those known to be made already, and those that the kernel is too old for.
fn journal(spec: &CauseSpec, inputs: &Inputs) -> Vec<Change> {
    let is_ext4 = |volume: &&Volume| &*volume.fs == "ext4";
    let Some(volume) = inputs.host_facts.volumes.iter().flatten().find(is_ext4) else {
        // It is not known which file system a program would have to change.
        let by_hand = |change| Change { target: None, ..on_volume(change, "the log dirs", "DEVICE") };
        return declared_changes(spec, inputs).into_iter().map(by_hand).collect();
    };
    let kernel = inputs.host_facts.kernel.as_ref().ok().and_then(|kernel| release(kernel));
    let too_old = kernel.is_some_and(|release| release < FAST_COMMITS_SINCE);
    let ext4 = volume.ext4.as_ref().ok().copied().flatten();
    let mount = volume.options.as_ref().ok().map(|options| {
        options.iter().find(|option| option.starts_with("data=")).map_or("data=ordered", |set| set)
    });
    let device = format!("/dev/{}", volume.device);
    let changes = declared_changes(spec, inputs).into_iter().filter_map(|change| {
        let old = match &*change.target.as_ref()?.name {
            "features" if too_old || ext4.is_some_and(|ext4| ext4.fast_commit) => return None,
            "features" => ext4.map(|_| "off"),
            "mount" if mount == Some("data=writeback") => return None,
            "mount" => mount,
            _ => None,
        };
        let old = old.map_or_else(|| change.old.clone(), str::to_owned);
        Some(Change { old, ..on_volume(change, &volume.log_dir, &device) })
    });
    changes.collect()
}

/// Inserts the names of a log dir and its device into a change.
fn on_volume(change: Change, log_dir: &str, device: &str) -> Change {
    Change { setting: change.setting.replace("LOG_DIR", log_dir).replace("DEVICE", device), ..change }
}

/// `6.1.0-18-amd64` is (6, 1).
pub(crate) fn release(kernel: &str) -> Option<(u32, u32)> {
    let mut numbers = kernel.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
