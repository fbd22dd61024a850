//! Time by stack: folded text and flame graphs against their golden files, with names that would be markup.

use model::{CpuState, Nanos, StackTime};
use page::flame_graph::{FoldedStacks, Header, write_svg};

use super::golden;

fn fold() -> FoldedStacks {
    let mut fold = FoldedStacks::default();
    for stack_time in stack_times() {
        fold.add(&stack_time);
    }
    fold
}

#[test]
fn time_by_stack_in_every_format() {
    let both = [CpuState::On, CpuState::Off];
    let about = about();
    golden("stacks.folded", |out| fold().write_folded(out, &both).unwrap());
    golden("stacks.svg", |out| write_svg(out, &fold(), &both, &about).unwrap());
    golden("stacks-nothing.svg", |out| {
        write_svg(out, &FoldedStacks::default(), &both[..1], &Header::default()).unwrap();
    });
}

/// Names come from processes, and a browser runs scripts in a picture.
#[test]
fn flame_graph_has_only_its_own_script() {
    let mut out = Vec::new();
    write_svg(&mut out, &fold(), &[CpuState::On, CpuState::Off], &about()).unwrap();
    let svg = String::from_utf8(out).unwrap();
    assert_eq!((svg.matches("<script").count(), svg.matches("</script").count()), (1, 1));
    assert_eq!((svg.matches("<![CDATA[").count(), svg.matches("]]>").count()), (1, 1));
    assert!(!svg.contains("<b>") && svg.contains("&lt;b&gt;"), "a name became an element");
    let opened = |element: &str| svg.matches(&format!("<{element} ")).count();
    for element in ["g", "text"] {
        assert_eq!(opened(element), svg.matches(&format!("</{element}>")).count(), "{element}");
    }
}

/// Two threads, one of which waits for a journal. The names of threads and functions are hostile.
fn stack_times() -> Vec<StackTime> {
    let stack_time = |state, thread: &str, stack: &str, ms: i64, count| StackTime {
        state,
        thread: thread.into(),
        tid: None,
        stack: stack.into(),
        time: Nanos::from_millis(ms),
        count,
    };
    let append = "[libc.so.6];JavaThread::run;[interpreter]_[j];kafka.log.UnifiedLog.append_[j];write;\
                  entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];ksys_write_[k];vfs_write_[k];\
                  ext4_buffered_write_iter_[k]";
    let journal = "ext4_dirty_inode_[k];__ext4_journal_start_sb_[k];jbd2__journal_start_[k];\
                   start_this_handle_[k];wait_transaction_locked_[k];schedule_[k];__schedule_[k]";
    let handler = "data-plane-kafk";
    vec![
        stack_time(CpuState::On, handler, &format!("{append};ext4_dirty_inode_[k]"), 120, 12),
        stack_time(CpuState::On, handler, &format!("{append};copy_page_from_iter_atomic_[k]"), 340, 34),
        stack_time(CpuState::On, handler, "[libc.so.6];[java]_[j]", 510, 51),
        stack_time(CpuState::On, "C2 CompilerThre", "[libc.so.6];Compile::Optimize", 230, 23),
        stack_time(CpuState::On, "a;<b>&\"'\n\u{1b}[2J", "]]>;</svg>;<script>alert(1)</script>_[k]", 90, 9),
        stack_time(CpuState::On, "GC Thread#0", "[truncated];operator<<;[stack lost]_[k]", 1, 1),
        stack_time(CpuState::Off, handler, &format!("{append};{journal}"), 2_610, 9),
        stack_time(CpuState::Off, handler, &format!("{append};schedule_[k];__schedule_[k]"), 40, 310),
        stack_time(CpuState::Off, "kafka-scheduler", "[libc.so.6];futex_wait_[k];__schedule_[k]", 900, 3),
    ]
}

fn about() -> Header {
    Header {
        title: "Where broker 4400 spends its time inside write".to_owned(),
        notes: vec!["10.0 s of observation".to_owned()],
        missing: vec!["no list of compiled code: \x1b]0;gone\x07\r\n\u{202e}\"evil\"".to_owned()],
    }
}
