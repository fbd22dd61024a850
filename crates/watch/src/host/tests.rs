//! Tests of whole readings, from snapshots of the kernel's files.

pub(super) mod fixture;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;

use model::{Event, HostScope, Nanos};

use super::metrics::{METRICS, Read, is_listed};
use super::{BrokerProcess, Sampler};
use crate::thread_names::ThreadNames;
use fixture::Fixture;

type Samples = BTreeMap<(HostScopeName, String, String), f64>;
type HostScopeName = &'static str;

fn values(events: Vec<Event>) -> Samples {
    let keyed = events.into_iter().filter_map(|event| match event {
        Event::HostSample(sample) => {
            assert!(is_listed(sample.scope, &sample.metric), "{sample:?} is not in METRICS");
            Some(((sample.scope.as_str(), sample.name.to_string(), sample.metric.to_string()), sample.value))
        }
        Event::TcpEvent(overflow) => {
            assert_eq!(overflow.count, 1);
            None
        }
        other => panic!("{other:?}"),
    });
    keyed.collect()
}

fn value(samples: &Samples, scope: HostScope, name: &str, metric: &str) -> Option<f64> {
    samples.get(&(scope.as_str(), name.to_owned(), metric.to_owned())).copied()
}

/// A host that has the source of every metric.
fn host(fixture: &Fixture, at: u64) {
    let number = fixture_device(fixture);
    let ms = 400 * at;
    fixture.file(
        "proc/diskstats",
        &format!(
            "{} {} sda {} 0 {} {} {} 0 {} {} 3 {ms} {} 0 0 0 0 {} {}\n   1 1 ram1 1 2 3\n",
            number.0,
            number.1,
            10 * at,
            800 * at,
            50 * at,
            20 * at,
            1600 * at,
            600 * at,
            2000 * at,
            5 * at,
            100 * at,
        ),
    );
    fixture
        .file("proc/stat", &format!("cpu  {at}00 0 {at}0 999 {at}0 0 {at} 0\ncpu0 1 2\ncpu1 1 2\nctxt 5\n"));
    fixture.file("sys/class/rtc/rtc0/since_epoch", "1795000000\n");
    fixture.file("proc/self/auxv", "\u{6}\0\0\0\0\0\0\0\0\u{10}\0\0\0\0\0\0");
    fixture.file("proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 50 kB\nCached: 20 kB\nDirty: 3 kB\nWriteback: 1 kB\nSwapTotal: 8 kB\nSwapFree: 6 kB\n");
    fixture.file(
        "proc/vmstat",
        &format!(
            "nr_dirty_threshold 10\nnr_dirty_background_threshold 5\npgscan_direct {at}00\npgmajfault {at}\n"
        ),
    );
    let psi = format!(
        "some avg10=1.00 avg60=0 avg300=0 total={}\nfull avg10=0 avg60=0 avg300=0 total=0\n",
        at * 250_000
    );
    for resource in ["cpu", "memory", "io"] {
        fixture.file(&format!("proc/pressure/{resource}"), &psi);
        fixture.file(&format!("cg/kafka/{resource}.pressure"), &psi);
    }
    fixture.file(
        "proc/7/net/dev",
        &format!(
            "Inter-| Receive | Transmit\n face |bytes packets\n  eth0: {} {} 0 {at} 0 0 0 0 {} {} 0 0 0 0 0 0\n  idle: 5 5 0 0 0 0 0 0 5 5 0 0 0 0 0 0\n",
            125_000_000 * at,
            100_000 * at,
            1_000_000 * at,
            2_000 * at
        ),
    );
    fixture.file("sys/class/net/eth0/speed", "10000\n");
    fixture.file("sys/class/net/eth0/mtu", "1500\n");
    fixture.file("sys/class/net/idle/speed", "-1\n");
    for (tid, comm, ns) in
        [(7, "java", 0), (8, "data-plane-kafk", 300_000_000), (9, "data-plane-kafk", 200_000_000)]
    {
        fixture.file(&format!("proc/7/task/{tid}/comm"), &format!("{comm}\n"));
        fixture.file(
            &format!("proc/7/task/{tid}/schedstat"),
            &format!("{} {} {}\n", ns * at, 1_000_000 * at, 10 * at),
        );
    }
    fixture
        .file("proc/7/stat", &format!("7 (java (x) y) S 1 1 1 0 -1 0 {at}000 0 {at} 0 {at}00 {at}0 0 0\n"));
    fixture.file("proc/7/status", "VmRSS:\t 2048 kB\nRssAnon: 1024 kB\nRssFile: 1024 kB\nVmSwap: 0 kB\n");
    fixture.file("proc/7/io", &format!("rchar: {at}0\nwchar: {at}00\nsyscr: {at}\nsyscw: {at}\nread_bytes: 4096\nwrite_bytes: {}\ncancelled_write_bytes: 0\n", at * 8192));
    fixture.file(
        "proc/7/net/snmp",
        &format!("Ip: A\nIp: 1\nTcp: InSegs OutSegs RetransSegs CurrEstab\nTcp: {at}0 {at}0 {at} 4\n"),
    );
    fixture.file(
        "proc/7/net/netstat",
        &format!("TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPTimeouts TCPFromZeroWindowAdv TCPToZeroWindowAdv\nTcpExt: 0 {at} {at} 0 0 {at}\n"),
    );
    fixture.file("proc/7/cgroup", "0::/kafka\n");
    fixture.file(
        "proc/self/mountinfo",
        &format!("1 1 0:9 / {} rw - cgroup2 cgroup2 rw\n", fixture.path("cg").display()),
    );
    fixture.file(
        "cg/kafka/cpu.stat",
        &format!("usage_usec 1\nnr_periods {at}0\nnr_throttled {at}\nthrottled_usec {}\n", at * 50_000),
    );
    fixture.file("cg/kafka/memory.current", "1000\n");
    fixture.file("cg/kafka/memory.max", "2000\n");
    fixture.file("cg/kafka/memory.events", &format!("low 0\nmax {at}\n"));
    fixture
        .file("cg/kafka/memory.stat", "anon 1\nfile 700\nfile_mapped 9\nfile_dirty 30\nfile_writeback 4\n");
    fixture.file(
        "cg/kafka/io.max",
        &format!("{}:{} rbps=4096 wbps=8192 riops=10 wiops=20\n", number.0, number.1),
    );
    fixture.file(
        "cg/kafka/io.stat",
        &format!("8:0 rbytes={at}0 wbytes={at}000 rios=1\n8:16 rbytes=0 wbytes=0\n"),
    );
}

