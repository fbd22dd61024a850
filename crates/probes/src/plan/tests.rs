//! Tests of the plan that remove one capability after the other.

use std::collections::{BTreeMap, BTreeSet};

use super::{Mechanism, Plan, Purpose, State};
use crate::facts::{Capabilities, Facts, Field, Format, Functions, Lockdown, PidNamespace, Tracefs};
use crate::registry::{self, declarations};

/// A host with everything except permission to hook the kernel's functions.
fn able() -> Facts {
    let mut id = 100;
    let formats = declarations().flat_map(|declaration| declaration.tracepoints).map(|needed| {
        id += 1;
        let mut offset = 8;
        let fields = needed.fields.iter().map(|field| {
            offset += 8;
            (field.name.to_owned(), Field { offset, size: field.min_bytes })
        });
        (needed.name.to_owned(), Format { id, fields: fields.collect() })
    });
    let mut formats: BTreeMap<_, _> = formats.collect();
    formats.extend([("btrfs/btrfs_transaction_commit".to_owned(), Format::default())]);
    Facts {
        kernel_release: "6.18.0".to_owned(),
        bpf_refused: None,
        ring_buffer: true,
        btf: true,
        find_vma: true,
        cpu_times: true,
        capabilities: Capabilities(u64::MAX),
        lockdown: Lockdown::Integrity,
        pid_namespace: PidNamespace::Root,
        tracefs: Tracefs::Private,
        tracepoints: formats,
        functions: Functions {
            refused: Some("EPERM".to_owned()),
            known: registry::function_names().map(str::to_owned).collect(),
        },
        refused: BTreeMap::new(),
        jbd2: true,
        block_queue_argument: false,
        untyped_modules: BTreeSet::new(),
        kallsyms: true,
        max_stack: Some(127),
        hz: Some(250),
    }
}

/// The purposes that the change takes away if only tracepoints serve.
fn lost_by(change: impl FnOnce(&mut Facts)) -> Vec<Purpose> {
    let mut facts = able();
    change(&mut facts);
    let plan = Plan::choose(&facts);
    assert_eq!(plan.hooks.len(), Purpose::ALL.len());
    let missing = plan.hooks.iter().filter(|hook| !hook.is_used()).map(|hook| hook.purpose);
    missing.filter(|purpose| !BY_FUNCTIONS.contains(purpose)).collect()
}

/// Purposes that only the kernel's functions serve.
const BY_FUNCTIONS: [Purpose; 3] = [Purpose::Ext4Functions, Purpose::XfsFunctions, Purpose::BtrfsFunctions];

fn why(facts: &Facts, purpose: Purpose) -> (String, Option<String>) {
    let plan = Plan::choose(facts);
    let hook = plan.hooks.into_iter().find(|hook| hook.purpose == purpose).unwrap();
    match hook.state {
        State::Use => panic!("{purpose:?} is used"),
        State::Missing { why, remedy } => (why, remedy),
    }
}

#[test]
fn capable_host_uses_every_purpose() {
    let plan = Plan::choose(&able());
    assert_eq!(plan.used().count(), Purpose::ALL.len() - BY_FUNCTIONS.len());
    let writes = &plan.hooks[0];
    assert_eq!(writes.points.len(), Purpose::FileWrites.declaration().tracepoints.len());
    let off_cpu = plan.hooks.iter().find(|hook| hook.purpose == Purpose::OffCpu).unwrap();
    assert_eq!(off_cpu.mechanism, Mechanism::BtfTracepoints(&["sched_switch"]));
    assert_eq!(off_cpu.programs().collect::<Vec<_>>(), ["sched_switch"]);
    let io = plan.hooks.iter().find(|hook| hook.purpose == Purpose::BlockIo).unwrap();
    assert_eq!(io.programs().collect::<Vec<_>>(), ["block_rq_issue", "block_rq_complete"]);
    let phases = plan.hooks.iter().find(|hook| hook.purpose == Purpose::CommitPhases).unwrap();
    assert_eq!(phases.points[0].fields.len(), 10);
    assert_eq!(phases.points[0].fields[1], Field { offset: 24, size: 4 });
}

#[test]
fn no_purpose_is_used_without_bpf() {
    for change in [
        |facts: &mut Facts| facts.bpf_refused = Some("EPERM".to_owned()),
        |facts: &mut Facts| facts.lockdown = Lockdown::Confidentiality,
        |facts: &mut Facts| facts.ring_buffer = false,
    ] {
        let mut facts = free();
        change(&mut facts);
        assert_eq!(Plan::choose(&facts).used().count(), 0);
    }
}

