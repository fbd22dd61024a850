//! The plan where one capability after the other is taken away.

use super::{Mechanism, Plan, Purpose, State};
use crate::facts::{Capabilities, Facts, Field, Format, Lockdown, Tracefs};
use crate::tracepoints;

/// A host that lacks nothing.
fn able() -> Facts {
    let mut id = 100;
    let formats = tracepoints::ALL.iter().copied().flatten().map(|needed| {
        id += 1;
        let mut offset = 8;
        let fields = needed.fields.iter().map(|field| {
            offset += 8;
            (field.name.to_owned(), Field { offset, size: field.min })
        });
        (needed.name.to_owned(), Format { id, fields: fields.collect() })
    });
    Facts {
        kernel_release: "6.18.0".to_owned(),
        bpf_refused: None,
        ring_buffer: true,
        btf: true,
        capabilities: Capabilities(u64::MAX),
        lockdown: Lockdown::Integrity,
        root_pid_namespace: true,
        tracefs: Tracefs::Private,
        tracepoints: formats.collect(),
        jbd2: true,
        kallsyms: true,
        max_stack: Some(127),
        hz: Some(250),
    }
}

fn lost_by(change: impl FnOnce(&mut Facts)) -> Vec<Purpose> {
    let mut facts = able();
    change(&mut facts);
    let plan = Plan::choose(&facts);
    assert_eq!(plan.hooks.len(), Purpose::ALL.len());
    plan.hooks.iter().filter(|hook| !hook.is_used()).map(|hook| hook.purpose).collect()
}

fn why(facts: &Facts, purpose: Purpose) -> (String, Option<String>) {
    let plan = Plan::choose(facts);
    let hook = plan.hooks.into_iter().find(|hook| hook.purpose == purpose).unwrap();
    match hook.state {
        State::Use => panic!("{purpose:?} is used"),
        State::Missing { why, remedy } => (why, remedy),
    }
}

#[test]
fn an_able_host_uses_everything() {
    let plan = Plan::choose(&able());
    assert_eq!(plan.used().count(), Purpose::ALL.len());
    let writes = &plan.hooks[0];
    assert_eq!(writes.points.len(), tracepoints::FILE_WRITES.len());
    let off_cpu = plan.hooks.iter().find(|hook| hook.purpose == Purpose::OffCpu).unwrap();
    assert_eq!(off_cpu.mechanism, Mechanism::BtfTracepoint("sched_switch"));
    assert_eq!(off_cpu.programs().collect::<Vec<_>>(), ["sched_switch"]);
    let io = plan.hooks.iter().find(|hook| hook.purpose == Purpose::BlockIo).unwrap();
    assert_eq!(io.mechanism, Mechanism::BtfTracepoint("block_rq_complete"));
    assert_eq!(io.programs().collect::<Vec<_>>(), ["rq_issue", "block_rq_complete"]);
    assert_eq!(io.points[0].fields.len(), 5);
    assert_eq!(io.points[0].fields[1], Field { offset: 24, size: 8 });
}

#[test]
fn without_bpf_nothing_remains() {
    for change in [
        |facts: &mut Facts| facts.bpf_refused = Some("EPERM".to_owned()),
        |facts: &mut Facts| facts.lockdown = Lockdown::Confidentiality,
        |facts: &mut Facts| facts.ring_buffer = false,
    ] {
        assert_eq!(lost_by(change), Purpose::ALL);
    }
}

#[test]
fn without_btf_the_journal_and_the_disk_remain() {
    assert_eq!(
        lost_by(|facts| facts.btf = false),
        [
            Purpose::FileWrites,
            Purpose::FileReads,
            Purpose::FileTransfers,
            Purpose::FileSyncs,
            Purpose::FileSizes,
            Purpose::FileNames,
            Purpose::FileOpens,
            Purpose::OffCpu,
            Purpose::Wakeups,
            Purpose::KernelStacks,
            Purpose::JournalHandles
        ]
    );
}

#[test]
fn without_btf_completions_come_from_their_classic_tracepoint() {
    let mut facts = able();
    facts.btf = false;
    let plan = Plan::choose(&facts);
    let io = plan.used().find(|hook| hook.purpose == Purpose::BlockIo).unwrap();
    assert_eq!(io.mechanism, Mechanism::Tracepoints);
    assert_eq!(io.programs().collect::<Vec<_>>(), ["rq_issue", "rq_complete"]);
}

