//! The page's data against a golden file. The file also checks the front end's types (`web/tests/golden.ts`).

use advise::{Advice, Cost, Inputs};
use model::{
    CommitPhases, CpuSample, Device, Direction, Event, HostSample, HostScope, JournalCommit, JvmPause,
    JvmPauseKind, Lock, LockHolder, LockKind, LockSource, LockWait, Loss, LossKind, Nanos, OffCpu, Row,
    Waker,
};
use page::{Collector, Page, RecordingInfo, html, markdown, perfetto};
use report::advice::{AdviceReport, Views};
use report::explanation::Conclusion;

use crate::{golden, sample, trace};

fn about() -> RecordingInfo {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    RecordingInfo {
        name: "</script> \u{1b}[2J".to_owned(),
        facts: vec![pair("host", "vm, Linux 6.18.44 x86_64, 2 CPUs")],
        plan: vec![pair("off-cpu", "seen: sched_switch")],
    }
}

/// Events around the verdicts of the sample, of every kind that a page draws.
fn events(at: Nanos) -> Vec<Event> {
    let ms = Nanos::from_millis;
    let device = Device { major: 7, minor: 0, name: "loop0".into() };
    let end = at + ms(150);
    let mut events: Vec<Event> =
        sample::requests().into_iter().map(|request| Event::Request(Box::new(request))).collect();
    events.extend(sample::verdicts().into_iter().map(|verdict| Event::Request(Box::new(verdict.request))));
    events.extend(sample::file_ops().into_iter().map(|(op, _)| Event::FileOp(Box::new(op))));
    events.extend(sample::block_ios().0.into_iter().map(|io| Event::BlockIo(Box::new(io))));
    let phases = CommitPhases {
        running: ms(5000),
        locked: ms(4),
        logging: ms(110),
        blocks_logged: 12,
        ..CommitPhases::default()
    };
    events.push(Event::JournalCommit(Box::new(JournalCommit {
        start: at,
        end: at + ms(120),
        device: device.clone(),
        transaction: 2285,
        phases: Some(phases),
    })));
    events.push(Event::BlockIo(Box::new(model::BlockIo {
        queued: Some(at + ms(1)),
        start: at + ms(2),
        end: at + ms(100),
        device,
        direction: Direction::Write,
        sector: 2048,
        bytes: 4096,
        tid: 77,
        thread: "jbd2/loop0-8".into(),
        flags: "WFS".into(),
        ..Row::empty()
    })));
    events.extend(of_threads(at, end));
    let sample = |metric: &str, value| {
        Event::HostSample(Box::new(HostSample {
            start: at,
            end,
            scope: HostScope::Device,
            name: "loop0".into(),
            metric: metric.into(),
            value,
        }))
    };
    events.extend([
        sample("util_ratio", 0.973_21),
        sample("util_ratio", f64::NAN),
        sample("queue_depth", 3.0),
    ]);
    events.push(Event::Loss(Loss {
        start: at,
        end,
        kind: LossKind::EventsDropped,
        count: 7,
        detail: "queue <full>".into(),
    }));
    events.sort_by_key(Event::time);
    events
}

/// Events of threads meanwhile.
fn of_threads(at: Nanos, end: Nanos) -> Vec<Event> {
    let ms = Nanos::from_millis;
    let mut events = Vec::new();
    let waker = Waker { tid: 77, thread: "jbd2/loop0-8".into(), stack: "".into() };
    events.push(Event::OffCpu(Box::new(OffCpu {
        start: at + ms(3),
        end,
        woken: Some(at + ms(120)),
        pid: 1,
        tid: 4462,
        thread: "data-plane-kafk".into(),
        preempted: false,
        stack: "vfs_write;ext4_dirty_inode;start_this_handle;wait_transaction_locked;schedule;__schedule"
            .into(),
        waker: Some(waker),
    })));
    events.push(Event::LockWait(Box::new(LockWait {
        start: at + ms(10),
        end,
        pid: 1,
        tid: 4484,
        thread: "data-plane-kafka-request-handler-24".into(),
        lock: Lock { kind: LockKind::Monitor, class: "java.lang.Object".into(), address: 9 },
        holder: Some(LockHolder { tid: Some(4462), thread: "data-plane-kafka-request-handler-2".into() }),
        stack: "".into(),
        source: LockSource::Jfr,
    })));
    events.push(Event::JvmPause(Box::new(JvmPause {
        start: at + ms(50),
        end: at + ms(62),
        pid: 1,
        kind: JvmPauseKind::Gc,
        operation: "G1New".into(),
        cause: "G1 Evacuation Pause".into(),
        gc_id: Some(3),
        time_to_safepoint: Some(ms(1)),
    })));
    events.push(Event::CpuSample(Box::new(CpuSample {
        at,
        period: ms(20),
        pid: 1,
        tid: 4462,
        thread: "data-plane-kafka-request-handler-2".into(),
        stack: "kafka.log.UnifiedLog.append_[j];ext4_file_write_iter_[k]".into(),
    })));
    events
}