#[test]
fn journal_and_disk_purposes_do_not_require_btf() {
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
            Purpose::MappedSyncs,
            Purpose::DiskReads,
            Purpose::ChildProcesses,
            Purpose::OffCpu,
            Purpose::MmapFaults,
            Purpose::Wakeups,
            Purpose::ProcessStops,
            Purpose::CpuGaps,
            Purpose::KernelStacks,
            Purpose::JournalHandles,
            Purpose::BlockQueue,
            Purpose::BtrfsCommits,
            Purpose::FsFreezes,
            Purpose::SocketOps,
            Purpose::TcpRetransmits,
            Purpose::FutexWaits,
            Purpose::KernelThreads
        ]
    );
}

#[test]
fn without_btf_block_io_uses_classic_tracepoints() {
    let mut facts = able();
    facts.btf = false;
    let plan = Plan::choose(&facts);
    let io = plan.used().find(|hook| hook.purpose == Purpose::BlockIo).unwrap();
    assert_eq!(io.mechanism, Mechanism::Tracepoints);
    assert_eq!(io.programs().collect::<Vec<_>>(), ["rq_issue", "rq_complete"]);
}

#[test]
fn queue_argument_selects_the_block_programs_before_5_11() {
    let mut facts = able();
    facts.block_queue_argument = true;
    let plan = Plan::choose(&facts);
    let programs = |purpose| {
        let hook = plan.used().find(|hook| hook.purpose == purpose).unwrap();
        hook.programs().collect::<Vec<_>>()
    };
    assert_eq!(programs(Purpose::BlockIo), ["block_rq_issue_of_queue", "block_rq_complete"]);
    assert_eq!(programs(Purpose::BlockQueue), ["block_bio_queue_of_queue", "block_split_of_queue"]);
}

#[test]
fn pid_namespace_disables_only_kernel_threads() {
    assert_eq!(lost_by(|facts| facts.pid_namespace = PidNamespace::Below(1)), [Purpose::KernelThreads]);
}

#[test]
fn unknown_pid_namespace_disables_process_purposes() {
    let lost = lost_by(|facts| facts.pid_namespace = PidNamespace::Unknown("no iterator".to_owned()));
    for purpose in [
        Purpose::JournalCommits,
        Purpose::CommitPhases,
        Purpose::BlockIo,
        Purpose::BlockQueue,
        Purpose::FastCommits,
        Purpose::XfsLogGrants,
        Purpose::XfsLogWrites,
        Purpose::FsFreezes,
    ] {
        assert!(!lost.contains(&purpose), "{purpose:?}");
    }
    assert_eq!(lost.len(), 25);
}

#[test]
fn without_tracefs_btf_purposes_work_and_remedy_is_to_mount() {
    let mut facts = able();
    facts.tracefs = Tracefs::Missing("EPERM".to_owned());
    facts.tracepoints.clear();
    let used: Vec<_> = Plan::choose(&facts).used().map(|hook| hook.purpose).collect();
    assert_eq!(used, [Purpose::CpuGaps, Purpose::BlockIo, Purpose::BlockQueue]);
    let (why, remedy) = why(&facts, Purpose::JournalCommits);
    assert!(why.contains("EPERM"), "{why}");
    assert!(remedy.unwrap().starts_with("mount -t tracefs"));
}