/// The real device of the fixture's files, among which is the log dir.
fn fixture_device(fixture: &Fixture) -> (u32, u32) {
    let device = std::fs::metadata(fixture.path("")).unwrap().dev();
    (rustix::fs::major(device), rustix::fs::minor(device))
}

fn broker(fixture: &Fixture) -> BrokerProcess {
    BrokerProcess { pid: 7, log_dirs: vec![fixture.path("")], ports: Vec::new() }
}

/// Samples of two readings, two seconds apart.
fn read_twice(fixture: &Fixture) -> Samples {
    let mut sampler = Sampler::of(fixture.kernel(), ThreadNames::default().reader(), None);
    host(fixture, 1);
    sampler.devices = BTreeSet::from([fixture_device(fixture)]);
    sampler.sample(&mut || Nanos(1_000_000_000), Some(&broker(fixture)));
    sampler.devices = BTreeSet::from([fixture_device(fixture)]);
    host(fixture, 2);
    values(sampler.sample(&mut || Nanos(3_000_000_000), Some(&broker(fixture))))
}

#[test]
fn device_figures_match_iostat() {
    let fixture = Fixture::new("iostat");
    let samples = read_twice(&fixture);
    // From iostat -x 2 on the same two snapshots.
    for (metric, expected) in [
        ("util_ratio", 0.2),
        ("queue_depth", 1.0),
        ("in_flight_count", 3.0),
        ("reads_per_second", 5.0),
        ("writes_per_second", 10.0),
        ("flushes_per_second", 2.5),
        ("read_bytes_per_second", 204_800.0),
        ("write_bytes_per_second", 409_600.0),
        ("read_wait_ms", 5.0),
        ("write_wait_ms", 30.0),
        ("flush_wait_ms", 20.0),
    ] {
        assert_eq!(value(&samples, HostScope::Device, "sda", metric), Some(expected), "{metric}");
    }
    assert_eq!(value(&samples, HostScope::Device, "ram1", "in_flight_count"), None, "not under a log dir");
}

