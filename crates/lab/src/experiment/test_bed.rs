//! One run of an experiment: a fresh file system, a broker on it, load, and brokerscope's recording of it. Everything
//! belongs to its own site and is taken down with it, even after a failure or an interruption.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use super::run_log::RunSpec;
use super::schedule;
use super::setup::{Load, Network as Between, Setup};
use crate::broker::{Broker, BrokerOptions};
use crate::client::{Answer, Connection, Running, Topic, Traffic, create_topic, now_ns};
use crate::error::{Error, Result};
use crate::host::Sysctl;
use crate::kafka::Kafka;
use crate::load::{Producer, UNLIMITED};
use crate::net::Network;
use crate::session::{Observer, interrupt};
use crate::site::Site;
use crate::volume::{DirtyLimit, Volume, VolumeOptions};
use crate::{files, load};

/// The broker's number in a network of two.
const HOST: u8 = 1;

/// Outcome of a run.
pub(crate) enum Outcome {
    /// It was measured.
    Measured(RunData),
    /// There is no such file system or device here, for this reason.
    Impossible(String),
}

/// Data of a run.
pub(crate) struct RunData {
    pub(crate) start_ns: i64,
    pub(crate) measured: ClientMetrics,
    pub(crate) journal: Vec<String>,
}

/// Runs it once; the recording goes to `recording`, which must not exist.
///
/// # Errors
/// Something failed that does not depend on the configuration; nothing is left behind.
pub(crate) fn run(spec: &RunSpec, recording: &Path, kafka: &Kafka, observer: &Observer) -> Result<Outcome> {
    let site = Site::claim()?;
    let volumes = match prepare_volumes(&spec.setup, spec.seed, &site) {
        Ok(volumes) => volumes,
        Err(error) => {
            interrupt().check()?;
            let why = error.to_string();
            return Ok(Outcome::Impossible(why.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
    };
    let mut test_bed = TestBed::set(&spec.setup, volumes, site, kafka)?;
    let data = test_bed.measure(spec, recording, kafka, observer)?;
    test_bed.take_down()?;
    Ok(Outcome::Measured(data))
}

/// A broker on its file systems. Fields are dropped in order.
struct TestBed {
    broker: Broker,
    /// Removed, restored and lifted on drop.
    _others: (Option<Network>, Vec<Sysctl>, Vec<DirtyLimit>),
    volumes: Vec<Volume>,
    site: Site,
}

fn prepare_volumes(setup: &Setup, seed: u64, site: &Site) -> Result<Vec<Volume>> {
    let ground = &setup.ground;
    let options = VolumeOptions::new(ground.file_system, &ground.mount_options, ground.size_bytes, seed);
    let prepare = |number| {
        interrupt().check()?;
        Volume::prepare_another(site, number, &options)
    };
    (1..=ground.volumes).map(prepare).collect()
}

impl TestBed {
    fn set(setup: &Setup, volumes: Vec<Volume>, site: Site, kafka: &Kafka) -> Result<Self> {
        interrupt().check()?;
        let sysctls = setup.sysctls.iter().map(|(name, value)| Sysctl::set(site.path(), name, value));
        let sysctls = sysctls.collect::<Result<_>>()?;
        let limited = setup.ground.dirty_bytes.into_iter().flat_map(|bytes| {
            volumes.iter().map(move |volume| DirtyLimit::set(volume.device_number()?, bytes))
        });
        let limits = limited.collect::<Result<_>>()?;
        let network = match setup.network {
            Between::Loopback => None,
            Between::Link { mtu } => {
                let network = Network::make(site.path(), HOST)?;
                network.set_mtu(HOST, mtu)?;
                Some(network)
            }
        };
        let mut options = BrokerOptions::of_site(&site, "broker")?;
        options.is_throwaway = true;
        options.properties.clone_from(&setup.properties);
        set_log_dirs(&mut options, &volumes)?;
        if let Some(network) = &network {
            options.join(network, HOST)?;
        }
        let broker = Broker::start(kafka, options)?;
        let test_bed = Self { broker, _others: (network, sysctls, limits), volumes, site };
        test_bed.create_topics(setup)?;
        Ok(test_bed)
    }

    fn create_topics(&self, setup: &Setup) -> Result<()> {
        let address = self.broker.listener();
        let mut connection =
            self.broker.options.clients.within(|| Connection::open(address, "lab-admin"))??;
        setup.topics.iter().try_for_each(|(name, partitions)| {
            let (name, configs) = (name.clone(), setup.topic_configs.clone());
            let topic = Topic { name, partitions: *partitions, configs, ..Topic::default() };
            create_topic(&mut connection, &topic)
        })
    }

    /// Records the broker and returns what its clients measured meanwhile. Slows the devices down and warms the broker
    /// up before that.
    fn measure(
        &mut self,
        spec: &RunSpec,
        recording: &Path,
        kafka: &Kafka,
        observer: &Observer,
    ) -> Result<RunData> {
        for volume in &mut self.volumes {
            volume.device().keep(spec.setup.ground.pace)?;
        }
        let mut driving = self.start_load(spec, kafka)?;
        interrupt().sleep(Duration::from_secs(spec.setup.warm_up_s))?;
        let recorder = observer.record(recording, self.broker.pid, self.site.path())?;
        driving.measure();
        let start_ns = now_ns();
        schedule::watch(Duration::from_secs(spec.seconds), || driving.check())?;
        let end_ns = now_ns();
        recorder.stop()?;
        let measured = driving.stop((start_ns, end_ns), spec.slo_ms)?;
        Ok(RunData { start_ns, measured, journal: self.journal() })
    }

    fn start_load(&self, spec: &RunSpec, kafka: &Kafka) -> Result<Driving> {
        let setup = &spec.setup;
        Ok(match &setup.load {
            Load::Paced { producers, per_second, record_bytes, in_flight } => {
                let Some((topic, partitions)) = setup.topics.first().cloned() else {
                    return Err(Error::Unusable("paced producers without a topic".to_owned()));
                };
                let traffic = Traffic {
                    client: "producer".to_owned(),
                    topic,
                    partitions,
                    producers: *producers,
                    per_second: *per_second,
                    record_bytes: *record_bytes,
                    in_flight: *in_flight,
                    acks: 1,
                };
                let (address, mut rng) = (self.broker.listener(), Rng::with_seed(spec.seed));
                Driving::Paced(
                    self.broker.options.clients.within(|| traffic.start(address, &mut rng))??,
                    *record_bytes,
                )
            }
            Load::Flat { producers, record_bytes, properties } => {
                let all = flat(setup, *producers, *record_bytes, properties);
                let load = load::Load::start(kafka, &self.broker, &all, &self.site.directory("load")?)?;
                Driving::Flat(load, *record_bytes)
            }
        })
    }

    /// Commit counts of the file systems' journals, where the kernel has them.
    fn journal(&self) -> Vec<String> {
        let names = self.volumes.iter().filter_map(|volume| volume.loop_device().file_name()?.to_str());
        names.flat_map(commits).collect()
    }

    /// Takes everything down. Makes the devices fast first, so that unmounting writes back quickly.
    fn take_down(mut self) -> Result<()> {
        for volume in &mut self.volumes {
            volume.device().clear()?;
        }
        Ok(())
    }
}

/// A log directory on each volume.
fn set_log_dirs(options: &mut BrokerOptions, volumes: &[Volume]) -> Result<()> {
    let log_dirs: Vec<PathBuf> = volumes.iter().map(|volume| volume.directory().join("data")).collect();
    log_dirs.iter().try_for_each(|directory| files::make(directory))?;
    options.log_dir = log_dirs.first().cloned();
    let all: Vec<String> = log_dirs.iter().map(|path| path.display().to_string()).collect();
    options.properties.push(("log.dirs".to_owned(), all.join(",")));
    Ok(())
}

/// The kernel's counts since the device was mounted: jbd2's transactions (`jbd2_seq_info_show`, fs/jbd2/journal.c) and
/// ext4's fast commits (`ext4_fc_info_show`, `fs/ext4/fast_commit.c`).
fn commits(device: &str) -> Vec<String> {
    let read = |path: String| fs::read_to_string(path).unwrap_or_default();
    let jbd2 = read(format!("/proc/fs/jbd2/{device}-8/info"));
    let fast = read(format!("/proc/fs/ext4/{device}/fc_info"));
    let first =
        jbd2.lines().next().and_then(|line| line.split(',').next()).map(|text| format!("jbd2: {text}"));
    let fast: Vec<&str> = fast.lines().skip(1).take(2).map(str::trim).collect();
    let fast = (!fast.is_empty()).then(|| format!("fast commits: {}", fast.join(", ")));
    first.into_iter().chain(fast).collect()
}

/// Running load, and the size of its records; dropping it ends the load.
enum Driving {
    Paced(Running, u32),
    Flat(load::Load, u32),
}

impl Driving {
    /// Starts the measurement.
    fn measure(&mut self) {
        if let Self::Flat(load, _) = self {
            load.measure();
        }
    }

    /// Checks that it still runs; paced producers report failures at their end.
    fn check(&mut self) -> Result<()> {
        match self {
            Self::Paced(..) => Ok(()),
            Self::Flat(load, _) => load.check(),
        }
    }

    /// Ends it; returns the measurements of what was sent within `span`, UTC nanoseconds.
    fn stop(self, span: (i64, i64), slo_ms: u64) -> Result<ClientMetrics> {
        Ok(match self {
            Self::Paced(running, bytes) => ClientMetrics::of_answers(&running.stop()?, span, bytes, slo_ms),
            Self::Flat(load, bytes) => ClientMetrics::of_load(load.stop(), bytes),
        })
    }
}

/// Producers that write to all topics in turn.
fn flat(setup: &Setup, producers: u32, record_bytes: u32, properties: &[String]) -> Vec<Producer> {
    let topics = setup.topics.iter().map(|(topic, _)| topic).cycle();
    let numbered = topics.zip(1..=producers);
    let of = |(topic, number): (&String, u32)| Producer {
        topic: topic.clone(),
        client_id: format!("producer-{number}"),
        rate: UNLIMITED,
        record_bytes,
        properties: properties.to_vec(),
    };
    numbered.map(of).collect()
}

/// One run's figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ClientMetrics {
    /// Records per second.
    pub(crate) records_per_s: f64,
    /// Bytes of record values per second.
    pub(crate) bytes_per_s: f64,
    /// Latency of single requests, if the load knows them.
    pub(crate) latency: Option<Latency>,
}

/// Time from sending a request to its response, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) requests: u64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) max_ms: f64,
    /// Requests that took longer than the objective.
    pub(crate) misses: u64,
}

impl ClientMetrics {
    /// Metrics of paced producers, from the responses to some of their requests. These are the ones that were sent
    /// within a span of UTC nanoseconds.
    pub(crate) fn of_answers(
        answers: &[Answer],
        (start_ns, end_ns): (i64, i64),
        record_bytes: u32,
        slo_ms: u64,
    ) -> Self {
        let within = answers.iter().filter(|answer| (start_ns..end_ns).contains(&answer.sent_ns));
        let mut latencies: Vec<i64> = within.map(|answer| answer.latency_ns).collect();
        latencies.sort_unstable();
        let seconds = (end_ns - start_ns).max(1) as f64 / 1e9;
        let records_per_s = latencies.len() as f64 / seconds;
        let latency = Some(Latency::of(&latencies, slo_ms));
        Self { records_per_s, bytes_per_s: records_per_s * f64::from(record_bytes), latency }
    }

    /// Metrics that `ProducerPerformance` reports.
    pub(crate) fn of_load(measured: load::ProducerMetrics, record_bytes: u32) -> Self {
        let records_per_s = measured.records_per_s;
        Self { records_per_s, bytes_per_s: records_per_s * f64::from(record_bytes), latency: None }
    }
}

impl Latency {
    fn of(sorted: &[i64], slo_ms: u64) -> Self {
        let rank = |share: f64| {
            let at = (share * sorted.len() as f64).ceil() as usize;
            sorted.get(at.saturating_sub(1)).map_or(0.0, |&latency| latency as f64 / 1e6)
        };
        let limit = i64::try_from(slo_ms.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
        Self {
            requests: sorted.len() as u64,
            p50_ms: rank(0.5),
            p99_ms: rank(0.99),
            p999_ms: rank(0.999),
            max_ms: rank(1.0),
            misses: (sorted.len() - sorted.partition_point(|&latency| latency <= limit)) as u64,
        }
    }

    /// Misses as a percentage of all requests.
    pub(crate) fn miss_percent(&self) -> f64 {
        100.0 * self.misses as f64 / self.requests.max(1) as f64
    }
}

#[cfg(test)]
mod measured_tests {
    use super::*;

    #[test]
    fn counts_only_requests_sent_during_the_measurement() {
        let answer =
            |second: i64, ms: i64| Answer { sent_ns: second * 1_000_000_000, latency_ns: ms * 1_000_000 };
        let mut answers: Vec<Answer> = (0..1000).map(|_| answer(11, 2)).collect();
        answers.extend([answer(9, 900), answer(20, 900), answer(12, 65), answer(12, 66)]);
        let measured = ClientMetrics::of_answers(&answers, (10_000_000_000, 20_000_000_000), 1000, 65);
        let latency = measured.latency.unwrap();
        assert_eq!((latency.requests, latency.misses), (1002, 1));
        assert_eq!((latency.p50_ms, latency.p999_ms, latency.max_ms), (2.0, 65.0, 66.0));
        assert!((measured.bytes_per_s - 100_200.0).abs() < 1e-6, "{}", measured.bytes_per_s);
    }

    #[test]
    fn no_answers_yield_default_latency() {
        assert_eq!(Latency::of(&[], 65), Latency::default());
        assert!(Latency::default().miss_percent().abs() < f64::EPSILON);
    }
}