#[test]
fn without_jbd2_only_journal_purposes_are_missing() {
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
fn missing_tracepoint_disables_only_its_purposes() {
    let remove = |name: &'static str| lost_by(move |facts| drop(facts.tracepoints.remove(name)));
    assert_eq!(remove("block/block_rq_issue"), [], "BTF serves");
    assert_eq!(remove("block/block_rq_complete"), [], "BTF serves");
    assert_eq!(remove("writeback/balance_dirty_pages"), [Purpose::DirtyThrottling]);
    assert_eq!(remove("vmscan/mm_vmscan_direct_reclaim_end"), [Purpose::DirectReclaim]);
    assert_eq!(remove("vmscan/mm_vmscan_memcg_reclaim_begin"), [Purpose::MemcgReclaim]);
    assert_eq!(remove("jbd2/jbd2_run_stats"), [Purpose::CommitPhases]);
    assert_eq!(remove("jbd2/jbd2_handle_start"), [Purpose::JournalHandles]);
    assert_eq!(remove("jbd2/jbd2_end_commit"), [Purpose::JournalCommits, Purpose::CommitPhases]);
    assert!(remove("syscalls/sys_exit_write").contains(&Purpose::FileWrites));
    assert_eq!(remove("syscalls/sys_enter_unlinkat"), [Purpose::FileNames]);
    assert_eq!(remove("filemap/mm_filemap_add_to_page_cache"), [Purpose::DiskReads, Purpose::MmapFaults]);
    assert_eq!(remove("filemap/mm_filemap_fault"), [], "older kernels");
    assert_eq!(remove("syscalls/sys_enter_unlink"), [], "arm64 has no such call");
}

#[test]
fn missing_or_resized_field_disables_its_purpose() {
    let change = |facts: &mut Facts, size: Option<u16>| {
        let format = facts.tracepoints.get_mut("jbd2/jbd2_run_stats").unwrap();
        match size {
            Some(size) => format.fields.get_mut("flushing").unwrap().size = size,
            None => drop(format.fields.remove("flushing")),
        }
    };
    assert_eq!(lost_by(|facts| change(facts, Some(4))), [Purpose::CommitPhases]);
    assert_eq!(lost_by(|facts| change(facts, None)), [Purpose::CommitPhases]);
    let mut facts = able();
    change(&mut facts, Some(4));
    let (why, _) = why(&facts, Purpose::CommitPhases);
    assert!(why.contains("jbd2_run_stats") && why.contains("flushing"), "{why}");
}

#[test]
fn missing_optional_field_has_size_zero() {
    let mut facts = able();
    let format = facts.tracepoints.get_mut("filemap/mm_filemap_add_to_page_cache").unwrap();
    format.fields.remove("order");
    let plan = Plan::choose(&facts);
    let pages = plan.used().find(|hook| hook.purpose == Purpose::DiskReads).unwrap();
    assert_eq!(pages.points[0].fields[3].size, 0);
    assert_ne!(pages.points[0].fields[2].size, 0);
}

#[test]
fn accepts_only_the_two_known_sizes_of_rwbs() {
    for (size, known) in [(8, true), (10, true), (0, false), (16, false)] {
        let lost = lost_by(|facts| {
            facts.btf = false;
            let format = facts.tracepoints.get_mut("block/block_rq_issue").unwrap();
            format.fields.get_mut("rwbs").unwrap().size = size;
        });
        assert_eq!(!lost.contains(&Purpose::BlockIo), known, "{size}");
    }
}

#[test]
fn minor_missing_facts_disable_few_purposes() {
    assert_eq!(
        lost_by(|facts| facts.kallsyms = false),
        [Purpose::KernelStacks, Purpose::BtrfsCommits, Purpose::FutexWaits, Purpose::KernelThreads]
    );
    assert_eq!(lost_by(|facts| facts.hz = None), [Purpose::CommitPhases]);
    assert_eq!(lost_by(|facts| facts.find_vma = false), [Purpose::MappedSyncs]);
    assert_eq!(lost_by(|facts| facts.cpu_times = false), [Purpose::CpuGaps]);
    assert_eq!(lost_by(|facts| facts.lockdown = Lockdown::Unknown), []);
}

#[test]
fn every_missing_hook_has_a_reason() {
    let mut facts = able();
    facts.bpf_refused = Some("EPERM".to_owned());
    for hook in Plan::choose(&facts).hooks {
        let State::Missing { why, .. } = hook.state else { panic!("{:?} is used", hook.purpose) };
        assert!(!why.is_empty());
        assert!(hook.points.is_empty());
    }
}

#[test]
fn unloaded_file_system_disables_its_purposes_without_remedy() {
    for (group, lost) in [
        ("ext4/", vec![Purpose::FastCommits, Purpose::Ext4Fsyncs]),
        ("xfs/", vec![Purpose::XfsLogGrants, Purpose::XfsLogWrites]),
        ("btrfs/", vec![Purpose::BtrfsCommits]),
    ] {
        let unload = |facts: &mut Facts| facts.tracepoints.retain(|name, _| !name.starts_with(group));
        assert_eq!(lost_by(unload), lost);
        let mut facts = able();
        unload(&mut facts);
        let (why, remedy) = why(&facts, lost[0]);
        assert!(why.contains("not loaded"), "{why}");
        assert_eq!(remedy, None);
    }
}

#[test]
fn module_without_btf_disables_its_typed_purposes() {
    let untyped = BTreeSet::from(["btrfs".to_owned()]);
    assert_eq!(lost_by(|facts| facts.untyped_modules = untyped), [Purpose::BtrfsCommits]);
}

/// A host that lacks nothing.
fn free() -> Facts {
    let mut facts = able();
    facts.functions.refused = None;
    facts
}

fn mechanism(plan: &Plan, purpose: Purpose) -> Mechanism {
    plan.used().find(|hook| hook.purpose == purpose).unwrap().mechanism
}

#[test]
fn system_calls_use_function_hooks_if_possible() {
    let plan = Plan::choose(&free());
    assert_eq!(plan.used().count(), Purpose::ALL.len());
    let writes = plan.hooks.iter().find(|hook| hook.purpose == Purpose::FileWrites).unwrap();
    assert_eq!((writes.mechanism, writes.points.len()), (Mechanism::Functions, 0));
    assert_eq!(writes.functions.len(), 5);
    assert!(writes.functions[0].name.ends_with("_sys_write"), "{:?}", writes.functions[0]);
    assert_eq!(writes.programs().take(2).collect::<Vec<_>>(), ["write_called", "write_returned"]);
    assert_eq!(mechanism(&plan, Purpose::JournalCommits), Mechanism::Tracepoints);
}

#[test]
fn system_calls_use_function_hooks_without_tracefs() {
    let mut facts = free();
    facts.tracepoints.clear();
    facts.tracefs = Tracefs::Missing("EPERM".to_owned());
    let plan = Plan::choose(&facts);
    assert_eq!(mechanism(&plan, Purpose::FileWrites), Mechanism::Functions);
    assert!(plan.uses(Purpose::OffCpu) && !plan.uses(Purpose::JournalCommits));
}

#[test]
fn tracepoints_replace_unusable_function_hooks() {
    for change in [
        |facts: &mut Facts| facts.functions.refused = Some("EPERM".to_owned()),
        |facts: &mut Facts| facts.functions.known.clear(),
        |facts: &mut Facts| drop(facts.refused.insert("pwritev2_returned".to_owned(), "EINVAL".to_owned())),
    ] {
        let mut facts = free();
        change(&mut facts);
        let plan = Plan::choose(&facts);
        assert_eq!(mechanism(&plan, Purpose::FileWrites), Mechanism::Tracepoints);
        assert!(plan.uses(Purpose::OffCpu));
    }
}

#[test]
fn unloaded_file_system_disables_only_its_functions() {
    let mut facts = free();
    facts.functions.known.retain(|name| !name.starts_with("xfs_"));
    let missing: Vec<_> = Plan::choose(&facts).hooks.into_iter().filter(|hook| !hook.is_used()).collect();
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].purpose, Purpose::XfsFunctions);
    let (why, _) = why(&facts, Purpose::XfsFunctions);
    assert!(why.contains("not loaded"), "{why}");
    let (why, remedy) = why_missing_functions();
    assert!(why.contains("EPERM") && remedy.unwrap().contains("lockdown"), "{why}");
}