#[test]
fn every_listed_metric_is_read() {
    let fixture = Fixture::new("complete");
    let samples = read_twice(&fixture);
    for metric in METRICS {
        let is_read =
            samples.keys().any(|(scope, _, name)| *scope == metric.scope.as_str() && name == metric.name);
        assert!(is_read, "{metric:?}");
    }
    let names: BTreeSet<_> = METRICS.iter().map(|metric| (metric.scope.as_str(), metric.name)).collect();
    assert_eq!(names.len(), METRICS.len(), "each once");
}

#[test]
fn reads_figures_of_the_broker_and_the_host() {
    let fixture = Fixture::new("figures");
    let samples = read_twice(&fixture);
    for (scope, name, metric, expected) in [
        (HostScope::Interface, "eth0", "receive_bytes_per_second", 62_500_000.0),
        (HostScope::Interface, "eth0", "receive_utilization_ratio", 0.05),
        (HostScope::Interface, "eth0", "receive_packet_bytes", 1_250.0),
        (HostScope::Interface, "eth0", "transmit_packet_bytes", 500.0),
        (HostScope::Interface, "eth0", "receive_drops_per_second", 0.5),
        (HostScope::Interface, "eth0", "mtu_bytes", 1_500.0),
        (HostScope::Threads, "data-plane", "cpu_ratio", 0.25),
        (HostScope::Threads, "data-plane", "thread_count", 2.0),
        (HostScope::Threads, "data-plane", "run_queue_ratio", 0.001),
        (HostScope::Threads, "other", "thread_count", 1.0),
        (HostScope::Process, "", "user_cpu_ratio", 0.5),
        (HostScope::Process, "", "resident_bytes", 2_097_152.0),
        (HostScope::Process, "", "write_bytes_per_second", 4_096.0),
        (HostScope::Cgroup, "/kafka", "cpu_throttled_ratio", 0.025),
        (HostScope::Cgroup, "/kafka", "write_bytes_per_second", 500.0),
        (HostScope::Cgroup, "/kafka", "dirty_bytes", 30.0),
        (HostScope::Host, "", "pressure_io_some_ratio", 0.125),
        (HostScope::Host, "", "cpu_count", 2.0),
        (HostScope::Host, "", "swap_used_bytes", 2_048.0),
        (HostScope::Host, "", "tcp_listen_overflows_per_second", 0.5),
        (HostScope::Host, "", "tcp_connection_count", 4.0),
    ] {
        let found = value(&samples, scope, name, metric);
        assert!(
            found.is_some_and(|found| (found - expected).abs() < 1e-9 * expected.max(1.0)),
            "{name} {metric}: {found:?}"
        );
    }
    assert_eq!(value(&samples, HostScope::Interface, "idle", "receive_bytes_per_second"), None);
}

/// A clock that advances by a step with each file that is read.
fn spread(begin_ms: i64, step_ms: i64) -> impl FnMut() -> Nanos {
    let mut now_ms = begin_ms;
    move || {
        now_ms += step_ms;
        Nanos::from_millis(now_ms)
    }
}