#[test]
fn in_another_pid_namespace_what_needs_no_process_remains() {
    let plan = |facts: &mut Facts| facts.root_pid_namespace = false;
    let lost = lost_by(plan);
    for purpose in [Purpose::JournalCommits, Purpose::CommitPhases, Purpose::BlockIo] {
        assert!(!lost.contains(&purpose), "{purpose:?}");
    }
    assert_eq!(lost.len(), 12);
}

#[test]
fn without_tracefs_nothing_remains_and_the_remedy_is_to_mount_it() {
    let mut facts = able();
    facts.tracefs = Tracefs::Missing("EPERM".to_owned());
    facts.tracepoints.clear();
    assert_eq!(Plan::choose(&facts).used().count(), 0);
    let (why, remedy) = why(&facts, Purpose::BlockIo);
    assert!(why.contains("EPERM"), "{why}");
    assert!(remedy.unwrap().starts_with("mount -t tracefs"));
}

#[test]
fn without_jbd2_only_the_journal_is_missing_and_nothing_is_to_be_done() {
    let unload = |facts: &mut Facts| {
        facts.jbd2 = false;
        facts.tracepoints.retain(|name, _| !name.starts_with("jbd2/"));
    };
    assert_eq!(lost_by(unload), [Purpose::JournalCommits, Purpose::CommitPhases, Purpose::JournalHandles]);
    let mut facts = able();
    unload(&mut facts);
    let (why, remedy) = why(&facts, Purpose::JournalCommits);
    assert!(why.contains("not loaded"), "{why}");
    assert_eq!(remedy, None);
}

#[test]
fn each_missing_tracepoint_takes_its_own_purpose_away() {
    let remove = |name: &'static str| lost_by(move |facts| drop(facts.tracepoints.remove(name)));
    assert_eq!(remove("block/block_rq_issue"), [Purpose::BlockIo]);
    assert_eq!(remove("block/block_rq_complete"), [], "BTF serves");
    assert_eq!(remove("writeback/balance_dirty_pages"), [Purpose::DirtyThrottling]);
    assert_eq!(remove("jbd2/jbd2_run_stats"), [Purpose::CommitPhases]);
    assert_eq!(remove("jbd2/jbd2_handle_start"), [Purpose::JournalHandles]);
    assert_eq!(remove("jbd2/jbd2_end_commit"), [Purpose::JournalCommits, Purpose::CommitPhases]);
    assert!(remove("syscalls/sys_exit_write").contains(&Purpose::FileWrites));
    assert_eq!(remove("syscalls/sys_enter_unlinkat"), [Purpose::FileNames]);
    assert_eq!(remove("syscalls/sys_enter_unlink"), [], "arm64 has no such call");
}

#[test]
fn a_field_that_is_gone_or_of_another_size_is_not_read() {
    let change = |facts: &mut Facts, size: Option<u16>| {
        let format = facts.tracepoints.get_mut("block/block_rq_issue").unwrap();
        match size {
            Some(size) => format.fields.get_mut("sector").unwrap().size = size,
            None => drop(format.fields.remove("sector")),
        }
    };
    assert_eq!(lost_by(|facts| change(facts, Some(4))), [Purpose::BlockIo]);
    assert_eq!(lost_by(|facts| change(facts, None)), [Purpose::BlockIo]);
    let mut facts = able();
    change(&mut facts, Some(4));
    let (why, _) = why(&facts, Purpose::BlockIo);
    assert!(why.contains("block_rq_issue") && why.contains("sector"), "{why}");
}

#[test]
fn both_known_sizes_of_rwbs_are_taken_and_no_others() {
    for (size, lost) in [(8, 0), (10, 0), (0, 1), (16, 1)] {
        let lost_purposes = lost_by(|facts| {
            let format = facts.tracepoints.get_mut("block/block_rq_issue").unwrap();
            format.fields.get_mut("rwbs").unwrap().size = size;
        });
        assert_eq!(lost_purposes.len(), lost, "{size}");
    }
}

#[test]
fn small_things_missing_take_little_away() {
    assert_eq!(lost_by(|facts| facts.kallsyms = false), [Purpose::KernelStacks]);
    assert_eq!(lost_by(|facts| facts.hz = None), [Purpose::CommitPhases]);
    assert_eq!(lost_by(|facts| facts.lockdown = Lockdown::Unknown), []);
}

#[test]
fn every_missing_hook_says_why() {
    let mut facts = able();
    facts.bpf_refused = Some("EPERM".to_owned());
    for hook in Plan::choose(&facts).hooks {
        let State::Missing { why, .. } = hook.state else { panic!("{:?} is used", hook.purpose) };
        assert!(!why.is_empty());
        assert!(hook.points.is_empty());
    }
}