fn why_missing_functions() -> (String, Option<String>) {
    why(&able(), Purpose::Ext4Functions)
}

#[test]
fn functions_of_old_system_calls_are_optional() {
    let mut facts = free();
    facts.functions.known.retain(|name| !name.ends_with("_sys_unlink"));
    assert_eq!(mechanism(&Plan::choose(&facts), Purpose::FileNames), Mechanism::Functions);
    facts.functions.known.retain(|name| !name.ends_with("_sys_unlinkat"));
    assert_eq!(mechanism(&Plan::choose(&facts), Purpose::FileNames), Mechanism::Tracepoints);
}

#[test]
fn refused_program_disables_its_purpose_and_dependents() {
    let refuse = |program: &'static str| {
        lost_by(move |facts| drop(facts.refused.insert(program.to_owned(), "R2 unbounded".to_owned())))
    };
    assert_eq!(refuse("run_stats"), [Purpose::CommitPhases]);
    assert_eq!(refuse("sched_waking"), [Purpose::Wakeups, Purpose::ProcessStops, Purpose::FutexWaits]);
    assert!(refuse("sched_switch").contains(&Purpose::KernelStacks));
    assert_eq!(refuse("cpu_tick"), [Purpose::CpuGaps]);
    assert_eq!(refuse("no_such_program"), []);
    let plan = Plan::choose(&able()).without("run_stats", "R2 unbounded");
    let hook = plan.hooks.iter().find(|hook| hook.purpose == Purpose::CommitPhases).unwrap();
    let State::Missing { why, .. } = &hook.state else { panic!("{hook:?}") };
    assert!(why.contains("run_stats") && why.contains("R2 unbounded"), "{why}");
    assert!(!plan.needs("run_stats"));
}

#[test]
fn remedy_names_the_missing_capabilities() {
    let mut facts = able();
    facts.bpf_refused = Some("EPERM".to_owned());
    facts.capabilities = Capabilities(1 << Capabilities::PERFMON);
    let remedy = why(&facts, Purpose::FileWrites).1.unwrap();
    assert!(remedy.starts_with("it lacks CAP_BPF: "), "{remedy}");
    assert!(remedy.contains("setcap") && remedy.contains("AmbientCapabilities"), "{remedy}");
}