fn page() -> Page {
    let verdicts = sample::verdicts();
    let at = verdicts.iter().map(|verdict| verdict.request.arrival).min().unwrap();
    let mut collector = Collector::new(Some(at - Nanos::from_millis(1_000)), Nanos::from_millis(100));
    for event in events(at) {
        collector.event(&event);
    }
    for verdict in &verdicts {
        collector.verdict(verdict);
    }
    Page::of(vec![collector.finish(about(), &sample::conclusion()).with_advice(&advice_report())])
}

/// Advice on a broker with known settings, JVM options and costs; text from outside is hostile.
fn advice_report() -> AdviceReport {
    let hostile = "</script> \u{1b}[2J `|".to_owned();
    let settings = [("log.flush.interval.messages", hostile.as_str()), ("log.flush.interval.ms", "1000")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut costs = advise::Costs::over(Nanos::from_millis(60_000));
    for verdict in &sample::verdicts() {
        costs.add(verdict);
    }
    let mut inputs = Inputs::unknown("`nobody` <watched>");
    inputs.before = "'it`s | here'".into();
    inputs.settings = Ok(std::collections::BTreeMap::from(settings).into());
    inputs.host_facts.jvm_arguments = Ok(vec!["-XX:+UseParallelGC".into()]);
    let slow: Cost = costs.slow();
    inputs.costs = Ok(costs);
    AdviceReport {
        subject: "recording".to_owned(),
        watched: Some((Nanos::from_millis(60_000), slow)),
        slower_than: Nanos::from_millis(100),
        advice: Advice::of(&inputs),
        views: Views::default(),
        comparison: inputs.comparison(),
        all: true,
        notes: Vec::new(),
    }
}

#[test]
fn page_json_matches_the_golden_file() {
    golden("page.json", |out| html::write_json(out, &page()).unwrap());
}

#[test]
fn trace_and_markdown_match_the_golden_files() {
    golden("page.perfetto.json", |out| perfetto::write(out, &page()).unwrap());
    golden("page.md", |out| markdown::write(out, &page()).unwrap());
}

#[test]
fn trace_follows_the_trace_event_format() {
    let mut out = Vec::new();
    perfetto::write(&mut out, &page()).unwrap();
    let (slices, arrows) = trace::check(&serde_json::from_slice(&out).unwrap());
    assert!(slices > 10 && arrows > 2, "{slices} slices, {arrows} arrows");
}

#[test]
fn page_contains_its_data_and_data_cannot_close_the_element() {
    let mut out = Vec::new();
    html::write(&mut out, &page()).unwrap();
    let out = String::from_utf8(out).unwrap();
    let (_, data) = out.split_once("id=\"page-data\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    let read: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(read["recordings"][0]["about"]["name"], "</script> \u{1b}[2J");
    let detail = &read["recordings"][0]["requests"][0];
    let layers = read["recordings"][0]["advice"]["layers"].as_array().unwrap();
    assert!(layers.iter().any(|layer| layer["layer"] == "JVM"), "{layers:?}");
    for field in ["threads", "commits", "block_ios", "evidence", "stage_spans"] {
        assert!(!detail[field].as_array().unwrap().is_empty(), "{field} of {detail}");
    }
}

#[test]
fn writes_an_empty_page() {
    let page = Page::of(vec![
        Collector::new(None, Nanos::from_millis(100))
            .finish(RecordingInfo::default(), &Conclusion::default()),
    ]);
    let mut out = Vec::new();
    html::write(&mut out, &page).unwrap();
    assert!(!out.is_empty());
}

/// A page stays bounded and does not panic with impossible times and sizes. There is more of everything than is
/// shown.
#[test]
fn page_is_bounded_with_extreme_input() {
    let mut collector = Collector::new(Some(Nanos(0)), Nanos::from_millis(100));
    let mut verdict = sample::own_write();
    for n in 0..3_000_i64 {
        let far = if n % 500 == 3 { i64::MAX / 4 } else { n * 7_000_000 };
        verdict.request.correlation_id = n as i32;
        verdict.request.arrival = Nanos(far);
        verdict.request.end = Some(Nanos(far) + Nanos(n * 1_000_000));
        verdict.root = format!("root-{n}").into();
        let mut op = sample::file_ops().remove(0).0;
        (op.start, op.end) = (Nanos(far), Nanos(far - n));
        op.file = format!("file-{n}").into();
        op.tid = n as u32;
        collector.event(&Event::Request(Box::new(verdict.request.clone())));
        collector.event(&Event::FileOp(Box::new(op)));
        collector.verdict(&verdict);
    }
    let data = collector.finish(RecordingInfo::default(), &sample::conclusion());
    assert!(data.requests.len() <= 300 && data.files.len() <= 200 && data.threads.len() <= 100);
    assert!(data.buckets <= 480);
}