#[test]
fn rates_are_exact_if_a_reading_takes_time() {
    let at_once = read_twice(&Fixture::new("at-once"));
    let fixture = Fixture::new("spread");
    let mut sampler = Sampler::of(fixture.kernel(), ThreadNames::default().reader(), None);
    host(&fixture, 1);
    sampler.sample(&mut spread(1_000, 1), Some(&broker(&fixture)));
    host(&fixture, 2);
    let events = sampler.sample(&mut spread(3_000, 7), Some(&broker(&fixture)));
    let is_rate = |scope, name: &str| {
        let metric = METRICS.iter().find(|metric| metric.scope == scope && metric.name == name).unwrap();
        matches!(metric.read, Read::Rate(_))
    };
    let (mut rates, mut lengths) = (0, BTreeSet::new());
    for event in events {
        let Event::HostSample(sample) = event else { continue };
        if !is_rate(sample.scope, &sample.metric) {
            continue;
        }
        let Some(expected) = value(&at_once, sample.scope, &sample.name, &sample.metric) else { continue };
        let seconds = (sample.end - sample.start).0 as f64 / 1e9;
        let (increase, expected) = (sample.value * seconds, expected * 2.0);
        assert!((increase - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{sample:?}: {expected}");
        rates += 1;
        lengths.insert((sample.end - sample.start).0);
    }
    assert!(rates > 40 && lengths.len() > 10, "{rates} rates over {lengths:?}");
}

#[test]
fn threads_are_read_in_every_third_reading() {
    let fixture = Fixture::new("threads-every");
    host(&fixture, 1);
    let mut sampler =
        Sampler { threads_every: 3, ..Sampler::of(fixture.kernel(), ThreadNames::default().reader(), None) };
    let mut has_threads = |second: i64| {
        let events = sampler.sample(&mut || Nanos(second * 1_000_000_000), Some(&broker(&fixture)));
        let of_threads =
            |event: &Event| matches!(event, Event::HostSample(sample) if sample.scope == HostScope::Threads);
        events.iter().any(of_threads)
    };
    assert_eq!([1, 2, 3, 4, 5, 6, 7].map(&mut has_threads), [true, false, false, true, false, false, true]);
}

#[test]
fn missing_files_yield_no_figures() {
    let fixture = Fixture::new("nothing");
    let mut sampler = Sampler::of(fixture.kernel(), ThreadNames::default().reader(), None);
    for second in 1..4 {
        let mut found =
            values(sampler.sample(&mut || Nanos(second * 1_000_000_000), Some(&broker(&fixture))));
        // Clocks are not files.
        found.retain(|(_, _, metric), _| metric != "suspended_ratio");
        assert_eq!(found, Samples::new());
    }
}

#[test]
fn malformed_files_do_not_panic() {
    let fixture = Fixture::new("hostile");
    host(&fixture, 1);
    for name in [
        "diskstats",
        "stat",
        "meminfo",
        "vmstat",
        "7/net/dev",
        "7/net/snmp",
        "7/stat",
        "7/io",
        "7/cgroup",
        "self/mountinfo",
        "7/task/8/schedstat",
    ] {
        for text in [
            "",
            "\n\n",
            ": : :\n",
            "cpu \n99999999999999999999999 -1 x)",
            "\u{0}\u{fffd}(((",
            "0::/../..\n1:2",
        ] {
            fixture.file(&format!("proc/{name}"), text);
            let mut sampler = Sampler::of(fixture.kernel(), ThreadNames::default().reader(), None);
            for second in 1..3 {
                values(sampler.sample(&mut || Nanos(second * 1_000_000_000), Some(&broker(&fixture))));
            }
        }
        host(&fixture, 1);
    }
}

#[test]
fn rates_restart_with_the_broker() {
    let fixture = Fixture::new("restart");
    let mut sampler = Sampler::of(fixture.kernel(), ThreadNames::default().reader(), None);
    host(&fixture, 1);
    sampler.sample(&mut || Nanos(1_000_000_000), Some(&broker(&fixture)));
    let away = values(sampler.sample(&mut || Nanos(2_000_000_000), None));
    assert_eq!(value(&away, HostScope::Process, "", "resident_bytes"), None);
    assert!(value(&away, HostScope::Host, "", "memory_bytes").is_some());
    let back = values(sampler.sample(&mut || Nanos(3_000_000_000), Some(&broker(&fixture))));
    assert_eq!(value(&back, HostScope::Process, "", "user_cpu_ratio"), None);
    assert!(value(&back, HostScope::Process, "", "resident_bytes").is_some());
}
